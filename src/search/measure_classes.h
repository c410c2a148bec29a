#pragma once
/// \file
/// Measures which configs of a weight give a row of C equal bits whatever M is, and chooses the class to keep
/// to.
///
///     const auto configs = class_candidates(selector, backend, weight, rows, {});
///     const ClassMeasurement measured = measure_classes(backend, weight, configs, {.m = rows});
///     store_classes(file, {&measured.stored, 1});
///
/// **Bits.** A has kRowPatterns different rows, which repeat; so row i of C must have the bits of row
/// i mod kRowPatterns of every other M. Products of every row cancel: values of A and B along K come in pairs
/// whose products are exact opposites, at places drawn at random, and differ in size by up to 2^8. The exact
/// result is 0, or one product where K is odd, so that what is stored is the rounding error of the sums,
/// which depends on their order in nearly every element. Every config runs at every M on the same operands. A
/// config whose rows of one pattern differ within a run belongs to no class at that M.
///
/// **Classes.** Configs with equal rows at some M form a class; a config may belong to different classes at
/// different M. The chosen class has the least geometric mean, over the timed M, of the time of its fastest
/// member. Its fastest members then run at every M up to ClassesRequest::every, because a kernel may compute
/// the rows of a last tile that is not full in another order. A class is chosen only if some member holds
/// (StoredClass::holds) at every M up to the largest. The choice is stored, so that no later call changes it.
///
/// **Times.** At each M of the request, configs are verified against float64 and timed as in a sweep. A
/// config that computes a wrong result at any of these M leaves all classes.
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/backend.h>
#include <kscout/selector.h>

#include "select/class_table.h"

namespace kscout {

/// Number of different rows of A.
inline constexpr std::int64_t kRowPatterns = 8;
inline constexpr std::int32_t kNoClass = -1;

/// The usual M to time: powers of two up to 4,096 and, from 4, one and a half times them.
std::vector<std::int64_t> usual_class_rows();
/// The M at which bits are compared: `timed`, and one M between each two of them, so that members are
/// compared inside the gaps, too.
std::vector<std::int64_t> compared_rows(std::span<const std::int64_t> timed);

struct CandidateLimits {
  std::size_t top = 16;  ///< best configs by the selector's ranking, for each M
  /// Of each kind and number of split-K slices in the ranking, its best configs, for each M: a class of few
  /// rows, with split K, needs configs that are good for many rows, too.
  std::size_t of_split = 4;
  std::size_t suggestions = 8;  ///< of the library, for each M
};

/// The configs worth comparing: for each M, the first of the selector's ranking and the algorithms that the
/// library suggests. Leaves out configs that stand for other kernels at other M (suggestions), that may give
/// other bits in each run, or whose split of K depends on M (stream-K, or chosen by the library at run time).
std::vector<KernelConfig> class_candidates(const Selector& selector, Backend& backend, ProblemRef weight,
                                           std::span<const std::int64_t> m, const CandidateLimits& limits);

struct ClassesRequest {
  std::vector<std::int64_t> m = usual_class_rows();  ///< M to time, ascending
  std::int64_t every = 512;                          ///< members run at every M up to this one
  double seconds = 0.15;                             ///< for the rounds of one M
  /// Called after each part of the work with its name.
  std::function<void(const std::string&)> progress = {};
};

/// The results of one config, by position in ClassMeasurement::m.
struct ClassedConfig {
  KernelConfig config;
  std::vector<std::int32_t> classes;  ///< kNoClass: refused, wrong, or rows that depend on their position
  std::vector<double> time_us;        ///< NaN: not timed
};

struct ClassMeasurement {
  StoredClass stored;           ///< the chosen class
  std::vector<std::int64_t> m;  ///< compared_rows(): those of `configs`
  std::vector<ClassedConfig> configs;
  std::int32_t chosen = kNoClass;
};

/// Throws unsupported for a problem that without_m() refuses, when no config takes it, and when no class
/// covers all M; device_failure.
ClassMeasurement measure_classes(Backend& backend, ProblemRef weight, std::span<const KernelConfig> configs,
                                 const ClassesRequest& request);

/// Compares the rows of stored classes again: for each member and M that was equal, whether it still is.
struct Recheck {
  std::size_t runs = 0;              ///< compared runs
  std::vector<std::string> changed;  ///< "CONFIG at M = 96"
};
/// Throws unsupported when the class is of another backend or library release.
Recheck recheck_class(Backend& backend, const StoredClass& stored);

// ---- Computes rows whose bits can be compared over M.
//
//     RowRuns runs(backend, weight, 4096);
//     const RowBits bits = runs.run(config, 48);

/// Hashes of the rows of one run.
struct RowBits {
  std::array<std::uint64_t, kRowPatterns> of_pattern{};  ///< 0: the run has no row of the pattern
  /// Why there are no hashes: the kernel refuses, or rows of one pattern differ.
  std::string why = {};

  /// Whether both runs computed the same rows, as far as both have them.
  bool agrees(const RowBits& other) const;
  /// 16 hexadecimal digits per pattern, and the inverse. Throws corrupt_data.
  std::string text() const;
  static RowBits parse(std::string_view text);
};

class RowRuns {
 public:
  /// Makes the operands for up to `max_m` rows in the backend's memory. Throws unsupported for element types
  /// that cannot be generated, and when the operands do not fit.
  RowRuns(Backend& backend, ProblemRef weight, std::int64_t max_m);
  RowRuns(const RowRuns&) = delete;
  RowRuns& operator=(const RowRuns&) = delete;

  /// Computes M rows by a config and hashes them.
  RowBits run(const KernelConfig& config, std::int64_t m);
  /// The same by `compute`, which gets the problem and the operands.
  RowBits run(std::int64_t m, const std::function<void(const Problem&, const GemmBuffers&)>& compute);

 private:
  struct Release {
    Memory* memory;
    void operator()(std::byte* data) const noexcept { memory->release(data); }
  };
  using Bytes = std::unique_ptr<std::byte, Release>;

  Bytes allocated(std::size_t bytes);
  void fill_a();
  void fill_b();
  void fill_bias();
  RowBits hash_rows(std::int64_t m);

  Backend& backend_;
  Memory& memory_;
  Problem problem_;  ///< with max_m_ rows
  std::int64_t max_m_;
  Bytes a_, b_, c_, bias_, workspace_;
  std::size_t workspace_bytes_ = 0;
  std::vector<std::byte> rows_;  ///< some rows of C in the CPU's memory
};

}  // namespace kscout
