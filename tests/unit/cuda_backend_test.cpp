// Tests backend cuda with a module whose GPU is this machine's CPU (tests/libraries/host_gpu.cpp).
#include "backend/cuda/cuda_backend.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>

#include <gtest/gtest.h>

#include <kscout/backend.h>
#include <kscout/conv_problem.h>
#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/grouped_gemm.h>
#include <kscout/provider.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/matmul_launch.h"
#include "backend/cuda/module/hopper_conv_tiles.h"
#include "core/files.h"
#include "core/hash.h"
#include "family/family_file.h"
#include "family/listed.h"
#include "family/rules.h"
#include "libraries/toy_index.h"
#include "measure/problem_bench.h"
#include "provider/cublaslt/cublaslt.h"
#include "support/nvidia_config.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "sweep/plan.h"

namespace kscout {
namespace {

class CudaBackendTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("KSCOUT_CUDA_MODULE", paths::host_gpu, 1);
    const auto index = folder_.emplace() / "gpu.kscout-library.json";
    write_library(index);
    setenv("KSCOUT_LIBRARY_PATH", index.c_str(), 1);
  }
  static void TearDownTestSuite() {
    unsetenv("KSCOUT_LIBRARY_PATH");
    folder_.reset();
  }

  /// A library of compiled kernels that holds one config, computed by loops.
  static void write_library(const std::filesystem::path& to) {
    const auto file = toy::library_file("toy_gpu");
    const nlohmann::ordered_json index{{"format", "kscout-kernel-library"},
                                       {"version", 1},
                                       {"abi", 1},
                                       {"name", "gpu"},
                                       {"library", file.string()},
                                       {"checksum", "fnv1a64:" + hash_digits(text_hash(read_file(file)))},
                                       {"backend", "cuda"},
                                       {"device", "h200"},
                                       {"serves", {toy::rule("k-by-2", "p.k % 2 == 0", "loads of 4 bytes")}},
                                       {"kernels", {{{"config", kCompiled}, {"kernel", "toy_bf16"}}}}};
    write_file_atomically(to, index.dump());
  }
  static constexpr const char* kCompiled =
      "cutlass_gemm_bf16_rcr__mma80_64x64x32_w32x32_c1x1_grid_smem_s4_a4__along_m_z1_data_parallel_k1";
  static inline std::optional<test::TemporaryFolder> folder_;  // of all tests
};

KernelConfig suggestion(std::int32_t n) {
  CublasLtConfig config;
  config.suggestion = n;
  return config.kernel_config();
}

TEST_F(CudaBackendTest, AKnownGpuHasItsPresetsFactsAndTheDriversWhereThoseAreOpen) {
  Backend& gpu = backend("cuda");
  EXPECT_EQ(gpu.device().name, "h200");
  EXPECT_EQ(gpu.device().memory_gb_s, device_preset("h200").memory_gb_s);
  EXPECT_GT(gpu.device().l2_bytes, 0);
  EXPECT_EQ(gpu.versions().at("cublaslt_version"), "130100");
  cuda::Facts part{};
  std::snprintf(part.model, sizeof part.model, "NVIDIA H200");
  part.compute_major = 9;
  part.cores = 16;  // a slice of one
  EXPECT_EQ(cuda::describe(part).name, "h200-16sm");
  EXPECT_TRUE(std::isnan(cuda::describe(part).memory_gb_s));
}

TEST_F(CudaBackendTest, KernelsForUnalignedLinesHaveALowerBound) {
  Backend& gpu = backend("cuda");
  const auto bound = [&](std::int64_t n, const KernelConfig& config, DType dtype = DType::bf16) {
    return gpu.min_us(make_gemm(2048, n, 768, dtype), config);
  };
  EXPECT_NEAR(bound(50265, suggestion(1)), 1440, 10) << "110 TFLOPS at most where it stores odd rows";
  EXPECT_NEAR(bound(50266, suggestion(1)), 576, 10);
  EXPECT_EQ(bound(50272, suggestion(1)), 0);
  EXPECT_EQ(bound(50265, suggestion(1), DType::fp32), 0);
  EXPECT_EQ(bound(50265, parse_config_name(kCompiled).config), 0);
}

