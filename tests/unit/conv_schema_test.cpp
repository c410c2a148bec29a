// Tests schema `conv`, which describes convolutions of every provider, and the schemas that share its
// geometry.
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/conv_problem.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "features/schema.h"
#include "provider/joint.h"

namespace kscout {
namespace {

constexpr Op kDirections[] = {Op::conv_fwd, Op::conv_bwd_data, Op::conv_bwd_weight};

/// 2 images of 64 x 56 x 56, 128 filters of 3 x 3 in 4 groups, stride 2.
ConvProblem strided(Op op, DType dtype = DType::bf16) {
  ConvProblem p = make_conv(op, dtype);
  p.n = 2, p.c = 64, p.k = 128, p.g = 4, p.h = p.w = 56, p.y = p.x = 3, p.stride_h = p.stride_w = 2;
  p.left_pad_h = p.right_pad_h = p.left_pad_w = p.right_pad_w = 1;
  return p;
}

/// The features of one config of `provider`; unknown axes.
std::vector<double> row_of(const Schema& schema, const ConvProblem& problem, const Device& device,
                           const Traits& traits, std::string_view of) {
  std::vector<double> row(schema.size());
  schema.evaluate(problem, device, KernelConfig(provider(of).space(problem.op)), traits, row);
  return row;
}

TEST(ConvSchema, IsTheImplicitGemmOfAGroup) {
  const Schema& schema = Schema::find("conv");
  EXPECT_EQ(schema.data().provider, "");
  Traits traits;
  traits.tile_m = 64, traits.tile_n = 32, traits.tile_k = 32;
  const Device h200 = device_preset("h200");
  struct Case {
    Op op;
    double m, n, k, tiles;
  };
  for (const Case& c : {Case{Op::conv_fwd, 2 * 28 * 28, 32, 16 * 9, 25 * 1 * 4},
                        Case{Op::conv_bwd_data, 2 * 28 * 28, 16, 32 * 9 / 4.0, 25 * 1 * 4},
                        Case{Op::conv_bwd_weight, 32, 16 * 9, 2 * 28 * 28, 1 * 5 * 4}}) {
    SCOPED_TRACE(word(c.op));
    const auto row = row_of(schema, strided(c.op), h200, traits, "cudnn");
    EXPECT_EQ(row[schema.index("gemm_m")], c.m);
    EXPECT_EQ(row[schema.index("gemm_n")], c.n);
    EXPECT_EQ(row[schema.index("gemm_k")], c.k);
    EXPECT_EQ(row[schema.index("tiles")], c.tiles);
    EXPECT_EQ(row[schema.index("flops")], flop_count(strided(c.op)));
    EXPECT_GT(row[schema.index("analytic_time_us")], 3);
    const auto bare = row_of(schema, strided(c.op), h200, Traits{}, "cudnn");
    EXPECT_TRUE(std::isnan(bare[schema.index("analytic_time_us")]));
    EXPECT_EQ(bare[schema.index("tiles")], 4) << "without a tile, one per group";
  }
}

TEST(ConvSchema, DescribesTheConfigsOfEveryProvider) {
  const Schema& schema = Schema::find("conv");
  struct Case {
    const char *provider, *device, *rules;
    DType dtype;
  };
  for (const Case& c :
       {Case{"native", "epyc-7763", "tiny", DType::fp32}, Case{"ck_tile", "gfx950", "tiny", DType::bf16},
        Case{"cudnn", "h200", "tiny", DType::bf16}, Case{"miopen", "gfx90a", "default", DType::fp32}}) {
    SCOPED_TRACE(c.provider);
    const ConvProblem problem = strided(Op::conv_fwd, c.dtype);
    const Family family = enumerate({.provider = c.provider,
                                     .signature = signature_of(problem),
                                     .device = device_preset(c.device),
                                     .rules = c.rules,
                                     .filter = {}});
    ASSERT_FALSE(family.configs.empty());
    std::vector<double> rows(family.configs.size() * schema.size());
    schema.evaluate(problem, family.device, family.configs, family.traits, rows);
    for (std::size_t i = 0; i < family.configs.size(); ++i) {
      const double us = rows[i * schema.size() + schema.index("analytic_time_us")];
      const bool tile = family.traits[i].tile_m == family.traits[i].tile_m &&
                        family.traits[i].tile_n == family.traits[i].tile_n;
      EXPECT_EQ(us > 0 && std::isfinite(us), tile);
      for (std::size_t f = 0; f < schema.size(); ++f) {
        if (!schema.depends(f).problem_only()) continue;
        EXPECT_TRUE(std::isfinite(rows[i * schema.size() + f])) << schema.features()[f].id;
      }
    }
  }
}

TEST(ConvSchema, SchemasOfOneProviderShareItsGeometry) {
  const Schema& every = Schema::find("conv");
  for (const char* const name : {"conv_ck_tile", "conv_cpu", "conv_gpu", "conv_miopen", "conv_nvidia"}) {
    SCOPED_TRACE(name);
    const auto& terms = Schema::find(name).data().terms;
    ASSERT_GE(terms.size(), every.data().terms.size());
    EXPECT_TRUE(std::equal(every.data().terms.begin(), every.data().terms.end(), terms.begin()));
  }
  for (const auto& [name, provider, device] :
       {std::tuple("conv_gpu", "cudnn", "h200"), std::tuple("conv_nvidia", "nvidia_conv", "h100"),
        std::tuple("conv_miopen", "miopen", "gfx90a")}) {
    SCOPED_TRACE(name);
    for (const Op op : kDirections) {
      const Schema schema = Schema::find(name).for_op(op);
      const Device on = device_preset(device);
      const auto expected = row_of(every, strided(op), on, Traits{}, provider),
                 row = row_of(schema, strided(op), on, Traits{}, provider);
      for (std::size_t f = 0; f <= every.index("arithmetic_intensity"); ++f)
        EXPECT_EQ(row[schema.index(every.features()[f].id)], expected[f]) << every.features()[f].id;
    }
  }
}

TEST(ConvSchema, TellsTheListsOfSuggestionsApart) {
  const Device h200 = device_preset("h200");
  const struct {
    const char* config;
    double list;
  } cases[] = {
      {"v0__suggestion1", 1}, {"v0__suggestion1_b", 2}, {"v0__suggestion1_fallback", 3}, {"v91900__e0", 0}};
  for (const Op op : kDirections) {
    const Schema schema = Schema::find("conv_gpu").for_op(op);
    for (const auto& c : cases) {
      const NamedConfig named = parse_config_name(fmt::format("cudnn_{}_bf16_nhwgc_{}", word(op), c.config));
      const Traits traits = provider("cudnn").traits(named.signature, named.config, h200);
      std::vector<double> row(schema.size());
      schema.evaluate(strided(op), h200, named.config, traits, row);
      EXPECT_EQ(row[schema.index("list")], c.list) << c.config;
    }
  }
}

TEST(ConvSchema, DescribesTheBlocksOfEachMember) {
  const Device h200 = device_preset("h200");
  ConvProblem problem = strided(Op::conv_fwd);
  problem.g = 1;
  const Schema& schema = Schema::find("conv_nvidia");
  const struct {
    const char* config;
    double algorithm, tile_m, blocks, k_steps;
  } cases[] = {
      // 1568 x 128 of 9 taps and 64 channels
      {"groupwise_conv_fwd_bf16_nhwgc__gemm_t64x32_m1_k1", 1, 64, 25 * 4, 18},
      {"hopper_conv_fwd_bf16_nhwgc__128x64x64_c2_k4", 3, 128, 13 * 2 * 4, 3},
  };
  for (const auto& c : cases) {
    const NamedConfig named = parse_config_name(c.config);
    const KernelConfig config = joint_config(provider("nvidia_conv").space(problem.op), named.config);
    const Traits traits = provider("nvidia_conv").traits(named.signature, config, h200);
    std::vector<double> row(schema.size());
    schema.evaluate(problem, h200, config, traits, row);
    EXPECT_EQ(row[schema.index("algorithm")], c.algorithm) << c.config;
    EXPECT_EQ(row[schema.index("tile_m")], c.tile_m) << c.config;
    EXPECT_EQ(row[schema.index("blocks")], c.blocks) << c.config;
    EXPECT_EQ(row[schema.index("k_steps")], c.k_steps) << c.config;
    EXPECT_TRUE(std::isnan(row[schema.index("listed")])) << c.config;
    EXPECT_EQ(row[schema.index("engine")], 0) << c.config;
    EXPECT_GT(row[schema.index("analytic_time_us")], 3) << c.config;
  }
}

TEST(ConvSchema, KnowsPlaceEngineAndKnobsOfWhatCudnnLists) {
  const Device h200 = device_preset("h200");
  const Schema& schema = Schema::find("conv_nvidia");
  const auto features = [&](const char* config) {
    const NamedConfig named = parse_config_name(fmt::format("cudnn_conv_fwd_bf16_nhwgc_{}", config));
    const KernelConfig joint = joint_config(provider("nvidia_conv").space(Op::conv_fwd), named.config);
    std::vector<double> row(schema.size());
    schema.evaluate(strided(Op::conv_fwd), h200, joint,
                    provider("nvidia_conv").traits(named.signature, joint, h200), row);
    std::vector<double> some;
    for (const char* const id : {"listed", "engine", "engine_tile", "engine_stages"})
      some.push_back(row[schema.index(id)]);
    return some;
  };
  EXPECT_EQ(features("v91400__suggestion3_e45_tile_size0_kblock3_stages4"),
            (std::vector<double>{3, 46, 1, 5}));
  const auto unnamed = features("v0__suggestion1");
  EXPECT_EQ(unnamed[0], 1);
  EXPECT_EQ(unnamed[1], 0) << "the library was not asked";
}

TEST(ConvSchema, IsTheDefaultOfProvidersWithoutOneOfTheirOwn) {
  for (const Op op : kDirections) {
    EXPECT_EQ(default_schema(op, "ck_tile", DeviceKind::gpu), "conv_ck_tile");
    EXPECT_EQ(default_schema(op, "native", DeviceKind::cpu), "conv_cpu");
    EXPECT_EQ(default_schema(op, "cudnn", DeviceKind::gpu), "conv_gpu");
    EXPECT_EQ(default_schema(op, "nvidia_conv", DeviceKind::gpu), "conv_nvidia");
    EXPECT_EQ(default_schema(op, "miopen", DeviceKind::gpu), "conv_miopen");
    EXPECT_EQ(default_schema(op, "another", DeviceKind::gpu), "conv");
  }
}

}  // namespace
}  // namespace kscout
