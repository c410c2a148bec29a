// Tests choices among what a library names for a problem, with a model that reads tiles alone.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include <kscout/dispatcher.h>
#include <kscout/family.h>
#include <kscout/provider.h>
#include <kscout/registry.h>
#include <kscout/selector.h>

#include "core/files.h"
#include "measure/measured_backend.h"
#include "provider/cublaslt/cublaslt.h"
#include "select/decision_db.h"
#include "select/model.h"
#include "support/expect_error.h"
#include "support/stand_in_instruments.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

/// One tree with one split; a value that is not known goes to the left.
Forest split(std::uint32_t features, std::uint32_t feature, double threshold, double left, double right) {
  Forest forest;
  forest.feature_count = features;
  forest.tree_nodes = {0, 1};
  forest.tree_leaves = {0, 2};
  forest.threshold = {threshold};
  forest.feature = {feature};
  forest.left = {-1};
  forest.right = {-2};
  forest.decision = {2 | 8};
  forest.leaf_value = {left, right};
  return forest;
}

/// Prefers configs with a trait above a threshold, by default tiles of more than 100 rows; `place`: the
/// formula of a feature that no tree reads.
Model model_of_tiles(const std::string& place, const std::string& trait = "t.tile_m",
                     double threshold = 100) {
  SchemaData schema;
  schema.name = "tiles";
  schema.summary = "tiles";
  schema.features = {{"m", "p.m", "elements", "rows", false},
                     {"trait", trait, "1", "what the tree reads", false},
                     {"place", place, "1", "place in the list", false}};
  ModelData data;
  const Signature signature = signature_of(make_gemm(1, 1, 1, DType::bf16));
  data.families = {enumerate({"cublaslt", signature, device_preset("h200"), "tiny", {}})};
  data.schema = std::make_shared<Schema>(std::move(schema));
  data.targets = {{Target::relative, split(3, 1, threshold, -0.5, -0.1), 0, 1}};
  data.best_tflops = split(1, 0, 1e9, 4, 5);
  data.best_features = {0};
  data.fingerprint = "0123456789abcdef";
  return Model(std::move(data));
}

KernelConfig tile(std::int32_t rows, std::int32_t split_k = 1) {
  return CublasLtConfig{.version = 130200,
                        .algorithm = 66,
                        .tile_m = rows,
                        .tile_n = 64,
                        .tile_k = 64,
                        .split_k = split_k,
                        .reduction = split_k > 1 ? 2 : 0,
                        .cluster_m = 1,
                        .cluster_n = 1}
      .kernel_config();
}

/// A GPU whose library lists two algorithms, of 64 and 128 rows; the second takes half the time.
class ListingGpu final : public MeasuredBackend {
 public:
  class Kernel final : public Launch {
   public:
    Kernel(StandInInstruments& clock, double us) : clock_(clock), us_(us) {}
    std::size_t workspace_bytes() const noexcept override { return 0; }
    void run(const Buffers&, void*, Stream) override { clock_.now_us += us_; }

   private:
    StandInInstruments& clock_;
    double us_;
  };

  std::string_view name() const noexcept override { return "listing"; }
  std::string_view provider() const noexcept override { return "cublaslt"; }
  Family family(const Signature& signature, std::string_view rules) override {
    return enumerate({"cublaslt", signature, device_, std::string(rules), {}});
  }
  const Device& device() override { return device_; }
  std::vector<KernelConfig> suggestions(ProblemRef, std::size_t) override { return {tile(64), tile(128)}; }
  std::string refusal(ProblemRef, const KernelConfig&) override { return {}; }
  std::unique_ptr<Launch> prepare(ProblemRef, const KernelConfig& config) override {
    return std::make_unique<Kernel>(clock_, config["tile_m"] == 128 ? 200 : 400);
  }
  Instruments& instruments() override { return clock_; }

  /// From now on, calls can be timed without waiting for them.
  StandInStreamClock& time_streams() {
    clock_.streams = &streams_;
    return streams_;
  }
  double now_us() const { return clock_.now_us; }

 private:
  Device device_ = device_preset("a100");
  StandInInstruments clock_;
  StandInStreamClock streams_{clock_.now_us};
};

