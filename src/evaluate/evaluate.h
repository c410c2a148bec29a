#pragma once
/// \file
/// Measures how close choices come to the oracle: efficiency per problem, its distribution, slices,
/// calibration.
///
///     const Scorer scorer = [&](ProblemRef p, std::span<const KernelConfig> configs) {...};
///     const Evaluation e = evaluate(table, scorer, measured_pool);
///     e.overall.mean;                        // 0.97 = the picks run at 97 % of the best measured speed
///
/// Rules: a pick that failed or was never measured counts as 0. The oracle is the fastest ok row, with its
/// second-pass time where there is one. Percentiles are interpolated linearly. All numbers here are
/// fractions. The caller makes sure that the scorer was not trained on these problems.
#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <kscout/measurement.h>
#include <kscout/types.h>

#include "dataset/compact_table.h"

namespace kscout {

// ---- Checks whether claimed probabilities match observed rates: the reliability table.
//
//     const Reliability r = reliability(claims);    // {0.7, true}, {0.4, false}, ...
//     r.holds();                                    // no bin with enough claims is off by more than 5 points

/// A claimed probability and the outcome.
struct Claim {
  double probability;
  bool right;
};

struct Reliability {
  static constexpr std::size_t min_claims = 30;  ///< bins with fewer are not checked
  static constexpr double tolerance = 0.05;      ///< max difference between claimed and observed

  struct Bin {
    std::size_t claims = 0;
    double claimed = 0;   ///< mean of the probabilities in the bin
    double observed = 0;  ///< share of claims that were right
    /// Standard error of `observed` if every claim is true.
    double standard_error = 0;
    bool checked() const noexcept { return claims >= min_claims; }
    /// True when the difference is within the tolerance, or the bin is not checked.
    bool holds() const noexcept;
  };

  std::size_t claims = 0;
  std::array<Bin, 10> bins{};  ///< bin i: probabilities from i / 10 to (i + 1) / 10
  double brier = 0;            ///< mean squared difference of claim and outcome; 0.25 = always claiming 0.5
  double claimed = 0;          ///< mean of all probabilities
  double observed = 0;         ///< share of all claims that were right
  double standard_error = 0;   ///< of `observed`, as in a bin
  /// True when no checked bin is off by more than the tolerance.
  bool holds() const noexcept;
  /// Whether any bin is checked; otherwise holds() means nothing.
  bool checked() const noexcept;
};

/// Leaves out claims outside [0, 1], also NaN.
Reliability reliability(std::span<const Claim> claims);

/// The result of a scorer for one problem: one score per config, higher is better; -infinity = cannot run.
struct Scores {
  std::vector<double> score;
  std::vector<double> tflops;  ///< predicted, one per config; empty without predictions
  /// Claimed probability that the first config is within 3 % of the best; NaN without a claim.
  double confidence = std::numeric_limits<double>::quiet_NaN();
};
using Scorer = std::function<Scores(const Problem& problem, std::span<const KernelConfig> configs)>;

/// The configs that a pick may come from, in family order (the order decides ties).
enum class Pool : std::uint8_t {
  measured,  ///< that have a row for the problem
  family,    ///< of the model
  accepted,  ///< that have a row whose status is not `unsupported`: a dispatcher skips those that are refused
};
template <>
struct EnumWords<Pool> {
  static constexpr std::string_view what = "pool";
  static constexpr std::array<std::string_view, 3> words = {"measured", "family", "accepted"};
};
using PoolOf = std::function<std::vector<KernelConfig>(const CompactTable& table, std::size_t problem)>;
/// The configs that have a row for the problem, whatever their status.
std::vector<KernelConfig> measured_pool(const CompactTable& table, std::size_t problem);
/// Those of measured_pool() that were not refused.
std::vector<KernelConfig> accepted_pool(const CompactTable& table, std::size_t problem);

/// Values of k for the top-k numbers.
inline constexpr std::array<std::size_t, 4> kTop = {1, 3, 5, 8};

struct PickedConfig {
  KernelConfig config;
  double efficiency = 0;  ///< time of the oracle / time of this config; 0 when not usable
  Measurement measured;   ///< the config's row in the CompactTable; a default one when unmeasured
  bool unmeasured = false;
  /// Timed less precisely than the oracle (measured_less_precisely): the efficiency may be far off.
  bool coarse = false;
  double predicted_tflops = Measurement::unknown;
};

struct ProblemResult {
  Problem problem;
  KernelConfig oracle;
  Measurement oracle_measured;            ///< as CompactTable holds it
  std::size_t pool = 0;                   ///< number of configs to choose from
  std::vector<PickedConfig> picks;        ///< best score first, at most kTop.back(); at least one
  std::array<double, kTop.size()> top{};  ///< best efficiency among the first k picks
  std::array<bool, kTop.size()> hit{};    ///< the oracle is among the first k picks
  double ndcg = 0;       ///< at kTop.back(), relevance = efficiency, discount 1 / log2(i + 1)
  bool tie = false;      ///< the pick is not the oracle, but their times do not differ significantly
  double pool_best = 0;  ///< efficiency of the pool's fastest config: the upper limit of any choice
  /// Claimed probability that the pick is within 3 % of the pool's fastest config.
  double confidence = Measurement::unknown;
  /// Rank of the pick by speed among the measured configs, from 1; 0 = not usable.
  std::size_t pick_place = 0;
  double regret_us = Measurement::unknown;  ///< time of the pick - time of the oracle; NaN when not usable

