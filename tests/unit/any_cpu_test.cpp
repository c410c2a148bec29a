// Models for any CPU: the family of the present device, the order of sources, and what is refused.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/selector.h>

#include "core/files.h"
#include "forest/forest.h"
#include "libraries/toy_index.h"
#include "select/compiled_family.h"
#include "select/model.h"
#include "support/expect_error.h"
#include "support/models_folder.h"

namespace kscout {
namespace {

constexpr Op kGemm = Op::gemm;
constexpr DType kFp32 = DType::fp32;

/// A model for any CPU over rule set `tiny`: prefers many accumulators, and all cores when the product is
/// deep.
Model any_cpu_model(const std::string& rules = "tiny") {
  ModelData data;
  data.any_cpu = true;
  data.families = {enumerate(
      {.signature = signature_of(make_gemm(1, 1, 1)), .device = any_cpu(), .rules = "tiny", .filter = {}})};
  for (Family& family : data.families) family.rules = rules;
  data.schema = std::make_shared<Schema>(Schema::find("gemm_any_cpu"));
  Forest forest;
  forest.feature_count = static_cast<std::uint32_t>(data.schema->size());
  forest.tree_nodes = {0, 3};
  forest.tree_leaves = {0, 4};
  forest.threshold = {256, 0.75, 8.5};
  forest.feature = {static_cast<std::uint32_t>(data.schema->index("k")),
                    static_cast<std::uint32_t>(data.schema->index("cores_share")),
                    static_cast<std::uint32_t>(data.schema->index("accumulators"))};
  forest.left = {2, -1, -3};
  forest.right = {1, -2, -4};
  forest.decision = {2, 2, 2};
  forest.leaf_value = {-1, -0.1, -0.9, -0.2};
  data.targets = {{Target::rank, forest, 0, 1}};
  Forest best;
  best.feature_count = 1;
  best.tree_nodes = {0, 1};
  best.tree_leaves = {0, 2};
  best.threshold = {100};
  best.feature = {0};
  best.left = {-1};
  best.right = {-2};
  best.decision = {2};
  best.leaf_value = {-4, -3};
  data.best_tflops = best;
  data.best_features = {0};
  data.fingerprint = "0123456789abcdef";
  return Model(std::move(data));
}

/// An architecture that no file names, with any number of cores.
Device unknown_cpu(double cores, const std::string& isa = "avx2") {
  Device device;
  device.name = "granite-" + std::to_string(static_cast<int>(cores)) + "c";
  device.arch = "granite";
  device.isa = isa;
  device.cores = cores;
  device.vector_bytes = isa == "avx512" ? 64 : 32;
  return device;
}

TEST(AnyCpu, ChoosesAmongTheConfigsOfThePresentDevice) {
  const Model model = Model::parse(any_cpu_model().bytes());
  EXPECT_TRUE(model.data().any_cpu);
  EXPECT_EQ(model.bytes(), any_cpu_model().bytes());
  for (const double cores : {1, 2, 8, 96}) {
    for (const char* isa : {"avx2", "avx512", "scalar"}) {
      const Device device = unknown_cpu(cores, isa);
      const Model here = model.for_device(device);
      const Family whole = enumerate(
          {.signature = signature_of(make_gemm(1, 1, 1)), .device = device, .rules = "tiny", .filter = {}});
      const Family& family = here.data().families.front();
      EXPECT_EQ(here.device(), device);
      ASSERT_EQ(family.configs.size(), whole.configs.size()) << device.name << " " << isa;
      for (std::size_t i = 0; i < whole.configs.size(); ++i) EXPECT_EQ(family.configs[i], whole.configs[i]);
      EXPECT_EQ(model.for_device(device).bytes(), here.for_device(device).bytes()) << "made again: the same";
    }
  }
}

TEST(AnyCpu, UsesAllCoresOfAnyNumber) {
  ModelData data = any_cpu_model().data();
  for (Family& family : data.families) family.rules = "default";
  const Model model(std::move(data));
  for (const double cores : {2, 8, 48}) {
    const Model here = model.for_device(unknown_cpu(cores));
    const GemmProblem deep = make_gemm(512, 512, 4096);
    const Family& family = *here.family(signature_of(deep));
    std::vector<double> scores(family.configs.size());
    here.score(deep, scores);
    const auto pick = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
    EXPECT_GT(host_threads(family.configs[pick]), 0.75 * cores);
  }
}

/// The model of any_cpu_model() over rule set `broad`, with a second tree that prefers few accumulators.
ModelData two_trees() {
  ModelData data = any_cpu_model().data();
  for (Family& family : data.families) family.rules = "broad";
  Forest& forest = data.targets.front().forest;
  forest.tree_nodes.push_back(4);
  forest.tree_leaves.push_back(6);
  forest.threshold.push_back(4.5);
  forest.feature.push_back(static_cast<std::uint32_t>(data.schema->index("accumulators")));
  forest.left.push_back(-1);
  forest.right.push_back(-2);
  forest.decision.push_back(2);
  forest.leaf_value.insert(forest.leaf_value.end(), {3.0, 0.0});
  return data;
}

TEST(AnyCpu, FirstTreesChooseTheConfigsThatGetExactScores) {
  const Device device = unknown_cpu(8);
  ModelData first = two_trees(), some = two_trees();
  first.targets.front().forest = first_trees(first.targets.front().forest, 1);
  some.first_trees = 1;
  const Model by_first = Model(std::move(first)).for_device(device),
              all = Model(two_trees()).for_device(device), model = Model(std::move(some)).for_device(device);
  EXPECT_EQ(Model::parse(model.bytes()).data().first_trees, 1u);
  bool differs = false;
  for (const GemmProblem& p : {make_gemm(64, 64, 64), make_gemm(512, 512, 4096), make_gemm(1, 300, 40)}) {
    std::vector<double> coarse(model.family(signature_of(p))->configs.size()), exact(coarse.size());
    ASSERT_GT(coarse.size(), kKeptByFirstTrees);
    by_first.exact_scores(p, Target::rank, coarse);
    all.exact_scores(p, Target::rank, exact);
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < coarse.size(); ++i) {
      if (std::isfinite(coarse[i])) order.push_back(i);
    }
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::uint32_t i) { return coarse[i]; });
    const std::size_t able = order.size();
    order.resize(std::min<std::size_t>(able, kKeptByFirstTrees));
    std::vector<std::uint8_t> kept(coarse.size(), 0);
    for (const std::uint32_t i : order) kept[i] = 1;
    EXPECT_EQ(model.candidates(p), kept) << print(p);

