#pragma once
/// \file
/// Makes random choices with integers only: the same seed gives the same choices on every machine.
///
///     Generator random(/*seed=*/42);
///     random.shuffle(problems);
#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include <kscout/fields.h>

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

}  // namespace kscout