TEST_F(CudaBackendTest, ListsForASelectorOfThisGpuAlone) {
  Backend& gpu = backend("cuda");
  const GemmProblem problem = make_gemm(64, 64, 64, DType::bf16);
  const auto listed = suggestions_here(gpu.device());
  ASSERT_TRUE(listed);
  EXPECT_EQ(listed(problem, 3), gpu.suggestions(problem, 3));
  EXPECT_TRUE(listed(make_grouped_gemm({1}, 8, 8, DType::bf16), 4).empty());
  EXPECT_FALSE(suggestions_here(device_preset("a100")));
  EXPECT_FALSE(suggestions_here(detect_cpu()));
}

TEST_F(CudaBackendTest, ComputesGroupedGemms) {
  Backend& gpu = backend("cuda");
  EXPECT_EQ(gpu.provider_for(Op::grouped_gemm), "hopper");
  for (const Op op : {Op::gemm, Op::conv_fwd, Op::conv_bwd_data, Op::conv_bwd_weight, Op::grouped_gemm})
    EXPECT_EQ(gpu.provider_for(op), default_provider(op, gpu.device()));
  for (const Layout layout : {Layout::rcr, Layout::rrr}) {
    const GroupedGemmProblem problem = make_grouped_gemm({5, 0, 17, 1}, 24, 40, DType::bf16, layout);
    const Family family = gpu.family(signature_of(problem), "default");
    ASSERT_EQ(family.configs.size(), 8u);
    ProblemBench bench({.cache = CacheState::warm}, 1, instruments_of(gpu));
    bench.open(problem);
    for (std::size_t i = 0; i < family.configs.size(); ++i) {
      const KernelConfig config = family.configs[i];
      EXPECT_EQ(parse_config_name(config_name(signature_of(problem), config)).config, config);
      const Outcome found = bench.coarse({&gpu, config}, std::numeric_limits<double>::infinity());
      EXPECT_EQ(found.measured.status, Status::ok) << found.reason;
    }
  }
  const Family family = gpu.family(signature_of(make_grouped_gemm({1}, 8, 8, DType::fp16)), "default");
  const auto refusal = [&](const GroupedGemmProblem& problem) {
    return gpu.refusal(problem, family.configs[0]);
  };
  EXPECT_EQ(refusal(make_grouped_gemm({1, 0}, 8, 8, DType::fp16)), "");
  EXPECT_EQ(refusal(make_grouped_gemm({0, 0}, 8, 8, DType::fp16)), "") << "C is empty";
  EXPECT_NE(refusal(make_grouped_gemm({1}, 8, 9, DType::fp16)).find("aligned-lines"), std::string::npos);
  EXPECT_NE(refusal(make_grouped_gemm({1}, 8, 0, DType::fp16)).find("sizes"), std::string::npos);
  EXPECT_NE(refusal(make_grouped_gemm({1}, 8, 8)).find("fp32"), std::string::npos);
  EXPECT_NE(gpu.refusal(make_grouped_gemm({1}, 8, 8, DType::bf16), suggestion(1)), "");
  EXPECT_TRUE(gpu.suggestions(make_grouped_gemm({1}, 8, 8, DType::bf16), 4).empty());
}

/// Measures and verifies the configs of a family that the backend takes. Returns how many there are.
int run_all(Backend& gpu, const ConvProblem& problem, const Family& family) {
  ProblemBench bench({.cache = CacheState::warm}, 1, instruments_of(gpu));
  bench.open(problem);
  int ran = 0;
  for (std::size_t i = 0; i < family.configs.size(); ++i) {
    const KernelConfig config = family.configs[i];
    if (!gpu.refusal(problem, config).empty()) continue;
    const Outcome found = bench.coarse({&gpu, config}, std::numeric_limits<double>::infinity());
    EXPECT_EQ(found.measured.status, Status::ok) << print(problem) << ": " << found.reason;
    ++ran;
  }
  return ran;
}

