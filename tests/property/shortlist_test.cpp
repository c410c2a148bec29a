// Compares the shortlist with a slow version written from its definition, also at sizes where integers could
// overflow and where fewer configs remain than the shortlist may hold.
#include "forest/shortlist.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include <kscout/error.h>
#include <kscout/provider.h>
#include <kscout/selector.h>

#include "core/files.h"
#include "support/large_model.h"
#include "support/random_shortlist.h"
#include "support/share.h"
#include "support/temporary_folder.h"
#include "support/toy.h"

namespace kscout {
namespace {

/// A random problem: small, awkward, huge.
GemmProblem random_problem(std::mt19937_64& random, Layout layout = Layout::rrr) {
  const auto size = [&]() -> std::int64_t {
    constexpr std::int64_t kAwkward[] = {0, 1, 2, 3, 7, 63, 64, 65, 4096, 1 << 24, (1 << 24) + 1, 1LL << 40};
    if (random() % 4 == 0) return kAwkward[random() % std::size(kAwkward)];
    return static_cast<std::int64_t>(std::exp2(static_cast<double>(random() % 1500) / 100.0));
  };
  GemmProblem problem = make_gemm(size(), size(), size(), DType::fp32, layout);
  if (random() % 4 == 0) problem.batch = 1 + static_cast<std::int64_t>(random() % 5000);
  return problem;
}

std::int64_t layer_output(const Shortlist::Layer& layer, std::size_t output,
                          const std::vector<std::int64_t>& inputs, std::int64_t least) {
  std::int64_t sum = layer.bias[output];
  for (std::size_t i = 0; i < inputs.size(); ++i) sum += layer.weights[output * layer.inputs + i] * inputs[i];
  EXPECT_LT(std::abs(sum), std::int64_t{1} << 31) << "sums fit in 32 bits";
  return std::clamp<std::int64_t>((sum * layer.factor[output]) >> 24, least, 32766);
}

/// What keep_top() should keep: outputs of the network in 64 bits, then a sort.
std::vector<std::uint8_t> reference_keep_top(const Shortlist& shortlist, const FamilyOutputs& outputs,
                                             ProblemRef problem, double cores,
                                             const std::vector<std::uint8_t>& allowed,
                                             const std::vector<std::uint8_t>& always) {
  const ShortlistFeatures features = shortlist_features_of(problem, cores);
  std::vector<std::int64_t> values;
  for (std::size_t f = 0; f < kShortlistFeatures; ++f) {
    const std::int64_t difference = std::int64_t{features[f]} - shortlist.mean[f];
    values.push_back(std::clamp<std::int64_t>((difference * shortlist.factor[f]) >> 16, -32767, 32766));
  }
  for (std::size_t l = 0; l < 2; ++l) {
    std::vector<std::int64_t> next;
    for (std::size_t o = 0; o < shortlist.layers[l].outputs; ++o)
      next.push_back(layer_output(shortlist.layers[l], o, values, 0));
    values = next;
  }
  std::vector<std::size_t> order;
  std::vector<std::pair<int, std::int64_t>> rank(allowed.size());
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i] == 0) continue;
    order.push_back(i);
    const bool scored = outputs.of[i] != FamilyOutputs::none;
    rank[i] = {always[i], scored ? layer_output(shortlist.layers[2], outputs.of[i], values, -32766) : -32767};
  }
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) {
    return rank[i].first != 0 ? std::pair<int, std::int64_t>{1, 0} : rank[i];
  });
  std::vector<std::uint8_t> kept(allowed.size(), 0);
  for (std::size_t i = 0; i < std::min(order.size(), kShortlisted); ++i) kept[order[i]] = 1;
  return kept;
}

ConfigTable native_configs() {
  return enumerate({.provider = "native",
                    .signature = signature_of(make_gemm(1, 1, 1, DType::fp32, Layout::rrr)),
                    .device = device_preset("epyc-7763"),
                    .rules = "full",
                    .filter = {}})
      .configs;
}