  double efficiency() const noexcept { return top[0]; }
  bool within_claim() const noexcept;  ///< the pick is within 3 % of the pool's fastest config
};

/// Means and percentiles over some problems, as fractions.
struct Summary {
  std::size_t problems = 0;
  double mean = 0, p90 = 0, p50 = 0, p10 = 0, p1 = 0, min = 0, max = 0;
  double weighted_mean = 0;  ///< weighted by calls
  std::array<double, kTop.size()> top_mean{};
  std::array<double, kTop.size()> hit_rate{};  ///< hit_rate[0] is called NDCG@1 in the public CK Tile tools
  double ndcg = 0;
  double pool_best = 0;  ///< mean efficiency of a perfect choice from the pool
  /// How much longer the picks take than the oracles; of usable picks, NaN without one.
  double regret_mean = Measurement::unknown, regret_p50 = Measurement::unknown,
         regret_p95 = Measurement::unknown, regret_max = Measurement::unknown;
  double within_2 = 0, within_5 = 0;  ///< shares of the problems whose pick takes at most 2 or 5 % longer
  std::size_t ties = 0;               ///< picks that are not the oracle, but equal it within noise
  std::size_t unmeasured = 0, failed = 0;  ///< picks that count as 0
  std::size_t coarse = 0;                  ///< picks that were timed less precisely than the oracle
  /// Mean over the problems whose pick is not coarse; NaN when every pick is coarse.
  double mean_without_coarse = 0;
};
Summary summarise(std::span<const ProblemResult* const> results);

/// Slice::by of the size classes.
inline constexpr std::string_view kSizeSlice = "gflop";

struct Slice {
  std::string by, value;  ///< "shape family", "tiny_m"
  Summary summary;
  Reliability reliability;  ///< claims = 0 when the scorer claims no confidence
};

/// Comparison of predicted with measured TFLOPS, over ok rows.
struct Calibration {
  std::size_t rows = 0;
  double r2 = 0, rmse = 0, mae = 0, mape = 0;  ///< rmse, mae in TFLOPS; mape a fraction
  struct Decade {
    double from;  ///< lower limit in TFLOPS, a power of ten; the upper limit is ten times that
    std::size_t rows;
    double mape, median_ratio;  ///< predicted / measured
  };
  std::vector<Decade> decades;
};

struct Evaluation {
  std::vector<ProblemResult> results;
  std::size_t without_oracle = 0;  ///< problems left out: no ok row
  Summary overall;
  std::vector<Slice> slices;
  Calibration calibration;  ///< rows = 0 when the scorer predicts no TFLOPS
  Reliability reliability;  ///< claims = 0 when the scorer claims no confidence
};

/// Throws invalid_argument when no problem has an ok row, or the scorer returns the wrong number of values.
Evaluation evaluate(const CompactTable& table, const Scorer& scorer, const PoolOf& pool);

// ---- Checks named limits of a model's quality.
//
//     const auto asked = target_criteria(Op::conv_fwd, evaluation.overall);
//     if (!all_met(asked)) ...

struct Criterion {
  std::string what;
  double value;
  std::string limit;  ///< "> 90 %"
  bool met;
};

bool all_met(std::span<const Criterion> criteria) noexcept;

/// Requires a value above a limit; both in percent.
Criterion above(std::string what, double value, double limit);

/// What the public CK Tile tools ask of a model of the op (Operation::quality_targets). Throws
/// invalid_argument where they ask nothing.
std::vector<Criterion> target_criteria(Op op, const Summary& summary);

}  // namespace kscout
