#pragma once
/// \file
/// Maps the configs of a search to points of a grid. Combinations of values that are no config are holes in
/// the grid.
///
///     const SearchSpace space(enumerate(request).configs);     // legal configs only; each is one point
///     space.point(7);                                          // ranks of config 7's values, axis by axis
///     space.find(child);                                       // which config has these ranks, if any
///
/// An axis with one value over all configs is left out. Memory: 2 bytes per config and remaining axis, and a
/// table of positions: about 8 MB for 100,000 configs.
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <kscout/config.h>

namespace kscout {

/// One rank per axis: the position of a config's value among the values that the configs of the space have.
/// Numbers rank in ascending order, enum words in the order of their axis.
using SearchPoint = std::vector<std::uint16_t>;

class SearchSpace {
 public:
  /// Takes distinct configs. Throws invalid_argument for two equal ones, and unsupported when the values of
  /// the axes have 2^64 combinations or more.
  explicit SearchSpace(ConfigTable configs);

  const ConfigTable& configs() const noexcept { return configs_; }
  std::size_t size() const noexcept { return configs_.size(); }
  /// Axes on which configs differ.
  std::size_t axes() const noexcept { return values_.size(); }
  /// Whether the values of an axis are numbers; otherwise they are words, whose order means nothing.
  bool ordered(std::size_t axis) const noexcept { return ordered_[axis]; }
  /// Number of values of an axis.
  std::size_t values(std::size_t axis) const noexcept { return values_[axis]; }
  std::span<const std::uint16_t> point(std::uint32_t config) const noexcept {
    return std::span(ranks_).subspan(config * axes(), axes());
  }
  /// The config at a point; nothing where the point is a hole.
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
