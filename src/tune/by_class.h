#pragma once
/// \file
/// Adds trees to those of a model for any CPU in some size classes only: where they choose better on held-out
/// problems.
///
///     const auto kept = keep_best_trees({.candidate = new_model, .base = any_cpu_model, .before = old_model},
///                                       held_out);
///     if (kept) (*kept)[0];             // which trees answer for the smallest problems
#include <array>
#include <filesystem>
#include <optional>

#include <kscout/device.h>

#include "dataset/compact_table.h"
#include "features/schema.h"
#include "forest/forest.h"
#include "op/problem_sets.h"

namespace kscout {

inline constexpr std::size_t kSizeClasses = EnumWords<SizeClass>::words.size();
using InClass = std::array<bool, kSizeClasses>;

/// A feature by which trees tell the size classes apart on one device.
struct ClassSwitch {
  std::uint32_t feature;
  std::array<double, kSizeClasses - 1> limits;  ///< its values at kSizeClassLimits
};

/// Nothing for a schema without the time at the device's peak.
std::optional<ClassSwitch> class_switch(const Schema& schema, const Device& device);

/// Appends the trees of `from` behind its first `first` ones: they add nothing outside the classes.
void append_in_classes(Forest& forest, const Forest& from, std::size_t first, const InClass& in,
                       const ClassSwitch& classes);

/// Which trees a class has besides those of the model for any CPU.
enum class TreesOf : std::uint8_t { candidate, before, none };
template <>
struct EnumWords<TreesOf> {
  static constexpr std::string_view what = "trees";
  static constexpr std::array<std::string_view, 3> words = {"new", "before", "any_cpu"};
};
using TreesByClass = std::array<TreesOf, kSizeClasses>;

/// Model folders. `before`: the model that the candidate may replace; empty: none.
struct TreesToCompare {
  std::filesystem::path candidate, base, before;
};

/// Gives the candidate, in each size class, the trees that choose best on the held-out problems: its own
/// where they gain more than the standard error of the gain, so nowhere on fewer than two problems; else
/// those of `before`, where it began with the same model for any CPU and gains anything, or none. Nothing,
/// and the candidate is unchanged, when it does not begin with the trees of `base`.
std::optional<TreesByClass> keep_best_trees(const TreesToCompare& models, const CompactTable& held_out);

}  // namespace kscout