class Listed : public ::testing::Test {
 protected:
  Selector selector_of(const Model& model) {
    write_file_atomically(folder_ / "model.ksf", model.bytes());
    return Selector::load(folder_ / "model.ksf", {.device = device_preset("h200"),
                                                  .suggestions = [this](ProblemRef, std::size_t count) {
                                                    ++asked_;
                                                    auto first = list_;
                                                    first.resize(std::min(count, first.size()));
                                                    return first;
                                                  }});
  }
  std::string choice(const Selector& selector) { return Selector::name(problem_, selector.select(problem_)); }

  test::TemporaryFolder folder_;
  GemmProblem problem_ = make_gemm(256, 512, 40968, DType::bf16);
  std::vector<KernelConfig> list_ = {tile(64), tile(128), tile(256)};
  int asked_ = 0;
};

constexpr const char* kUnnamed = "cublaslt_gemm_bf16_rcr_v0__suggestion1";
constexpr const char* kSecond =
    "cublaslt_gemm_bf16_rcr_v130200__suggestion2_a66_128x64x64_st0_s1_none_w0_o0_any_c1x1";
constexpr const char* kThird =
    "cublaslt_gemm_bf16_rcr_v130200__suggestion3_a66_256x64x64_st0_s1_none_w0_o0_any_c1x1";

TEST(AlgorithmKinds, AnEngineOfCudnnIsAKindByItself) {
  const auto kind = [](const std::string& name) {
    const NamedConfig named = parse_config_name(name);
    return kind_of(
        provider(named.config.space->provider).traits(named.signature, named.config, device_preset("h200")));
  };
  const std::string cudnn = "cudnn_conv_fwd_bf16_nhwgc_v91400__";
  const AlgorithmKind engine = kind(cudnn + "suggestion1_e45_tile_size0_stages4");
  EXPECT_EQ(engine, kind(cudnn + "suggestion4_e45_tile_size3_stages2"));
  EXPECT_NE(engine, kind(cudnn + "suggestion1_e47_tile_size0_stages4"));
  EXPECT_EQ(kind(kSecond).engine, 0) << "the library says the tile";

  ModelData data = model_of_tiles("t.listed").data();
  data.listed_kinds = {engine, kind(kSecond)};
  EXPECT_EQ(Model::parse(Model(data).bytes()).data().listed_kinds, data.listed_kinds);
}

TEST(ModelOfAGpu, ReadsTheFactsOfTheGpuThatItAnswersFor) {
  const Device h100 = device_preset("h100");
  Device small = h100;
  small.name = "small";
  small.cores = 40;
  const Model model = model_of_tiles("t.listed", "d.cores", 100);
  const GemmProblem problem = make_gemm(64, 64, 64, DType::bf16);
  const auto score = [&](const Model& of) {
    std::vector<double> scores(1);
    of.score(problem, scores);
    return scores[0];
  };
  EXPECT_EQ(score(with_facts_of(model, h100)), score(model)) << "132 cores as well";
  EXPECT_NE(score(with_facts_of(model, small)), score(model));
  EXPECT_EQ(with_facts_of(model, small).device(), small);
  EXPECT_EQ(with_facts_of(model, model.device()).bytes(), model.bytes());
  test::expect_error(Errc::unsupported, "the model is for GPUs; 'epyc-7763' is a cpu",
                     [&] { model.for_device(device_preset("epyc-7763")); });
}

TEST_F(Listed, OnAGpuWithoutAModelOneOfAnotherGpuNamesTheContenders) {
  const std::filesystem::path model = folder_ / "gemm_bf16_h200" / "model.ksf";
  std::filesystem::create_directories(model.parent_path());
  write_file_atomically(model, model_of_tiles("t.listed").bytes());
  setenv("KSCOUT_MODEL_PATH", folder_.path().c_str(), 1);
  ListingGpu gpu;
  Registry only;
  only.add(gpu);
  const GemmProblem problem = make_gemm(64, 64, 64, DType::bf16);
  std::vector<std::uint16_t> a(64 * 64), b(64 * 64), c(64 * 64);
  const GemmBuffers buffers{.a = a.data(), .b = b.data(), .c = c.data()};
  Dispatcher plain(only, {});
  EXPECT_EQ(Selector::name(problem, plain.run(problem, buffers).choice), kUnnamed) << "no model of this GPU";
  Dispatcher refining(only, {.refine = {.top = 2, .seconds = 5}});
  const Choice refined = refining.run(problem, buffers).choice;
  EXPECT_EQ(Selector::name(problem, refined), kSecond);
  EXPECT_NEAR(refined.time_us, 200, 1e-6);
}

