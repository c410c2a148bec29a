// Tests the confidence on problems with a known truth: data drawn from a known law.
#include "train/confidence.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "evaluate/evaluate.h"
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
    off += std::fabs(fit->confidence.probability(0, problem, log_tflops) - drawn.truth) / 500;
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
    claims.push_back({fit->confidence.probability(0, problem, log_tflops), drawn.choice.efficiency > 0.95});
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
  for (std::size_t i = 0; i < choices.size(); ++i) choices[i].efficiency = world.fraction() < 0.3 ? 1 : 0.5;
  const auto fit = fit_confidence(choices);
  ASSERT_TRUE(fit);
  for (const double p : fit->claimed) EXPECT_NEAR(p, fit->within_rate, 0.15);
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
  choices.back().inputs[Confidence::first_size] = 15;  // larger than any other
  const auto fit = fit_confidence(choices);
  EXPECT_EQ(fit->confidence.bias, with_good_judges->confidence.bias);
  EXPECT_EQ(fit->confidence.weight, with_good_judges->confidence.weight);
  EXPECT_EQ(fit->claimed.size(), 3000u);
  EXPECT_EQ(fit->confidence.high[0], 15) << "its size was trained on all the same";

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

/// Choices whose best is known by 50 to 100 samples: with each halving of them the log of the odds falls by
/// `harm`, as a lucky best makes good choices look bad.
std::vector<ObservedChoice> measured_by_few(World& world, std::size_t count, double harm) {
  std::vector<ObservedChoice> choices;
  for (std::size_t i = 0; i < count; ++i) {
    World::Drawn drawn = world.draw();
    drawn.choice.reference_repeats = std::round(50 * std::exp2(world.fraction()));
    const double odds =
        std::log(drawn.truth / (1 - drawn.truth)) - harm * std::log2(100 / drawn.choice.reference_repeats);
    drawn.choice.efficiency = world.fraction() < logistic(odds) ? 0.99 : 0.6;
    choices.push_back(drawn.choice);
  }
  return choices;
}

/// Mean difference of claimed and true probability.
double bias_of_claims(const Confidence& confidence, World& world) {
  double off = 0;
  for (int i = 0; i < 500; ++i) {
    const World::Drawn drawn = world.draw();
    const auto [problem, log_tflops] = problem_with(drawn.choice.inputs);
    off += (confidence.probability(0, problem, log_tflops) - drawn.truth) / 500;
  }
  return off;
}

TEST(Confidence, ClaimsAreAsTheBestMeasuredProblemsWouldShowThem) {
  World world(8);
  auto choices = measured_by_few(world, 6000, 2);
  const auto fit = fit_confidence(choices);
  EXPECT_NEAR(bias_of_claims(fit->confidence, world), 0, 0.04) << "its number is a little less than 100";
  EXPECT_NEAR(fit->families[0].as_seen, fit->within_rate, 0.005);
  EXPECT_GT(fit->families[0].claimed, fit->within_rate + 0.05) << "half a doubling, on average";
  EXPECT_NEAR(*fit->claimed_for_repeats, 97, 2);

  choices.front().reference_repeats = 0;  // one is not known: no choice is told by them
  EXPECT_LT(bias_of_claims(fit_confidence(choices)->confidence, world), -0.1);
}

TEST(Confidence, MoreSamplesNeverLowerAClaim) {
  World world(9);
  auto choices = measured_by_few(world, 6000, -2);
  const auto fit = fit_confidence(choices);
  choices.front().reference_repeats = 0;
  EXPECT_EQ(fit->confidence, fit_confidence(choices)->confidence);
  EXPECT_FALSE(fit->claimed_for_repeats);
}

/// Choices of two families, of which the second is right less often by `harder` in the log of the odds.
std::vector<ObservedChoice> two_families(World& world, std::size_t first, std::size_t second, double harder) {
  auto choices = world.choices(first);
  for (std::size_t i = 0; i < second; ++i) {
    World::Drawn drawn = world.draw();
    const double truth = logistic(std::log(drawn.truth / (1 - drawn.truth)) - harder);
    drawn.choice.family = 1;
    drawn.choice.efficiency = world.fraction() < truth ? 1 : 0.5;
    choices.push_back(drawn.choice);
  }
  return choices;
}

TEST(Confidence, FamiliesAreToldApart) {
  World world(8);
  const auto choices = two_families(world, 3000, 300, 2);
  const auto together = fit_confidence(choices, 2);
  ASSERT_TRUE(together);
  const std::vector<double>& bias = together->confidence.family_bias;
  ASSERT_EQ(bias.size(), 2u);
  EXPECT_NEAR(bias[0] - bias[1], 2, 0.4);
  for (std::size_t f = 0; f < 2; ++f) {
    EXPECT_NEAR(together->families[f].as_seen, together->families[f].within_rate, 0.015);
  }
  EXPECT_EQ(together->families[1].choices, 300u);

  auto unnamed = choices;
  for (auto& choice : unnamed) choice.family = 0;
  const auto common = fit_confidence(unnamed);
  EXPECT_TRUE(common->confidence.family_bias.empty()) << "there is one family only";
  EXPECT_LT(together->log_loss, common->log_loss);
}

