// Tests provider cudnn and its part of backend cuda, with a cuDNN and a GPU that are this machine's CPU
// (tests/libraries/stand_in_cudnn.cpp, host_gpu.cpp).
#include "provider/cudnn/cudnn.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/backend.h>
#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cudnn_graph.h"
#include "core/files.h"
#include "family/family_file.h"
#include "family/rules.h"
#include "measure/problem_bench.h"
#include "measure/verified_launch.h"
#include "op/operands.h"
#include "op/reference.h"
#include "support/measured_here.h"
#include "support/paths.h"
#include "support/random_conv.h"
#include "support/temporary_folder.h"
#include "sweep/audit.h"

namespace kscout {
namespace {

class CudnnTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("KSCOUT_CUDA_MODULE", paths::host_gpu, 1);
    setenv("KSCOUT_CUDNN", paths::stand_in_cudnn, 1);
  }

  static Outcome measured(ProblemBench& bench, const KernelConfig& config) {
    return bench.coarse({&backend("cuda"), config}, std::numeric_limits<double>::infinity());
  }
};

KernelConfig listed(Op op, std::int32_t n, CudnnMode mode = CudnnMode::a) {
  CudnnConfig config;
  config.suggestion = n;
  config.mode = mode;
  return config.kernel_config(op);
}

CudnnConfig engine(std::int32_t number) {
  CudnnConfig config;
  config.version = 91900;
  config.engine = number + 1;
  return config;
}

ConvProblem conv(const char* text) { return parse_conv_problem(text); }

TEST_F(CudnnTest, EveryProblemRunsAndIsVerified) {
  test::Rng rng(5);
  ProblemBench bench({.cache = CacheState::cold}, 1, instruments_of(backend("cuda")));
  for (const Op op : kDirections) {
    for (int i = 0; i < 25; ++i) {
      ConvProblem problem = test::random_conv(rng, op);
      while (flop_count(problem) > 5e5) problem = test::random_conv(rng, op);  // the stand-in is slow
      const DType dtype = test::one_of(rng, {DType::bf16, DType::fp16, DType::tf32, DType::fp32});
      problem.dtype_in = problem.dtype_wei = problem.dtype_out = dtype;
      const bool deep = spatial_rank(problem.layout) == 3;
      if (i % 2 == 1) problem.layout = deep ? Layout::ngcdhw : Layout::ngchw;
      if (op == Op::conv_fwd && i % 4 < 2) problem.epilogue = Epilogue::bias;
      bench.open(problem);
      const Outcome outcome = measured(bench, listed(op, 1));
      EXPECT_EQ(outcome.measured.status, Status::ok) << print(problem) << ": " << outcome.reason;
      const Outcome fallback = measured(bench, engine(0).kernel_config(op));
      EXPECT_EQ(fallback.measured.status, Status::ok) << print(problem) << ": " << fallback.reason;
    }
  }
}

/// By every comparison: the second problem is too large to compare each element.
TEST_F(CudnnTest, AMissingBiasIsFound) {
  for (const char* const text :
       {"conv_fwd:2x8x6x6:8x3x3:bf16:nhwgc:pad=1", "conv_fwd:2x16x20x20:24x3x3:fp16:ngchw:pad=1"}) {
    const ConvProblem plain = conv(text);
    ConvProblem biased = plain;
    biased.epilogue = Epilogue::bias;
    GemmOperands operands(instruments_of(backend("cuda")));
    operands.make(biased, 7);
    const auto reference = make_reference(biased, operands);
    const auto error = [&](const ConvProblem& computed) {
      return VerifiedLaunch(backend("cuda").prepare(computed, listed(Op::conv_fwd, 1)), operands)
          .verify(*reference)
          .error;
    };
    EXPECT_LE(error(biased), 1) << text;
    EXPECT_GT(error(plain), 1) << text;
  }
}