/// Every class of a strided gradient, dilated filters, pads that differ, groups, and depth.
TEST_F(CudaBackendTest, ComputesGroupedConvolutions) {
  Backend& gpu = backend("cuda");
  ASSERT_TRUE(gpu.executes("groupwise"));
  ASSERT_TRUE(gpu.executes("nvidia_conv"));
  constexpr std::string_view kShapes[] = {
      "2x6x9x7:6x3x3:bf16:nhwgc:g=6:pad=1",
      "1x12x10x9:8x3x3:bf16:nhwgc:g=4:pad=1:stride=2",
      "1x4x12x11:6x3x4:fp16:nhwgc:g=2:pad=2x0:stride=3x2:dilation=2x3",
      "1x4x11x13:4x2x1:bf16:nhwgc:g=2:stride=4x3",
      "1x6x9x9:6x5x5:bf16:nhwgc:g=6:stride=2:dilation=2:left_pad_h=3:right_pad_h=4:right_pad_w=5",
      "1x4x5x6x7:6x2x3x3:fp16:ndhwgc:g=2:pad=1:stride=2",
      "3x3x8x8:5x3x3:bf16:nhwgc:pad=1",
  };
  int ran = 0;
  for (const Op op : kDirections) {
    for (const std::string_view shape : kShapes) {
      const ConvProblem problem = parse_conv_problem(fmt::format("{}:{}", word(op), shape));
      const Signature signature = signature_of(problem);
      const Family family = enumerate({"groupwise", signature, gpu.device(), "default",
                                       "c.kind == 'depthwise' or c.tile_m == 64 and c.tile_n == 32"});
      ran += run_all(gpu, problem, family);
    }
  }
  EXPECT_GE(ran, 50);
}

TEST_F(CudaBackendTest, RefusesConvolutionsThatItsKernelsDoNotTake) {
  Backend& gpu = backend("cuda");
  const auto refusal = [&](std::string_view line, std::string_view how) {
    const ConvProblem problem = parse_conv_problem(line);
    return gpu.refusal(
        problem, parse_config_name(fmt::format("groupwise_{}_bf16_nhwgc__{}", word(problem.op), how)).config);
  };
  constexpr std::string_view kGrouped = "conv_fwd:8x64x28x28:64x3x3:bf16:nhwgc:pad=1:g=16";
  EXPECT_EQ(refusal(kGrouped, "gemm_t128x32_m4_k1"), "");
  EXPECT_NE(refusal(kGrouped, "gemm_t128x48_m4_k1").find("compiled"), std::string::npos);
  EXPECT_NE(refusal("conv_fwd:8x96x28x28:96x3x3:bf16:nhwgc:pad=1:g=2", "gemm_t128x32_m2_k1"), "")
      << "96 channels";
  EXPECT_NE(refusal("conv_fwd:8x64x28x28:64x3x3:bf16:nhwgc:pad=1:g=2", "gemm_t128x32_m4_k1"), "")
      << "two groups";
  EXPECT_NE(refusal(kGrouped, "gemm_t128x128_m1_k1").find("empty"), std::string::npos);
  EXPECT_NE(refusal(kGrouped, "gemm_t128x32_m1_k4").find("two steps"), std::string::npos);
  EXPECT_NE(refusal(kGrouped, "depthwise_v8x4_k1").find("one channel"), std::string::npos);
  constexpr std::string_view kDepthwise = "conv_fwd:8x36x28x28:36x3x3:bf16:nhwgc:pad=1:g=36";
  EXPECT_EQ(refusal(kDepthwise, "depthwise_v4x8_k1"), "");
  EXPECT_NE(refusal(kDepthwise, "depthwise_v8x4_k1"), "") << "36 channels are no multiple of 8";
  EXPECT_NE(refusal("conv_bwd_data:8x64x99x99:64x3x3:bf16:nhwgc:stride=9:g=64", "gemm_t64x64_m1_k1")
                .find("strides"),
            std::string::npos);
  EXPECT_NE(refusal("conv_fwd:8x64x28x28:64x3x3:bf16:nhwgc:pad=1:g=16:split_k=4", "gemm_t128x32_m1_k1"), "");
  EXPECT_NE(gpu.refusal(parse_conv_problem("conv_fwd:8x64x28x28:64x3x3:fp32:nhwgc:pad=1:g=16"),
                        parse_config_name("groupwise_conv_fwd_bf16_nhwgc__gemm_t128x32_m1_k1").config),
            "");
  for (const char* const name :
       {"groupwise_conv_fwd_fp32_nhwgc__gemm_t128x32_m1_k1",
        "groupwise_conv_fwd_bf16_ngchw__gemm_t128x32_m1_k1", "groupwise_conv_fwd_bf16_nhwgc__gemm_v8x4_k1",
        "groupwise_conv_fwd_bf16_nhwgc__depthwise_t64x64_m1_v8x4_k1"})
    EXPECT_THROW(parse_config_name(name), Error) << name;
}

