#pragma once
/// \file
/// Measurements as rows to learn from: one row per (problem, config) that says something, problems one after
/// another.
///
///     const TrainingSet set = make_training_set(tables, families, schema);
///     // set.matrix holds set.row_count() x set.schema feature values
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <kscout/family.h>
#include <kscout/measurement.h>

#include "features/schema.h"
#include "problems/conv_sets.h"
#include "select/model.h"

namespace kscout {

/// Configs that count as slower than they were while a choice is learned, because what they did on one
/// problem tells little of another: a library's suggestion n is another algorithm on every problem. How fast
/// they were decides, as before, how good a model's choices are.
struct Handicap {
  std::string where;  ///< formula over c. d. s. that holds for them; empty: none
  double share = 0;   ///< of their speed, 0 to less than 1
};

struct TrainingSet {
  struct Row {
    std::uint32_t config;  ///< index into configs
    double time_us;        ///< NaN when the run failed
    double tflops;         ///< 0 when the run failed
    bool pruned_early;     ///< coarse time of a config that could not win
    bool handicapped;      ///< Handicap's formula holds for the config
    std::int32_t repeats;  ///< samples behind time_us; files of others may say 0
  };

  std::vector<Problem> problems;         ///< distinct, each with at least one row that succeeded
  std::vector<std::uint32_t> first_row;  ///< problems + 1
  std::vector<Row> rows;                 ///< of one problem: in the order of `configs`
  std::vector<KernelConfig> configs;     ///< distinct
  std::vector<double> best_tflops;       ///< per problem, over its rows with status ok
  std::vector<double> matrix;            ///< rows x features, row-major
  std::size_t features = 0;
  double handicap = 0;  ///< Handicap::share

  std::size_t row_count() const noexcept { return rows.size(); }
  std::size_t problem_of(std::size_t row) const noexcept;
};

/// Rows of all tables. A (problem, config) measured in both passes counts with its second one; `unsupported`
/// rows and problems without floating-point operations say nothing and are left out; other failures stay as
/// rows of 0 TFLOPS. Traits come from the family of the problem's signature, else from the provider. Throws
/// invalid_argument when the tables are of different devices or hold no successful row, or when the handicap
/// is no share.
TrainingSet make_training_set(std::span<const MeasurementTable> tables, std::span<const Family> families,
                              const Schema& schema, const Handicap& handicap = {});

// ---- What a target asks LightGBM to learn: labels, weights, and what a score means in TFLOPS.

/// Relative speeds below this count as equally hopeless: the forest need not tell 1/20 from 1/50.
inline constexpr double kMinRelative = 0.05;
/// Grades of the rank target; grade g means about g / kMaxRank of the best speed, squared to stress the top.
inline constexpr int kMaxRank = 30;

/// One label per row. Failed rows get the worst value of the target.
std::vector<float> labels_of(const TrainingSet& set, Target target);

/// One weight per row. Rows near the best of their problem count more: they decide the choice.
std::vector<float> weights_of(const TrainingSet& set, double near_best_weight);

/// LightGBM's objective for a target.
std::string objective_of(Target target);

}  // namespace kscout