/// Models of plain convolutions answer, with kernels that add a bias; own kernels do not.
TEST_F(CudnnTest, TheDispatcherAddsABiasByTheLibrary) {
  const ConvProblem problem = conv("conv_fwd:2x8x6x6:8x3x3:bf16:nhwgc:pad=1:epilogue=bias");
  const KernelConfig own = parse_config_name("groupwise_conv_fwd_bf16_nhwgc__gemm_t64x32_m1_k1").config;
  EXPECT_NE(backend("cuda").refusal(problem, own).find("no-epilogue"), std::string::npos)
      << backend("cuda").refusal(problem, own);
  Registry registry;
  registry.add(backend("cuda"));
  Dispatcher dispatcher(std::move(registry));
  GemmOperands operands(instruments_of(backend("cuda")));
  operands.make(problem, 7);
  const auto reference = make_reference(problem, operands);
  operands.reset_c();
  dispatcher.run(problem, operands.buffers());
  EXPECT_LE(reference->check(operands.result()).error, 1);
  Buffers without = operands.buffers();
  without.operand[3] = nullptr;
  EXPECT_THROW(dispatcher.run(problem, without), Error) << "the bias is missing";
  ConvProblem plain = problem;
  plain.epilogue = Epilogue::none;
  EXPECT_THROW(dispatcher.run(plain, operands.buffers()), Error) << "nothing adds it";
}

TEST_F(CudnnTest, WrongResultsAreFoundAndRefusalsSayWhy) {
  const ConvProblem problem = conv("conv_fwd:3x8x6x6:8x3x3:bf16:nhwgc:pad=1");
  ProblemBench bench({.cache = CacheState::cold}, 1, instruments_of(backend("cuda")));
  bench.open(problem);
  EXPECT_EQ(measured(bench, engine(3).kernel_config(Op::conv_fwd)).measured.status, Status::wrong);
  // Mode a lists 2 (narrow sums), 63 (rule of this release), 1, 1; the fallback list follows: 4, 0.
  for (const std::int32_t n : {1, 2, 3, 4}) {
    const Outcome outcome = measured(bench, listed(Op::conv_fwd, n));
    EXPECT_EQ(outcome.measured.status, Status::ok) << n << ": " << outcome.reason;
  }
  const auto refused = [&](const KernelConfig& config) {
    const Outcome outcome = measured(bench, config);
    EXPECT_EQ(outcome.measured.status, Status::unsupported);
    return outcome.reason;
  };
  EXPECT_NE(refused(listed(Op::conv_fwd, 5)).find("fewer than 5"), std::string::npos);
  EXPECT_NE(refused(engine(2).kernel_config(Op::conv_fwd)).find("narrower"), std::string::npos);
  CudnnConfig knob = engine(1);
  knob.knob[cudnn_knob(2)] = 5;  // tile_size 4
  EXPECT_NE(refused(knob.kernel_config(Op::conv_fwd)).find("no such knob"), std::string::npos);
  CudnnConfig other = engine(1);
  other.version = 90800;
  EXPECT_NE(refused(other.kernel_config(Op::conv_fwd)).find("91900"), std::string::npos);
  EXPECT_NE(backend("cuda")
                .refusal(conv("conv_fwd:3x8x6x6:8x3x3:bf16:nhwgc:split_k=2"), listed(Op::conv_fwd, 1))
                .find("split-K"),
            std::string::npos);
  EXPECT_NE(backend("cuda").refusal(problem, listed(Op::conv_bwd_data, 1)).find("conv_bwd_data"),
            std::string::npos);
  EXPECT_NE(backend("cuda").refusal(make_gemm(8, 8, 8, DType::bf16), listed(Op::conv_fwd, 1)), "");
}

