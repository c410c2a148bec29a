#pragma once
/// \file
/// Why a model ranks the configs of a problem as it does, and why others are not in the ranking.
///
///     const Explanation why = explain(model, problem, model.default_target(), 2);
///     const ExplainedConfig& first = why.configs[0];
///     // why.expected + sum of first.contribution is first.score
///     for (const Exclusion& e : exclusions(*why.family, problem)) ...      // rules that keep configs out
///
/// For people, not for the hot path: it walks every tree for every config.
#include <string>
#include <vector>

#include "select/model.h"

namespace kscout {

struct ExplainedConfig {
  std::size_t config;                ///< position in the family
  std::size_t rank;                  ///< 1 = best; the shortlist stands before all others
  double score;                      ///< as the forest says it, higher is better
  std::vector<double> value;         ///< of each feature
  std::vector<double> contribution;  ///< of each feature to the score
};

struct Explanation {
  const Family* family = nullptr;
  std::size_t candidates = 0;            ///< configs that can take the problem
  std::size_t shortlisted = 0;           ///< those of them on the shortlist; `candidates` without one
  double expected = 0;                   ///< their mean score
  std::vector<ExplainedConfig> configs;  ///< best first, then those asked for that are not among the best
};

/// The best `top` configs and those of `also` (positions in the family; ones that a rule keeps from the
/// problem are left out). Method: forest/forest.h, against the configs that can take the problem.
/// Throws unsupported when the model has no family for the problem or none of its configs can take it.
Explanation explain(const Model& model, ProblemRef problem, Target target, std::size_t top,
                    const std::vector<std::size_t>& also = {});

/// A feature that speaks for the first of two configs (difference > 0) or for the second.
struct ContributionDifference {
  std::size_t feature;
  double difference;  ///< contribution to the first minus that to the second; all of them add up to the
                      ///< scores' difference
};
/// Features that tell two configs apart, largest difference first.
std::vector<ContributionDifference> contribution_differences(const ExplainedConfig& first,
                                                             const ExplainedConfig& second);

/// A rule of the family and how many configs it keeps from a problem; a config may be counted by several.
struct Exclusion {
  Rule rule;
  std::size_t configs;
};
/// Rules that keep at least one config from the problem, in the family's order.
std::vector<Exclusion> exclusions(const Family& family, ProblemRef problem);

/// Why a config is not in the ranking: applicability rules that keep it from the problem, or, for one outside
/// the family, the legal and worth rules that keep it out; empty when nothing does.
std::vector<Rule> rules_against(const Family& family, ProblemRef problem, const KernelConfig& config);

}  // namespace kscout
