#pragma once
/// \file
/// The config of provider nvidia that stands for a member's.
///
///     test::nvidia_config(cublaslt_config)
#include "provider/joint.h"

namespace kscout::test {

inline KernelConfig nvidia_config(const KernelConfig& member) {
  return joint_config(provider("nvidia").space(Op::gemm), member);
}

}  // namespace kscout::test