TEST_F(CudnnTest, AnAuditNamesTheEngineOfAWrongSuggestion) {
  setenv("STAND_IN_CUDNN", "wrong", 1);
  Audit audit(backend("cuda"), {.suggestions = 8});
  for (const SweepPlan& plan : audit.plans({conv("conv_fwd:3x8x6x6:8x3x3:bf16:nhwgc:pad=1")}))
    audit.add(test::measured_here(plan));
  unsetenv("STAND_IN_CUDNN");
  ASSERT_EQ(audit.wrong().size(), 1U);
  const WrongSuggestion& wrong = audit.wrong()[0];
  EXPECT_EQ(wrong.config["engine"], engine(3).engine);
  EXPECT_EQ(wrong.status, Status::wrong);
  EXPECT_TRUE(wrong.verdict.since.empty()) << "no rule knows it";
  EXPECT_EQ(audit.rows()[0].since, "cuDNN 9.19.0");
  EXPECT_NE(reproduction(wrong).pytorch.find("conv2d"), std::string::npos);
  ASSERT_EQ(audit.errata().size(), 1U);
  EXPECT_EQ(audit.errata()[0].name, "engine 3 of cuDNN 9.19.0, conv_fwd");
}

TEST_F(CudnnTest, TheFirstSuggestionFallsBackAndCanBeDeterministic) {
  // Odd channels: mode a lists only engines that are excluded.
  const ConvProblem problem = conv("conv_fwd:2x7x6x6:8x3x3:bf16:nhwgc:pad=1");
  ProblemBench bench({.cache = CacheState::cold}, 1, instruments_of(backend("cuda")));
  bench.open(problem);
  EXPECT_EQ(measured(bench, listed(Op::conv_fwd, 1)).measured.status, Status::ok);
  EXPECT_EQ(measured(bench, engine(4).kernel_config(Op::conv_fwd)).measured.status, Status::ok);
  setenv("KSCOUT_CUDNN_DETERMINISTIC", "1", 1);
  const Outcome refused = measured(bench, engine(4).kernel_config(Op::conv_fwd));
  const Outcome second = measured(bench, listed(Op::conv_fwd, 2));
  const Outcome first = measured(bench, listed(Op::conv_fwd, 1));
  unsetenv("KSCOUT_CUDNN_DETERMINISTIC");
  EXPECT_NE(refused.reason.find("other bits"), std::string::npos) << refused.reason;
  EXPECT_EQ(second.measured.status, Status::unsupported) << "engine 0 alone is left";
  EXPECT_EQ(first.measured.status, Status::ok) << first.reason;
}

TEST_F(CudnnTest, ALimitTakesDeterministicEnginesAlsoOfSuggestions) {
  const Problem problem = conv("conv_fwd:2x7x6x6:8x3x3:bf16:nhwgc:pad=1");
  Backend& gpu = backend("cuda");
  EXPECT_NE(gpu.prepare(problem, engine(4).kernel_config(Op::conv_fwd)), nullptr);
  const Limits deterministic{.deterministic = true};
  const KernelConfig refused[] = {engine(4).kernel_config(Op::conv_fwd), listed(Op::conv_fwd, 2)};
  for (const KernelConfig& config : refused)
    EXPECT_THROW(gpu.prepare_within(problem, config, deterministic), Error);
  EXPECT_NE(gpu.prepare_within(problem, listed(Op::conv_fwd, 1), deterministic), nullptr);
  // The plans with and without the limit are different ones.
  EXPECT_NE(gpu.prepare(problem, engine(4).kernel_config(Op::conv_fwd)), nullptr);
}

TEST_F(CudnnTest, PlansAreBuiltAheadWithinABudgetAndUsedAgain) {
  const ConvProblem problem = conv("conv_fwd:3x8x6x6:8x3x3:bf16:nhwgc:pad=1");
  CudnnConfig compiled = engine(5);  // compiles at run time
  compiled.knob[kCudnnKernelCfg] = 3;
  CudnnConfig refused = compiled;
  refused.knob[kCudnnKernelCfg] = 2;
  const std::vector<KernelConfig> configs{listed(Op::conv_fwd, 1), compiled.kernel_config(Op::conv_fwd),
                                          refused.kernel_config(Op::conv_fwd),
                                          engine(0).kernel_config(Op::conv_fwd)};
  Backend& cuda = backend("cuda");
  const auto none_left = cuda.prepare_ahead(problem, configs, -1);
  EXPECT_NE(none_left[0].find("longer than"), std::string::npos) << none_left[0];
  EXPECT_NE(none_left[1], "");
  EXPECT_EQ(none_left[2], "") << "measuring reports that the library refuses it";
  EXPECT_EQ(none_left[3], "") << "nothing is compiled";
  EXPECT_EQ(cuda.prepare_ahead(problem, configs, 60), std::vector<std::string>(4));
  double built_us = 0;
  for (int i = 0; i < 3; ++i) {
    const auto launch = cuda.prepare(problem, configs[1]);
    EXPECT_GT(launch->setup_us(), 0);
    if (i > 0) {
      EXPECT_EQ(launch->setup_us(), built_us) << "the same plan";
    }
    built_us = launch->setup_us();
  }
  ProblemBench bench({.cache = CacheState::cold}, 1, instruments_of(cuda));
  bench.open(problem);
  EXPECT_EQ(measured(bench, configs[1]).measured.setup_us, built_us);
}

