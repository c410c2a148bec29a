#pragma once
/// \file
/// Numbers repeated things: 0, 1, ... in the order of first occurrence.
///
///     Interner numbers(values.size());
///     for (const double value : values) {
///       const auto same = [&](std::uint32_t known) { return distinct[known] == value; };
///       const std::uint32_t number = numbers.of(hash_of(value), same);
///       if (number == distinct.size()) distinct.push_back(value);
///     }
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <span>
#include <vector>

#include <kscout/any_problem.h>

namespace kscout {

/// A hash table with linear probing; at least half of its places stay empty.
class Interner {
 public:
  /// For at most `most` different things.
  explicit Interner(std::size_t most = 0) { reset(most); }
  /// Removes all entries.
  void reset(std::size_t most) {
    number_at_.assign(std::bit_ceil(2 * most + 1), kEmpty);
    count_ = 0;
  }

  /// The number of a thing: that of the known thing for which same(number) is true, else the next free
  /// number.
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

// ---- Gathers per-class values into per-row output.
//
//     const IndexMap rows(class_of_row);      // 0, 2, 2, 1
//     rows.copy(values.data(), out.data(), rows.size());

/// Stores two bytes per index where that suffices, because each copy reads all indices.
class IndexMap {
 public:
  IndexMap() = default;
  explicit IndexMap(std::span<const std::uint32_t> from) {
    bool fits = true;
    for (const std::uint32_t one : from) fits = fits && one <= UINT16_MAX;
    fits ? narrow_.assign(from.begin(), from.end()) : wide_.assign(from.begin(), from.end());
  }

  bool empty() const noexcept { return size() == 0; }
  std::size_t size() const noexcept { return narrow_.size() + wide_.size(); }
  /// The indices if they have two bytes each, else empty.
  std::span<const std::uint16_t> narrow() const noexcept { return narrow_; }
  std::uint32_t operator[](std::size_t i) const noexcept { return wide_.empty() ? narrow_[i] : wide_[i]; }

  /// Sets to[i] = from[(*this)[first + i]] for `count` values.
  template <class T>
  void copy(const T* from, T* to, std::size_t count, std::size_t first = 0) const noexcept {
    wide_.empty() ? copy_by(narrow_.data() + first, from, to, count)
                  : copy_by(wide_.data() + first, from, to, count);
  }

 private:
  /// Reads indices 64 bits at a time, so that each value costs little more than a load and a store. (The
  /// compiler's own vector code would unpack the indices again.)
  template <class Index, class T>
  static void copy_by(const Index* index, const T* __restrict from, T* __restrict to,
                      std::size_t count) noexcept {
    static_assert(std::endian::native == std::endian::little);
    constexpr std::size_t kBits = 8 * sizeof(Index), kWhole = 64 / kBits;
    const Index* const end = index + count;
    for (; static_cast<std::size_t>(end - index) >= kWhole; index += kWhole, to += kWhole) {
      std::uint64_t next;
      std::memcpy(&next, index, sizeof next);
      for (std::size_t i = 0; i < kWhole; ++i) to[i] = from[static_cast<Index>(next >> (kBits * i))];
    }
    for (; index != end; ++index) *to++ = from[*index];
  }

  std::vector<std::uint16_t> narrow_;
  std::vector<std::uint32_t> wide_;
};

// ---- Lists the distinct signatures of problems.
//
//     for (const Signature& signature : signatures_of(table.problems)) use(enumerate({... signature ...}));

/// Each signature once, in the order of first occurrence. Takes a range of any kind of problem.
template <std::ranges::input_range Problems>
std::vector<Signature> signatures_of(Problems&& problems) {
  std::vector<Signature> out;
  for (const auto& problem : problems) {
    const Signature signature = signature_of(problem);
    if (std::ranges::find(out, signature) == out.end()) out.push_back(signature);
  }
  return out;
}

}  // namespace kscout
