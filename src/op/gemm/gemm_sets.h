#pragma once
/// \file
/// Makes named sets of GEMMs to measure, train on and report.
///
///     auto problems = make_problem_set({.set = "llm", .layouts = {Layout::rcr}, .max_gflop = 10});
///
/// The same request gives the same problems, in the same order, on every machine.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "op/grid_sets.h"
#include "op/problem_sets.h"

namespace kscout {

/// The sets that make_problem_set accepts.
std::span<const ProblemSetInfo> problem_sets() noexcept;

/// Throws invalid_argument for an unknown set (naming the nearest) or for bounds that contain too few sizes.
/// Problems are distinct. Sets keep the order of their definition; the layouts of one size follow each other.
std::vector<GemmProblem> make_problem_set(const ProblemSetRequest& request);

/// Throws invalid_argument for a layout of convolutions.
void check_gemm_layouts(std::span<const Layout> layouts);

// ---- Makes the sizes of problem sets, before element types and layouts are applied.

struct Sizes {
  std::int64_t m = 1, n = 1, k = 1;
  double weight = 1;
  Layout layout = Layout::rcr;  ///< used when the request names no layouts
  std::int64_t batch = 1;
};

const GridSets& gemm_grid_sets();
/// In the order of the file, where a size may occur twice; sorted sets have each size once.
std::vector<Sizes> sizes_of_grids(std::string_view name);

/// Products of the named language models, or of all in the table `of` of families/llm_models.toml. Throws
/// invalid_argument naming the nearest model.
std::vector<Sizes> llm_sizes(const std::vector<std::string>& models, std::string_view of = "models");

/// Products of the three passes of training, in the layouts that the passes produce
/// (families/training_gemms.toml).
std::vector<Sizes> training_sizes();

/// The three passes of layers with a size that is no multiple of 8 (families/odd_gemms.toml).
std::vector<Sizes> odd_sizes();

/// Batches of attention's products and of experts, in the layouts that the passes produce
/// (families/attention_gemms.toml).
std::vector<Sizes> attention_sizes();

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
