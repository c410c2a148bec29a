#pragma once
/// \file
/// Checks results of the program's own products (kscout exec --check-results N).
///
///     ResultChecker checker(find, one_of);
///     const bool due = checker.is_due(product);
///     ...                                                    // the call, whoever computes it
///     if (due) checker.check(product);
///
/// Of one product in N, each row takes part in Freivalds' check: its elements, multiplied by random weights,
/// are summed in float64 and compared with the sum that follows from the operands (R. Freivalds,
/// "Probabilistic machines can use less running time", IFIP 1977). Nothing is copied beforehand, so products
/// that add to C are left out, as are calls with relu, gelu, scales, gaps in batches or factors in the GPU's
/// memory, and captures. The first product that is checked opens backend `cuda` on its GPU; only products
/// there are checked.
///
/// Tolerance. A program's operands may all be positive, and its library may round partial sums to C's type
/// (PyTorch allows it). So a row may be off by 8 round-offs of C's type, or of a sum of k products that grows
/// like sqrt(k), times its size: the Euclidean norm of its weighted elements, or what independent products of
/// random signs would give. That is wider than in sweeps (op/gemm/gemm_reference.h). What is found is no
/// rounding: slices of K that are left out, elements that nobody wrote, or memory that others write.
/// Thread-safe.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "instruments/instruments.h"
#include "preload/read_calls.h"
#include "preload/workspaces.h"

namespace kscout::preload {

class ResultChecker {
 public:
  /// `one_of`: N, at least 1.
  ResultChecker(kscout_find find, std::uint64_t one_of);

  bool is_due(const ProductCall& product) noexcept;
  /// Waits for the stream. Says a wrong result on standard error, once for each problem.
  void check(const ProductCall& product) noexcept;

  void in_child() noexcept { off_ = true; }

  struct Counts {
    std::atomic<std::uint64_t> checked = 0, wrong = 0;
    std::atomic<double> largest = 0;  ///< difference over tolerance
  };
  const Counts& counts() const noexcept { return counts_; }

 private:
  /// Throws where the module or the GPU does not work.
  void open();
  void compare(const ProductCall& product);

  const Driver driver_;
  const std::uint64_t one_of_;
  std::atomic<std::uint64_t> calls_ = 0;
  std::atomic<bool> off_;
  std::mutex checking_;  ///< guards the members below
  Instruments* tools_ = nullptr;
  void* context_ = nullptr;
  std::set<std::string> told_;
  Counts counts_;
};

}  // namespace kscout::preload
