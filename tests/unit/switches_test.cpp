// Tests the environment variables of a selector, and which models apply to a device.
#include <functional>

#include <kscout/error.h>
#include <kscout/provider.h>
#include <kscout/selector.h>

#include "core/files.h"
#include "core/log.h"
#include "support/cublaslt_list.h"
#include "support/expect_error.h"
#include "support/models_folder.h"
#include "support/paths.h"

namespace kscout {
namespace {

using test::expect_error;

namespace fs = std::filesystem;

using SwitchesTest = toy::ModelsFolder;
using FindModelTest = toy::ModelsFolder;

std::string toy_name(std::size_t config, Layout layout = Layout::rcr) {
  return toy::family(layout).name(config);
}

TEST_F(SwitchesTest, ForcedConfigsAnswerWhatTheyCanTake) {
  const GemmProblem p = make_gemm(96, 128, 256);
  const auto plain = Selector::load(folder_ / "model").rank(p, 12);
  const KernelConfig last = plain.back().config;
  setenv("KSCOUT_FORCE", config_name(signature_of(p), last).c_str(), 1);
  const Selector selector = Selector::load(folder_ / "model");
  const Choice choice = selector.select(p);
  EXPECT_EQ(choice.config, last);
  EXPECT_EQ(choice.source, ChoiceSource::forced);
  EXPECT_EQ(selector.select(p).source, ChoiceSource::cache);
  EXPECT_EQ(selector.select(p).decided_by, ChoiceSource::forced);
  GemmProblem accumulating = p;
  accumulating.accumulate = true;
  EXPECT_EQ(selector.select(accumulating).config, last) << "reading C too changes no choice";
  EXPECT_EQ(selector.select(make_gemm(96, 128, 256, DType::fp32, Layout::ccr)).source, ChoiceSource::analytic)
      << "of another layout";

  const auto ranked = selector.rank(p, 12);
  ASSERT_EQ(ranked.size(), plain.size());
  EXPECT_EQ(ranked[0].source, ChoiceSource::forced);
  for (std::size_t i = 1; i < ranked.size(); ++i) EXPECT_EQ(ranked[i].config, plain[i - 1].config);

  setenv("KSCOUT_FORCE", toy_name(2).c_str(), 1);  // 32 columns: its rule refuses narrow problems
  EXPECT_EQ(Selector::load(folder_ / "model").select(make_gemm(64, 4, 64)).source, ChoiceSource::model);
}

TEST_F(SwitchesTest, ForcedConfigsMayComeFromOutsideTheFamily) {
  const GemmProblem p = make_gemm(512, 512, 512);
  const SelectorRequest tiny{.device = toy::device(), .rules = "tiny"};
  const std::string largest = rule_set_names("native", Op::gemm).back();
  const auto all = Selector::analytic({.device = toy::device(), .rules = largest}).rank(p, 100'000);
  for (const Choice& one : Selector::analytic(tiny).rank(p, 100'000)) {
    ASSERT_NE(one.config, all.back().config) << "the test needs a config that tiny lacks";
  }
  setenv("KSCOUT_FORCE", Selector::name(p, all.back()).c_str(), 1);
  for (const Selector& selector : {Selector::load(folder_ / "model"), Selector::analytic(tiny)}) {
    EXPECT_EQ(selector.select(p).config, all.back().config);
    EXPECT_EQ(selector.select(p).decided_by, ChoiceSource::forced);
  }
}

TEST_F(SwitchesTest, UnknownNamesAreErrorsThatNameTheNearest) {
  std::string wrong = toy_name(3);
  wrong.replace(wrong.find("avx2"), 4, "avx3");
  setenv("KSCOUT_FORCE", wrong.c_str(), 1);
  const auto load = [&] { Selector::load(folder_ / "model"); };
  expect_error(Errc::invalid_argument, {"KSCOUT_FORCE", wrong, "did you mean '" + toy_name(3)}, load);
  expect_error(Errc::invalid_argument, {"KSCOUT_FORCE", "did you mean 'native_gemm"},
               [] { Selector::analytic({.device = toy::device(), .rules = "tiny"}); });
  setenv("KSCOUT_FORCE", "", 1);
  setenv("KSCOUT_DISABLE", "analytik", 1);
  expect_error(Errc::invalid_argument, {"KSCOUT_DISABLE", "did you mean 'analytic'?"}, load);
}

TEST_F(SwitchesTest, LinksMayBeSwitchedOff) {
  const GemmProblem p = make_gemm(96, 128, 256);
  setenv("KSCOUT_DISABLE", "cache", 1);
  const Selector uncached = Selector::load(folder_ / "model");
  EXPECT_EQ(uncached.select(p).source, ChoiceSource::model);
  EXPECT_EQ(uncached.select(p).source, ChoiceSource::model);
  setenv("KSCOUT_DISABLE", "model", 1);
  const Selector modelless = Selector::load(folder_ / "model");
  EXPECT_EQ(modelless.select(p, By::latency).source, ChoiceSource::analytic)
      << "the model's targets are asked of nobody";
  setenv("KSCOUT_DISABLE", "model,analytic", 1);
  const Selector bare = Selector::analytic({.device = toy::device(), .rules = "tiny"});
  const Family family =
      enumerate({.signature = signature_of(p), .device = toy::device(), .rules = "tiny", .filter = {}});
  EXPECT_EQ(bare.select(p).source, ChoiceSource::fallback);
  EXPECT_EQ(bare.select(p).config, family.configs[family.default_config]);
}

TEST_F(SwitchesTest, ConfigsMayBeKeptOut) {
  const GemmProblem p = make_gemm(96, 128, 256);
  const auto plain = Selector::load(folder_ / "model").rank(p, 12);
  const auto name = [&](std::size_t i) { return Selector::name(p, plain[i]); };
  setenv("KSCOUT_DISABLE", (name(0) + "," + name(2)).c_str(), 1);
  const auto rest = Selector::load(folder_ / "model").rank(p, 12);
  ASSERT_EQ(rest.size(), plain.size() - 2);
  EXPECT_EQ(rest[0].config, plain[1].config);
  EXPECT_EQ(rest[1].config, plain[3].config);

  const SelectorRequest request{.device = toy::device(), .rules = "tiny"};
  unsetenv("KSCOUT_DISABLE");
  const Choice analytic = Selector::analytic(request).select(p);
  setenv("KSCOUT_DISABLE", Selector::name(p, analytic).c_str(), 1);
  EXPECT_NE(Selector::analytic(request).select(p).config, analytic.config);
}

TEST_F(SwitchesTest, LogTellsModelAndDecisions) {
  const fs::path file = folder_ / "log";
  setenv("KSCOUT_LOG", file.c_str(), 1);
  setenv("KSCOUT_FORCE", toy_name(5).c_str(), 1);
  const Selector selector = Selector::load(folder_ / "model");
  const GemmProblem p = make_gemm(64, 64, 64);
  for (int i = 0; i < 2; ++i) selector.select(p);
  const std::string log = read_file(file);
  for (const std::string& part :
       {"kscout: model " + (folder_ / "model").string() + " of device epyc-7763",
        "KSCOUT_FORCE: " + toy_name(5), print(p) + " -> " + toy_name(5) + " (forced"}) {
    EXPECT_NE(log.find(part), std::string::npos) << part << " is not in\n" << log;
  }
  EXPECT_EQ(log.find("->"), log.rfind("->")) << "answers of the cache are not told";
  setenv("KSCOUT_LOG", (folder_ / "no" / "folder").c_str(), 1);
  expect_error(Errc::device_failure, {"KSCOUT_LOG"}, [&] { Selector::load(folder_ / "model"); });
}

TEST_F(SwitchesTest, ALostLogIsReportedOnce) {
  setenv("KSCOUT_LOG", "/dev/full", 1);
  testing::internal::CaptureStderr();
  const Selector selector = Selector::load(folder_ / "model");
  for (int size : {32, 64, 96})
    EXPECT_FALSE(
        Selector::name(make_gemm(size, size, size), selector.select(make_gemm(size, size, size))).empty());
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "kscout: warning: KSCOUT_LOG=/dev/full: No space left on device; lines of the log are lost\n");
  EXPECT_TRUE(Log::lost_lines());
}

Device changed(std::string name, const std::function<void(Device&)>& change) {
  Device device = toy::device();
  device.name = std::move(name);
  change(device);
  return device;
}

TEST_F(FindModelTest, AnotherDeviceOfTheSameArchitectureMayAnswer) {
  const Device ours = toy::device();
  const Device faster = changed("faster", [](Device& d) { d.max_clock_mhz *= 1.2; });
  const Device near = changed("near", [](Device& d) { d.max_clock_mhz *= 1.1; });
  const Device smaller = changed("smaller", [](Device& d) { d.cores = 2; });
  const Device other = changed("other", [](Device& d) { d.arch = "zen9"; });
  setenv("KSCOUT_MODEL_PATH", folder_.path().c_str(), 1);
  const auto folder_of = [&](const Device& device) {
    return folder_ / model_folder_name(Op::gemm, DType::fp32, device);
  };
  for (const Device& device : {other, smaller}) install(folder_of(device), model_of(device));
  const auto find = [&](DevicePolicy policy) { return find_model(Op::gemm, DType::fp32, ours, policy); };
  const std::string any_cpu_folder = model_folder_name(Op::gemm, DType::fp32, any_cpu());  // shipped
  EXPECT_EQ(find(DevicePolicy::same_arch).value().filename(), any_cpu_folder)
      << "configs name numbers of threads";
  EXPECT_EQ(find(DevicePolicy::any).value().filename(), any_cpu_folder);

  for (const Device& device : {faster, near}) install(folder_of(device), model_of(device));
  write_file_atomically(folder_of(near).string() + "x", "");  // beside the models: no folder
  EXPECT_EQ(find(DevicePolicy::exact), std::nullopt);
  EXPECT_EQ(find(DevicePolicy::same_arch), folder_of(near));

  const SelectorRequest request{.device = ours, .rules = "tiny"};
  const Selector selector = Selector::find(Op::gemm, DType::fp32, request);
  EXPECT_EQ(selector.select(make_gemm(64, 64, 64)).source, ChoiceSource::model);
  ASSERT_EQ(selector.warnings().size(), 1u);
  EXPECT_TRUE(selector.warnings()[0].starts_with("foreign_device: the model was trained on 'near'"));
  EXPECT_EQ(selector.device().name, ours.name);

  write_file_atomically(folder_of(near) / "model.ksf", "damaged");
  EXPECT_EQ(find(DevicePolicy::same_arch), folder_of(faster)) << "damaged models are passed over";
  install(folder_of(ours), model_of(ours));
  EXPECT_EQ(find(DevicePolicy::any), folder_of(ours));
  EXPECT_TRUE(Selector::find(Op::gemm, DType::fp32, request).warnings().empty());
}

TEST_F(FindModelTest, OnAnotherGpuTheFirstSuggestionAnswersUnlessTheModelIsClearlyBetter) {
  const fs::path folder = folder_ / "gpus" / "gemm_bf16_h200";
  install(folder, Model::load(paths::in_repository("models/gemm_bf16_h200")));
  setenv("KSCOUT_MODEL_PATH", (folder_ / "gpus").c_str(), 1);
  Device other = device_preset("h100");
  other.name = "h100-of-this-test";
  const auto find = [&](DevicePolicy policy) { return find_model(Op::gemm, DType::bf16, other, policy); };
  const SelectorRequest request{.device = other};
  const GemmProblem p = make_gemm(64, 4096, 4096, DType::bf16);
  EXPECT_EQ(find(DevicePolicy::same_arch), std::nullopt);
  EXPECT_EQ(find(DevicePolicy::any), folder);
  const Selector library = Selector::find(Op::gemm, DType::bf16, request);
  EXPECT_EQ(library.select(p).config["suggestion"], 1);
  ASSERT_EQ(library.warnings().size(), 1u);
  EXPECT_TRUE(library.warnings()[0].starts_with("library_first: no model of 'h100-of-this-test'"));
  EXPECT_NE(library.warnings()[0].find("the model of 'h200' is left out: no result"), std::string::npos);

  OnAnotherGpu result{.device = other.name, .mean = 0.976, .suggestion_mean = 0.97, .problems = 400};
  store_on_another_gpu(folder, result);
  EXPECT_EQ(find(DevicePolicy::same_arch), std::nullopt) << "better by less than a point";
  EXPECT_NE(Selector::find(Op::gemm, DType::bf16, request).warnings()[0].find("97.60 %"), std::string::npos);
  result.suggestion_mean = 0.95;
  store_on_another_gpu(folder, result);
  EXPECT_EQ(Model::load(folder).data().on_other_gpus.size(), 2u) << "replaced; the shipped one is of an h100";
  EXPECT_EQ(find(DevicePolicy::same_arch), folder);
  const Selector model = Selector::find(Op::gemm, DType::bf16, request);
  EXPECT_EQ(model.select(p).source, ChoiceSource::model);
  ASSERT_EQ(model.warnings().size(), 1u);
  EXPECT_TRUE(model.warnings()[0].starts_with("foreign_device: "));
  test::expect_error(Errc::invalid_argument, "results on other GPUs of a model of 'epyc-7763'",
                     [&] { store_on_another_gpu(folder_ / "model", result); });
}

TEST_F(FindModelTest, OnNvidiaGpusAModelOfOneHalfAnswersForTheOther) {
  const fs::path folder = folder_ / "halves" / "gemm_bf16_h200";
  install(folder, Model::load(paths::in_repository("models/gemm_bf16_h200")));
  setenv("KSCOUT_MODEL_PATH", (folder_ / "halves").c_str(), 1);
  const Device h200 = device_preset("h200");
  EXPECT_EQ(find_model(Op::gemm, DType::fp16, h200), folder);
  EXPECT_EQ(find_model(Op::gemm, DType::fp16, device_preset("h100"), DevicePolicy::same_arch), folder)
      << "it is recorded as better there";
  EXPECT_EQ(find_model(Op::gemm, DType::fp32, h200), std::nullopt);
  EXPECT_EQ(find_model(Op::gemm, DType::fp16, device_preset("gfx942")), std::nullopt);

  const std::vector<KernelConfig> list = test::cublaslt_list();
  const Selector selector = Selector::find(
      Op::gemm, DType::fp16, {.device = h200, .suggestions = [&](ProblemRef, std::size_t) { return list; }});
  for (const Layout layout : {Layout::rcr, Layout::rrr, Layout::crr, Layout::ccr}) {
    const GemmProblem p = make_gemm(512, 4096, 1024, DType::fp16, layout);
    const Choice fp16 = selector.select(p);
    const Choice bf16 = selector.select(make_gemm(512, 4096, 1024, DType::bf16, layout));
    EXPECT_EQ(fp16.source, ChoiceSource::model);
    EXPECT_NE(Selector::name(p, fp16).find("_gemm_fp16_"), std::string::npos);
    if (layout == Layout::rcr) continue;  // trained in both types
    EXPECT_EQ(fp16.config, bf16.config);
    EXPECT_EQ(fp16.time_us, bf16.time_us);
    EXPECT_EQ(fp16.confidence, bf16.confidence);
  }
  // Where rows are no multiples of 16 bytes, the library has other kernels in fp16: its suggestion answers.
  GemmProblem odd = make_gemm(512, 4095, 1023, DType::fp16, Layout::rrr);
  EXPECT_EQ(selector.select(odd).config["suggestion"], 1);
  odd.dtype_a = odd.dtype_b = odd.dtype_c = DType::bf16;
  EXPECT_NE(selector.select(odd).config["suggestion"], 1);
  // A model of its own goes first.
  const fs::path own = folder_ / "halves" / "gemm_fp16_h200";
  install(own, Model::load(folder));
  EXPECT_EQ(find_model(Op::gemm, DType::fp16, h200), own);
}

TEST_F(FindModelTest, NamedModelOfAnotherDeviceIsRefusedOrWarnsByPolicy) {
  const Device other = changed("other", [](Device& d) { d.cores = 2; });
  const fs::path folder = folder_ / "foreign";
  install(folder, model_of(other));
  SelectorRequest request{.device = toy::device(), .rules = "tiny"};
  expect_error(Errc::unsupported, {"trained on 'other'", "number of cores is 2", "epyc-7763", "same_arch"},
               [&] { Selector::load(folder, request); });
  request.devices = DevicePolicy::any;
  const Selector selector = Selector::load(folder, request);
  EXPECT_EQ(selector.select(make_gemm(64, 64, 64)).source, ChoiceSource::model);
  EXPECT_EQ(selector.warnings().size(), 1u);
  request.device.kind = DeviceKind::gpu;
  request.device.name = "a-gpu";
  expect_error(Errc::unsupported, {"kind"}, [&] { Selector::load(folder, request); });
  EXPECT_TRUE(Selector::load(folder).warnings().empty()) << "for the device that it was trained on";
}

}  // namespace
}  // namespace kscout