    SelectScratch scratch;
    std::vector<Ranked> ranked(able);
    const CompiledFamily& family = *model.compiled(signature_of(p));
    ASSERT_EQ(model.rank(family, p, Target::rank, {}, ranked, scratch), able);
    std::ranges::sort(order);
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::uint32_t i) { return exact[i]; });
    for (std::size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(ranked[i].config, order[i]) << print(p) << " rank " << i;
      EXPECT_EQ(ranked[i].score, exact[order[i]]);
    }
    const auto best = std::ranges::max_element(exact) - exact.begin();
    differs = differs || order.front() != best;
  }
  EXPECT_TRUE(differs) << "some choice must be one that exact scores of all configs would not make";
  ModelData more = two_trees();
  more.first_trees = 3;
  test::expect_error(Errc::invalid_argument, "it has 2 trees", [&] { Model(std::move(more)); });
}

TEST(AnyCpu, SaysWhichDevicesItKnowsAndHowFarThisOneIs) {
  ModelData data = any_cpu_model().data();
  data.known_devices = {unknown_cpu(2), unknown_cpu(8), unknown_cpu(8, "avx512")};
  data.known_devices[2].name = "granite-avx512-8c";
  const Model model = Model::parse(Model(data).bytes());
  EXPECT_EQ(model.data().known_devices, data.known_devices);
  EXPECT_EQ(model.for_device(unknown_cpu(6)).data().known_devices, data.known_devices);
  const std::string known = any_cpu_note(data.known_devices, unknown_cpu(8)),
                    near = any_cpu_note(data.known_devices, unknown_cpu(6));
  EXPECT_TRUE(known.starts_with("any_cpu: a model of 3 kinds of CPUs answers, one of them 'granite-8c'"))
      << known;
  EXPECT_NE(near.find("nobody measured 'granite-6c'"), std::string::npos) << near;
  EXPECT_NE(near.find("the nearest is 'granite-8c' (cores 8 instead of 6)"), std::string::npos) << near;
  data.any_cpu = false;
  data.targets.front().target = Target::rank;
  test::expect_error(Errc::invalid_argument, "only a model for any CPU", [&] { Model(std::move(data)); });
}