TEST(Shortlist, KeepsWhatASortOfTheNetworksOutputsKeeps) {
  const ConfigTable configs = native_configs();
  ShortlistScratch scratch;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    if (!test::in_share(seed)) continue;
    std::mt19937_64 random(seed);
    const Shortlist shortlist = toy::random_shortlist(configs, seed, seed % 3 == 0 ? 128 : 8);
    check(shortlist);
    FamilyOutputs outputs = outputs_of(shortlist, configs);
    if (seed % 2 == 1) {
      for (auto& output : outputs.of) output = random() % 4 == 0 ? FamilyOutputs::none : output;
    }
    const std::uint64_t one_in = seed % 5 == 0 ? 60 : 1 + seed % 3;  // few configs are allowed, or all
    const double cores = seed % 7 == 0 ? std::nan("") : static_cast<double>(1 + random() % 200);
    for (int i = 0; i < 50; ++i) {
      const GemmProblem problem = random_problem(random);
      std::vector<std::uint8_t> allowed, always, kept(configs.size());
      for (std::size_t c = 0; c < configs.size(); ++c) {
        allowed.push_back(random() % one_in == 0);
        always.push_back(random() % 200 == 0 || (seed == 4 && random() % 10 == 0));
      }
      const auto ratings = rate(shortlist, outputs, problem, cores, scratch);
      if (i % 2 == 0) keep_top(ratings, std::vector<std::uint8_t>(configs.size(), 1), always, 64, kept);
      const std::size_t found =
          keep_top(ratings, allowed, always, kShortlisted, kept);  // whatever was cut before
      ASSERT_EQ(kept, reference_keep_top(shortlist, outputs, problem, cores, allowed, always))
          << seed << print(problem);
      ASSERT_EQ(found, static_cast<std::size_t>(std::ranges::count(kept, 1)));
    }
  }
}

TEST(Shortlist, TheLargestNetworkDoesNotOverflow) {
  const ConfigTable configs = native_configs();
  for (const std::int8_t weight : {std::int8_t{127}, std::int8_t{-128}}) {
    Shortlist shortlist = toy::random_shortlist(configs, 1);
    for (Shortlist::Layer& layer : shortlist.layers) {
      std::ranges::fill(layer.weights, weight);
      std::ranges::fill(layer.bias, weight > 0 ? 1 << 30 : -(1 << 30));
      std::ranges::fill(layer.factor, std::numeric_limits<std::int32_t>::max());
    }
    shortlist.mean.fill(-30'000);
    shortlist.factor.fill(std::numeric_limits<std::int32_t>::max());
    check(shortlist);
    const FamilyOutputs outputs = outputs_of(shortlist, configs);
    const std::vector<std::uint8_t> all(configs.size(), 1), none(configs.size(), 0);
    std::vector<std::uint8_t> kept(configs.size());
    ShortlistScratch scratch;
    const GemmProblem problem = make_gemm(1 << 20, 1 << 20, 1 << 20, DType::fp32, Layout::rrr);
    EXPECT_EQ(keep_top(rate(shortlist, outputs, problem, 64, scratch), all, none, kShortlisted, kept),
              kShortlisted);
    EXPECT_EQ(kept, reference_keep_top(shortlist, outputs, problem, 64, all, none));
  }
}

TEST(Shortlist, LogarithmsAreRoundedDownTo256ths) {
  // Column 0 of the features is the logarithm of m.
  for (std::int64_t m = 1; m < (1 << 24); m += 1 + m / 37) {
    const std::int32_t log = shortlist_features_of(make_gemm(m, 1, 1), 1)[0];
    const double exact = 256 * std::log2(static_cast<double>(m));
    EXPECT_LE(log, exact + 1e-9) << m;
    EXPECT_GT(log + 1.01, exact) << m;
  }
  EXPECT_EQ(shortlist_features_of(make_gemm(0, 1, 1), 1)[0], 0);
  EXPECT_EQ(shortlist_features_of(make_gemm(1 << 20, 1, 1), 1)[0], 20 * 256);
}

TEST(Shortlist, BytesComeBackAndWrongOnesAreRefused) {
  const Shortlist shortlist = toy::random_shortlist(native_configs(), 3, 16);
  const std::string bytes = shortlist_bytes(shortlist);
  Shortlist again = parse_shortlist(bytes);
  again.configs = shortlist.configs;
  EXPECT_EQ(again, shortlist);
  EXPECT_EQ(shortlist_bytes(again), bytes);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{15}, std::size_t{16}, bytes.size() / 2, bytes.size() - 8})
    EXPECT_THROW(parse_shortlist(bytes.substr(0, size)), Error) << size;
  EXPECT_THROW(parse_shortlist(bytes + std::string(8, '\0')), Error);
  const auto refused = [&](auto&& change) {
    Shortlist wrong = shortlist;
    change(wrong);
    EXPECT_THROW(check(wrong), Error);
  };
  refused([](Shortlist& s) { s.configs.pop_back(); });
  refused([](Shortlist& s) { s.layers[0].inputs = 61; });
  refused([](Shortlist& s) { s.layers[1].weights.pop_back(); });
  refused([](Shortlist& s) { s.layers[1].bias[3] = (1 << 30) + 1; });
  refused([](Shortlist& s) { s.layers[2].factor[0] = -1; });
  refused([](Shortlist& s) { s.layers[2].factor.pop_back(); });
}

