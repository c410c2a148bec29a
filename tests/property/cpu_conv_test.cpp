// Compares every kind, direction and instruction set of backend `cpu` with float64 sums, on random
// convolutions.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/backend.h>
#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/selector.h>

#include "backend/cpu/conv/conv_plan.h"
#include "backend/cpu/cpu_backend.h"
#include "family/legality.h"
#include "guarded.h"
#include "op/conv/conv_reference.h"
#include "provider/native/native_conv.h"
#include "support/random_conv.h"
#include "support/share.h"

namespace kscout {
namespace {

using namespace test;

/// A config of the kind that takes the problem; nothing after many tries.
std::optional<KernelConfig> random_conv_config(Rng& rng, NativeIsa isa, NativeConvKind kind,
                                               const ConvProblem& problem) {
  const std::int32_t lanes = native_lanes(isa);
  const auto cores = static_cast<std::int64_t>(backend("cpu").device().cores);
  for (int attempt = 0; attempt < 200; ++attempt) {
    KernelConfig config(native_conv_space(problem.op));
    config.set("isa", static_cast<std::int32_t>(isa));
    config.set("kind", static_cast<std::int32_t>(kind));
    config.set("mr", static_cast<std::int32_t>(pick(rng, 1, 24)));
    config.set("nr", static_cast<std::int32_t>(pick(rng, 1, 4) * lanes));
    const bool gemm = kind == NativeConvKind::gemm;
    config.set("pack_x", gemm ? static_cast<std::int32_t>(pick(rng, 0, 1)) : 0);
    config.set("pack_w",
               gemm ? static_cast<std::int32_t>(pick(rng, 0, 1)) : problem.op != Op::conv_bwd_weight);
    config.set("pixels", one_of(rng, {1, 5, 24, 96, 100000}));
    config.set("depth", one_of(rng, {0, 0, 1, 7, 32}));
    config.set("channels", gemm ? one_of(rng, {0, 16, 64}) : 0);
    config.set("threads_p", 1);
    config.set("threads_k", 1);
    if (pick(rng, 0, 1)) {
      config.set(one_of(rng, {"threads_p", "threads_k"}),
                 static_cast<std::int32_t>(pick(rng, 1, std::min<std::int64_t>(4, cores))));
    }
    if (rule_refusal(problem, config, backend("cpu").device()).empty()) return config;
  }
  return std::nullopt;
}

/// An operand filled with values in [-1, 1], at the end or the beginning of its pages.
struct ConvOperand {
  ConvOperand(std::int64_t elements, Rng& rng, Guarded::Edge edge)
      : data(static_cast<std::size_t>(elements), edge) {
    std::uniform_real_distribution<float> value(-1, 1);
    for (std::int64_t i = 0; i < elements; ++i) data.data()[i] = value(rng);
  }
  Guarded data;
};

void check_conv(const ConvProblem& p, const KernelConfig& config, Rng& rng) {
  SCOPED_TRACE(print(p) + " by " + config_name(signature_of(p), config));
  const auto edge = pick(rng, 0, 1) ? Guarded::Edge::behind : Guarded::Edge::before;
  const ConvElements size = operand_elements(p);
  ConvOperand in(size.in, rng, edge), wei(size.wei, rng, edge), out(size.out, rng, edge);
  GemmBuffers buffers =
      operands_of(p.op, {.in = in.data.data(), .wei = wei.data.data(), .out = out.data.data()});
  const auto launch = backend("cpu").prepare(p, config);
  // Blocks of 100,000 pixels once asked for gigabytes where an image has a hundred.
  ASSERT_LT(launch->workspace_bytes(), std::size_t{32} << 20);
  const Guarded workspace((launch->workspace_bytes() + 63) / 64 * 16);
  std::fill_n(workspace.data(), (launch->workspace_bytes() + 63) / 64 * 16,
              std::numeric_limits<float>::quiet_NaN());
  const auto elements = by_operand(p.op, size.in, size.wei, size.out);
  auto* const c = static_cast<float*>(buffers.c);
  std::fill_n(c, elements.c, std::numeric_limits<float>::quiet_NaN());
  const std::size_t packed_floats = (launch->packed_bytes() + 63) / 64 * 16;
  const Guarded packed(packed_floats);
  std::fill_n(packed.data(), packed_floats, std::numeric_limits<float>::quiet_NaN());
  const NativeConvConfig typed = NativeConvConfig::from(config);
  const bool meets_taps =
      typed.kind == NativeConvKind::gemm || cpu::make_conv_plan(p, typed).packed_floats > 0;
  ASSERT_EQ(launch->packed_bytes() > 0, p.prepacked && typed.pack_w && meets_taps);
  if (packed_floats > 0) {
    launch->pack(buffers.b, packed.data());
    buffers.b = nullptr;
    buffers.packed_b = packed.data();
  }
  launch->run(buffers, workspace.data());
  if (packed_floats > 0) buffers.b = wei.data.data();
  const auto* const a = static_cast<const float*>(buffers.a);
  const auto* const b = static_cast<const float*>(buffers.b);
  for (std::int64_t i = 0; i<elements.c; i += elements.c> 20000 ? pick(rng, 1, 40) : 1) {
    const ConvProducts products = conv_products(p, i);
    double sum = 0;
    for (std::size_t j = 0; j < products.a.size(); ++j)
      sum += static_cast<double>(a[products.a[j]]) * b[products.b[j]];
    ASSERT_NEAR(c[i], sum, 1e-6 * (2 + static_cast<double>(products.a.size()))) << "element " << i;
  }
}

struct ConvCase {
  NativeIsa isa;
  NativeConvKind kind;
  Op op;
};

class CpuConv : public testing::TestWithParam<ConvCase> {};

TEST_P(CpuConv, MatchesFloat64OnRandomProblems) {
  const auto [isa, kind, op] = GetParam();
  if (!machine_has(isa))
    GTEST_SKIP() << "this machine lacks the instruction set: its kernels are NOT tested here";
  if ((kind == NativeConvKind::igemm || kind == NativeConvKind::wino) && op == Op::conv_bwd_weight)
    GTEST_SKIP() << "the kind computes images only";
  std::size_t checked = 0;
  for (std::uint64_t seed = 0; seed < share_of(400); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const ConvProblem p = random_conv(rng, op);
    const auto config = random_conv_config(rng, isa, kind, p);
    if (!config) continue;
    ++checked;
    check_conv(p, *config, rng);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(checked, share_of(400) / 20);
}

/// A depthwise convolution: filters with and without kernels of their own, image rows shorter and longer than
/// a register tile, whole vectors and parts.
ConvProblem random_depthwise(Rng& rng, Op op) {
  ConvProblem p = make_conv(op, DType::fp32, Layout::nhwgc);
  do {
    p.n = pick(rng, 1, 2);
    p.g = p.c = p.k = one_of(rng, {8, 16, 32, 40, 5, 20, 47});
    p.h = pick(rng, 1, 9);
    p.w = pick(rng, 1, 40);
    p.y = pick(rng, 1, 7);
    p.x = pick(rng, 1, 8);
    p.stride_h = pick(rng, 1, 2);
    p.stride_w = one_of(rng, {1, 1, 2, 2, 3});
    p.dilation_w = one_of(rng, {1, 1, 1, 2});
    p.left_pad_h = pick(rng, 0, 3);
    p.right_pad_h = pick(rng, 0, 3);
    p.left_pad_w = pick(rng, 0, p.x + 1);
    p.right_pad_w = pick(rng, 0, p.x + 1);
  } while (!is_valid(p));
  return p;
}

/// A first layer, or the inverse of a spectrogram: few channels of the input and groups of none, image rows
/// shorter and longer than a register tile, widths that pixels of the result can be merged in and others,
/// strides above a vector.
ConvProblem random_stem(Rng& rng, Op op) {
  ConvProblem p = make_conv(op, DType::fp32, Layout::nhwgc);
  do {
    p.n = pick(rng, 1, 3);
    p.c = one_of(rng, {1, 2, 3, 3, 4, 7, 9});
    p.k = one_of(rng, {1, 3, 8, 16, 20, 33, 64});
    p.h = pick(rng, 1, 9);
    p.w = one_of(rng, {1, 6, 8, 16, 21, 24, 37, 40, 100});
    p.y = pick(rng, 1, 7);
    p.x = one_of(rng, {1, 2, 3, 4, 5, 6, 7, 20, 40});
    p.stride_h = pick(rng, 1, 3);
    p.stride_w = one_of(rng, {1, 2, 2, 3, 4, 8, 20});
    p.dilation_w = one_of(rng, {1, 1, 1, 2});
    p.left_pad_h = pick(rng, 0, 3);
    p.right_pad_h = pick(rng, 0, 3);
    p.left_pad_w = pick(rng, 0, p.x + 1);
    p.right_pad_w = pick(rng, 0, p.x + 1);
  } while (!is_valid(p));
  return p;
}

/// A dilated filter in wide padding: runs of pixels that meet the same taps, image rows that meet few filter
/// rows, pixels that meet nothing.
ConvProblem random_dilated(Rng& rng, Op op) {
  ConvProblem p = make_conv(op, DType::fp32, Layout::nhwgc);
  do {
    p.n = pick(rng, 1, 2);
    p.g = one_of(rng, {1, 1, 2});
    p.c = p.g * pick(rng, 1, 20);
    p.k = p.g * pick(rng, 1, 40);
    p.h = pick(rng, 1, 14);
    p.w = pick(rng, 1, 40);
    p.y = pick(rng, 1, 3);
    p.x = pick(rng, 2, 4);
    p.stride_w = one_of(rng, {1, 1, 1, 2});
    p.dilation_h = pick(rng, 1, 7);
    p.dilation_w = pick(rng, 2, 12);
    p.left_pad_h = p.right_pad_h = pick(rng, 0, p.dilation_h + 1);
    p.left_pad_w = pick(rng, 0, 2 * p.dilation_w);
    p.right_pad_w = pick(rng, 0, 2 * p.dilation_w);
  } while (!is_valid(p));
  return p;
}

/// Checks configs of one kind on problems of `random`, with every instruction set of this machine.
void check_kind(ConvProblem (*random)(Rng&, Op), NativeConvKind kind, Op op) {
  for (const NativeIsa isa : {NativeIsa::scalar, NativeIsa::avx2, NativeIsa::avx512}) {
    if (!machine_has(isa)) continue;
    std::size_t checked = 0;
    for (std::uint64_t seed = 0; seed < share_of(400); ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Rng rng(seed);
      const ConvProblem p = random(rng, op);
      const auto config = random_conv_config(rng, isa, kind, p);
      if (!config) continue;
      ++checked;
      check_conv(p, *config, rng);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GE(checked, share_of(400) / 2);
  }
}

TEST(CpuConv, DepthwiseMatchesFloat64) {
  for (const Op op : kDirections) check_kind(random_depthwise, NativeConvKind::lanes, op);
}

TEST(CpuConv, StemsMatchFloat64) {
  for (const Op op : kDirections) {
    for (const NativeConvKind kind : {NativeConvKind::igemm, NativeConvKind::rows, NativeConvKind::patch}) {
      if (kind != NativeConvKind::igemm || op != Op::conv_bwd_weight) check_kind(random_stem, kind, op);
    }
  }
}

TEST(CpuConv, DilatedFiltersMatchFloat64) {
  for (const Op op : {Op::conv_fwd, Op::conv_bwd_data}) {
    for (const NativeConvKind kind : {NativeConvKind::igemm, NativeConvKind::rows})
      check_kind(random_dilated, kind, op);
  }
}

/// The result of tensors that begin `offset` floats behind a page.
std::vector<float> result_at(const ConvProblem& p, const KernelConfig& config, std::size_t offset) {
  const auto launch = backend("cpu").prepare(p, config);
  const Guarded workspace((launch->workspace_bytes() + 63) / 64 * 16);
  const ConvElements size = operand_elements(p);
  const auto tensor = [&](std::int64_t floats, std::uint64_t seed) {
    auto made = std::make_unique<Guarded>(static_cast<std::size_t>(floats) + offset, Guarded::Edge::before);
    Rng rng(seed);
    std::uniform_real_distribution<float> value(-1, 1);
    std::generate_n(made->data() + offset, floats, [&] { return value(rng); });
    return made;
  };
  const auto in = tensor(size.in, 1), wei = tensor(size.wei, 2), out = tensor(size.out, 3);
  const GemmBuffers buffers = operands_of(
      p.op, {.in = in->data() + offset, .wei = wei->data() + offset, .out = out->data() + offset});
  launch->run(buffers, workspace.data());
  const auto* const c = static_cast<const float*>(buffers.c);
  return {c, c + by_operand(p.op, size.in, size.wei, size.out).c};
}

/// NumPy's large arrays begin 4 floats behind a page.
TEST(CpuConv, DepthwiseGivesEqualBitsAtEveryAddress) {
  for (const NativeIsa isa : {NativeIsa::scalar, NativeIsa::avx2, NativeIsa::avx512}) {
    if (!machine_has(isa)) continue;
    for (const Op op : kDirections) {
      for (std::uint64_t seed = 0; seed < share_of(50); ++seed) {
        Rng rng(seed);
        ConvProblem p = random_depthwise(rng, op);
        const auto config = random_conv_config(rng, isa, NativeConvKind::lanes, p);
        if (!config) continue;
        SCOPED_TRACE(print(p) + " by " + config_name(signature_of(p), *config));
        const std::vector<float> first = result_at(p, *config, 0);
        for (const std::size_t offset : {1, 4, 15}) {
          const std::vector<float> result = result_at(p, *config, offset);
          ASSERT_EQ(std::memcmp(result.data(), first.data(), result.size() * sizeof(float)), 0)
              << offset << " floats";
        }
      }
    }
  }
}

cpu::ConvPlan plan_of(const char* problem, const char* config) {
  return cpu::make_conv_plan(parse_conv_problem(problem),
                             NativeConvConfig::from(parse_config_name(config).config));
}

/// The ways of computing that tests of results cannot tell apart.
TEST(CpuConv, PlansUseTheShorterWay) {
  if (!machine_has(NativeIsa::avx2)) GTEST_SKIP() << "the plans are for AVX2";
  const char* const data = "native_conv_bwd_data_fp32_nhwgc__avx2_rows_12x8_packw_b192x0x0_t1x1";
  const auto merged = plan_of("conv_bwd_data:1x3x8x224:64x7x7:stride=2:pad=3", data);
  EXPECT_EQ(merged.merged, 2);
  EXPECT_EQ(merged.phases.size(), 2u);  // one per position along h modulo the stride
  EXPECT_EQ(merged.phases.front().w.taps, 4);
  EXPECT_EQ(merged.result.channels, 6);
  const auto spectrogram = plan_of("conv_bwd_data:1x1x1x2048:26x1x64:stride=16", data);
  EXPECT_EQ(spectrogram.merged, 16) << "the pixels of a stride, although they exceed a vector";
  EXPECT_EQ(spectrogram.phases.size(), 1u);
  EXPECT_EQ(spectrogram.phases.front().w.taps, 4);
  const auto half = plan_of("conv_bwd_data:1x1x1x2056:26x1x64:stride=16", data);
  EXPECT_EQ(half.merged, 8) << "half of a stride divides the row";
  EXPECT_EQ(half.phases.size(), 2u);
  EXPECT_EQ(plan_of("conv_bwd_data:1x24x8x224:64x2x2:stride=2", data).merged, 1) << "whole vectors";
  EXPECT_EQ(plan_of("conv_bwd_data:1x3x8x223:64x7x7:stride=2:pad=3", data).merged, 1);
  EXPECT_EQ(plan_of("conv_bwd_data:1x3x8x224:64x1x1", data).merged, 1) << "nothing is shared";

  const char* const rows = "native_conv_fwd_fp32_nhwgc__avx2_rows_6x16_packw_b192x0x0_t1x1";
  EXPECT_TRUE(plan_of("conv_fwd:1x256x33x33:64x3x3:pad=12:dilation=12", rows).phases.front().by_runs);
  EXPECT_FALSE(plan_of("conv_fwd:1x256x33x33:64x3x3:pad=1", rows).phases.front().by_runs);

  const char* const weight = "native_conv_bwd_weight_fp32_nhwgc__avx2_rows_6x16_nopack_b192x0x0_t1x1";
  EXPECT_TRUE(cpu::sums_by_columns(plan_of("conv_bwd_weight:1x3x224x224:64x7x7:stride=2:pad=3", weight)));
  EXPECT_FALSE(cpu::sums_by_columns(plan_of("conv_bwd_weight:1x3x8x8:2x3x3:pad=1", weight)));
  EXPECT_FALSE(cpu::sums_by_columns(plan_of("conv_bwd_weight:1x8x8x8:64x3x3:pad=1", weight)));
}

std::vector<ConvCase> all_conv_cases() {
  std::vector<ConvCase> cases;
  for (const NativeIsa isa : {NativeIsa::scalar, NativeIsa::avx2, NativeIsa::avx512}) {
    for (const NativeConvKind kind : {NativeConvKind::gemm, NativeConvKind::igemm, NativeConvKind::rows,
                                      NativeConvKind::patch, NativeConvKind::lanes, NativeConvKind::wino}) {
      for (const Op op : kDirections) cases.push_back({isa, kind, op});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Every, CpuConv, testing::ValuesIn(all_conv_cases()), [](const auto& suite) {
  const ConfigSpace& space = native_conv_space(suite.param.op);
  return axis_value_text(space.axes[0], static_cast<std::int32_t>(suite.param.isa)) + "_" +
         axis_value_text(space.axes[1], static_cast<std::int32_t>(suite.param.kind)) + "_" +
         std::string(word(suite.param.op));
});

/// The rules of the family and the backend agree about every config, so that no choice is refused later.
TEST(CpuConv, RulesAdmitWhatTheBackendRuns) {
  for (const Op op : kDirections) {
    for (std::uint64_t seed = 0; seed < share_of(100); ++seed) {
      Rng rng(seed);
      const ConvProblem p = random_conv(rng, op);
      const Family family = enumerate({.provider = "native",
                                       .signature = signature_of(p),
                                       .device = backend("cpu").device(),
                                       .rules = "default",
                                       .filter = {}});
      std::vector<std::uint8_t> applicable(family.configs.size());
      applicable_configs(family, p, applicable);
      for (std::size_t i = 0; i < applicable.size(); ++i) {
        const std::string refusal = backend("cpu").refusal(p, family.configs[i]);
        ASSERT_EQ(refusal.empty(), applicable[i] != 0)
            << print(p) << " " << family.name(i) << ": " << refusal;
      }
    }
  }
}

/// KSCOUT_CONV_PROBLEMS sets how many per direction; docs/convolution.md tells of the longest run.
TEST(CpuConv, ThreadsRunWhatIsChosenForRandomProblems) {
  const std::uint64_t problems = test::asked_or_share_of("KSCOUT_CONV_PROBLEMS", 1000);
  const Selector selector = Selector::analytic({.device = backend("cpu").device()});
  for (const Op op : kDirections) {
    for (std::uint64_t seed = 0; seed < problems; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Rng rng(1000 + seed);
      const ConvProblem p = random_conv(rng, op);
      check_conv(p, selector.select(p).config, rng);
      if (HasFatalFailure()) return;
    }
  }
}

// Names are stored in data, models and decision files: these must never change.
TEST(NativeConvNames, StayAsTheyAre) {
  constexpr std::string_view names[] = {
      "native_conv_fwd_fp32_nhwgc__avx2_igemm_6x16_packw_b48x0x0_t2x1",
      "native_conv_fwd_fp32_ndhwgc__avx512_rows_14x32_packw_b1x64x0_t1x2",
      "native_conv_bwd_data_fp32_nhwgc__scalar_lanes_4x2_packw_b200x0x0_t1x1",
      "native_conv_bwd_data_fp32_nhwgc__avx2_gemm_4x24_nopack_b0x128x512_t1x1",
      "native_conv_bwd_data_fp32_nhwgc__avx2_wino_4x24_packw_b96x0x0_t1x2",
      "native_conv_bwd_weight_fp32_nhwgc__avx2_patch_12x8_nopack_b96x0x0_t2x1",
      "native_conv_bwd_weight_fp32_ndhwgc__avx512_gemm_9x48_packxw_b96x256x0_t1x1"};
  for (const std::string_view name : names) {
    const auto [signature, config] = parse_config_name(name);
    EXPECT_EQ(config_name(signature, config), name);
    for (std::size_t cut = 0; cut + 1 < name.size(); ++cut) {
      EXPECT_THROW(parse_config_name(name.substr(0, cut)), Error) << name.substr(0, cut);
    }
  }
  for (const std::string_view bad : {"native_conv_fwd_bf16_nhwgc__avx2_igemm_6x16_packw_b48x0x0_t2x1",
                                     "native_conv_fwd_fp32_ngchw__avx2_igemm_6x16_packw_b48x0x0_t2x1",
                                     "native_conv_fwd_fp32_nhwgc__avx2_igemm_06x16_packw_b48x0x0_t2x1",
                                     "native_conv_fwd_fp32_nhwgc__avx2_dw_6x16_packw_b48x0x0_t2x1"}) {
    EXPECT_THROW(parse_config_name(bad), Error) << bad;
  }
}

TEST(CpuBackend, RefusesConvolutionsThatAConfigCannotTake) {
  const auto refusal = [](const char* problem, const char* config) {
    return backend("cpu").refusal(parse_conv_problem(problem), parse_config_name(config).config);
  };
  const char* const lanes = "native_conv_fwd_fp32_nhwgc__scalar_lanes_4x1_packw_b1x0x0_t1x1";
  EXPECT_EQ(refusal("conv_fwd:1x8x6x6:8x3x3:g=8", lanes), "");
  const std::string wide = refusal("conv_fwd:1x8x6x6:8x3x3", lanes);
  for (const char* const part : {"rule 'lanes-hold-groups': ", "p.k = 8", "p.c = 8", "p.g = 1"})
    EXPECT_NE(wide.find(part), std::string::npos) << wide;
  const char* const gemm = "native_conv_fwd_fp32_nhwgc__scalar_gemm_4x1_packw_b0x0x0_t1x1";
  EXPECT_EQ(refusal("conv_fwd:1x8x6x6:8x1x1", gemm), "");
  EXPECT_NE(refusal("conv_fwd:1x8x6x6:8x1x1:stride=2", gemm).find("without strides and pads"),
            std::string::npos);
  EXPECT_NE(refusal("conv_fwd:1x8x6x6:8x3x3:bf16", gemm).find("fp32 only"), std::string::npos);
  EXPECT_NE(
      refusal("conv_fwd:1x8x6x6:8x3x3", "native_conv_fwd_fp32_nhwgc__scalar_rows_4x1_nopack_b1x0x0_t1x1")
          .find("pack_w=pack"),
      std::string::npos);
}

}  // namespace
}  // namespace kscout