TEST_F(CudaBackendTest, ComputesConvolutionsByHoppersKernels) {
  Backend& gpu = backend("cuda");
  constexpr std::string_view kShapes[] = {
      "2x8x9x7:16x3x3:bf16:nhwgc:pad=1",
      "1x16x10x9:8x1x1:bf16:nhwgc",
      "1x8x12x11:24x3x4:fp16:nhwgc:pad=2x0:stride=3x2:dilation=2x3",
      "3x8x5x6x7:8x2x3x3:fp16:ndhwgc:pad=1:stride=2",
  };
  int ran = 0;
  for (const Op op : kDirections) {
    for (const std::string_view shape : kShapes) {
      const ConvProblem problem = parse_conv_problem(fmt::format("{}:{}", word(op), shape));
      const Family family = enumerate({"hopper", signature_of(problem), gpu.device(), "default", ""});
      EXPECT_EQ(family.configs.size(), op == Op::conv_bwd_weight ? 36u : 24u);
      ran += run_all(gpu, problem, family);
    }
  }
  EXPECT_GE(ran, 50);
}

TEST_F(CudaBackendTest, HoppersRulesNameWhatItsConvolutionsCannotTake) {
  Backend& gpu = backend("cuda");
  const auto refusal = [&](std::string_view line, std::string_view how = "128x128x64_c1_k1") {
    const ConvProblem problem = parse_conv_problem(line);
    return gpu.refusal(
        problem, parse_config_name(fmt::format("hopper_{}_bf16_nhwgc__{}", word(problem.op), how)).config);
  };
  const auto names = [](const std::string& text, std::string_view rule) {
    return text.find(rule) != std::string::npos;
  };
  EXPECT_EQ(refusal("conv_bwd_data:8x64x28x28:64x3x3:bf16:nhwgc:pad=1"), "");
  const std::string strided = refusal("conv_bwd_data:8x64x28x28:64x3x3:bf16:nhwgc:pad=1:stride=2");
  EXPECT_TRUE(names(strided, "unit-stride-of-gradients") && names(strided, "gaps")) << strided;
  EXPECT_EQ(refusal("conv_fwd:8x64x28x28:64x3x3:bf16:nhwgc:pad=1:stride=2"), "");
  EXPECT_EQ(refusal("conv_bwd_weight:8x64x28x28:64x3x3:bf16:nhwgc:pad=1:stride=2"), "");
  EXPECT_TRUE(names(refusal("conv_fwd:8x64x28x28:64x3x3:bf16:nhwgc:pad=1:g=2"), "one-group"));
  EXPECT_TRUE(names(refusal("conv_fwd:8x64x28x28:64x3x3:bf16:nhwgc:prepacked=1"), "unpacked-filter"));
  EXPECT_TRUE(names(refusal("conv_fwd:8x64x28x28:64x3x3:bf16:nhwgc:split_k=2"), "asked-split-k"));
  EXPECT_EQ(refusal("conv_fwd:8x64x28x28:64x3x3:bf16:nhwgc:split_k=2", "128x128x64_c1_k2"), "");
  EXPECT_TRUE(names(refusal("conv_fwd:8x64x28x28:64x1x1:bf16:nhwgc", "128x128x64_c1_k2"), "parts-have-work"));
  EXPECT_TRUE(
      names(refusal("conv_fwd:256x64x56x56:64x3x3:bf16:nhwgc:pad=1", "128x128x64_c1_k4"), "sums-of-parts"));
  EXPECT_TRUE(names(refusal("conv_fwd:8x64x28x28:64x3x3:bf16:nhwgc", "128x192x64_c1_k1"), "compiled"));
  EXPECT_NE(refusal("conv_fwd:8x64x28x28:64x3x3:fp32:nhwgc"), "");
  EXPECT_TRUE(names(gpu.refusal(make_gemm(64, 64, 64, DType::bf16),
                                parse_config_name("hopper_conv_fwd_bf16_nhwgc__128x64x64_c1_k1").config),
                    "the config computes conv_fwd"));
  EXPECT_NE(gpu.refusal(parse_conv_problem("conv_fwd:8x64x28x28:64x3x3:bf16:nhwgc"), suggestion(1)), "");
}

