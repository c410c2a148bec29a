#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <kscout/provider.h>

#include "select/compiled_family.h"
#include "train/shortlist.h"

namespace kscout {
namespace {

/// 120 configs of the native family, without rules about the problem.
Family family_of_120() {
  const Family all = enumerate({.provider = "native",
                                .signature = signature_of(make_gemm(1, 1, 1, DType::fp32, Layout::rrr)),
                                .device = device_preset("epyc-7763"),
                                .rules = "full",
                                .filter = {}});
  Family family = all;
  family.applicability.clear();
  family.configs = ConfigTable(all.configs.space());
  family.traits.clear();
  family.default_config = 0;
  for (std::size_t i = 0; i < 120; ++i) {
    family.configs.push_back(all.configs[i]);
    family.traits.push_back(all.traits[i]);
  }
  return family;
}

/// Measurements of all configs: how fast config c is for a problem says `efficiency(problem, c)`.
template <class Efficiency>
TrainingSet measured(const Family& family, std::size_t problems, Efficiency&& efficiency) {
  std::mt19937_64 random(problems);
  TrainingSet set;
  for (std::size_t c = 0; c < family.configs.size(); ++c) set.configs.push_back(family.configs[c]);
  set.first_row.push_back(0);
  const auto size = [&] {
    return static_cast<std::int64_t>(std::exp2(static_cast<double>(random() % 1200) / 100));
  };
  for (std::size_t p = 0; p < problems; ++p) {
    const GemmProblem problem = make_gemm(size(), size(), size(), DType::fp32, Layout::rrr);
    double best = 0;
    for (std::uint32_t c = 0; c < family.configs.size(); ++c) {
      const double tflops = efficiency(problem, c);
      set.rows.push_back(
          {.time_us = 1 / tflops, .config = c, .repeats = 10, .pruned_early = 0, .handicapped = 0});
    }
    set.flops.push_back(1e6);
    for (std::size_t r = set.first_row[p]; r < set.row_count(); ++r) best = std::max(best, set.tflops(p, r));
    set.problems.push_back(problem);
    set.best_tflops.push_back(best);
    set.first_row.push_back(static_cast<std::uint32_t>(set.rows.size()));
  }
  return set;
}

/// Scores that know the truth.
std::vector<double> true_scores(const TrainingSet& set) {
  std::vector<double> scores;
  for (std::size_t r = 0; r < set.row_count(); ++r) scores.push_back(set.tflops(set.problem_of(r), r));
  return scores;
}

std::vector<std::uint32_t> four_folds(const TrainingSet& set) {
  std::vector<std::uint32_t> folds;
  for (std::size_t p = 0; p < set.problems.size(); ++p) folds.push_back(static_cast<std::uint32_t>(p % 4));
  return folds;
}

/// Each config is best for an octave of m and one of n; neighbours lose 10 % per octave.
double of_octaves(const GemmProblem& problem, std::uint32_t config) {
  const double m = std::log2(static_cast<double>(problem.m)), n = std::log2(static_cast<double>(problem.n));
  return std::exp(-0.1 * (std::fabs(m - 0.5 - config % 12) + std::fabs(n - 0.5 - 1.2 * (config / 12))));
}

TEST(ShortlistTraining, FindsWhichConfigsAProblemNeeds) {
  const Family family = family_of_120();
  const TrainingSet set = measured(family, 400, of_octaves);
  const ShortlistFit fit =
      fit_shortlist(set, std::span(&family, 1), four_folds(set), true_scores(set), false, 1);
  EXPECT_EQ(fit.problems, 400u);
  EXPECT_EQ(fit.mean_all, 1);
  EXPECT_LT(fit.mean_loss(), ShortlistFit::max_loss);
  ASSERT_TRUE(fit.shortlist);
  check(*fit.shortlist);
  EXPECT_EQ(fit.shortlist->configs.size(), 120u);
  std::size_t bytes = 0;
  for (const Shortlist::Layer& layer : fit.shortlist->layers) bytes += layer.weights.size();
  EXPECT_LE(bytes, 128u << 10);

  // The rounded network keeps the best config of problems that it never saw.
  const TrainingSet fresh = measured(family, 300, of_octaves);
  const FamilyOutputs outputs = outputs_of(*fit.shortlist, family.configs);
  const std::vector<std::uint8_t> all(120, 1), none(120, 0);
  std::vector<std::uint8_t> kept(120);
  ShortlistScratch scratch;
  double sum = 0;
  for (std::size_t p = 0; p < fresh.problems.size(); ++p) {
    keep_top(rate(*fit.shortlist, outputs, fresh.problems[p], family.device.cores, scratch), all, none,
             kShortlisted, kept);
    double best = 0;
    for (std::size_t c = 0; c < 120; ++c)
      best = std::max(best, kept[c] * fresh.tflops(p, fresh.first_row[p] + c));
    sum += best / fresh.best_tflops[p] / 300;
  }
  EXPECT_GT(sum, 0.998);
}

TEST(ShortlistTraining, OneThatCostsTooMuchIsLeftOut) {
  const Family family = family_of_120();
  std::mt19937_64 random(3);
  const TrainingSet set = measured(family, 200, [&](const GemmProblem&, std::uint32_t) {
    return random() % 40 == 0 ? 1.0 : 0.5;  // nothing about the problem tells which
  });
  const ShortlistFit fit =
      fit_shortlist(set, std::span(&family, 1), four_folds(set), true_scores(set), false, 1);
  EXPECT_GT(fit.mean_loss(), ShortlistFit::max_loss);
  EXPECT_FALSE(fit.shortlist);
}

TEST(ShortlistTraining, SmallFamiliesHaveNone) {
  Family family = family_of_120();
  const TrainingSet set = measured(family, 50, of_octaves);
  ConfigTable few(family.configs.space());
  for (std::size_t i = 0; i < kNoShortlistFamily; ++i) few.push_back(family.configs[i]);
  family.configs = few;
  family.traits.resize(kNoShortlistFamily);
  const ShortlistFit fit =
      fit_shortlist(set, std::span(&family, 1), four_folds(set), true_scores(set), false, 1);
  EXPECT_EQ(fit.problems, 0u);
  EXPECT_FALSE(fit.shortlist);
}

TEST(ShortlistTraining, EqualDataGiveEqualBytes) {
  const Family family = family_of_120();
  const TrainingSet set = measured(family, 60, of_octaves);
  const auto all = [](std::size_t) { return true; };
  const auto first = train_shortlist(set, std::span(&family, 1), all, 5);
  const auto second = train_shortlist(set, std::span(&family, 1), all, 5);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(shortlist_bytes(*first), shortlist_bytes(*second));
  EXPECT_NE(shortlist_bytes(*first), shortlist_bytes(*train_shortlist(set, std::span(&family, 1), all, 6)));
}

}  // namespace
}  // namespace kscout
