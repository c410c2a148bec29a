#pragma once
/// \file
/// Numbers for things that repeat: 0, 1, ... in the order in which they first come.
///
///     DistinctNumbers numbers(values.size());
///     for (const double value : values) {
///       const auto same = [&](std::uint32_t known) { return distinct[known] == value; };
///       const std::uint32_t number = numbers.of(hash_of(value), same);
///       if (number == distinct.size()) distinct.push_back(value);
///     }
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kscout {

/// A table by hash, the next place when one is taken. At least half of its places stay empty.
class DistinctNumbers {
 public:
  /// For at most `most` different things.
  explicit DistinctNumbers(std::size_t most = 0) { reset(most); }
  /// Forgets all.
  void reset(std::size_t most) {
    number_at_.assign(std::bit_ceil(2 * most + 1), kEmpty);
    count_ = 0;
  }

  /// The number of a thing: that of the known one for which same(number) holds, else the next.
  template <class Same>
  std::uint32_t of(std::uint64_t hash, const Same& same) {
    const std::size_t last = number_at_.size() - 1;
    std::size_t at = hash & last;
    for (; number_at_[at] != kEmpty; at = (at + 1) & last) {
      if (same(number_at_[at])) return number_at_[at];
    }
    return number_at_[at] = count_++;
  }

 private:
  static constexpr std::uint32_t kEmpty = UINT32_MAX;
  std::vector<std::uint32_t> number_at_;
  std::uint32_t count_ = 0;
};

}  // namespace kscout
