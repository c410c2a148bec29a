// Tests the confidence on problems with a known truth: data drawn from a known law.
#include "train/confidence.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "evaluate/evaluate.h"
#include "support/compact_tables.h"
#include "support/toy_model.h"
#include "train/region.h"

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
    for (std::size_t i = Confidence::first_size; i < 6; ++i) x[i] = 12 * fraction();
    x[6] = 0;  // batch 1 throughout
    x[7] = 1.5 * fraction();
    drawn.truth = logistic(1.5 * (x[0] + 3) + 0.4 * (x[2] + 3) - 0.85 * (x[7] - 0.75));
    const bool right = fraction() < drawn.truth;
    drawn.choice.efficiency = right ? 0.98 + 0.02 * fraction() : 0.4 + 0.5 * fraction();
    drawn.choice.fold = static_cast<std::uint32_t>(rng_() % 5);
    return drawn;
  }
  std::vector<ObservedChoice> choices(std::size_t count) {
    std::vector<ObservedChoice> choices;
    for (std::size_t i = 0; i < count; ++i) choices.push_back(draw().choice);
    return choices;
  }
  double fraction() { return static_cast<double>(rng_() >> 11) * 0x1p-53; }

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
    off += std::fabs(fit->confidence.probability(0, problem, log_tflops,
                                                 Confidence::inside + drawn.choice.inputs.back()) -
                     drawn.truth) /
           500;
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
    claims.push_back(
        {fit->confidence.probability(0, problem, log_tflops, Confidence::inside + drawn.choice.inputs.back()),
         drawn.choice.efficiency > 0.95});
  }
  const Reliability r = reliability(claims);
  EXPECT_TRUE(r.holds());
  std::size_t evaluated = 0;
  for (const auto& bin : r.bins) evaluated += bin.checked();
  EXPECT_EQ(evaluated, 10u);
}

TEST(Confidence, InputsThatTellNothingGiveTheRate) {
  World world(3);
  auto choices = world.choices(600);
  for (auto& choice : choices) {
    choice.efficiency = world.fraction() < 0.3 ? 1 : 0.5;
    choice.inputs.back() = 0;
  }
  const auto fit = fit_confidence(choices);
  ASSERT_TRUE(fit);
  for (const double p : fit->out_of_fold) EXPECT_NEAR(p, fit->within_rate, 0.15);
  EXPECT_NEAR(fit->log_loss, fit->log_loss_of_rate, 0.02);
}

TEST(Confidence, ChoicesOfFewSamplesDoNotCount) {
  World world(6);
  auto choices = world.choices(3000);
  const auto with_good_judges = fit_confidence(choices);
  for (auto& choice : choices) choice.reference_repeats = 100;
  for (auto choice : world.choices(2000)) {  // a lucky best makes good choices look bad
    choice.reference_repeats = 49;
    choice.efficiency *= 0.96;
    choices.push_back(choice);
  }
  const auto fit = fit_confidence(choices);
  EXPECT_EQ(fit->confidence.bias, with_good_judges->confidence.bias);
  EXPECT_EQ(fit->confidence.weight, with_good_judges->confidence.weight);
  EXPECT_EQ(fit->out_of_fold.size(), 3000u);

  choices.back().reference_repeats = 50;
  EXPECT_EQ(precisely_measured(choices).size(), 3001u) << "half as often is enough";
  choices.back().reference_repeats = 0;
  EXPECT_EQ(precisely_measured(choices).size(), 3001u) << "nobody knows how often";
}

TEST(Confidence, AllCountWhereFewWouldBeLeft) {
  World world(7);
  auto choices = world.choices(600);
  EXPECT_EQ(precisely_measured(choices).size(), 600u) << "nothing is said of repeats";
  for (std::size_t i = 0; i < kMinChoices - 1; ++i) choices[i].reference_repeats = 96;
  for (std::size_t i = kMinChoices - 1; i < choices.size(); ++i) choices[i].reference_repeats = 12;
  EXPECT_EQ(precisely_measured(choices).size(), 600u);
  choices.back().reference_repeats = 96;
  EXPECT_EQ(precisely_measured(choices).size(), kMinChoices);
  EXPECT_TRUE(precisely_measured({}).empty());
}

TEST(Confidence, ChoicesInsideTheRegionKeepTheSlopeOutside) {
  World world(5);
  auto choices = world.choices(500);
  for (auto& choice : choices) choice.inputs.back() = 0;
  const auto fit = fit_confidence(choices);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->confidence.weight.back(), -0.85);
  for (auto& choice : choices) choice.inputs[1] = -3;
  EXPECT_EQ(fit_confidence(choices)->confidence.weight[1], 0) << "an input that never varies";
  choices = world.choices(4000);
  for (auto& choice : choices) choice.inputs.back() /= -4;
  EXPECT_NEAR(fit_confidence(choices)->confidence.weight.back(), -0.85, 1e-3) << "whatever the choices show";
}