/// Sets the sizes along one spatial axis: 0 depth, 1 height, 2 width.
void set_axis(ConvProblem& p, int axis, const cuda::ConvAxis& sizes, std::int64_t right_pad) {
  using Size = std::int64_t ConvProblem::*;
  constexpr Size kSizes[3][6] = {
      {&ConvProblem::d, &ConvProblem::z, &ConvProblem::stride_d, &ConvProblem::dilation_d,
       &ConvProblem::left_pad_d, &ConvProblem::right_pad_d},
      {&ConvProblem::h, &ConvProblem::y, &ConvProblem::stride_h, &ConvProblem::dilation_h,
       &ConvProblem::left_pad_h, &ConvProblem::right_pad_h},
      {&ConvProblem::w, &ConvProblem::x, &ConvProblem::stride_w, &ConvProblem::dilation_w,
       &ConvProblem::left_pad_w, &ConvProblem::right_pad_w}};
  const std::int64_t values[] = {sizes.in, sizes.filter, sizes.stride, sizes.dilation, sizes.pad, right_pad};
  for (std::size_t i = 0; i < std::size(values); ++i) p.*kSizes[axis][i] = values[i];
}

/// A choice among kernels relies on rules; a rule that admitted more than the kernels take would fail a call.
TEST_F(CudaBackendTest, RulesOfHoppersConvolutionsAgreeWithItsKernels) {
  Backend& gpu = backend("cuda");
  std::size_t admitted = 0, refused = 0;
  for (const Op op : kDirections) {
    for (const Layout layout : {Layout::nhwgc, Layout::ndhwgc}) {
      ConvProblem problem = make_conv(op, DType::bf16, layout);
      problem.n = 2;
      const Family family = enumerate({"hopper", signature_of(problem), gpu.device(), "tiny", ""});
      const ApplicabilityRules rules(family.applicability, family.configs, family.traits, family.device);
      ApplicabilityRules::Scratch scratch;
      std::vector<std::uint8_t> applicable(family.configs.size());
      const auto compare = [&] {
        rules.evaluate(problem, applicable, scratch);
        const char* const why =
            cuda::hopper_conv_refusal(cuda::shape_of(problem), {.tile_n = 64, .cluster = 1, .split_k = 1});
        ASSERT_EQ(applicable[0] != 0, why == nullptr) << print(problem) << (why ? why : "");
        ++(why ? refused : admitted);
      };
      const std::int32_t limit = layout == Layout::nhwgc ? 128 : 16;
      for (int axis = layout == Layout::nhwgc ? 1 : 0; axis < 3; ++axis) {
        problem.c = problem.k = 8;
        for (int i = layout == Layout::nhwgc ? 1 : 0; i < 3; ++i)
          set_axis(problem, i, {.in = 3, .out = 0, .filter = 2, .stride = 1, .dilation = 1, .pad = 0}, 0);
        for (const std::int32_t in : {1, 5, 300}) {
          if (axis == 0 && in == 1) continue;  // an image to the kernels, but the rules see the layout
          for (const std::int32_t filter : {1, 2, limit, limit + 1, limit + 2, 2 * limit, 2 * limit + 1}) {
            for (const std::int32_t stride : {1, 2, 8, 9}) {
              for (const std::int32_t dilation : {1, 2}) {
                for (const std::int32_t pad : {0, 1, limit - 1, limit, limit + 1}) {
                  for (const std::int32_t right : {0, 1, limit - 1, limit, limit + 1, 2 * limit}) {
                    if (in + pad + right < (filter - 1) * dilation + 1) continue;
                    set_axis(problem, axis, {in, 0, filter, stride, dilation, pad}, right);
                    compare();
                  }
                }
              }
            }
          }
        }
      }
      for (int i = layout == Layout::nhwgc ? 1 : 0; i < 3; ++i)
        set_axis(problem, i, {.in = 3, .out = 0, .filter = 2, .stride = 1, .dilation = 1, .pad = 0}, 0);
      for (problem.c = 4; problem.c <= 32; problem.c += 4) {
        for (problem.k = 4; problem.k <= 32; problem.k += 4) {
          for (problem.g = 1; problem.g <= 4; problem.g += problem.g) compare();
        }
      }
    }
  }
  EXPECT_GT(admitted, 5000u);
  EXPECT_GT(refused, 5000u);
}

