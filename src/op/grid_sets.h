#pragma once
/// \file
/// Makes sets of problems from the grids of sizes that a file of families/ lists; families/conv_sets.toml
/// describes the form.
///
///     const GridSets sets("families/gemm_sets.toml");
///     sets.each("ck_wide", Sizes{}, assign, use);
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem_text.h"
#include "op/operation.h"

namespace kscout {

class GridSets {
 public:
  struct Set {
    std::string name, help, op;  ///< `op`: empty where the file states none
    bool sorted = false;
    std::vector<std::string> grids;  ///< one line each
  };

  /// Throws corrupt_data for an embedded file of another form.
  explicit GridSets(const std::string& file);
  GridSets(const GridSets&) = delete;

  /// The sets with a help text, in the order of the file.
  std::span<const ProblemSetInfo> infos() const noexcept { return infos_; }
  bool has(std::string_view name) const noexcept;
  const Set& named(std::string_view name) const;

  /// Calls use(problem, grid) for every combination of every grid of a set. assign(problem, name, value) sets
  /// one size and throws for an unknown name.
  template <class P, class Assign, class Use>
  void each(std::string_view name, const P& start, const Assign& assign, const Use& use) const {
    for (const std::string_view grid : named(name).grids) {
      if (grid.starts_with('@')) {
        each(grid.substr(1), start, assign, use);
      } else {
        expand(grid, start, assign, [&](const P& problem) { use(problem, grid); });
      }
    }
  }

 private:
  template <class P, class Assign, class Use>
  static void expand(std::string_view grid, const P& start, const Assign& assign, const Use& use) {
    const std::size_t end = std::min(grid.find(' '), grid.size()), equals = grid.find('=');
    if (grid.empty()) return use(start);
    const std::vector<std::string_view> names = split(grid.substr(0, equals), ':');
    for (const std::string_view value : split(grid.substr(equals + 1, end - equals - 1), ',')) {
      P problem = start;
      const std::vector<std::string_view> parts = split(value, ':');
      for (std::size_t i = 0; i < parts.size(); ++i)
        assign(problem, names.at(i), parse_field<std::int64_t>(names[i], parts[i]));
      expand(grid.substr(std::min(end + 1, grid.size())), problem, assign, use);
    }
  }

  std::vector<Set> sets_;
  std::vector<ProblemSetInfo> infos_;
};

}  // namespace kscout