TEST(AnyCpu, SpeedsAreSharesOfThePeak) {
  const Model model = any_cpu_model();
  Device device = unknown_cpu(4);
  device.max_clock_mhz = 2000;
  device.fma_per_cycle = 2;
  Device twice = device;
  twice.max_clock_mhz = 4000;
  const GemmProblem p = make_gemm(64, 64, 64);
  const double slow = model.for_device(device).predicted_tflops(p, std::vector<double>{-0.5}).front(),
               fast = model.for_device(twice).predicted_tflops(p, std::vector<double>{-0.5}).front();
  EXPECT_NEAR(fast / slow, 2, 1e-12);
  EXPECT_NEAR(slow, std::exp(-4.0) * peak_fp32_gflops(device) / 1000 / assumed_peak_tflops(any_cpu()), 1e-9);
}

TEST(AnyCpu, RefusesWhatIsNoCpuAndRulesThatAreGone) {
  test::expect_error(Errc::unsupported, "h100", [&] { any_cpu_model().for_device(device_preset("h100")); });
  test::expect_error(Errc::unsupported, "of-yesterday",
                     [&] { any_cpu_model("of-yesterday").for_device(unknown_cpu(2)); });
  test::expect_error(Errc::unsupported, "epyc-7763", [&] { toy::model().for_device(unknown_cpu(2)); });
  ModelData data = any_cpu_model().data();
  data.targets.front().target = Target::tflops;
  test::expect_error(Errc::invalid_argument, "relative or rank", [&] { Model(std::move(data)); });
}

TEST(AnyCpu, OneCpuWhateverPartOfItIsUsed) {
  Device device = device_preset("xeon-8480");
  EXPECT_EQ(cpu_of(device), "sapphirerapids");
  device.arch = "sapphirerapids-avx2";
  device.isa = "avx2";
  EXPECT_EQ(cpu_of(device), "sapphirerapids");
  device.arch = "zen5-mobile";
  EXPECT_EQ(cpu_of(device), "zen5-mobile");
}

using AnyCpuFolder = toy::ModelsFolder;

