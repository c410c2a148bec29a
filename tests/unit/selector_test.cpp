#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>

#include <kscout/error.h>
#include <kscout/selector.h>

#include "family/rules.h"
#include "select/analytic.h"
#include "support/cublaslt_list.h"
#include "support/expect_error.h"
#include "support/models_folder.h"
#include "support/paths.h"

namespace kscout {
namespace {

using SelectorTest = toy::ModelsFolder;

TEST_F(SelectorTest, ModelAnswersWithItsOwnScores) {
  const Model model = toy::model();
  const Selector selector = Selector::load(folder_ / "model");
  const GemmProblem p = make_gemm(96, 128, 256);
  std::vector<double> scores(12);
  model.score(p, scores);
  const auto tflops = model.predicted_tflops(p, scores);
  const auto ranked = selector.rank(p, 12);
  ASSERT_EQ(ranked.size(), 12u);
  const auto pick = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
  EXPECT_EQ(ranked[0].config, model.data().families[0].configs[pick])
      << "of equal scores the first in family order";
  EXPECT_EQ(ranked[0].score, scores[pick]);
  EXPECT_EQ(ranked[0].tflops, tflops[pick]);
  EXPECT_EQ(ranked[0].time_us, time_us_of(p, tflops[pick]));
  EXPECT_EQ(parse_config_name(Selector::name(p, ranked[0])).config, ranked[0].config);
  for (std::size_t i = 0; i + 1 < ranked.size(); ++i) {
    EXPECT_EQ(ranked[i].source, ChoiceSource::model);
    EXPECT_GE(ranked[i].score, ranked[i + 1].score);
    EXPECT_EQ(ranked[i].margin, ranked[i + 1].time_us / ranked[i].time_us - 1);
  }
  const Choice choice = selector.select(p), again = selector.select(p);
  EXPECT_EQ(choice.config, ranked[0].config);
  EXPECT_EQ(choice.margin, ranked[0].margin);
  EXPECT_EQ(choice.source, ChoiceSource::model);
  EXPECT_EQ(again.source, ChoiceSource::cache);
  EXPECT_EQ(again.decided_by, ChoiceSource::model);
  EXPECT_EQ(again.config, choice.config);
  EXPECT_EQ(again.margin, choice.margin);
  EXPECT_EQ(again.time_us, choice.time_us);
  EXPECT_EQ(again.score, choice.score);
  EXPECT_EQ(selector.rank(p, 3).size(), 3u);
  std::array<Choice, 3> best;
  EXPECT_EQ(selector.rank(p, best), 3u);
  for (std::size_t i = 0; i < best.size(); ++i) {
    EXPECT_EQ(best[i].config, ranked[i].config);
    EXPECT_EQ(best[i].margin, ranked[i].margin);
    EXPECT_TRUE(std::isnan(best[i].confidence)) << "not calibrated";
  }
  EXPECT_EQ(selector.model_path(), folder_ / "model");
}

/// The toy's model with other scores.
Model model_with_scores(double factor) {
  ModelData data = toy::model().data();
  for (double& value : data.targets[0].forest.leaf_value) value *= factor;
  return Model(std::move(data));
}

TEST(Suggestion, TheFirstChoiceSaysWhatTheLibraryWouldTake) {
  setenv("KSCOUT_DISABLE", "guard",
         1);  // else the suggestion may itself be the first choice, at the same time
  const std::vector<KernelConfig> list = test::cublaslt_list();
  const auto selector = Selector::load(
      paths::in_repository("models/gemm_bf16_h200"),
      {.device = device_preset("h200"), .suggestions = [&](ProblemRef, std::size_t) { return list; }});
  unsetenv("KSCOUT_DISABLE");
  for (const std::int64_t m : {1, 512, 8192}) {
    const GemmProblem problem = make_gemm(m, 4096, 1000, DType::bf16);
    const std::vector<Choice> ranked = selector.rank(problem, 100000);
    const auto own = std::ranges::find_if(ranked, [&](const Choice& one) {
      return Selector::name(problem, one).find("__suggestion1_") != std::string::npos;
    });
    ASSERT_NE(own, ranked.end());
    EXPECT_FLOAT_EQ(ranked.front().suggestion_us, static_cast<float>(own->time_us));
    EXPECT_TRUE(std::isnan(ranked[1].suggestion_us));
    EXPECT_EQ(selector.select(problem).suggestion_us, ranked.front().suggestion_us);
    EXPECT_EQ(selector.select(problem).suggestion_us, ranked.front().suggestion_us) << "cached";
  }
  EXPECT_TRUE(std::isnan(Selector::analytic({.device = device_preset("h200")})
                             .select(make_gemm(64, 64, 64, DType::bf16))
                             .suggestion_us));
}

TEST(Suggestion, AlgorithmsOfAKindThatNoTrainingSawAreLeftToTheLibrary) {
  std::vector<KernelConfig> list;
  const auto selector = Selector::load(
      paths::in_repository("models/gemm_bf16_h200"),
      {.device = device_preset("h200"), .suggestions = [&](ProblemRef, std::size_t) { return list; }});
  const KernelConfig strange =
      parse_config_name("cublaslt_gemm_bf16_rcr_v150000__a77_128x128x128_st0_s1_none_w0_o1_any_c2x1").config;
  const auto is_strange = [](ProblemRef problem, const Choice& one) {
    return Selector::name(problem, one).find("_a77_") != std::string::npos;
  };
  for (const std::int64_t m : {1, 512, 8192}) {
    const GemmProblem problem = make_gemm(m, 4096, 4096, DType::bf16);
    list = test::cublaslt_list();
    list.push_back(strange);
    const auto of_later = selector.rank(problem, 100000);
    EXPECT_TRUE(std::ranges::none_of(of_later, std::bind_front(is_strange, ProblemRef(problem))));
    list = test::cublaslt_list();
    list.insert(list.begin(), strange);
    const auto ranked = selector.rank(problem, 100000);
    EXPECT_TRUE(is_strange(problem, ranked.front())) << Selector::name(problem, ranked.front());
    EXPECT_EQ(1, std::ranges::count_if(ranked, std::bind_front(is_strange, ProblemRef(problem))));
  }
}

TEST_F(SelectorTest, BatchesHaveAModelOfTheirOwn) {
  const auto folder = folder_ / "model", batches = folder / "batches";
  const GemmProblem one = make_gemm(96, 128, 256);
  GemmProblem many = one;
  many.batch = 8;
  const Selector without = Selector::load(folder);
  const double score = without.select(many).score, score_of_one = without.select(one).score;
  EXPECT_EQ(without.model_path(many), folder);
  const auto score_of = [&](const Selector& selector, ProblemRef problem) {
    return selector.rank(problem, 1).front().score;
  };

  install(batches, model_with_scores(0.5));
  Selector selector = Selector::load(folder);
  EXPECT_EQ(score_of(selector, one), score_of_one);
  EXPECT_EQ(score_of(selector, many), 0.5 * score);
  EXPECT_EQ(score_of(selector, Problem(many)), 0.5 * score);
  EXPECT_EQ(selector.select(many).source, ChoiceSource::model);
  EXPECT_EQ(selector.select(many).source, ChoiceSource::cache);
  EXPECT_EQ(selector.select(one).source, ChoiceSource::model);
  EXPECT_EQ(selector.cache_statistics().hits, 1u);
  EXPECT_EQ(selector.cache_statistics().misses, 2u);
  EXPECT_EQ(selector.model_path(), folder);
  EXPECT_EQ(selector.model_path(one), folder);
  EXPECT_EQ(selector.model_path(many), batches);
  EXPECT_EQ(Selector::load(folder / "model.ksf").model_path(many), batches);
  GemmProblem other = many;
  other.layout = Layout::ccr;
  EXPECT_EQ(selector.model_path(other), folder) << "the model for batches does not know this layout";

  install(batches, model_with_scores(0.25));
  selector.reload();
  EXPECT_EQ(score_of(selector, many), 0.25 * score);
  std::filesystem::remove_all(batches);
  selector.refresh();
  EXPECT_EQ(score_of(selector, many), 0.25 * score) << "the models stay";
  selector.reload();
  EXPECT_EQ(score_of(selector, many), score);
  EXPECT_EQ(selector.model_path(many), folder);
}

TEST_F(SelectorTest, ADamagedModelOfBatchesIsAnError) {
  install(folder_ / "model" / "batches", toy::model());
  write_file_atomically(folder_ / "model" / "batches" / "model.ksf", "KSF?");
  test::expect_error(Errc::corrupt_data, "batches", [&] { Selector::load(folder_ / "model"); });
}

TEST_F(SelectorTest, OrdersByWhatTheModelKnows) {
  const Selector selector = Selector::load(folder_ / "model");
  const GemmProblem p = make_gemm(96, 128, 256);
  std::vector<double> scores(12);
  toy::model().score(p, Target::tflops, scores);
  EXPECT_EQ(selector.select(p, By::tflops).score, *std::ranges::max_element(scores));
  try {
    selector.select(p, By::latency);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_NE(std::string_view(error.what()).find("it has relative, tflops"), std::string_view::npos)
        << error.what();
  }
}

TEST_F(SelectorTest, ApplicabilityRulesKeepConfigsOut) {
  const Selector selector = Selector::load(folder_ / "model");
  for (const Choice& choice : selector.rank(make_gemm(64, 4, 64), 100)) EXPECT_LE(choice.config["nr"], 16);
}

TEST_F(SelectorTest, AnalyticAnswersWhereTheModelDoesNot) {
  const Selector selector = Selector::load(folder_ / "model");
  const GemmProblem other_layout = make_gemm(512, 512, 512, DType::fp32, Layout::ccr);
  const auto ranked = selector.rank(other_layout, 4);
  EXPECT_EQ(ranked[0].source, ChoiceSource::analytic);

  const Analytic analytic(families_by_rules({.device = toy::device(), .rules = "tiny"}));
  const Analytic::Entry& entry = analytic.entry(signature_of(other_layout));
  const Family* const family = &entry.family;
  std::vector<double> time_us(family->configs.size());
  analytic_schema().evaluate(other_layout, family->device, family->configs, family->traits, time_us);
  const ApplicabilityRules rules(family->applicability, family->configs, family->traits, family->device);
  ApplicabilityRules::Scratch scratch;
  std::vector<std::uint8_t> applicable(family->configs.size());
  rules.evaluate(other_layout, applicable, scratch);
  double min_us = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < applicable.size(); ++i) {
    if (applicable[i] != 0) min_us = std::min(min_us, time_us[i]);
  }
  EXPECT_EQ(ranked[0].time_us, min_us);
  EXPECT_EQ(&analytic.entry(signature_of(other_layout)), &entry) << "enumerated once";