TEST_F(CudnnTest, TheDispatcherRunsConvolutionsInManyThreads) {
  Registry registry;
  registry.add(backend("cuda"));
  Dispatcher dispatcher(std::move(registry));
  const ConvProblem problem =
      conv("conv_fwd:2x8x6x6:8x3x3:fp16:ngchw:pad=1");  // no shipped model knows this layout
  const auto choice = dispatcher.get_solution(problem).choice;
  EXPECT_EQ(Selector::name(problem, choice), "cudnn_conv_fwd_fp16_ngchw_v0__suggestion1");
  std::vector<std::thread> threads;
  std::vector<int> equal(4, 0);
  const auto elements = operand_elements(problem);
  for (std::size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto zeros = [](std::int64_t count) {
        return std::vector<std::uint16_t>(static_cast<std::size_t>(count) + 8, 0x3C00);  // ones
      };
      alignas(16) static thread_local std::uint16_t out[2 * 8 * 6 * 6];
      auto* const memory = static_cast<std::uint16_t*>(backend("cuda").memory().allocate(1 << 16));
      const auto ones = zeros(elements.in + elements.wei);
      std::copy(ones.begin(), ones.end(), memory);
      ConvTensors tensors{.in = memory, .wei = memory, .out = out, .space = backend("cuda").space()};
      dispatcher.run(problem, tensors);
      equal[t] = out[8 * 7] == 0x5480;  // 8 channels x 9 taps = 72
      backend("cuda").memory().release(memory);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(4, 1));
}

/// Output of `kscout run` of a convolution, in a process of its own, because a library is loaded once.
std::string output_of_run(std::string_view problem, std::string_view variables) {
  const std::string command = fmt::format("env {} KSCOUT_CUDA_MODULE={} {} run {} --backend cuda 2>&1",
                                          variables, paths::host_gpu, paths::program, problem);
  FILE* const pipe = popen(command.c_str(), "r");
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), pipe));
  pclose(pipe);
  return text;
}

TEST_F(CudnnTest, TheLibrarysReleaseIsProvenanceAndItsAbsenceHasOneReason) {
  EXPECT_EQ(backend("cuda").versions().at("cudnn_version"), "91900");
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos ? std::string() : text;
  };
  constexpr std::string_view kFp32 = "conv_fwd:1x8x6x6:8x3x3:fp32", kAbsent = "KSCOUT_CUDNN=/no/libcudnn.so";
  EXPECT_EQ(has(output_of_run(kFp32, kAbsent), "cuDNN cannot be used: KSCOUT_CUDNN: "), "");
  const std::string old = fmt::format("KSCOUT_CUDNN={} STAND_IN_CUDNN=old", paths::stand_in_cudnn);
  EXPECT_EQ(has(output_of_run(kFp32, old), "release 8907; 90000 or later"), "");
  // Without cuDNN, another type would not help.
  const std::string half = output_of_run("conv_fwd:1x8x6x6:8x3x3:fp16:ngchw", kAbsent);
  EXPECT_EQ(has(half, "cuDNN cannot be used: KSCOUT_CUDNN: "), "");
  EXPECT_NE(has(half, "kernels here take fp32"), "") << half;
  // Models that also know own kernels need no cuDNN.
  EXPECT_EQ(has(output_of_run("conv_fwd:1x8x6x6:8x3x3:bf16", kAbsent), "groupwise_conv_fwd_bf16_nhwgc__"),
            "");
  // The gradients' models were trained with bf16 alone.
  EXPECT_EQ(
      has(output_of_run("conv_bwd_data:1x8x6x6:8x3x3:fp16", kAbsent), "groupwise_conv_bwd_data_fp16_nhwgc__"),
      "");
}