TEST_F(CudaBackendTest, MeasuresVerifiesAndTimesInTheDevicesMemory) {
  for (const CacheState cache : {CacheState::cold, CacheState::warm}) {
    Backend& gpu = backend("cuda");
    ProblemBench bench({.cache = cache}, 1, instruments_of(gpu));
    GemmProblem problem = make_gemm(30, 20, 41, DType::bf16);
    problem.epilogue = Epilogue::bias;
    bench.open(problem);
    const Outcome right = bench.coarse({&gpu, suggestion(1)}, std::numeric_limits<double>::infinity());
    EXPECT_EQ(right.measured.status, Status::ok) << right.reason;
    EXPECT_GT(right.measured.time_us, 0);
    EXPECT_EQ(bench.coarse({&gpu, suggestion(3)}, 1e9).measured.status, Status::wrong) << "K is odd";
    EXPECT_EQ(bench.coarse({&gpu, suggestion(5)}, 1e9).measured.status, Status::unsupported);
    CublasLtConfig other;
    other.version = 120900;
    const Outcome refused = bench.coarse({&gpu, other.kernel_config()}, 1e9);
    EXPECT_EQ(refused.measured.status, Status::unsupported);
    EXPECT_NE(refused.reason.find("130100"), std::string::npos) << refused.reason;
  }
}

TEST_F(CudaBackendTest, RunsCompiledKernelsBesideCuBlasLts) {
  Backend& gpu = backend("cuda");
  const KernelConfig compiled = parse_config_name(kCompiled).config;
  EXPECT_EQ(gpu.refusal(make_gemm(30, 20, 40, DType::bf16), compiled), "");
  ProblemBench bench({.cache = CacheState::cold}, 1, instruments_of(gpu));
  bench.open(make_gemm(30, 20, 40, DType::bf16));
  // Each as its own provider's and as one of the joint family.
  for (const KernelConfig& config :
       {compiled, suggestion(1), test::nvidia_config(compiled), test::nvidia_config(suggestion(1))}) {
    const Outcome outcome = bench.coarse({&gpu, config}, std::numeric_limits<double>::infinity());
    EXPECT_EQ(outcome.measured.status, Status::ok) << outcome.reason;
  }
  EXPECT_TRUE(gpu.versions().contains("library.gpu"));
  // Why not: the library's rule; no library has it; no such types.
  EXPECT_NE(gpu.refusal(make_gemm(30, 20, 41, DType::bf16), compiled).find("k-by-2"), std::string::npos);
  KernelConfig other = compiled;
  other.set("stages", 5);
  const std::string absent = gpu.refusal(make_gemm(30, 20, 40, DType::bf16), other);
  EXPECT_NE(absent.find("_s5_a4__along_m_z1_data_parallel_k1 is in no library"), std::string::npos) << absent;
  EXPECT_NE(gpu.refusal(make_gemm(30, 20, 40, DType::tf32), compiled).find("bf16 or fp16"),
            std::string::npos);
  EXPECT_THROW(gpu.prepare(make_gemm(30, 20, 41, DType::bf16), compiled), Error);
}

