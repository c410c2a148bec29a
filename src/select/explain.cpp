#include "select/explain.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/fail.h"
#include "features/schema.h"
#include "forest/forest.h"

namespace kscout {

namespace {

/// A share of the largest value. The rounding errors of sums over a thousand trees stay below it.
constexpr double kRounding = 1e-12;

std::vector<std::uint8_t> admitted_by(const Rule& rule, const Family& family, ProblemRef problem) {
  Family asked = family;
  asked.applicability = {rule};
  std::vector<std::uint8_t> applicable;
  applicable_configs(asked, problem, applicable);
  return applicable;
}

std::optional<std::size_t> position_of(const Family& family, const KernelConfig& config) {
  for (std::size_t i = 0; i < family.configs.size(); ++i) {
    if (family.configs[i] == config) return i;
  }
  return std::nullopt;
}

double largest(std::span<const double> values) {
  double all = 0;
  for (const double value : values) all = std::max(all, std::fabs(value));
  return all;
}

const Forest& forest_of(const Model& model, Target target) {
  return std::ranges::find(model.data().targets, target, &ModelTarget::target)->forest;
}

}  // namespace

Explanation explain(const Model& model, ProblemRef problem, Target target, std::size_t top,
                    const std::vector<std::size_t>& also) {
  Explanation result;
  result.family = model.family(signature_of(problem));
  if (!result.family) {
    fail(Errc::unsupported, "the model was not trained for problems like {}", print(problem));
  }
  const Family& family = *result.family;
  std::vector<double> scores(family.configs.size());
  model.exact_scores(problem, target, scores);
  const std::vector<std::uint8_t> shortlisted = model.candidates(problem);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isfinite(scores[i])) order.push_back(i);
  }
  if (order.empty()) {
    fail(Errc::unsupported, "{}: none of the {} configs of {} can take it", print(problem), scores.size(),
         family.provider);
  }
  result.candidates = order.size();
  result.shortlisted = static_cast<std::size_t>(std::ranges::count(shortlisted, 1));
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return std::pair(shortlisted[i], scores[i]); });

  const std::size_t features = model.data().schema->size();
  std::vector<double> all(features * scores.size()), matrix;
  model.data().schema->evaluate(problem, family.device, family.configs, family.traits, all);
  for (const std::size_t config : order) {
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(config * features);
    matrix.insert(matrix.end(), row, row + static_cast<std::ptrdiff_t>(features));
  }
  std::vector<std::size_t> explained;  // by rank
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    if (rank < top || std::ranges::find(also, order[rank]) != also.end()) explained.push_back(rank);
  }
  const Contributions of = contributions(forest_of(model, target), matrix, order.size(), explained);
  const double sign = target == Target::latency ? -1 : 1;
  result.expected = sign * of.expected;
  for (std::size_t i = 0; i < explained.size(); ++i) {
    const std::size_t rank = explained[i];
    const auto row = matrix.begin() + static_cast<std::ptrdiff_t>(rank * features);
    ExplainedConfig config{order[rank], rank + 1, scores[order[rank]],
                           std::vector<double>(row, row + static_cast<std::ptrdiff_t>(features)),
                           of.by_feature[i]};
    for (double& contribution : config.contribution) contribution *= sign;
    drop_rounding(config.contribution);
    result.configs.push_back(std::move(config));
  }
  return result;
}

void drop_rounding(std::span<double> sums, double scale) {
  const double least = kRounding * std::max(scale, largest(sums));
  for (double& sum : sums) {
    if (std::fabs(sum) < least) sum = 0;
  }
}

std::vector<ContributionDifference> contribution_differences(const ExplainedConfig& first,
                                                             const ExplainedConfig& second) {
  std::vector<double> differences;
  for (std::size_t f = 0; f < first.contribution.size(); ++f)
    differences.push_back(first.contribution[f] - second.contribution[f]);
  drop_rounding(differences, std::max(largest(first.contribution), largest(second.contribution)));
  std::vector<ContributionDifference> moves;
  for (std::size_t f = 0; f < differences.size(); ++f) {
    if (differences[f] != 0) moves.push_back({f, differences[f]});
  }
  std::ranges::stable_sort(moves, std::ranges::greater{},
                           [](const ContributionDifference& move) { return std::fabs(move.difference); });
  return moves;
}

std::vector<Exclusion> exclusions(const Family& family, ProblemRef problem) {
  std::vector<Exclusion> result;
  for (const Rule& rule : family.applicability) {
    const auto applicable = admitted_by(rule, family, problem);
    const auto refused = static_cast<std::size_t>(std::ranges::count(applicable, 0));
    if (refused > 0) result.push_back({rule, refused});
  }
  return result;
}

std::vector<Rule> rules_against(const Family& family, ProblemRef problem, const KernelConfig& config) {
  const auto position = position_of(family, config);
  if (!position) {
    return why_not({.provider = family.provider,
                    .signature = family.signature,
                    .device = family.device,
                    .rules = family.rules,
                    .filter = {}},
                   config);
  }
  std::vector<Rule> against;
  for (const Rule& rule : family.applicability) {
    if (admitted_by(rule, family, problem)[*position] == 0) against.push_back(rule);
  }
  return against;
}

}  // namespace kscout