/// The large model with a shortlist.
ModelData listed_data() {
  ModelData data = toy::large_model(40, 15).data();
  data.shortlist = toy::random_shortlist(data.families[0].configs, 7);
  return data;
}

TEST(Shortlist, RankingsBeginWithItInExactOrder) {
  const Model model{listed_data()};
  const CompiledFamily& family = *model.compiled(signature_of(make_gemm(1, 1, 1, DType::fp32, Layout::rrr)));
  std::mt19937_64 random(5);
  SelectScratch scratch;
  std::size_t behind = 0;
  for (int i = 0; i < 60; ++i) {
    const GemmProblem problem = make_gemm(
        1 + static_cast<std::int64_t>(random() % 3000), 1 + static_cast<std::int64_t>(random() % 3000),
        1 + static_cast<std::int64_t>(random() % 3000), DType::fp32, Layout::rrr);
    std::vector<double> exact(family.size()), scores(family.size());
    model.exact_scores(problem, model.default_target(), exact);
    model.score(problem, scores);
    const std::vector<std::uint8_t> kept = model.candidates(problem);
    const auto runs = static_cast<std::size_t>(
        std::ranges::count_if(exact, [](double score) { return std::isfinite(score); }));
    ASSERT_EQ(static_cast<std::size_t>(std::ranges::count(kept, 1)), std::min(runs, kShortlisted));
    std::vector<Ranked> all(family.size());
    all.resize(model.rank(family, problem, model.default_target(), {}, all, scratch));
    ASSERT_EQ(all.size(), runs);
    // The slow way: listed ones first, each part by its exact scores.
    std::vector<std::size_t> order;
    for (std::size_t c = 0; c < exact.size(); ++c) {
      if (std::isfinite(exact[c])) order.push_back(c);
    }
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return kept[a] != kept[b] ? kept[a] > kept[b] : exact[a] > exact[b];
    });
    for (std::size_t r = 0; r < runs; ++r) {
      ASSERT_EQ(all[r].config, order[r]) << r;
      ASSERT_EQ(all[r].score, scores[order[r]]) << r;
      if (r > 0) {
        ASSERT_LE(all[r].score, all[r - 1].score);
        ASSERT_GE(all[r].time_us, all[r - 1].time_us);
      }
      if (kept[order[r]] != 0) {
        ASSERT_EQ(all[r].score, exact[order[r]]);
      }
      behind += kept[order[r]] == 0 && exact[order[r]] > exact[order[0]];
    }
    // Any shorter ranking is the beginning of the whole.
    for (const std::size_t room :
         {std::size_t{1}, std::size_t{9}, std::size_t{32}, std::size_t{33}, std::size_t{200}}) {
      std::vector<Ranked> some(room);
      ASSERT_EQ(model.rank(family, problem, model.default_target(), {}, some, scratch), std::min(room, runs));
      for (std::size_t r = 0; r < std::min(room, runs); ++r) ASSERT_EQ(some[r].config, all[r].config);
    }
  }
  EXPECT_GT(behind, 100u) << "the forest alone would have chosen others";
}