TEST_F(CudaBackendTest, SuggestionsThatGiveWrongResultsAreRefused) {
  Backend& gpu = backend("cuda");
  ProblemBench bench({.cache = CacheState::cold}, 1, instruments_of(gpu));
  // Nine parts of floor(4616 / 9) = 512, whole tiles, leave out 8 of K; of 4608 none.
  bench.open(make_gemm(12, 8, 4616, DType::bf16));
  const Outcome refused = bench.coarse({&gpu, suggestion(4)}, 1e9);
  EXPECT_EQ(refused.measured.status, Status::unsupported) << refused.reason;
  EXPECT_NE(refused.reason.find("a66_64x64x64_st0_s9"), std::string::npos) << refused.reason;
  EXPECT_NE(refused.reason.find("algorithm 66 of cuBLASLt 13.1.0, gemm"), std::string::npos)
      << refused.reason;
  bench.open(make_gemm(12, 8, 4608, DType::bf16));
  EXPECT_EQ(bench.coarse({&gpu, suggestion(4)}, 1e9).measured.status, Status::ok);
  EXPECT_NE(gpu.prepare(make_gemm(12, 8, 4616, DType::bf16), suggestion(1)), nullptr);
}

TEST_F(CudaBackendTest, ASweepNamesWhatTheLibrarySuggests) {
  Backend& gpu = backend("cuda");
  for (const char* provider : {"cublaslt", "nvidia"}) {
    SweepPlan plan = make_plan({make_gemm(30, 20, 40, DType::bf16), make_gemm(12, 8, 4616, DType::bf16)},
                               {.provider = provider, .backend = "cuda", .rules = "tiny"}, gpu.device(), {});
    const std::size_t others = plan.candidates[0].size() - 1;
    name_suggestions(plan, gpu);
    for (std::size_t p = 0; p < 2; ++p) {
      ASSERT_EQ(plan.candidates[p].size(), others + 1);
      const KernelConfig named = plan.configs[plan.candidates[p].back()];
      const std::string name = config_name(signature_of(plan.problems[p]), named);
      EXPECT_NE(name.find("_v130100__suggestion1_a"), std::string::npos) << name;
      EXPECT_EQ(member_config(named), listed_config(gpu.suggestions(plan.problems[p], 1).front(), 1));
      ProblemBench bench({.cache = CacheState::cold}, 1, instruments_of(gpu));
      bench.open(plan.problems[p]);
      EXPECT_EQ(bench.coarse({&gpu, named}, 1e9).measured.status, Status::ok);
    }
  }
}

TEST(CublasLtNames, SayEverythingAndReadBack) {
  GemmProblem problem = make_gemm(1, 1, 1, DType::fp8);
  problem.dtype_c = DType::bf16;
  problem.epilogue = Epilogue::bias_gelu;
  problem.accumulate = true;
  const CublasLtConfig config{130100, 0, 66, 128, 256, 64, 0, 4, 2, 1, 3, 4, 2, 1};
  const std::string name = config_name(signature_of(problem), config.kernel_config());
  EXPECT_EQ(
      name,
      "cublaslt_gemm_fp8_rcr_Cbf16_bias_gelu_acc_v130100__a66_128x256x64_st0_s4_acc_w1_o3_mma16816_c2x1");
  EXPECT_TRUE((parse_config_name(name) == NamedConfig{signature_of(problem), config.kernel_config()}));
  for (const char* wrong :
       {"cublaslt_gemm_bf16_rcr_v0__suggestion0", "cublaslt_gemm_fp8_rrr_v0__suggestion1",
        "cublaslt_gemm_bf16_rcr_none_v0__suggestion1", "cublaslt_gemm_bf16_rcr_v0__a1_8x8x8"}) {
    try {
      parse_config_name(wrong);
      ADD_FAILURE() << "accepted " << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::invalid_argument) << wrong;
    }
  }
}

}  // namespace
}  // namespace kscout
