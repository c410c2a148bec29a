#pragma once
/// \file
/// Scores any configs of one family exactly for one problem, by a forest.
///
///     const FamilyForest fast(forest, of_problem, features_of_problem, schema, family);
///     FamilyForest::Scratch scratch;                          // one per thread, for any families
///     const std::vector<std::uint32_t> picked = {7, 3, 99};   // positions in the family, any number
///     std::vector<double> scores(picked.size());
///     if (!fast.scores(problem, picked, scores, scratch)) ... // the schema cannot describe the problem
///
/// The constructor ranks the features that depend only on the config. Each call computes the features of the
/// problem once, and the features of both in blocks of 32 configs (expr/few_rows.h, forest/exact.h).
/// Scores equal Schema::evaluate and Forest::predict bit for bit. Cost: docs/bench/select.md.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/family.h>

#include "expr/few_rows.h"
#include "features/schema.h"
#include "forest/exact.h"

namespace kscout {

class FamilyForest {
 public:
  /// `of_problem`: a second forest, which reads only the problem: its feature i is feature
  /// features_of_problem[i] of the schema. `first_trees`: number of trees that first_scores() sums, at most
  /// those of `forest`; 0: it is not called. Throws the errors of Schema::evaluate, and invalid_argument when
  /// the forests do not read the schema's features. Keeps no reference to the arguments.
  FamilyForest(const Forest& forest, const Forest& of_problem,
               std::span<const std::uint32_t> features_of_problem, const Schema& schema, const Family& family,
               std::size_t first_trees = 0);

  /// Memory of a call, which grows when a forest needs more.
  struct Scratch {
    expr::FewRows::Scratch features;
    ExactForest::Scratch ranks;
    std::vector<const double*> values;  ///< by feature of a forest
  };

  /// Number of configs of the family.
  std::size_t size() const noexcept { return size_; }

  /// Scores `configs`. Whether a higher or a lower score is better depends on the forest's target. False when
  /// the schema cannot describe the problem. out.size() == configs.size(). Any number of threads may call it,
  /// each with its own scratch.
  bool scores(ProblemRef problem, std::span<const std::uint32_t> configs, std::span<double> out,
              Scratch& scratch) const;
  /// Like scores(), by the first trees of the forest only.
  bool first_scores(ProblemRef problem, std::span<const std::uint32_t> configs, std::span<double> out,
                    Scratch& scratch) const;
  /// The second forest's score for the problem of the last successful scores() with this scratch.
  double score_of_problem(Scratch& scratch) const;

 private:
  bool scores_by(const ExactForest& forest, ProblemRef problem, std::span<const std::uint32_t> configs,
                 std::span<double> out, Scratch& scratch) const;

  std::size_t size_;
  std::vector<std::uint32_t> features_of_problem_;
  std::vector<std::uint8_t> wanted_;  ///< features that the forests read
  expr::FewRows features_;
  ExactForest forest_, of_problem_;
  std::optional<ExactForest> first_;
};

}  // namespace kscout
