#pragma once
/// \file
/// Explains a model's ranking of a problem's configs, and why other configs are not in it.
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
  std::size_t rank;                  ///< 1 = best; the shortlist comes before all others
  double score;                      ///< the forest's score, higher is better
  std::vector<double> value;         ///< value of each feature
  std::vector<double> contribution;  ///< contribution of each feature to the score
};

struct Explanation {
  const Family* family = nullptr;
  std::size_t candidates = 0;  ///< configs that can take the problem
  /// Number of these that are on the shortlist; `candidates` without a shortlist.
  std::size_t shortlisted = 0;
  double expected = 0;  ///< mean score of the candidates
  /// The best ones first, then the requested ones that are not among the best.
  std::vector<ExplainedConfig> configs;
};

/// Explains the best `top` configs and those of `also` (positions in the family; configs that cannot take the
/// problem are left out). Method: forest/forest.h, compared with the configs that can take the problem.
/// Throws unsupported when the model has no family for the problem or none of its configs can take it.
Explanation explain(const Model& model, ProblemRef problem, Target target, std::size_t top,
                    const std::vector<std::size_t>& also = {});

/// A feature's evidence for the first of two configs (difference > 0) or for the second.
struct ContributionDifference {
  std::size_t feature;
  double difference;  ///< contribution to the first minus that to the second; the sum over all features is
                      ///< the scores' difference
};
/// Sets sums to 0 that are rounding errors: below 1e-12 of `scale` and of the largest of them.
void drop_rounding(std::span<double> sums, double scale = 0);

/// The features that distinguish two configs, largest difference first. Rounding errors are left out.
std::vector<ContributionDifference> contribution_differences(const ExplainedConfig& first,
                                                             const ExplainedConfig& second);

/// A rule of the family and the number of configs that it refuses for a problem; several rules may count the
/// same config.
struct Exclusion {
  Rule rule;
  std::size_t configs;
};
/// Rules that refuse at least one config for the problem, in the family's order.
std::vector<Exclusion> exclusions(const Family& family, ProblemRef problem);

/// Why a config is not in the ranking: the applicability rules that refuse it, or, for a config outside the
/// family, the `legal` and `worth` rules that exclude it; empty when no rule does.
std::vector<Rule> rules_against(const Family& family, ProblemRef problem, const KernelConfig& config);

}  // namespace kscout