TEST(Confidence, FamiliesOfFewChoicesHaveTheCommonBias) {
  World world(9);
  auto choices = two_families(world, 1500, 400, 2);
  for (std::size_t i = 0; i < kMinChoices - 1; ++i) {
    choices.push_back(world.draw().choice);
    choices.back().family = 2;
  }
  auto fit = fit_confidence(choices, 4);
  ASSERT_EQ(fit->confidence.family_bias.size(), 4u);
  EXPECT_NE(fit->confidence.family_bias[0], 0);
  EXPECT_EQ(fit->confidence.family_bias[2], 0) << "one choice too few";
  EXPECT_EQ(fit->confidence.family_bias[3], 0) << "no choice at all";
  EXPECT_TRUE(std::isnan(fit->families[3].within_rate));
  choices.push_back(choices.back());
  fit = fit_confidence(choices, 4);
  EXPECT_NE(fit->confidence.family_bias[2], 0) << "enough";

  EXPECT_TRUE(
      fit_confidence(two_families(world, 1500, kMinChoices - 1, 2), 2)->confidence.family_bias.empty())
      << "nothing to tell the first from";
}

TEST(Confidence, ABiasHasABound) {
  World world(10);
  // All are right: nothing but the pull keeps the bias of their family finite.
  auto choices = two_families(world, 1500, kMinChoices, 0);
  for (auto& choice : choices) {
    if (choice.family == 1) choice.efficiency = 1;
  }
  const auto fit = fit_confidence(choices, 2);
  ASSERT_EQ(fit->confidence.family_bias.size(), 2u);
  EXPECT_GT(fit->confidence.family_bias[1], 0.3);
  EXPECT_LT(fit->confidence.family_bias[1], 3);
}

TEST(Confidence, FamiliesThatDoNotDifferAreOne) {
  std::size_t told_apart = 0;
  for (std::uint64_t seed = 20; seed < 30; ++seed) {
    World world(seed);
    const auto choices = two_families(world, 500, 500, 0);
    const auto fit = fit_confidence(choices, 2);
    auto unnamed = choices;
    for (auto& choice : unnamed) choice.family = 0;
    const auto common = fit_confidence(unnamed);
    if (fit->confidence.family_bias.empty()) {
      EXPECT_EQ(fit->confidence, common->confidence);
    } else {
      ++told_apart;
      EXPECT_LT(fit->log_loss, common->log_loss) << "only where it is better out of fold";
    }
  }
  EXPECT_LT(told_apart, 5u);
}

TEST(Confidence, FamiliesBeyondTheModelsAreRefused) {
  World world(10);
  auto choices = world.choices(200);
  choices.back().family = 1;
  EXPECT_THROW(fit_confidence(choices), std::out_of_range);
  EXPECT_TRUE(fit_confidence(choices, 2));
}

TEST(Confidence, TooLittleTellsNothing) {
  World world(4);
  EXPECT_FALSE(fit_confidence(world.choices(kMinChoices - 1)));
  auto alike = world.choices(200);
  for (auto& choice : alike) choice.efficiency = 1;
  EXPECT_FALSE(fit_confidence(alike)) << "nothing ever failed: no probability can be told";
}

TEST(Confidence, LessIsKnownBeyondTheTrainedSizes) {
  Confidence c;
  c.low = {3, 3, 3, 0};
  c.high = {10, 10, 10, 0};
  c.bias = 1;
  c.weight[3] = 0.5;
  const std::vector<double> two = {0, -0.1};
  const double inside = c.probability(0, make_gemm(1024, 64, 64), two);
  EXPECT_EQ(inside, logistic(1 + 0.5 * 10));
  EXPECT_EQ(c.probability(0, make_gemm(2048, 64, 64), two), inside / 2);
  EXPECT_EQ(c.probability(0, make_gemm(1024, 64, 4), two), inside / 2);
  EXPECT_EQ(c.probability(0, make_gemm(4096, 64, 2), two), inside / 16);
  EXPECT_EQ(c.probability(0, make_gemm(0, 64, 64), two), logistic(1 + 0.5 * 3) / 8) << "size 0 counts as 1";
  EXPECT_EQ(c.probability(0, make_gemm(8, 8, 8), std::vector<double>{0}), 1) << "the only config is the best";
}

Confidence toy_confidence() {
  Confidence c;
  c.bias = -0.25;
  c.weight = {0.5, 0.25, -0.125, 0.0625, 0, 0.1, 0};
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
              data.confidence->probability(f, p, log_tflops));
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
  const double common = c.probability(1, p, two);
  EXPECT_EQ(c.probability(0, p, two), common);
  c.family_bias = {0, -1.25};
  EXPECT_EQ(c.probability(0, p, two), common);
  const auto log_odds = [](double probability) { return std::log(probability / (1 - probability)); };
  EXPECT_NEAR(log_odds(c.probability(1, p, two)), log_odds(common) - 1.25, 1e-12);

  ModelData data = toy::model().data();
  data.confidence = toy_confidence();
  const std::string without = Model(ModelData(data)).bytes();
  EXPECT_EQ(without.find("family_bias"), std::string::npos) << "as files were written before";
  EXPECT_TRUE(Model::parse(without).data().confidence->family_bias.empty());
  data.confidence = c;
  const Model model{ModelData(data)};
  EXPECT_EQ(Model::parse(model.bytes()).data().confidence, c);
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
  std::size_t of_second = 0;
  for (const ObservedChoice& choice : choices) {
    of_second += choice.family;
    // A row pruned early may be faster than the best that ended well; it counts as 1.
    EXPECT_EQ(choice.efficiency, 1);
    EXPECT_EQ(choice.reference_repeats, table.rows.front().measured.repeats);
    EXPECT_LE(choice.inputs[0], choice.inputs[1]);
    EXPECT_LE(choice.inputs[1], choice.inputs[2]);
  }
  EXPECT_EQ(of_second, static_cast<std::size_t>(std::ranges::count_if(set.problems, [](const Problem& p) {
              return signature_of(p).layout == Layout::crr;
            })));
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