TEST_F(AnyCpuFolder, AnswersBetweenTheExactModelAndTheAnalyticCost) {
  const Device device = unknown_cpu(8);
  const SelectorRequest request{.device = device, .rules = "tiny"};
  const GemmProblem p = make_gemm(64, 64, 64), other = make_gemm(64, 64, 64, kFp32, Layout::crr);
  const std::filesystem::path folder = folder_ / "path";
  setenv("KSCOUT_MODEL_PATH", folder.c_str(), 1);
  install(folder / model_folder_name(kGemm, kFp32, any_cpu()), any_cpu_model());
  EXPECT_EQ(find_model_or_any_cpu(kGemm, kFp32, device), folder / "gemm_fp32_any_cpu");
  EXPECT_EQ(find_model(kGemm, kFp32, device), std::nullopt) << "exact";
  for (const DevicePolicy policy : {DevicePolicy::same_arch, DevicePolicy::any})
    EXPECT_EQ(find_model(kGemm, kFp32, device, policy), folder / "gemm_fp32_any_cpu");
  EXPECT_EQ(find_model(kGemm, kFp32, device_preset("h100"), DevicePolicy::same_arch), std::nullopt);

  const Selector any = Selector::find(kGemm, kFp32, request);
  const Choice choice = any.select(p);
  EXPECT_EQ(choice.source, ChoiceSource::any_cpu);
  EXPECT_TRUE(std::isnan(choice.confidence));
  EXPECT_EQ(any.device().name, "granite-8c");
  ASSERT_EQ(any.warnings().size(), 1u);
  EXPECT_NE(any.warnings()[0].find("kscout tune"), std::string::npos);
  EXPECT_NE(any.warnings()[0].find("granite-8c"), std::string::npos);
  EXPECT_EQ(any.select(p).decided_by, ChoiceSource::any_cpu) << "from the cache";
  EXPECT_EQ(any.select(other).source, ChoiceSource::analytic) << "a layout that it was not trained for";

  SelectorRequest strict = request;
  strict.devices = DevicePolicy::exact;
  EXPECT_EQ(Selector::find(kGemm, kFp32, strict).select(p).source, ChoiceSource::analytic);
  test::expect_error(Errc::unsupported, "granite-8c",
                     [&] { Selector::load(folder / "gemm_fp32_any_cpu", strict); });

  Model exact = toy::model();
  ModelData own = exact.data();
  for (Family& family : own.families) family.device = device;
  install(folder / model_folder_name(kGemm, kFp32, device), Model(std::move(own)));
  const Selector tuned = Selector::find(kGemm, kFp32, request);
  EXPECT_EQ(tuned.select(p).source, ChoiceSource::model);
  EXPECT_TRUE(tuned.warnings().empty());

  const std::filesystem::path tuned_folder = folder / model_folder_name(kGemm, kFp32, device);
  store_against_any_cpu(tuned_folder, {.mean = 0.9, .any_cpu_mean = 0.95, .problems = 60});
  EXPECT_EQ(find_model_or_any_cpu(kGemm, kFp32, device), folder / "gemm_fp32_any_cpu");
  EXPECT_EQ(Selector::find(kGemm, kFp32, request).select(p).source, ChoiceSource::any_cpu) << "it is better";
  EXPECT_EQ(Selector::find(kGemm, kFp32, strict).select(p).source, ChoiceSource::model);
  store_against_any_cpu(tuned_folder, {.mean = 0.95, .any_cpu_mean = 0.95, .problems = 60});
  EXPECT_EQ(Selector::find(kGemm, kFp32, request).select(p).source, ChoiceSource::model) << "as good";
}

TEST_F(AnyCpuFolder, IsPreferredToTheRoughCostOfAnotherBackendWhateverItPredicts) {
  ModelData slow = any_cpu_model().data();
  slow.best_tflops.leaf_value = {-20, -20};
  const std::filesystem::path models = folder_ / "path";
  setenv("KSCOUT_MODEL_PATH", models.c_str(), 1);
  install(models / model_folder_name(kGemm, kFp32, any_cpu()), Model(std::move(slow)));
  // Comes before a shipped model of the CPU that runs the test, and gives way to the model for any CPU.
  const std::filesystem::path own = models / model_folder_name(kGemm, kFp32, detect_cpu());
  install(own, model_of(detect_cpu()));
  store_against_any_cpu(own, {.mean = 0.9, .any_cpu_mean = 0.95, .problems = 60});
  const std::filesystem::path index = folder_ / "toy.kscout-library.json";
  write_file_atomically(index, toy::index(toy::library_file("toy_good")).dump());
  Registry alone, both = Registry::here();
  alone.add_library(index);
  both.add_library(index);
  const GemmProblem p = make_gemm(64, 64, 64);
  const Choice rough = Dispatcher(alone).get_solution(p).choice;
  EXPECT_EQ(rough.decided_by, ChoiceSource::analytic);
  const Solution solution = Dispatcher(both, {.rules = "tiny"}).get_solution(p);
  EXPECT_EQ(solution.backend->name(), "cpu");
  EXPECT_EQ(solution.choice.decided_by, ChoiceSource::any_cpu);
  EXPECT_GT(solution.choice.time_us, rough.time_us);
}

TEST_F(AnyCpuFolder, LoadedWithoutADeviceItAnswersForThisMachine) {
  install(folder_ / "any", any_cpu_model());
  EXPECT_EQ(model_device(folder_ / "any").name, detect_cpu().name);
  const Selector selector = Selector::load(folder_ / "any");
  EXPECT_EQ(selector.device().name, detect_cpu().name);
  EXPECT_EQ(selector.select(make_gemm(64, 64, 64)).source, ChoiceSource::any_cpu);
  EXPECT_EQ(selector.warnings().size(), 1u);
}

}  // namespace
}  // namespace kscout
