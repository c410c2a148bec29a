// Claims of probability are tested on problems of which the truth is known: data drawn from a known law.
#include "train/confidence.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "evaluate/reliability.h"
#include "support/toy_model.h"

namespace kscout {
namespace {

/// Draws choices whose probability of being right is a known function of two of the inputs.
class World {
 public:
  explicit World(std::uint64_t seed) : rng_(seed) {}

  struct Drawn {
    ObservedChoice choice;
    double truth;  ///< probability of being right
  };
  Drawn draw() {
    Drawn drawn;
    Confidence::Inputs& x = drawn.choice.inputs;
    for (std::size_t i = 0; i < Confidence::first_size; ++i) x[i] = -5 + 4 * fraction();
    for (std::size_t i = Confidence::first_size; i < x.size(); ++i) x[i] = 12 * fraction();
    x.back() = 0;  // batch 1 throughout
    drawn.truth = logistic(1.5 * (x[0] + 3) + 0.4 * (x[3] - 6));
    const bool right = fraction() < drawn.truth;
    drawn.choice.efficiency = right ? 0.98 + 0.02 * fraction() : 0.4 + 0.5 * fraction();
    drawn.choice.static_efficiency = static_efficiency;
    drawn.choice.fold = static_cast<std::uint32_t>(rng_() % 5);
    return drawn;
  }
  std::vector<ObservedChoice> choices(std::size_t count) {
    std::vector<ObservedChoice> choices;
    for (std::size_t i = 0; i < count; ++i) choices.push_back(draw().choice);
    return choices;
  }
  double fraction() { return static_cast<double>(rng_() >> 11) * 0x1p-53; }

  double static_efficiency = 0.2;

 private:
  std::mt19937_64 rng_;
};

/// A problem and predictions that have these inputs.
std::pair<GemmProblem, std::vector<double>> problem_with(const Confidence::Inputs& x) {
  const auto size = [](double log2) { return static_cast<std::int64_t>(std::llround(std::exp2(log2))); };
  GemmProblem p = make_gemm(size(x[3]), size(x[4]), size(x[5]));
  p.batch = size(x[6]);
  std::vector<double> log_tflops(Confidence::top, -(std::exp(x[1]) - 0.003));
  log_tflops[0] = 0;
  log_tflops[1] = -(std::exp(x[0]) - 0.003);
  log_tflops.back() = -(std::exp(x[2]) - 0.003);
  return {p, log_tflops};
}

TEST(Confidence, FindsTheTrueProbabilities) {
  World world(1);
  const auto fit = fit_confidence(world.choices(4000));
  ASSERT_TRUE(fit);
  double off = 0;
  for (int i = 0; i < 500; ++i) {
    const World::Drawn drawn = world.draw();
    const auto [problem, log_tflops] = problem_with(drawn.choice.inputs);
    off += std::fabs(fit->confidence.probability(problem, log_tflops) - drawn.truth) / 500;
  }
  EXPECT_LT(off, 0.02) << "mean difference of claimed and true probability";
  EXPECT_LT(fit->log_loss, 0.85 * fit->log_loss_of_rate);
}

TEST(Confidence, ClaimsHoldOnProblemsNeverSeen) {
  World world(2);
  const auto fit = fit_confidence(world.choices(1500));
  ASSERT_TRUE(fit);
  std::vector<Claim> claims;
  for (int i = 0; i < 20000; ++i) {
    const World::Drawn drawn = world.draw();
    const auto [problem, log_tflops] = problem_with(drawn.choice.inputs);
    claims.push_back({fit->confidence.probability(problem, log_tflops), drawn.choice.efficiency > 0.95});
  }
  const Reliability r = reliability(claims);
  EXPECT_TRUE(r.holds());
  std::size_t judged = 0;
  for (const auto& bin : r.bins) judged += bin.judged();
  EXPECT_EQ(judged, 10u);
}

TEST(Confidence, InputsThatTellNothingGiveTheRate) {
  World world(3);
  auto choices = world.choices(600);
  for (std::size_t i = 0; i < choices.size(); ++i) choices[i].efficiency = world.fraction() < 0.3 ? 1 : 0.5;
  const auto fit = fit_confidence(choices);
  ASSERT_TRUE(fit);
  for (const double p : fit->out_of_fold) EXPECT_NEAR(p, fit->within_rate, 0.15);
  EXPECT_NEAR(fit->log_loss, fit->log_loss_of_rate, 0.02);
}

TEST(Confidence, ChoicesThatWereHardlyJudgedDoNotCount) {
  World world(6);
  auto choices = world.choices(3000);
  const auto with_good_judges = fit_confidence(choices);
  for (auto& choice : choices) choice.judge_repeats = 100;
  for (auto choice : world.choices(2000)) {  // a lucky best makes good choices look bad
    choice.judge_repeats = 49;
    choice.efficiency *= 0.96;
    choices.push_back(choice);
  }
  choices.back().inputs[Confidence::first_size] = 15;  // larger than any other
  const auto fit = fit_confidence(choices);
  EXPECT_EQ(fit->confidence.bias, with_good_judges->confidence.bias);
  EXPECT_EQ(fit->confidence.weight, with_good_judges->confidence.weight);
  EXPECT_EQ(fit->out_of_fold.size(), 3000u);
  EXPECT_EQ(fit->confidence.high[0], 15) << "its size was trained on all the same";

  choices.back().judge_repeats = 50;
  EXPECT_EQ(well_judged(choices).size(), 3001u) << "half as often is enough";
  choices.back().judge_repeats = 0;
  EXPECT_EQ(well_judged(choices).size(), 3001u) << "nobody knows how often";
}

TEST(Confidence, AllCountWhereFewWouldBeLeft) {
  World world(7);
  auto choices = world.choices(600);
  EXPECT_EQ(well_judged(choices).size(), 600u) << "nothing is said of repeats";
  for (std::size_t i = 0; i < kLeastChoices - 1; ++i) choices[i].judge_repeats = 96;
  for (std::size_t i = kLeastChoices - 1; i < choices.size(); ++i) choices[i].judge_repeats = 12;
  EXPECT_EQ(well_judged(choices).size(), 600u);
  choices.back().judge_repeats = 96;
  EXPECT_EQ(well_judged(choices).size(), kLeastChoices);
  EXPECT_TRUE(well_judged({}).empty());
}

TEST(Confidence, TooLittleTellsNothing) {
  World world(4);
  EXPECT_FALSE(fit_confidence(world.choices(kLeastChoices - 1)));
  auto alike = world.choices(200);
  for (auto& choice : alike) choice.efficiency = 1;
  EXPECT_FALSE(fit_confidence(alike)) << "nothing ever failed: no probability can be told";
}

TEST(Confidence, FloorIsSetWhereTheStaticConfigDoesBetter) {
  World world(5);
  world.static_efficiency = 0.85;  // the pick: 0.99 when right, 0.65 when not: better above about 0.59
  const auto choices = world.choices(3000);
  const auto fit = fit_confidence(choices);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->confidence.floor, 0.59, 0.1);
  EXPECT_GT(fit->floor_efficiency, fit->efficiency + 0.01);
  EXPECT_GT(fit->floor_efficiency, fit->static_efficiency + 0.01);
  double with_floor = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const bool below = fit->out_of_fold[i] < fit->confidence.floor;
    with_floor += (below ? choices[i].static_efficiency : choices[i].efficiency) / 3000;
  }
  EXPECT_NEAR(with_floor, fit->floor_efficiency, 1e-9);

