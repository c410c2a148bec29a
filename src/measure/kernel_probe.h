#pragma once
/// \file
/// Verifies what an ordinary call of a kernel does not show: an alpha other than 1, leading dimensions larger
/// than packed, and operands that are aligned to their elements only. A dispatcher's callers may pass any of
/// these.
///
///     KernelProbe probe(instruments);
///     if (auto fault = probe.fault(backend, config, problem, seed); !fault.empty()) ...  // "with alpha 0.75: C(0,0) ..."
///
/// A kernel may refuse any of them (status unsupported); computing something else is a fault.
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/backend.h>
#include <kscout/config.h>

#include "instruments/instruments.h"
#include "op/operands.h"
#include "op/reference.h"

namespace kscout {

class KernelProbe {
 public:
  explicit KernelProbe(Instruments& device) : device_(device), workspace_(3, device) {}

  /// Runs the kernel on variants of the problem; returns the first fault, empty when there is none. A kernel
  /// is probed once: on later problems of the same signature, returns the same text. A problem without
  /// products, or with operands above a 24th of the memory, leaves the probe to the next problem. Throws what
  /// the backend throws, except unsupported.
  std::string fault(Backend& backend, const KernelConfig& config, const Problem& problem, std::uint64_t seed);

 private:
  /// A changed problem with its operands and result, for all kernels.
  struct Variant {
    const char* text;
    Problem problem;
    OperandVariant changes;
    std::unique_ptr<GemmOperands> operands = {};
    std::unique_ptr<Reference> reference = {};
  };

  static std::vector<Variant> variants(const Problem& problem);
  std::string fault_of(Variant& variant, Backend& backend, const KernelConfig& config, std::uint64_t seed);

  Instruments& device_;
  GuardedBuffer workspace_;
  Problem problem_;
  std::vector<Variant> variants_;                        ///< of problem_
  std::unordered_map<std::string, std::string> faults_;  ///< by the kernel's name
};

}  // namespace kscout
