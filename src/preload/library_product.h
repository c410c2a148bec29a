#pragma once
/// \file
/// Computes a product of the program by the program's own library: by the same function on other operands, or
/// by another algorithm of cuBLASLt.
///
///     const auto product = LibraryProduct::of(find, entry, call, side_references);
///     product->run(side);                                     // the program's function, on other operands
///     for (const LtAlgorithm& one : product->suggestions(side)) product->run_by(one, side);
///     product->run_by(chosen, program_operands);              // later, on the program's
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "preload/calls.h"
#include "provider/cublaslt/cublaslt.h"

namespace kscout::preload {

/// What cuBLASLt calls cublasLtMatmulAlgo_t, and its workspace.
struct LtAlgorithm {
  std::array<std::uint64_t, 8> opaque{};
  std::size_t workspace_bytes = 0;
  std::uint32_t state = 0;  ///< 0: it works
  float waves = 0;
  std::array<int, 4> reserved{};
};
static_assert(sizeof(LtAlgorithm) == 96, "cublasLtMatmulHeuristicResult_t");

/// Where a call reads and writes, and on which handle; A and B are the call's.
struct CallOperands {
  void* handle = nullptr;
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  const void *alpha = nullptr, *beta = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  void* stream = nullptr;
};

/// What a call refers to besides its operands, replaced in a copy of it.
struct SideReferences {
  const void* bias = nullptr;
  const void* one = nullptr;  ///< an fp32 1, for scales
  void* maximum = nullptr;    ///< 4 bytes, for amax
};

class LibraryProduct {
 public:
  static constexpr int kSuggestions = 16;

  /// Null where the library lacks a function. The calls' handles, descriptors and algorithm must live as long
  /// as run() and suggestions() are used.
  static std::unique_ptr<LibraryProduct> of(kscout_find find, kscout_entry entry,
                                            const kscout_gemm_call& call, const SideReferences& side);
  static std::unique_ptr<LibraryProduct> of(kscout_find find, kscout_entry entry,
                                            const kscout_matmul_call& call, const SideReferences& side);
  virtual ~LibraryProduct() = default;

  /// The program's function with its own algorithm. Returns the library's status.
  virtual int run(const CallOperands& on) const = 0;
  /// What the library would run, best first, none with a larger workspace; then the first of them without
  /// split K, where that is allowed.
  virtual std::vector<LtAlgorithm> suggestions(const CallOperands& aligned_as) const = 0;
  virtual int run_by(const LtAlgorithm& algorithm, const CallOperands& on) const = 0;
  /// The same, of another call of the same problem by cublasLtMatmul(): on its operands and descriptors.
  virtual int run_by(const LtAlgorithm& algorithm, const kscout_matmul_call& call) const = 0;
  /// Nothing where this build has no name for a number of the algorithm (library_numbers.h).
  virtual std::optional<CublasLtConfig> config_of(const LtAlgorithm& algorithm,
                                                  std::int32_t release) const = 0;
};

}  // namespace kscout::preload
