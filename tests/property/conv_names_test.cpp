/// \file
/// Draws random names of CK Tile's grouped convolutions: every form reads back, no two kernels share one.
#include <random>

#include <gtest/gtest.h>

#include <kscout/conv_problem.h>
#include <kscout/error.h>

#include "provider/ck_tile/ck_tile.h"

namespace kscout {
namespace {

using Rng = std::mt19937_64;
using enum CkConvAxis;

Signature random_conv_signature(Rng& rng) {
  ConvProblem p = make_conv(static_cast<Op>(1 + rng() % 3), static_cast<DType>(rng() % 10),
                            static_cast<Layout>(kGemmLayouts + rng() % 4));
  if (rng() % 4 == 0) p.dtype_wei = static_cast<DType>(rng() % 10);
  if (rng() % 4 == 0) p.dtype_out = static_cast<DType>(rng() % 10);
  if (rng() % 4 == 0) p.dtype_acc = static_cast<DType>(rng() % 10);
  return signature_of(p);
}

/// Any implicit GEMM that a full name can hold, sensible or not.
KernelConfig random_config(Rng& rng, Op op) {
  KernelConfig config = plain_ck_conv(op);
  for (std::size_t i = 0; i < config.space->axes.size(); ++i) {
    const Axis& axis = config.space->axes[i];
    const auto which = static_cast<CkConvAxis>(i);
    if (which == filter || which == stride_h || which == stride_w || which == images) continue;
    const bool flag = axis.name.starts_with("pad_") || which == double_buffer || which == two_stage ||
                      which == explicit_gemm || which == split_image;
    if (!axis.words.empty()) {
      config[i] = static_cast<std::int32_t>(rng() % axis.words.size());
    } else if (flag) {
      config[i] = static_cast<std::int32_t>(rng() % 2);
    } else {
      config[i] = static_cast<std::int32_t>(1 + rng() % (rng() % 8 ? 256 : 2147483647));
    }
  }
  if (has_word(config, pipeline, "depthwise")) set_word(config, pipeline, "mem");
  return config;
}

/// A depthwise kernel.
KernelConfig random_depthwise(Rng& rng) {
  KernelConfig config = plain_ck_depthwise();
  for (const CkConvAxis axis :
       {tile_m, tile_n, warp_tile_m, warp_tile_n, vec_a, vec_c, filter, stride_h, stride_w, images})
    value_of(config, axis) = static_cast<std::int32_t>(1 + rng() % 32);
  return config;
}

TEST(ConvNamesProperty, FullNamesReadBack) {
  Rng rng(3);
  for (int i = 0; i < 3000; ++i) {
    const bool direct = rng() % 5 == 0;
    const Signature signature = direct ? signature_of(make_conv(Op::conv_fwd, static_cast<DType>(rng() % 10),
                                                                rng() % 2 ? Layout::ngchw : Layout::nhwgc))
                                       : random_conv_signature(rng);
    const KernelConfig config = direct ? random_depthwise(rng) : random_config(rng, signature.op);
    const std::string name = print_ck_tile_conv(signature, config);
    CkSpelling spelling{};
    ASSERT_TRUE((parse_ck_tile_conv(name, &spelling) == NamedConfig{signature, config})) << name;
    ASSERT_EQ(spelling, CkSpelling::full);
    ASSERT_TRUE((parse_config_name("benchmark_" + name) == NamedConfig{signature, config})) << name;
    // A name cut off inside is refused, or read as what it then says.
    const std::string cut = name.substr(0, rng() % name.size());
    try {
      const NamedConfig other = parse_ck_tile_conv(cut);
      ASSERT_NE(print_ck_tile_conv(other.signature, other.config), name) << cut;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Errc::invalid_argument);
    }
  }
}

TEST(ConvNamesProperty, DifferentKernelsHaveDifferentNames) {
  Rng rng(4);
  for (int i = 0; i < 3000; ++i) {
    const Signature signature = random_conv_signature(rng);
    const KernelConfig config = random_config(rng, signature.op), fresh = random_config(rng, signature.op);
    KernelConfig other = config;
    const std::size_t axis = rng() % config.space->axes.size();
    other[axis] = fresh[axis];
    ASSERT_EQ(print_ck_tile_conv(signature, config) == print_ck_tile_conv(signature, other), config == other);
  }
}

/// Forms that say less: what they say reads back, and nothing is made up for the rest.
TEST(ConvNamesProperty, ShortNamesReadBack) {
  Rng rng(5);
  for (int i = 0; i < 2000; ++i) {
    const Op op = static_cast<Op>(1 + rng() % 3);
    const bool deep = rng() % 2 != 0;
    const Signature signature =
        signature_of(make_conv(op, static_cast<DType>(rng() % 10), deep ? Layout::ndhwgc : Layout::nhwgc));
    const KernelConfig all = random_config(rng, op);
    const auto some = [&](std::initializer_list<CkConvAxis> axes) {
      KernelConfig config(*all.space);
      for (const CkConvAxis axis : axes) value_of(config, axis) = value_of(all, axis);
      return config;
    };
    const std::pair<CkSpelling, KernelConfig> forms[] = {
        {CkSpelling::older, some({tile_m, tile_n, tile_k, pipeline})},
        {CkSpelling::shorter, some({tile_m, tile_n, tile_k, pipeline, scheduler, merged_groups, double_buffer,
                                    split_image, two_stage})},
        {CkSpelling::key, some({tile_m, tile_n, tile_k, warp_m, warp_n, warp_k, warp_tile_m, warp_tile_n,
                                warp_tile_k, pipeline, specialization})}};
    for (const auto& [form, config] : forms) {
      const std::string name = print_ck_tile_conv(signature, config);
      CkSpelling spelling{};
      const NamedConfig again = parse_ck_tile_conv(name, &spelling);
      ASSERT_TRUE((again == NamedConfig{signature, config})) << name;
      ASSERT_EQ(spelling, form) << name;
    }
  }
}

TEST(ConvNames, SpellingsOfTheSameKernel) {
  const auto read = [](std::string_view name) {
    CkSpelling spelling{};
    const NamedConfig named = parse_ck_tile_conv(name, &spelling);
    return std::pair{print_ck_tile_conv(named.signature, named.config), std::string(word(spelling))};
  };
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(read("grouped_conv_forward_bf16_2d_16x64x64_compv3"),
            (Pair{"grouped_conv_forward_bf16_2d_16x64x64_compv3", "older"}));
  EXPECT_EQ(
      read("grouped_conv_bwd_weight_bf16_3d_16x64x64_basic_async_v1_gm2_2stage"),
      (Pair{"grouped_conv_bwd_weight_bf16_3d_16x64x64_basic_async_v1_intrawave_gm2_2stage", "shorter"}));
  EXPECT_EQ(read("grouped_conv_fwd_bf16_ngchw_2d_mem_interwave_16x64x64_filter3x3_dsb_si"),
            (Pair{"grouped_conv_forward_bf16_ngchw_2d_16x64x64_mem_interwave_dsb_si", "profiler"}));
  EXPECT_EQ(read("grouped_conv_bwd_data_fp16_2d_16x64x64_1x4x1_16x16x16_compv3_filter1x1_pad0").second,
            "key");
  const std::string depthwise = "grouped_conv_fwd_depthwise_fp16_ngchw_2d_8x8_f3_s1x1_p1x1_nb8_sub2x2_vec2_2";
  EXPECT_EQ(read(depthwise), (Pair{depthwise, "full"}));
  const std::string all =
      "grouped_conv_bwd_weight_fp16_nhwgc_2d_mem_cshuffle_intrawave_16x32x64_1x2x1_16x16x32_vec1_4_4_bpc2_"
      "wg2_"
      "gm2_dsb_2stage_filter1x1_stride1_pad0_explicit_gemm_streamk_tree_persistent_large_tensor_pad101_"
      "splitk4";
  EXPECT_EQ(read(all), (Pair{all, "full"}));
}

TEST(ConvNames, DirectionsAndPipelinesOfOtherTools) {
  const auto op_of = [](std::string_view name) { return parse_ck_tile_conv(name).signature.op; };
  EXPECT_EQ(op_of("grouped_conv_bwdd_bf16_2d_16x64x64_compv3"), Op::conv_bwd_data);
  EXPECT_EQ(op_of("grouped_conv_bwdw_bf16_2d_16x64x64_compv3"), Op::conv_bwd_weight);
  for (const std::string_view word :
       {"basic_v2", "comp_async_eight_waves", "weight_preshuffle", "preshuffle_tdm"}) {
    const std::string conv = fmt::format("grouped_conv_forward_bf16_2d_16x64x64_{}_intrawave", word);
    const NamedConfig read = parse_ck_tile_conv(conv);
    EXPECT_TRUE(has_word(read.config, pipeline, word));
    EXPECT_EQ(print_ck_tile_conv(read.signature, read.config), conv);
    const std::string gemm = fmt::format(
        "gemm_universal_fp8_rcr_{}_cshuffle_intrawave_False_False_False_False_64x64x64_2x2x1_32x32x16", word);
    const NamedConfig product = parse_ck_tile_gemm(gemm);
    EXPECT_EQ(print_ck_tile_gemm(product.signature, product.config), gemm);
  }
}

TEST(ConvNames, MemPadsWhereANameStatesPads) {
  const Provider& ck = ck_tile_provider();
  const auto canonical = [&](std::string_view name) { return ck.canonical(ck.parse(name).config); };
  const KernelConfig full =
      canonical("grouped_conv_fwd_bf16_nhwgc_2d_mem_cshuffle_intrawave_64x64x64_2x2x1_16x16x32_pad000");
  EXPECT_EQ(value_of(full, pad_m), 1);
  for (const char* name : {"grouped_conv_bwd_data_bf16_2d_64x64x64_mem",
                           "grouped_conv_bwd_data_bf16_2d_64x64x64_mem_interwave_dsb",
                           "grouped_conv_bwd_data_bf16_2d_64x64x64_2x2x1_16x16x32_mem"}) {
    const NamedConfig read = ck.parse(name);
    EXPECT_EQ(ck.print(read.signature, ck.canonical(read.config)), name);
  }
}

TEST(ConvNames, MessagesNameThePart) {
  const std::string good = "grouped_conv_fwd_bf16_nhwgc_2d_compv3_cshuffle_intrawave_64x64x64_2x2x1_32x32x16";
  const std::pair<std::string, const char*> cases[] = {
      {good + "_quick", "'quick' is no suffix"},
      {good + "_gm0", "'0' is not a whole number for merged_groups"},
      {good + "_pad12", "is not pad and three digits"},
      {good + "_vec4_4", "ends before its vec_c"},
      {"grouped_conv_fwd_bf16_ndhwgc_2d_compv3", "does not fit layout ndhwgc"},
      {"grouped_conv_fwd_bf16_nhwgc_4d_compv3", "unknown number of spatial axes '4d'"},
      {"grouped_conv_sideways_bf16", "unknown direction 'sideways'"},
      {"grouped_conv_forward_bf16_2d_16x64x64_compv3_intrawave_explicit_gemm",
       "is a suffix of full names only"},
      {"grouped_conv_fwd_depthwise_fp16_ngchw_2d_8x8_f3_s1x1_p0x0_nb8_sub2x2_vec2_2",
       "is not the padding p1x1"},
      {"grouped_conv_fwd_bf16_nhwgc_2d_depthwise_cshuffle_intrawave_64x64x64_2x2x1_32x32x16",
       "has names of its own form"},
  };
  for (const auto& [name, part] : cases) {
    try {
      parse_ck_tile_conv(name);
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
    }
  }
}

/// Tables of the first generation hold the tile in columns of other names.
TEST(ConvNames, ShiftedColumnsAreUnderstood) {
  const KernelConfig named = parse_ck_tile_conv("grouped_conv_forward_bf16_2d_16x64x128_compv3").config;
  const CkTableTile shifted = read_ck_table_tile(named, 16, 64, 128);
  EXPECT_TRUE(shifted.shifted);
  EXPECT_EQ(shifted.k, 128);
  const CkTableTile right = read_ck_table_tile(named, 256, 16, 64);
  EXPECT_FALSE(right.shifted);
  EXPECT_EQ(right.m, 16);
  EXPECT_THROW(read_ck_table_tile(named, 256, 32, 64), Error);
}

}  // namespace
}  // namespace kscout
