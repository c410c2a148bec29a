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
    {"random", "log-uniform sizes, seeded: plain, few rows, few columns, deep, divisible, square"},
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
  const bool large = std::ranges::find(kLargeSets, request.set) != std::end(kLargeSets);
  const double gflop =
      large ? std::min(request.max_gflop, odd ? kMaxOddGflop : kMaxGflop) : request.max_gflop;
  const double bytes = large ? std::min(request.max_bytes, kMaxBytes) : request.max_bytes;
  return flop_count(problem) <= 1e9 * gflop && min_bytes(problem) <= bytes;
}

std::vector<GemmProblem> file_problems(const ProblemSetRequest& request) {
  if (request.file.empty())
    fail(Errc::invalid_argument, "problem set 'file': which file? give its path instead");
  std::vector<GemmProblem> problems =
      request.text ? parse_problems_of<GemmProblem>(*request.text, request.file.string(), request.dtype)
                   : read_problems_of<GemmProblem>(request.file, request.dtype);
  if (request.layouts.empty()) return problems;
  std::vector<GemmProblem> laid_out;
  for (GemmProblem problem : problems) {
    for (const Layout layout : request.layouts) {
      problem.layout = layout;
      check(problem);  // leading dimensions depend on the layout
      laid_out.push_back(problem);
    }
  }
  return laid_out;
}

std::vector<GemmProblem> named_problems(const ProblemSetRequest& request) {
  std::vector<std::string_view> names;
  for (const auto& set : problem_sets()) names.push_back(set.name);
  names.push_back("file");
  index_of_word("problem set", request.set, names);
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

void sample_sizes(std::vector<GemmProblem>& problems, std::size_t count, std::uint64_t seed) {
  // A split by the same seed would hold out exactly the smallest fractions.
  constexpr std::uint64_t kSampleSalt = 0x73616d706c65;
  std::vector<double> fractions;
  for (const GemmProblem& problem : problems)
    fractions.push_back(group_fraction(problem, mix_hash(seed, kSampleSalt)));
  std::vector<double> sorted = fractions;
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (sorted.size() <= count) return;
  std::size_t at = 0;
  std::erase_if(problems, [&](const GemmProblem&) { return fractions[at++] >= sorted[count]; });
}

namespace {

void set_epilogues(std::vector<GemmProblem>& problems, const std::vector<Epilogue>& epilogues) {
  std::vector<GemmProblem> all;
  for (GemmProblem problem : problems) {
    for (const Epilogue epilogue : epilogues) {
      problem.epilogue = epilogue;
      all.push_back(problem);
    }
  }
  problems = std::move(all);
}

}  // namespace

std::vector<GemmProblem> make_problem_set(const ProblemSetRequest& request) {
  for (const Layout layout : request.layouts) {
    if (!is_gemm_layout(layout))
      fail(Errc::invalid_argument, "layout {}: is a layout of convolutions; GEMMs have {}", word(layout),
           fmt::join(kGemmLayoutWords, ", "));
  }
  std::vector<GemmProblem> problems =
      merge_equal(request.set == "file" ? file_problems(request) : named_problems(request));
  std::erase_if(problems, [&](const GemmProblem& problem) { return !within_limits(problem, request); });
  if (request.count != 0) sample_sizes(problems, request.count, request.seed);
  if (!request.epilogues.empty()) set_epilogues(problems, request.epilogues);
  return problems;
}

}  // namespace kscout