TEST_F(Listed, OnTheFirstCallsTheContendersTakeTurns) {
  const std::filesystem::path model = folder_ / "gemm_bf16_h200" / "model.ksf";
  std::filesystem::create_directories(model.parent_path());
  write_file_atomically(model, model_of_tiles("t.listed").bytes());
  setenv("KSCOUT_MODEL_PATH", folder_.path().c_str(), 1);
  ListingGpu gpu;
  StandInStreamClock& clock = gpu.time_streams();
  Registry only;
  only.add(gpu);
  const GemmProblem problem = make_gemm(64, 64, 64, DType::bf16);
  std::vector<std::uint16_t> a(64 * 64), b(64 * 64), c(64 * 64);
  const GemmBuffers buffers{.a = a.data(), .b = b.data(), .c = c.data()};
  const std::filesystem::path file = folder_ / "decisions.sqlite";
  Dispatcher dispatcher(only, {.refine = {.top = 2, .seconds = 5}, .db = file});
  const auto us_of_run = [&] {
    const double before = gpu.now_us();
    dispatcher.run(problem, buffers);
    return gpu.now_us() - before;
  };
  clock.capturing = true;
  const double predicted_us = us_of_run();
  EXPECT_EQ(us_of_run(), predicted_us) << "a captured call runs the prediction";
  clock.capturing = false;
  clock.behind = true;  // as where the program enqueues faster than the GPU computes
  std::map<double, int> runs;
  for (int i = 0; i < 12; ++i) ++runs[us_of_run()];
  EXPECT_GE(runs[200], 4);
  EXPECT_GE(runs[400], 4);
  EXPECT_TRUE(DecisionDb(file).read().empty());
  clock.behind = false;
  us_of_run();
  EXPECT_EQ(Selector::name(problem, dispatcher.get_solution(problem).choice), kSecond);
  EXPECT_EQ(dispatcher.get_solution(problem).choice.decided_by, ChoiceSource::db);
  EXPECT_NEAR(dispatcher.get_solution(problem).choice.time_us, 200, 1e-6);
  EXPECT_EQ(us_of_run(), 200);
  EXPECT_EQ(clock.open, 0) << "no mark is lost";
  ASSERT_EQ(DecisionDb(file).read().size(), 1u);
  EXPECT_EQ(Dispatcher(only, {.db = file}).get_solution(problem).choice.decided_by, ChoiceSource::db);
}

TEST_F(Listed, TheBestOfTheLibrarysListIsChosenWhateverItsRelease) {
  const Selector selector = selector_of(model_of_tiles("t.listed"));
  EXPECT_EQ(choice(selector), kSecond);
  EXPECT_EQ(choice(selector), kSecond);
  EXPECT_EQ(asked_, 1) << "decisions are cached";
  const auto ranked = selector.rank(problem_, 100);
  EXPECT_EQ(Selector::name(problem_, ranked[1]), kThird);
  for (const Choice& one : ranked)
    EXPECT_NE(Selector::name(problem_, one), kUnnamed) << "the family's own gives way to the list";
  EXPECT_NEAR(ranked[0].suggestion_us / ranked[0].time_us, std::exp(0.4), 1e-5);
  EXPECT_EQ(ranked[0].source, ChoiceSource::model);

  list_.clear();
  EXPECT_EQ(Selector::name(problem_, selector.rank(problem_, 1).front()), kUnnamed) << "no list";
  EXPECT_EQ(choice(Selector::load(folder_ / "model.ksf", {.device = device_preset("h200")})), kUnnamed)
      << "no library";
}

TEST_F(Listed, OtherNumbersOfSplitKSlicesTakePart) {
  list_ = {tile(64, 2)};
  const Model model = model_of_tiles("t.listed", "t.split_k", 2.5);
  EXPECT_EQ(choice(selector_of(model)),
            "cublaslt_gemm_bf16_rcr_v130200__a66_64x64x64_st0_s3_acc_w0_o0_any_c1x1");
  // 40,968 is 640 whole steps of K and one of 8: rules of split-K slices may refuse some numbers.
  problem_ = make_gemm(256, 512, 192, DType::bf16);
  EXPECT_EQ(choice(selector_of(model)),
            "cublaslt_gemm_bf16_rcr_v130200__a66_64x64x64_st0_s3_acc_w0_o0_any_c1x1");
  problem_ = make_gemm(256, 512, 128, DType::bf16);
  EXPECT_EQ(choice(selector_of(model)),
            "cublaslt_gemm_bf16_rcr_v130200__suggestion1_a66_64x64x64_st0_s2_acc_w0_o0_any_c1x1")
      << "K has two steps";
}