  world.static_efficiency = 0.3;
  EXPECT_EQ(fit_confidence(world.choices(3000))->confidence.floor, 0) << "the model is better everywhere";
  world.static_efficiency = 1;
  EXPECT_EQ(fit_confidence(world.choices(3000))->confidence.floor, 1) << "the static config is, everywhere";
}

TEST(Confidence, LessIsKnownBeyondTheTrainedSizes) {
  Confidence c;
  c.low = {3, 3, 3, 0};
  c.high = {10, 10, 10, 0};
  c.bias = 1;
  c.weight[3] = 0.5;
  const std::vector<double> two = {0, -0.1};
  const double inside = c.probability(make_gemm(1024, 64, 64), two);
  EXPECT_EQ(inside, logistic(1 + 0.5 * 10));
  EXPECT_EQ(c.probability(make_gemm(2048, 64, 64), two), inside / 2);
  EXPECT_EQ(c.probability(make_gemm(1024, 64, 4), two), inside / 2);
  EXPECT_EQ(c.probability(make_gemm(4096, 64, 2), two), inside / 16);
  EXPECT_EQ(c.probability(make_gemm(0, 64, 64), two), logistic(1 + 0.5 * 3) / 8) << "size 0 counts as 1";
  EXPECT_EQ(c.probability(make_gemm(8, 8, 8), std::vector<double>{0}), 1) << "the only config is the best";
}

Confidence toy_confidence() {
  Confidence c;
  c.bias = -0.25;
  c.weight = {0.5, 0.25, -0.125, 0.0625, 0, 0.1, 0};
  c.high = {12, 12, 12, 0};
  c.floor = 0.375;
  c.floor_probability = 0.2;
  c.static_configs = {5, 11};
  return c;
}

TEST(Confidence, TravelsInTheFile) {
  ModelData data = toy::model().data();
  data.confidence = toy_confidence();
  const Model model{ModelData(data)};
  const Model again = Model::parse(model.bytes());
  EXPECT_EQ(again.data().confidence, data.confidence);
  EXPECT_EQ(again.bytes(), model.bytes());
  EXPECT_FALSE(Model::parse(toy::model().bytes()).data().confidence);

  const GemmProblem p = make_gemm(64, 64, 64);
  const std::vector<double> tflops = {0.5, 0.4, 0.3};
  EXPECT_EQ(
      again.confidence(p, Target::relative, tflops),
      data.confidence->probability(p, std::vector<double>{std::log(0.5), std::log(0.4), std::log(0.3)}));
  EXPECT_TRUE(std::isnan(again.confidence(p, Target::tflops, tflops))) << "calibrated for the default target";
  EXPECT_TRUE(std::isnan(toy::model().confidence(p, Target::relative, tflops)));
  EXPECT_EQ(again.static_instead(again.data().families[1], 0.3), 11u);
  EXPECT_EQ(again.static_instead(again.data().families[1], 0.375), std::nullopt);
  EXPECT_EQ(again.static_instead(again.data().families[1], std::nan("")), std::nullopt);
}

