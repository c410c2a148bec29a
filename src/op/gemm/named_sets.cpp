#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include "core/fail.h"
#include "core/names.h"
#include "op/gemm/gemm_sets.h"
#include "op/problem_sets.h"

namespace kscout {

namespace {

constexpr ProblemSetInfo kSetsOfCode[] = {
    {"llm",
     "products of public language models, 1 to 4096 tokens, weighted by calls (families/llm_models.toml)"},
    {"llm_2025", "the same of later models, which training data were not drawn from"},
    {"training",
     "GEMMs of forward, data-gradient and weight-gradient passes of public networks, each in its layout, up "
     "to "
     "8 GB and 400 GFLOP (families/training_gemms.toml)"},
    {"odd_sizes",
     "the three passes of public layers with a size that is no multiple of 8, up to 8 GB and 4 TFLOP "
     "(families/odd_gemms.toml)"},
    {"attention",
     "batches of products per head of attention, and of experts, each in its layout; the same limits as "
     "training (families/attention_gemms.toml)"},
    {"tall_skinny",
     "one size from 2^13 to 2^20, two from 8 to 1,024, log-uniform, seeded; the same limits as training"},
    {"random", "log-uniform sizes, seeded: plain, few rows, few columns, deep, divisible, square",
     /*makes_count=*/true},
};

GemmProblem with_sizes(const Sizes& sizes, DType dtype, Layout layout) {
  GemmProblem problem = make_gemm(sizes.m, sizes.n, sizes.k, dtype, layout);
  problem.weight = sizes.weight;
  problem.batch = sizes.batch;
  return problem;
}

std::vector<Sizes> sizes_of(const ProblemSetRequest& request,
                            const std::function<bool(const Sizes&)>& admits) {
  if (gemm_grid_sets().has(request.set)) return sizes_of_grids(request.set);
  if (request.set == "llm") return llm_sizes(request.models);
  if (request.set == "llm_2025") return llm_sizes(request.models, "models_2025");
  if (request.set == "training") return training_sizes();
  if (request.set == "odd_sizes") return odd_sizes();
  if (request.set == "attention") return attention_sizes();
  if (request.set == "tall_skinny") return tall_skinny_sizes(request, admits);
  return random_sizes(request, admits);
}

/// Limits of the sets whose definitions have none: what a GPU of 80 GB measures in seconds.
constexpr double kMaxGflop = 400, kMaxOddGflop = 4000, kMaxBytes = 8e9;
constexpr std::string_view kLargeSets[] = {"training", "odd_sizes", "attention", "tall_skinny"};

bool within_limits(const GemmProblem& problem, const ProblemSetRequest& request) {
  const bool odd = request.set == "odd_sizes";
  const bool large = !request.listed && std::ranges::find(kLargeSets, request.set) != std::end(kLargeSets);
  const double gflop =
      large ? std::min(request.max_gflop, odd ? kMaxOddGflop : kMaxGflop) : request.max_gflop;
  const double bytes = large ? std::min(request.max_bytes, kMaxBytes) : request.max_bytes;
  return flop_count(problem) <= 1e9 * gflop && min_bytes(problem) <= bytes;
}

std::vector<GemmProblem> named_problems(const ProblemSetRequest& request) {
  std::vector<std::string_view> names;
  for (const auto& set : problem_sets()) names.push_back(set.name);
  names.push_back("file");
  if (index_of_word("problem set", request.set, names) + 1 == names.size())
    fail(Errc::invalid_argument, "problem set 'file': which file? give its path instead");
  if (request.set != "llm" && request.set != "llm_2025" && !request.models.empty()) {
    fail(Errc::invalid_argument, "models are chosen from sets 'llm' and 'llm_2025', not from '{}'",
         request.set);
  }
  const auto admits = [&](const Sizes& sizes) {
    return within_limits(with_sizes(sizes, request.dtype, sizes.layout), request);
  };
  std::vector<GemmProblem> problems;
  for (const Sizes& sizes : sizes_of(request, admits)) {
    const std::vector<Layout> layouts = request.layouts.empty() ? std::vector{sizes.layout} : request.layouts;
    for (const Layout layout : layouts) problems.push_back(with_sizes(sizes, request.dtype, layout));
  }
  return problems;
}

}  // namespace

std::span<const ProblemSetInfo> problem_sets() noexcept {
  static const auto infos = [] {
    const auto grids = gemm_grid_sets().infos();
    std::vector<ProblemSetInfo> all(grids.begin(), grids.end());
    all.insert(all.end(), std::begin(kSetsOfCode), std::end(kSetsOfCode));
    return all;
  }();
  return infos;
}

void check_gemm_layouts(std::span<const Layout> layouts) {
  for (const Layout layout : layouts) {
    if (!is_gemm_layout(layout))
      fail(Errc::invalid_argument, "layout {}: is a layout of convolutions; GEMMs have {}", word(layout),
           fmt::join(kGemmLayoutWords, ", "));
  }
}

std::vector<GemmProblem> make_problem_set(const ProblemSetRequest& request) {
  check_gemm_layouts(request.layouts);
  const Operation& gemms = operation(Op::gemm);
  auto problems =
      merge_equal(request.listed ? structs_of<GemmProblem>(gemms.laid_out(*request.listed, request.layouts))
                                 : named_problems(request));
  std::erase_if(problems, [&](const GemmProblem& problem) { return !within_limits(problem, request); });
  if (request.count != 0)
    problems =
        structs_of<GemmProblem>(gemms.drawn(records_of(problems), request.count, request.seed_of(Op::gemm)));
  if (request.epilogues.empty()) return problems;
  std::vector<GemmProblem> all;
  for (GemmProblem problem : problems) {
    for (const Epilogue epilogue : request.epilogues) {
      problem.epilogue = epilogue;
      all.push_back(problem);
    }
  }
  return all;
}

}  // namespace kscout