  // A model none of whose configs can take the problem leaves it to the next link.
  ModelData data = toy::model().data();
  for (Family& of : data.families)
    of.applicability = {{"never", RuleKind::applicability, "0", "a toy's rule"}};
  install(folder_ / "narrow", Model(std::move(data)));
  EXPECT_EQ(Selector::load(folder_ / "narrow").select(make_gemm(64, 64, 64)).source, ChoiceSource::analytic);
}

TEST_F(SelectorTest, DefaultConfigAnswersWhenCostsAreUnknown) {
  Device bare = toy::device();
  bare.max_clock_mhz = 0;  // what some virtual machines report
  const SelectorRequest request{.device = bare, .rules = "tiny"};
  const Choice choice = Selector::analytic(request).select(make_gemm(512, 512, 512));
  EXPECT_EQ(choice.source, ChoiceSource::fallback);
  const Family family = enumerate({"native", signature_of(make_gemm(1, 1, 1)), bare, "tiny", ""});
  EXPECT_EQ(choice.config, family.configs[family.default_config]);
  EXPECT_TRUE(std::isnan(choice.time_us));
}

TEST_F(SelectorTest, BadProblemsAreErrors) {
  GemmProblem p = make_gemm(8, 8, 8);
  p.m = -1;
  const Selector selector = Selector::load(folder_ / "model");
  EXPECT_THROW(selector.select(p), Error);
  Choice choice;
  EXPECT_EQ(selector.try_select(p, choice), SelectStatus::bad_problem);
  EXPECT_EQ(selector.try_select(make_gemm(8, 8, 8), choice, By::latency), SelectStatus::bad_order);
  EXPECT_EQ(choice.config.space, nullptr) << "written only when ok";
  EXPECT_EQ(selector.try_select(make_gemm(8, 8, 8), choice), SelectStatus::ok);
  EXPECT_NE(choice.config.space, nullptr);
}

TEST_F(SelectorTest, ValuesOutsideTheirEnumAreBadProblems) {
  const Selector selector = Selector::load(folder_ / "model");
  Choice choice;
  GemmProblem type = make_gemm(8, 8, 8), layout = type;
  type.dtype_a = static_cast<DType>(200);
  layout.layout = static_cast<Layout>(100);
  EXPECT_EQ(selector.try_select(type, choice), SelectStatus::bad_problem);
  EXPECT_EQ(selector.try_select(layout, choice), SelectStatus::bad_problem);
  test::expect_error(Errc::invalid_argument, "gemm dtype_a: the value is none of its enum",
                     [&] { selector.select(type); });
  ConvProblem conv = make_conv(Op::conv_fwd, DType::fp32);
  conv.dtype_wei = static_cast<DType>(200);
  EXPECT_EQ(selector.try_select(conv, choice), SelectStatus::bad_problem);
  test::expect_error(Errc::invalid_argument, "convolution dtype_wei", [&] { check(conv); });
}

/// Native kernels apply an epilogue to what they have just stored: the order of configs stays.
TEST_F(SelectorTest, AModelOfNativeGemmsAnswersForEveryEpilogue) {
  const Model model = toy::model();
  const Selector selector = Selector::load(folder_ / "model");
  const GemmProblem plain = make_gemm(96, 128, 256);
  const auto expected = selector.rank(plain, 12);
  for (std::size_t word = 1; word < EnumWords<Epilogue>::words.size(); ++word) {
    GemmProblem p = plain;
    p.epilogue = static_cast<Epilogue>(word);
    const auto ranked = selector.rank(p, 12);
    ASSERT_EQ(ranked.size(), expected.size());
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      EXPECT_EQ(ranked[i].config, expected[i].config);
      EXPECT_EQ(ranked[i].time_us, expected[i].time_us);
      EXPECT_EQ(ranked[i].source, ChoiceSource::model);
    }
    const std::string name = Selector::name(p, ranked[0]);
    EXPECT_EQ(parse_config_name(name).signature, signature_of(p)) << name;
    const Family* const family = model.family(signature_of(p));
    ASSERT_NE(family, nullptr);
    EXPECT_EQ(model.trained_signature(*family), signature_of(plain));
  }
  GemmProblem with_bias = plain;
  with_bias.epilogue = Epilogue::bias;
  setenv("KSCOUT_DISABLE", Selector::name(with_bias, expected[0]).c_str(), 1);
  const Selector disabled = Selector::load(folder_ / "model");
  EXPECT_EQ(disabled.select(with_bias).config, expected[1].config);
  EXPECT_EQ(disabled.select(plain).config, expected[1].config) << "as with and without _acc";
}