/// With a real library, where there is one, and no GPU: the numbers of its API are right.
TEST(CudnnLibrary, ListsConfigsForADescribedGpu) {
  const char* const named = std::getenv("KSCOUT_CUDNN");
  if (named && std::string_view(named) == paths::stand_in_cudnn)
    GTEST_SKIP() << "this process has loaded the stand-in";
  if (cudnn::version() < 90800) GTEST_SKIP() << "NO CUDNN TESTED: " << cudnn::missing();
  const char* const h200 =
      R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
      R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
      R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
      R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":9013,)"
      R"("isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,"memClockRateKHz":3201000,)"
      R"("l2CacheSize":62914560,"deviceName":"NVIDIA H200","deviceVer":900,"totalGlobalMem":150109880320,)"
      R"("cudaDeviceId":0,"driverVersion":13000,"driverVer":13000})";
  std::optional<cudnn::Target> target;
  try {
    target = cudnn::Target::described(h200);
  } catch (const Error& error) {
    GTEST_SKIP() << "NO CUDNN TESTED: this release describes GPUs in another way: " << error.what();
  }
  for (const char* const op : {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"}) {
    const ConvProblem problem = conv((std::string(op) + ":8x64x28x28:128x3x3:bf16:nhwgc:pad=1").c_str());
    const cudnn::ConvGraph graph(problem, *target);
    EXPECT_GT(graph.engines(), 20);
    const auto found = graph.suggestions(CudnnMode::a);
    ASSERT_GT(found.size(), 3u);
    std::size_t knobs = 0;
    for (const cudnn::EngineConfig& config : found) {
      const cudnn::EngineConfig again = graph.configure(config.named);  // engine and knobs say everything
      EXPECT_EQ(again.workspace_bytes, config.workspace_bytes);
      EXPECT_EQ(again.notes, config.notes);
      for (const std::int32_t value : config.named.knob) knobs += value > 0;
    }
    EXPECT_GT(knobs, found.size());
  }
}

TEST(CudnnNames, SayEverythingAndReadBack) {
  std::mt19937_64 random(3);
  for (const Op op : kDirections) {
    for (int i = 0; i < 300; ++i) {
      const Signature signature = signature_of(
          make_conv(op, i % 2 ? DType::bf16 : DType::tf32, static_cast<Layout>(kGemmLayouts + random() % 4)));
      CudnnConfig config;
      config.version = static_cast<std::int32_t>(random() % 2 * 91900);
      if (i % 5 == 0) {
        config.suggestion = static_cast<std::int32_t>(1 + random() % 20);
        config.mode = static_cast<CudnnMode>(random() % 3);
      } else {
        if (i % 5 == 1) config.suggestion = static_cast<std::int32_t>(1 + random() % 20);
        config.engine = static_cast<std::int32_t>(1 + random() % 90);
        for (auto& knob : config.knob) knob = static_cast<std::int32_t>(random() % 2 ? random() % 2049 : 0);
      }
      const KernelConfig kernel = config.kernel_config(op);
      const std::string name = config_name(signature, kernel);
      ASSERT_TRUE((parse_config_name(name) == NamedConfig{signature, kernel})) << name;
      EXPECT_EQ(CudnnConfig::from(kernel), config);
    }
  }
}

