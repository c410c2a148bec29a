#pragma once
/// \file
/// Verifies the result of a grouped GEMM: every group as a GEMM of its own (op/gemm/gemm_reference.h).
///
///     const GroupedGemmReference reference(problem, operands);
///     const Verification found = reference.check(c);
#include <cstddef>
#include <vector>

#include <kscout/grouped_gemm.h>

#include "op/gemm/gemm_reference.h"

namespace kscout {

class GroupedGemmReference final : public Reference {
 public:
  GroupedGemmReference(const GroupedGemmProblem& problem, const GemmOperands& operands);

  Verification check(const void* c) const override;

 private:
  struct Group {
    std::size_t number;
    std::size_t c_at;  ///< bytes before its rows of C
    GemmReference reference;
  };
  std::vector<Group> groups_;  ///< those with rows
};

}  // namespace kscout