TEST(Confidence, TooLittleTellsNothing) {
  World world(4);
  EXPECT_FALSE(fit_confidence(world.choices(kMinChoices - 1)));
  auto alike = world.choices(200);
  for (auto& choice : alike) choice.efficiency = 1;
  EXPECT_FALSE(fit_confidence(alike)) << "nothing ever failed: no probability can be told";
}

TEST(Confidence, HasThreeLevels) {
  EXPECT_EQ(confidence_level(0.59), "low");
  EXPECT_EQ(confidence_level(0.6), "medium");
  EXPECT_EQ(confidence_level(0.79), "medium");
  EXPECT_EQ(confidence_level(0.8), "high");
  EXPECT_EQ(confidence_level(std::nan("")), "unknown");
}

TEST(Confidence, LessIsKnownBeyondTheSizesOfAnOlderModel) {
  Confidence c;
  c.low = {3, 3, 3, 0};
  c.high = {10, 10, 10, 0};
  c.bias = 1;
  c.weight[3] = 0.5;
  const std::vector<double> two = {0, -0.1};
  const double inside = c.probability(0, make_gemm(1024, 64, 64), two, 0);
  EXPECT_EQ(inside, logistic(1 + 0.5 * 10));
  EXPECT_EQ(c.probability(0, make_gemm(2048, 64, 64), two, 0), inside / 2);
  EXPECT_EQ(c.probability(0, make_gemm(1024, 64, 4), two, 0), inside / 2);
  EXPECT_EQ(c.probability(0, make_gemm(4096, 64, 2), two, 0), inside / 16);
  EXPECT_EQ(c.probability(0, make_gemm(0, 64, 64), two, 0), logistic(1 + 0.5 * 3) / 8)
      << "size 0 counts as 1";
  EXPECT_EQ(c.probability(0, make_gemm(8, 8, 8), std::vector<double>{0}, 0), 1)
      << "the only config is the best";
}

Confidence toy_confidence() {
  Confidence c;
  c.bias = -0.25;
  c.weight = {0.5, 0.25, -0.125, 0.0625, 0, 0.1, 0, 0};
  c.high = {12, 12, 12, 0};
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
  const std::vector<double> log_tflops = {std::log(0.5), std::log(0.4), std::log(0.3)};
  for (std::size_t f = 0; f < 2; ++f) {
    EXPECT_EQ(again.confidence(again.data().families[f], p, Target::relative, tflops),
              data.confidence->probability(f, p, log_tflops, 0));
  }
  const Family& first = again.data().families[0];
  EXPECT_TRUE(std::isnan(again.confidence(first, p, Target::tflops, tflops)))
      << "calibrated for the default target";
  const Model toy = toy::model();
  EXPECT_TRUE(std::isnan(toy.confidence(toy.data().families[0], p, Target::relative, tflops)));
}

TEST(Confidence, FamiliesMayHaveABiasOfTheirOwn) {
  Confidence c = toy_confidence();
  const GemmProblem p = make_gemm(64, 64, 64);
  const std::vector<double> two = {0, -0.1};
  const double common = c.probability(1, p, two, 0);
  EXPECT_EQ(c.probability(0, p, two, 0), common);
  c.family_bias = {0, -1.25};
  EXPECT_EQ(c.probability(0, p, two, 0), common);
  const auto log_odds = [](double probability) { return std::log(probability / (1 - probability)); };
  EXPECT_NEAR(log_odds(c.probability(1, p, two, 0)), log_odds(common) - 1.25, 1e-12);

  ModelData data = toy::model().data();
  data.confidence = toy_confidence();
  const std::string without = Model(ModelData(data)).bytes();
  EXPECT_EQ(without.find("family_bias"), std::string::npos) << "as files were written before";
  EXPECT_TRUE(Model::parse(without).data().confidence->family_bias.empty());
  data.confidence = c;
  const Model model{ModelData(data)};
  EXPECT_EQ(Model::parse(model.bytes()).data().confidence, c);
}

TEST(Confidence, ReadsTheDistanceToTheTrainedProblems) {
  ModelData data = toy::model().data();
  Confidence c;
  c.bias = 1;
  c.weight.back() = -0.5;
  data.confidence = c;
  data.region = Region{{{{96, 96, 96, 0}}, {{64, 64, 64, 0}}}};  // 64 x 64 x 64, and 16 x 16 x 16
  const Model model{ModelData(data)};
  const Model again = Model::parse(model.bytes());
  EXPECT_EQ(again.data().confidence, c);
  EXPECT_EQ(again.data().region, data.region);
  EXPECT_EQ(again.bytes(), model.bytes());
  const std::vector<double> tflops = {0.5, 0.4};
  const auto claimed = [&](std::size_t f, std::int64_t m) {
    return again.confidence(again.data().families[f], make_gemm(m, 64, 64), Target::relative, tflops);
  };
  EXPECT_EQ(claimed(0, 64), logistic(1));
  EXPECT_NEAR(claimed(0, 64 << 4), logistic(1 - 0.5 * (4 - Confidence::inside)), 1e-12);
  EXPECT_NEAR(claimed(1, 64), logistic(1 - 0.5 * (std::sqrt(12) - Confidence::inside)), 1e-12);
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
  refused([](Confidence& c) { c.family_bias = {0.5}; });
  refused([](Confidence& c) { c.family_bias = {0.5, 0, 0}; });
  refused([](Confidence& c) { c.family_bias = {0, std::nan("")}; });
  refused([](Confidence& c) { c.family_bias = {-HUGE_VAL, 0}; });
}