TEST(OtherSplits, EachSliceHasAStepAndTogetherTheyReachTheEnd) {
  for (const std::int64_t k : {1, 64, 65, 129, 192, 1000, 4096, 40968}) {
    const GemmProblem problem = make_gemm(256, 512, k, DType::bf16);
    std::set<std::int32_t> seen;
    for (const KernelConfig& one : other_splits(problem, tile(64), 132)) {
      const auto config = CublasLtConfig::from(one);
      const std::int64_t steps = (k + 63) / 64, slices = config.split_k,
                         of_one = (steps + slices - 1) / slices;
      EXPECT_GT(slices, 1) << "the config itself has one";
      EXPECT_LT((slices - 1) * of_one, steps) << "k " << k << ", " << slices << " slices: the last is empty";
      EXPECT_GE((k / slices + 63) / 64 * 64 * slices, k) << slices << " slices end before k " << k;
      EXPECT_EQ(config.reduction, 2);
      EXPECT_TRUE(seen.insert(config.split_k).second);
    }
    EXPECT_EQ(seen.empty(), k <= 64) << k;
  }
  GemmProblem batches = make_gemm(256, 512, 4096, DType::bf16);
  batches.batch = 2;
  EXPECT_TRUE(other_splits(batches, tile(64), 132).empty());
  const auto one_slice = other_splits(make_gemm(256, 512, 256, DType::bf16), tile(64, 4), 132);
  ASSERT_FALSE(one_slice.empty());
  EXPECT_EQ(CublasLtConfig::from(one_slice[0]).split_k, 1);
  EXPECT_EQ(CublasLtConfig::from(one_slice[0]).reduction, 0);
}

TEST_F(Listed, AModelThatNamesAlgorithmsAsksForNoList) {
  EXPECT_EQ(choice(selector_of(model_of_tiles("t.suggestion"))), kUnnamed);
  EXPECT_EQ(asked_, 0);
}

TEST_F(Listed, WhatIsKnownAsWrongOrDisabledIsLeftOut) {
  list_[1] = CublasLtConfig::from(tile(128, 32)).kernel_config();
  auto wrong = CublasLtConfig::from(list_[1]);
  wrong.version = 130100;  // slices of 1,280 end before K
  list_[1] = wrong.kernel_config();
  const Model model = model_of_tiles("t.listed");
  EXPECT_EQ(choice(selector_of(model)), kThird) << "its place counts what was left out";

  list_[1] = tile(128);
  setenv("KSCOUT_DISABLE", "cublaslt_gemm_bf16_rcr_v130200__a66_128x64x64_st0_s1_none_w0_o0_any_c1x1", 1);
  EXPECT_EQ(choice(selector_of(model)), kThird);
  unsetenv("KSCOUT_DISABLE");
}

TEST(CublasLtNames, ASuggestionMayNameItsAlgorithm) {
  const Provider& of = provider("cublaslt");
  const Signature signature = signature_of(make_gemm(1, 1, 1, DType::bf16));
  const Device device = device_preset("h200");
  for (const char* name : {kUnnamed, kSecond}) {
    const NamedConfig named = of.parse(name);
    EXPECT_EQ(of.print(named.signature, named.config), name);
  }
  const Traits unnamed = of.traits(signature, of.parse(kUnnamed).config, device);
  EXPECT_EQ(unnamed.suggestion, 1);
  EXPECT_EQ(unnamed.listed, 1);
  EXPECT_TRUE(std::isnan(unnamed.tile_m));
  const Traits named = of.traits(signature, of.parse(kSecond).config, device);
  EXPECT_EQ(named.suggestion, 0) << "it is the same algorithm for every problem";
  EXPECT_EQ(named.listed, 2);
  EXPECT_EQ(named.tile_m, 128);
  EXPECT_TRUE(std::isnan(of.traits(signature, tile(128), device).listed));
}

}  // namespace
}  // namespace kscout