/// Stored names stay readable.
TEST(CudnnNames, StayTheSame) {
  for (const std::string_view name :
       {"cudnn_conv_fwd_bf16_nhwgc_v91900__e62_tile_size5_tilek1_idx_mode0_workspace0_cga_m4_cga_n1",
        "cudnn_conv_bwd_data_fp16_ngchw_v91900__e25", "cudnn_conv_bwd_weight_tf32_ndhwgc_v0__suggestion3_b",
        "cudnn_conv_bwd_weight_fp32_ngcdhw_v91900__e9_split_k4_split_k_slc2_kernel_cfg17",
        "cudnn_conv_fwd_bf16_nhwgc_v91900__suggestion2_e62_tile_size5",
        "cudnn_conv_fwd_bf16_nhwgc_v0__suggestion1"}) {
    const auto [signature, config] = parse_config_name(name);
    EXPECT_EQ(config_name(signature, config), name);
  }
  for (const char* wrong :
       {"cudnn_conv_fwd_bf16_nhwgc_v91900__suggestion1_b_e62", "cudnn_conv_fwd_bf16_nhwgc_v0__suggestion0",
        "cudnn_conv_fwd_bf16_nhwgc_v0__suggestion1_a", "cudnn_conv_fwd_fp8_nhwgc_v0__suggestion1",
        "cudnn_conv_fwd_bf16_rcr_v0__suggestion1", "cudnn_conv_fwd_bf16_nhwgc_v1__e1_tilek1_tilek1",
        "cudnn_conv_fwd_bf16_nhwgc_v1__e1_tilek1_tile_size1", "cudnn_conv_fwd_bf16_nhwgc_v1__e01",
        "cudnn_conv_fwd_bf16_nhwgc_v1__e1_swizzle1", "cudnn_gemm_bf16_rcr_v0__suggestion1"}) {
    try {
      parse_config_name(wrong);
      ADD_FAILURE() << "accepted " << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::invalid_argument) << wrong;
    }
  }
}

TEST(CudnnFamily, RulesKnowTheNotesOfARelease) {
  const Device h200 = device_preset("h200");
  const auto refused = [&](Op op, DType dtype, std::int32_t number, std::int32_t version) {
    CudnnConfig config = engine(number);
    config.version = version;
    const Signature signature = signature_of(make_conv(op, dtype));
    const auto rules = why_not({"cudnn", signature, h200, "default", ""}, config.kernel_config(op));
    return std::ranges::any_of(rules, [](const Rule& rule) { return rule.kind == RuleKind::legal; });
  };
  EXPECT_TRUE(refused(Op::conv_bwd_data, DType::bf16, 25, 91900)) << "sums in a narrow type";
  EXPECT_FALSE(refused(Op::conv_bwd_data, DType::bf16, 25, 91400)) << "another release";
  EXPECT_FALSE(refused(Op::conv_bwd_data, DType::bf16, 24, 91900));
  EXPECT_TRUE(refused(Op::conv_bwd_weight, DType::fp16, 24, 91900));
  EXPECT_FALSE(refused(Op::conv_bwd_weight, DType::bf16, 24, 91900));
  EXPECT_TRUE(refused(Op::conv_fwd, DType::fp32, 62, 91900)) << "TF32";
  EXPECT_FALSE(refused(Op::conv_fwd, DType::tf32, 62, 91900));
  EXPECT_FALSE(refused(Op::conv_fwd, DType::fp32, 70, 91900));
  EXPECT_TRUE(why_not({"cudnn", signature_of(make_conv(Op::conv_fwd, DType::bf16)), device_preset("gfx942"),
                       "tiny", ""},
                      listed(Op::conv_fwd, 1))
                  .front()
                  .name == "nvidia");
}

