// How close a search comes to the best config that exhaustive scoring finds, and for how many evaluations:
// the shipped model of gfx950 over the forward bf16 2-D configs of `full`, and over a product space of
// 100,000. Beside it what the public CK Tile tools do: random draws and differential evolution with as many
// evaluations.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include <kscout/family.h>

#include "core/numbers.h"
#include "problems/conv_sets.h"
#include "search/model_objective.h"

namespace {

using namespace kscout;
using Clock = std::chrono::steady_clock;

std::size_t problem_count = 200;  // fewer with an argument, for a quick look

/// Every so-manieth of the synthetic forward set.
std::vector<ConvProblem> chosen_problems() {
  const auto all = make_conv_set("ck_conv_train_fwd", DType::bf16);
  std::vector<ConvProblem> chosen;
  for (std::size_t i = 0; i < problem_count; ++i) chosen.push_back(all[i * all.size() / problem_count]);
  return chosen;
}

/// One strategy over all problems.
struct Line {
  std::string name;
  SearchStrategy strategy;
  bool with_prior;
  std::vector<double> share = {};  ///< predicted TFLOPS of the best found over the best there is
  std::size_t evaluations = 0;     ///< the most of any problem
  double ms = 0;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Reached {
  double optimum_share = 1, least_share = 1, evaluation_share = 0;
};

/// Prints a table; returns what the default strategy reached.
Reached compare(const Model& model, const std::string& rules, std::size_t budget) {
  const FamilyRequest request{.provider = "ck_tile",
                              .signature = signature_of(make_conv(Op::conv_fwd, DType::bf16, Layout::nhwgc)),
                              .device = model.device(),
                              .rules = rules,
                              .filter = ""};
  const SearchSpace space(enumerate(request).configs);
  std::vector<Line> lines = {{"guided", SearchStrategy::guided, true},
                             {"guided, nothing known before", SearchStrategy::guided, false},
                             {"differential evolution", SearchStrategy::de, false},
                             {"random", SearchStrategy::random, false}};
  double all_ms = 0;
  for (const ConvProblem& problem : chosen_problems()) {
    const Objective objective = model_objective(model, problem, space);
    const auto begin = Clock::now();
    const auto best =
        Searcher().search(space, objective, {.strategy = SearchStrategy::all, .top = 1}).best.front();
    all_ms += 1e3 * seconds_since(begin);
    const auto prior = analytic_prior(model, problem, space.configs());
    const auto speed = [&](double score) {
      return model.predicted_tflops(problem, std::vector{best.score, score})[1];
    };
    const double optimum = speed(best.score);
    for (Line& line : lines) {
      const auto start = Clock::now();
      const SearchResult found =
          Searcher().search(space, objective,
                            {.strategy = line.strategy,
                             .budget = budget,
                             .top = 1,
                             .prior = line.with_prior ? std::span(prior) : std::span<const double>()});
      line.ms += 1e3 * seconds_since(start);
      line.share.push_back(found.best.empty() ? 0 : speed(found.best.front().score) / optimum);
      line.evaluations = std::max(line.evaluations, found.evaluations);
    }
  }
  const auto count = static_cast<double>(problem_count);
  fmt::print("{}: {} configs, budget {}, {} problems; scoring all takes {:.1f} ms\n", rules, space.size(),
             budget, problem_count, all_ms / count);
  fmt::print("{:<32}{:>8}{:>8}{:>8}{:>12}{:>14}{:>10}\n", "strategy", "mean %", "P10 %", "min %",
             ">= 99 %, %", "evaluations", "ms");
  for (const Line& line : lines) {
    double mean = 0, good = 0;
    for (const double share : line.share) mean += share / count, good += share >= 0.99 ? 1 / count : 0;
    fmt::print("{:<32}{:>8.2f}{:>8.2f}{:>8.2f}{:>12.1f}{:>14}{:>10.1f}\n", line.name, 100 * mean,
               100 * quantile(line.share, 0.1), 100 * quantile(line.share, 0), 100 * good, line.evaluations,
               line.ms / count);
  }
  fmt::print("\n");
  double mean = 0;
  for (const double share : lines.front().share) mean += share / count;
  return {mean, quantile(lines.front().share, 0),
          static_cast<double>(lines.front().evaluations) / static_cast<double>(space.size())};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) problem_count = std::strtoul(argv[1], nullptr, 10);
  const Model model = Model::load(KSCOUT_MODELS "/conv_fwd_bf16_gfx950");
  const Reached curated = compare(model, "full", 64);
  const Reached product = compare(model, KSCOUT_BENCH "/search_space.toml", 1000);
  fmt::print(
      "RESULT search.optimum_share {:.2f} %\nRESULT search.least_optimum_share {:.2f} %\n"
      "RESULT search.evaluation_share {:.3f} %\n",
      100 * std::min(curated.optimum_share, product.optimum_share),
      100 * std::min(curated.least_share, product.least_share), 100 * product.evaluation_share);
}
