#pragma once
/// \file
/// The configs that a search may choose from, as points: what it means to move along an axis when rules leave
/// holes everywhere.
///
///     const SearchSpace space(enumerate(request).configs);     // legal configs only, so every point is one
///     space.point(7);                                          // ranks of config 7's values, axis by axis
///     space.find(child);                                       // which config has these ranks, if any
///
/// An axis on which all configs agree is left out. Memory: 2 bytes per config and axis that is left, and a
/// table of positions: about 8 MB for 100,000 configs.
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <kscout/config.h>

namespace kscout {

/// Ranks of values among those that the space's configs have, by axis; ascending values, words in their
/// order.
using SearchPoint = std::vector<std::uint16_t>;

class SearchSpace {
 public:
  /// Distinct configs. Throws invalid_argument for two equal ones, unsupported when the axes' values have
  /// 2^64 combinations or more.
  explicit SearchSpace(ConfigTable configs);

  const ConfigTable& configs() const noexcept { return configs_; }
  std::size_t size() const noexcept { return configs_.size(); }
  /// Axes on which configs differ.
  std::size_t axes() const noexcept { return values_.size(); }
  /// Whether an axis holds numbers; else words, whose order means nothing.
  bool ordered(std::size_t axis) const noexcept { return ordered_[axis]; }
  /// How many values an axis has.
  std::size_t values(std::size_t axis) const noexcept { return values_[axis]; }
  std::span<const std::uint16_t> point(std::uint32_t config) const noexcept {
    return std::span(ranks_).subspan(config * axes(), axes());
  }
  /// The config at a point; nothing where there is a hole.
  std::optional<std::uint32_t> find(std::span<const std::uint16_t> point) const;

 private:
  std::uint64_t key(std::span<const std::uint16_t> point) const noexcept;

  ConfigTable configs_;
  std::vector<std::uint16_t> values_;
  std::vector<bool> ordered_;
  std::vector<std::uint16_t> ranks_;
  std::unordered_map<std::uint64_t, std::uint32_t> place_;
};

}  // namespace kscout