TEST(Confidence, WrongOnesAreRefused) {
  const auto refused = [](auto&& change) {
    ModelData data = toy::model().data();
    data.confidence = toy_confidence();
    change(*data.confidence);
    EXPECT_THROW(Model(std::move(data)), Error);
  };
  refused([](Confidence& c) { c.bias = std::nan(""); });
  refused([](Confidence& c) { c.weight[3] = HUGE_VAL; });
  refused([](Confidence& c) { c.low[0] = 13; });
  refused([](Confidence& c) { c.floor = 1.5; });
  refused([](Confidence& c) { c.floor_probability = -0.1; });
  refused([](Confidence& c) { c.static_configs.pop_back(); });
  refused([](Confidence& c) { c.static_configs[0] = 12; });
}

TEST(ObservedChoices, AreWhatTheScoresWouldHaveChosen) {
  const MeasurementTable table = toy::measurements(80, 6);
  const std::vector<Family> families = {toy::family(Layout::rcr), toy::family(Layout::crr)};
  const TrainingSet set = make_training_set(std::span(&table, 1), families, *toy::schema());
  std::vector<std::uint32_t> fold_of(set.problems.size());
  for (std::size_t p = 0; p < fold_of.size(); ++p) fold_of[p] = static_cast<std::uint32_t>(p % 4);
  // Scores that know the truth: every choice is the best, and the gaps are those of the true speeds.
  std::vector<double> truth;
  for (const auto& row : set.rows) truth.push_back(row.tflops > 0 ? std::log(row.tflops) : -20);
  TargetForest target;
  target.target = Target::relative;
  target.slope = 0.5;
  const auto choices = observed_choices(set, target, truth, fold_of, families);
  ASSERT_EQ(choices.size(), set.problems.size());
  double fixed = 0;
  for (const ObservedChoice& choice : choices) {
    // A raced row may be faster than the best that ended well; it counts as 1.
    EXPECT_EQ(choice.efficiency, 1);
    EXPECT_EQ(choice.judge_repeats, table.rows.front().measured.repeats);
    EXPECT_LE(choice.inputs[0], choice.inputs[1]);
    EXPECT_LE(choice.inputs[1], choice.inputs[2]);
    fixed += choice.static_efficiency / static_cast<double>(choices.size());
  }
  EXPECT_GT(fixed, 0.5);
  EXPECT_LT(fixed, 1);

  const auto statics = best_statics(set, families);
  ASSERT_EQ(statics.size(), 2u);
  for (std::size_t f = 0; f < families.size(); ++f) {  // against the obvious way
    std::vector<double> sum(12);
    for (std::size_t p = 0; p < set.problems.size(); ++p) {
      if (signature_of(set.problems[p]).layout != families[f].signature.layout) continue;
      for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r) {
        for (std::size_t c = 0; c < 12; ++c) {
          if (set.configs[set.rows[r].config] == families[f].configs[c]) {
            sum[c] += std::min(set.rows[r].tflops / set.best_tflops[p], 1.0);
          }
        }
      }
    }
    EXPECT_EQ(statics[f], std::ranges::max_element(sum) - sum.begin());
  }
}

TEST(Reliability, CountsByTenths) {
  std::vector<Claim> claims;
  for (int i = 0; i < 40; ++i) claims.push_back({0.75, i % 4 != 0});  // 30 of 40: exactly as claimed
  for (int i = 0; i < 40; ++i) claims.push_back({0.25, i % 2 == 0});  // a half: 25 points off
  for (int i = 0; i < 29; ++i) claims.push_back({1.0, false});        // far off, but too few
  claims.push_back({std::nan(""), true});
  const Reliability r = reliability(claims);
  EXPECT_EQ(r.claims, 109u);
  EXPECT_EQ(r.bins[7].claims, 40u);
  EXPECT_EQ(r.bins[7].observed, 0.75);
  EXPECT_TRUE(r.bins[7].holds());
  EXPECT_NEAR(r.bins[7].standard_error, std::sqrt(0.75 * 0.25 / 40), 1e-12);
  EXPECT_FALSE(r.bins[2].holds());
  EXPECT_EQ(r.bins[9].claims, 29u);
  EXPECT_TRUE(r.bins[9].holds());
  EXPECT_FALSE(r.bins[9].judged());
  EXPECT_FALSE(r.holds());
  EXPECT_TRUE(reliability(std::span(claims).first(40)).holds());
  EXPECT_EQ(reliability({}).claims, 0u);
}

}  // namespace
}  // namespace kscout
