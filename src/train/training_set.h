#pragma once
/// \file
/// Builds the rows of a training: one row per usable (problem, config), grouped by problem.
///
///     const TrainingSet set = make_training_set(tables, families, schema);
///     const std::vector<double> values = set.features_of(0);   // of the rows of the first problem
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <kscout/family.h>

#include "dataset/compact_table.h"
#include "features/schema.h"
#include "op/conv/conv_sets.h"
#include "select/model.h"

namespace kscout {

/// Lowers the speed that a training assumes for configs whose result on one problem says little about other
/// problems. For example, a library's suggestion number n is a different algorithm on each problem.
/// Evaluation of choices uses the measured speed.
struct Handicap {
  std::string where;  ///< formula over c. d. s. that is true for these configs; empty: none
  double share = 0;   ///< share of their speed that is subtracted, 0 to less than 1
};

class FeatureValues;

struct TrainingSet {
  struct Row {
    double time_us;                  ///< NaN when the run failed
    std::uint32_t config;            ///< index into configs
    std::uint32_t repeats : 30;      ///< samples behind time_us; foreign files may say 0
    std::uint32_t pruned_early : 1;  ///< pruned early: time_us is coarse
    std::uint32_t handicapped : 1;   ///< Handicap's formula holds for the config
  };
  static_assert(sizeof(Row) == 16);

  std::vector<Device> devices;           ///< distinct; more than one only for a model for any CPU
  std::vector<std::uint32_t> device_of;  ///< per problem: index into devices
  /// Distinct with their device; each has at least one row that succeeded.
  std::vector<Problem> problems;
  std::vector<std::uint32_t> first_row;  ///< of each problem, and the end: problems + 1 entries
  std::vector<Row> rows;                 ///< grouped by problem, in the order of `configs`
  std::vector<KernelConfig> configs;     ///< distinct
  std::vector<double> flops;             ///< of a run of each problem
  std::vector<double> best_tflops;       ///< per problem, over its rows with status ok
  std::size_t features = 0;
  double handicap = 0;  ///< Handicap::share
  /// Per device: ln of the unit of its speeds. 0 in a set of one device; in a set for any CPU the device's
  /// peak over that of any_cpu(), so that shares of the peak are learned.
  std::vector<double> log_unit;

  std::size_t row_count() const noexcept { return rows.size(); }
  std::size_t problem_of(std::size_t row) const noexcept;
  /// The measured speed of a row of the problem; 0 when the run failed.
  double tflops(std::size_t problem, std::size_t row) const noexcept {
    return std::isnan(rows[row].time_us) ? 0.0 : flops[problem] / rows[row].time_us * 1e-6;
  }
  const Device& device(std::size_t problem) const noexcept { return devices[device_of[problem]]; }
  /// ln of the best speed of a problem, in the unit of its device.
  double log_best(std::size_t problem) const noexcept;

  /// The feature values of a problem's rows, row-major. Computed at each call: all values together take far
  /// more memory than the rows.
  std::vector<double> features_of(std::size_t problem) const;
  /// Those of the problem's first row.
  std::vector<double> first_features_of(std::size_t problem) const;
  std::shared_ptr<const FeatureValues> feature_values;  ///< computes them
};

/// Which devices the tables of a training may be of.
enum class TrainFor : std::uint8_t {
  one_device,  ///< all tables are of one device
  any_cpu,     ///< of any CPUs: problems of several devices stay apart
};

/// Collects the rows of all tables. A (problem, config) measured in both passes uses the row of the second
/// pass. Rows with status `unsupported` (unless Provider::library_decides) and problems without
/// floating-point operations are left out; other failures are rows of 0 TFLOPS. Traits come from the family
/// of the problem's signature, else from the provider. Throws invalid_argument when the tables have different
/// devices (TrainFor::one_device), a device that is no CPU (TrainFor::any_cpu) or no successful row, or when
/// the handicap's share is out of range.
TrainingSet make_training_set(std::span<const CompactTable> tables, std::span<const Family> families,
                              const Schema& schema, const Handicap& handicap = {},
                              TrainFor devices = TrainFor::one_device);

// ---- Defines what LightGBM learns for a target: labels, weights, and the meaning of a score in TFLOPS.

/// Minimum relative speed: the forest need not distinguish 1/20 from 1/50.
inline constexpr double kMinRelative = 0.05;
/// Highest grade of target rank. The grade of a config is kMaxRank times the square of its relative speed,
/// rounded; the square stresses the fastest configs.
inline constexpr int kMaxRank = 30;

/// One label per row. Failed rows get the worst value of the target.
std::vector<float> labels_of(const TrainingSet& set, Target target);

/// One weight per row. Rows near the best of their problem count more: they decide the choice.
std::vector<float> weights_of(const TrainingSet& set, double near_best_weight);

/// LightGBM's objective for a target.
std::string objective_of(Target target);

}  // namespace kscout