TEST(ObservedChoices, AreWhatTheScoresWouldHaveChosen) {
  const MeasurementTable table = toy::measurements(80, 6);
  const std::vector<Family> families = {toy::family(Layout::rcr), toy::family(Layout::crr)};
  const TrainingSet set = make_training_set(test::compact({&table, 1}), families, *toy::schema());
  std::vector<std::uint32_t> fold_of(set.problems.size());
  for (std::size_t p = 0; p < fold_of.size(); ++p) fold_of[p] = static_cast<std::uint32_t>(p % 4);
  // Scores that know the truth: every choice is the best, and the gaps are those of the true speeds.
  std::vector<double> truth;
  for (std::size_t r = 0; r < set.row_count(); ++r) {
    const double tflops = set.tflops(set.problem_of(r), r);
    truth.push_back(tflops > 0 ? std::log(tflops) : -20);
  }
  ModelTarget target;
  target.target = Target::relative;
  target.slope = 0.5;
  const auto choices = observed_choices(set, target, truth, fold_of, families);
  ASSERT_EQ(choices.size(), set.problems.size());
  double farthest = 0;
  for (const ObservedChoice& choice : choices) {
    EXPECT_GE(choice.inputs.back(), 0);
    farthest = std::max(farthest, choice.inputs.back());
    // A row pruned early may be faster than the best that ended well; it counts as 1.
    EXPECT_EQ(choice.efficiency, 1);
    EXPECT_EQ(choice.reference_repeats, table.rows.front().measured.repeats);
    EXPECT_LE(choice.inputs[0], choice.inputs[1]);
    EXPECT_LE(choice.inputs[1], choice.inputs[2]);
  }
  EXPECT_GT(farthest, 0) << "from the problems of the other folds";
}

TEST(FitRegion, HasPrototypesOfEachFamilysProblems) {
  const MeasurementTable table = toy::measurements(80, 6);
  const std::vector<Family> families = {toy::family(Layout::rcr), toy::family(Layout::crr)};
  const TrainingSet set = make_training_set(test::compact({&table, 1}), families, *toy::schema());
  const Region region = fit_region(set, families, [](std::size_t) { return true; });
  check(region, families.size());
  double sum = 0;
  for (std::size_t p = 0; p < set.problems.size(); ++p)
    sum += region.distance(signature_of(set.problems[p]) == families[1].signature, set.problems[p]);
  EXPECT_LT(sum / static_cast<double>(set.problems.size()), 0.05) << "fewer problems than prototypes";
  EXPECT_EQ(fit_region(set, families, [](std::size_t) { return true; }), region);

  const Region one = fit_region(set, families, [](std::size_t p) { return p == 0; });
  ASSERT_EQ(one.prototypes[0].size(), 1u);
  EXPECT_EQ(one.prototypes[0], one.prototypes[1]) << "a family without problems gets those of all";
  EXPECT_LT(one.distance(0, set.problems[0]), 0.07) << "prototypes are rounded to 1/16 octave";
}

TEST(FitRegion, AnEpilogueHasThePrototypesOfTheSignatureWithoutIt) {
  const MeasurementTable table = toy::measurements(80, 6);
  std::vector<Family> families = {toy::family(Layout::rcr), toy::family(Layout::crr)};
  const TrainingSet set = make_training_set(test::compact({&table, 1}), families, *toy::schema());
  const auto all = [](std::size_t) { return true; };
  const Region plain = fit_region(set, families, all);
  families.push_back(families[1]);
  families.back().signature.epilogue = Epilogue::bias;
  const Region region = fit_region(set, families, all);
  ASSERT_EQ(region.prototypes.size(), 3u);
  EXPECT_EQ(region.prototypes[2], plain.prototypes[1]);
  EXPECT_EQ(region.prototypes[0], plain.prototypes[0]) << "no fewer than without";
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
  EXPECT_FALSE(r.bins[9].checked());
  EXPECT_FALSE(r.holds());
  EXPECT_TRUE(reliability(std::span(claims).first(40)).holds());
  EXPECT_EQ(reliability({}).claims, 0u);
}

}  // namespace
}  // namespace kscout