TEST(CudnnFamily, RulesKnowTheWrongResultsOfARelease) {
  const Device h200 = device_preset("h200");
  const auto refusal = [&](const char* text, std::int32_t number, std::int32_t version) {
    const ConvProblem problem = conv(text);
    CudnnConfig config = engine(number);
    config.version = version;
    const auto rule = refusing_rule(family_file("cudnn", problem.op).rules, problem,
                                    config.kernel_config(problem.op), h200);
    return rule ? rule->name : std::string();
  };
  const char* const wide_pads = "conv_bwd_data:1x302x7x49:40x8x8:bf16:nhwgc:dilation=4:pad=28";
  EXPECT_EQ(refusal(wide_pads, 73, 91900), "pads-within-offsets");
  EXPECT_EQ(refusal(wide_pads, 73, 91800), "");
  EXPECT_EQ(refusal(wide_pads, 57, 91900), "");
  EXPECT_EQ(refusal("conv_bwd_data:1x304x9x49:40x5x5:bf16:nhwgc:dilation=4:pad=16", 73, 91900), "");
  const char* const uneven = "conv_bwd_weight:2x16x9x9:16x3x3:bf16:nhwgc:left_pad_h=1";
  EXPECT_EQ(refusal(uneven, 1, 91900), "pads-alike");
  EXPECT_EQ(refusal(uneven, 0, 91900), "");
  EXPECT_EQ(refusal("conv_bwd_weight:2x16x9x9:16x3x3:bf16:nhwgc:pad=1", 1, 91900), "");
  EXPECT_EQ(refusal("conv_bwd_weight:1x20x111x111:20x1x1:bf16:nhwgc:g=5:stride=2", 9, 91900),
            "strided-grouped-pointwise");
  EXPECT_EQ(refusal("conv_bwd_weight:1x20x111x111:20x1x1:bf16:nhwgc:g=5", 9, 91900), "");
  EXPECT_EQ(refusal("conv_bwd_weight:2x16x9x9:16x3x3:bf16", 47, 91900), "split-sums-rounded");
}

TEST(CudnnFamily, WrongGradientsOfOddOutputChannelsAreRefused) {
  const Device h200 = device_preset("h200");
  const auto refusal = [&](const char* text, const std::string& how) {
    const ConvProblem problem = conv(text);
    const KernelConfig config = parse_config_name("cudnn_conv_bwd_data_bf16_nhwgc_v91400__" + how).config;
    const auto rule = refusing_rule(family_file("cudnn", problem.op).rules, problem, config, h200);
    return rule ? rule->name : std::string();
  };
  const char* const odd = "conv_bwd_data:128x416x1x1:26x1x1:bf16";
  for (const char* const how : {"e63_workspace1", "e63_workspace2", "suggestion1_e63_workspace1"})
    EXPECT_EQ(refusal(odd, how), "odd-output-channels") << how;
  for (const char* const how : {"e63_workspace0", "e67_tile_size5_tilek1_workspace1"})
    EXPECT_EQ(refusal(odd, how), "") << how;
  EXPECT_EQ(refusal("conv_bwd_data:128x416x1x1:32x1x1:bf16", "e63_workspace1"), "");
}

TEST(CudnnFamily, SumsRoundedInTheWorkspaceAreRefused) {
  const Device h200 = device_preset("h200");
  const auto refusal = [&](const char* text, const std::string& how) {
    const ConvProblem problem = conv(text);
    const KernelConfig config =
        parse_config_name(fmt::format("cudnn_conv_fwd_{}_nhwgc_{}", word(problem.dtype_in), how)).config;
    const auto rule = refusing_rule(family_file("cudnn", problem.op).rules, problem, config, h200);
    return rule ? rule->name : std::string();
  };
  for (const char* const odd : {"conv_fwd:64x1584x1x1:132x1x1:bf16", "conv_fwd:64x26x1x1:624x1x1:bf16",
                                "conv_fwd:64x1584x1x1:100x1x1:fp16"}) {
    for (const char* const how :
         {"v91900__e58_workspace1", "v91900__e58_workspace2", "v91400__e58_workspace2"})
      EXPECT_EQ(refusal(odd, how), "workspace-sums-rounded") << odd << " " << how;
    for (const char* const how :
         {"v91900__e58_workspace0", "v91900__e58", "v91900__e62_workspace1", "v0__suggestion1_b"})
      EXPECT_EQ(refusal(odd, how), "") << odd << " " << how;
  }
  EXPECT_EQ(refusal("conv_fwd:64x1584x1x1:128x1x1:bf16", "v91900__e58_workspace1"), "");
}

}  // namespace
}  // namespace kscout