TEST(Shortlist, MasksApplyBeforeItIsCut) {
  const Model model{listed_data()};
  const CompiledFamily& family = *model.compiled(signature_of(make_gemm(1, 1, 1, DType::fp32, Layout::rrr)));
  const GemmProblem problem = make_gemm(512, 512, 512, DType::fp32, Layout::rrr);
  SelectScratch scratch;
  // Take away, again and again, all that a ranking of 32 holds: the next 32 come, until none is left.
  std::vector<std::uint8_t> allowed(family.size(), 1), seen(family.size(), 0);
  std::size_t taken = 0;
  while (true) {
    std::vector<Ranked> best(kShortlisted);
    const std::size_t found = model.rank(family, problem, model.default_target(), allowed, best, scratch);
    if (found == 0) break;
    for (std::size_t i = 0; i < found; ++i) {
      ASSERT_EQ(seen[best[i].config], 0);
      seen[best[i].config] = 1;
      allowed[best[i].config] = 0;
      ++taken;
    }
  }
  EXPECT_EQ(taken, static_cast<std::size_t>(std::ranges::count(family.applicable(problem, {}, scratch), 1)));
}

TEST(Shortlist, RulesOfLikelyConfigsGiveTheListThatRulesOfAllGive) {
  // Rules are checked for the 64 likeliest configs first. These rules refuse none, some, most or nearly all.
  for (const int refused : {0, 20, 60, 97}) {
    ModelData data = listed_data();
    data.families[0].applicability.push_back(
        {.name = "some",
         .kind = RuleKind::applicability,
         .admits = "(p.m + 13 * p.n + 7 * c.mr + 29 * c.nr + 3 * c.mc + 11 * c.kc + c.nc) % 97 >= " +
                   std::to_string(refused),
         .because = "a test"});
    const Model model{std::move(data)};
    const GemmProblem any = make_gemm(1, 1, 1, DType::fp32, Layout::rrr);
    const CompiledFamily& family = *model.compiled(signature_of(any));
    const FamilyOutputs outputs = outputs_of(*model.data().shortlist, family.family().configs);
    std::mt19937_64 random(static_cast<std::uint64_t>(refused));
    SelectScratch scratch;
    std::vector<std::uint8_t> expected(family.size());
    std::size_t short_lists = 0;
    for (int i = 0; i < 40; ++i) {
      const GemmProblem problem = random_problem(random);
      const auto ratings =
          rate(*model.data().shortlist, outputs, problem, model.device().cores, scratch.shortlist);
      keep_top(ratings, family.applicable(problem, {}, scratch), family.always(), kShortlisted, expected);
      ASSERT_EQ(model.candidates(problem), expected) << refused << " " << print(problem);
      short_lists += static_cast<std::size_t>(std::ranges::count(expected, 1)) < kShortlisted;
    }
    EXPECT_EQ(short_lists > 0, refused == 97);
  }
}

TEST(Shortlist, TheDefaultConfigAndSuggestionsAreAlwaysOnIt) {
  ModelData data = listed_data();
  data.families[0].default_config = 700;
  data.families[0].traits[11].suggestion = 1;
  data.families[0].traits[900].suggestion = 2;
  const Model model{std::move(data)};
  std::mt19937_64 random(8);
  for (int i = 0; i < 50; ++i) {
    const GemmProblem problem = random_problem(random);
    std::vector<double> exact(model.data().families[0].configs.size());
    model.exact_scores(problem, model.default_target(), exact);
    const std::vector<std::uint8_t> kept = model.candidates(problem);
    for (const std::size_t config : {std::size_t{700}, std::size_t{11}, std::size_t{900}})
      EXPECT_EQ(kept[config], std::isfinite(exact[config])) << config << " " << print(problem);
  }
}

TEST(Shortlist, SelectorsCutAlike) {
  const test::TemporaryFolder folder;
  const Model model{listed_data()};
  write_file_atomically(folder / "model.ksf", model.bytes());
  const Selector selector = Selector::load(folder / "model.ksf");
  const Family& family = model.data().families[0];
  std::mt19937_64 random(6);
  for (int i = 0; i < 40; ++i) {
    const GemmProblem problem = random_problem(random);
    if (!is_valid(problem)) continue;
    std::vector<double> scores(family.configs.size());
    model.score(problem, scores);
    const auto best = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
    const Choice choice = selector.select(problem);
    EXPECT_EQ(choice.config, family.configs[best]) << print(problem);
    EXPECT_EQ(selector.rank(problem, 40).front().config, choice.config);
  }
}

}  // namespace
}  // namespace kscout
