#pragma once
/// \file
/// Makes random choices with integers only: the same seed gives the same choices on every machine.
///
///     Generator random(/*seed=*/42);
///     random.shuffle(problems);
#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <kscout/fields.h>

#include "problems/problem_sets.h"

namespace kscout {

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(mix_hash(seed, 0x6b73636f7574)) {}

  /// Uniform in [0, below). The bias is less than below / 2^64.
  std::uint64_t below(std::uint64_t below) {
    state_ += 1;
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(mix_hash(0, state_)) * below) >> 64);
  }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  /// Log-uniform without a logarithm: octaves (ranges from a power of two to the next) are equally likely,
  /// and so are the values within one. When less than half of the last octave lies below `high`, it is merged
  /// with the octave before it.
  std::int64_t by_octave(std::int64_t low, std::int64_t high) {
    const auto octave = [](std::int64_t x) { return std::bit_width(static_cast<std::uint64_t>(x)) - 1; };
    const auto start = [](std::int64_t e) { return std::int64_t{1} << e; };
    const std::int64_t first = octave(low), top = octave(high);
    const std::int64_t last = top > first && high - start(top) < start(top) / 2 ? top - 1 : top;
    const std::int64_t chosen = between(first, last);
    return between(std::max(low, start(chosen)), chosen == last ? high : start(chosen + 1) - 1);
  }

  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::uint64_t state_;
};

// ---- Makes the sizes of problem sets, before element types and layouts are applied.

struct Sizes {
  std::int64_t m, n, k;
  double weight = 1;
  Layout layout = Layout::rcr;  ///< used when the request names no layouts
};

std::vector<Sizes> ck_benchmark_sizes();
std::vector<Sizes> ck_wide_sizes();
std::vector<Sizes> ck_edge_sizes();
std::vector<Sizes> smoke_sizes();

/// Throws invalid_argument naming the nearest model.
std::vector<Sizes> llm_sizes(const std::vector<std::string>& models);

/// Products of the three passes of training, in the layouts that the passes produce
/// (families/training_gemms.toml).
std::vector<Sizes> training_sizes();

/// Calls `draw` until request.count (0: 200) distinct sizes are found that `admits` accepts. Throws
/// invalid_argument when too few are found.
std::vector<Sizes> drawn_sizes(const ProblemSetRequest& request,
                               const std::function<bool(const Sizes&)>& admits,
                               const std::function<Sizes()>& draw);

/// One size is log-uniform from 2^13 to 2^20, the two others from 8 to 1,024.
std::vector<Sizes> tall_skinny_sizes(const ProblemSetRequest& request,
                                     const std::function<bool(const Sizes&)>& admits);

/// Draws request.count distinct sizes that `admits` accepts. Throws invalid_argument when the bounds make no
/// sense or contain too few sizes.
std::vector<Sizes> random_sizes(const ProblemSetRequest& request,
                                const std::function<bool(const Sizes&)>& admits);

}  // namespace kscout