TEST_F(SelectorTest, ProblemsThatAModelAndItsRuleSetLackNameWhatItCovers) {
  ModelData data = toy::model().data();
  for (Family& family : data.families) family.rules = "measured";  // as after an import
  install(folder_ / "measured", Model(std::move(data)));
  const Selector selector = Selector::load(folder_ / "measured");
  EXPECT_EQ(selector.select(make_gemm(8, 8, 8)).source, ChoiceSource::model);
  test::expect_error(Errc::unsupported, "gemm:8x8x8:fp16:rcr: the model covers gemm fp32 r",
                     [&] { selector.select(make_gemm(8, 8, 8, DType::fp16)); });
}

TEST_F(SelectorTest, ModelsAreFoundInOrder) {
  const std::string name = model_folder_name(Op::gemm, DType::fp32, toy::device());
  EXPECT_EQ(name, "gemm_fp32_epyc-7763");
  EXPECT_EQ(find_model(Op::gemm, DType::fp32, toy::device()), std::nullopt);
  const SelectorRequest request{.device = toy::device(), .rules = "tiny"};
  EXPECT_EQ(Selector::find(Op::gemm, DType::fp32, request).select(make_gemm(64, 64, 64)).source,
            ChoiceSource::any_cpu)
      << "a model that is shipped";

  install(user_model_folder() / name, toy::model());
  EXPECT_EQ(find_model(Op::gemm, DType::fp32, toy::device()), user_model_folder() / name);
  install(folder_ / "a" / name, toy::model());
  setenv("KSCOUT_MODEL_PATH", ((folder_ / "none").string() + ":" + (folder_ / "a").string()).c_str(), 1);
  EXPECT_EQ(find_model(Op::gemm, DType::fp32, toy::device()), folder_ / "a" / name);
  setenv("KSCOUT_MODEL_PATH", (folder_ / "a" / name).c_str(), 1);
  EXPECT_EQ(find_model(Op::gemm, DType::fp32, toy::device()), folder_ / "a" / name)
      << "an entry may be a model folder";
  EXPECT_EQ(Selector::find(Op::gemm, DType::fp32, request).select(make_gemm(64, 64, 64)).source,
            ChoiceSource::model);
}

}  // namespace
}  // namespace kscout
