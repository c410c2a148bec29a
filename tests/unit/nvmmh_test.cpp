// Tests the nvMatmulHeuristics peer of bench/gemm_cuda: the matching of its suggestions, and its library's
// results where the library is installed.
#include "../../bench/nvmmh.h"

#include <gtest/gtest.h>

#include <kscout/family.h>

#include "provider/cutlass/cutlass.h"

namespace kscout::bench {
namespace {

std::vector<KernelConfig> existing(std::string_view filter = "") {
  const Signature signature = signature_of(make_gemm(1, 1, 1, DType::bf16));
  const Family family = enumerate({"cutlass", signature, device_preset("h200"), "full", std::string(filter)});
  std::vector<KernelConfig> configs;
  for (std::size_t i = 0; i < family.configs.size(); ++i) configs.push_back(family.configs[i]);
  return configs;
}

TEST(Nvmmh, WhatExistsIsMatchedExactly) {
  const auto configs = existing();
  const SuggestedKernel kernel{.tile_m = 128, .tile_n = 256, .tile_k = 64, .cluster_m = 2, .swizzle = 4};
  const Matched found = nearest(kernel, configs);
  EXPECT_TRUE(found.exact);
  ASSERT_FALSE(found.configs.empty());
  for (const std::size_t at : found.configs) {
    const CutlassConfig c = CutlassConfig::from(configs[at]);
    EXPECT_EQ(c.tile_m, 128);
    EXPECT_EQ(c.tile_n, 256);
    EXPECT_EQ(c.cluster_m, 2);
    EXPECT_EQ(c.swizzle, 4);
    EXPECT_EQ(c.raster, static_cast<std::int32_t>(CutlassRaster::along_n));
    EXPECT_EQ(c.split_k, 1);
  }
}

TEST(Nvmmh, WhatDoesNotExistIsMatchedByTileThenPartsThenCluster) {
  const auto configs = existing();
  const SuggestedKernel odd{
      .tile_m = 128, .tile_n = 136, .tile_k = 64, .cluster_n = 4, .split_k = 5, .along_n = false};
  const Matched found = nearest(odd, configs);
  EXPECT_FALSE(found.exact);
  ASSERT_FALSE(found.configs.empty());
  const CutlassConfig c = CutlassConfig::from(configs[found.configs.front()]);
  EXPECT_EQ(c.tile_m, 128);
  EXPECT_EQ(c.tile_n, 128);
  EXPECT_TRUE(c.split_k == 4 || c.split_k == 6) << c.split_k;
  EXPECT_FALSE(c.is(CutlassPipeline::mma80)) << "what CUTLASS 3 was suggested for";
  EXPECT_TRUE(nearest(odd, {}).configs.empty());
  EXPECT_FALSE(nearest(odd, existing("c.pipeline == 'mma80'")).configs.empty());
}

TEST(Nvmmh, TheLibraryAnswersWithoutAGpu) {
  std::string why;
  const auto peer = MatmulHeuristics::open(device_preset("h200"), why);
  if (!peer) GTEST_SKIP() << "nvMatmulHeuristics NOT TESTED: " << why;
  EXPECT_FALSE(peer->version().empty());
  const auto configs = existing();
  std::size_t suggested = 0;
  for (const auto& [m, n, k] : {std::tuple{16, 4096, 4096}, std::tuple{512, 4096, 1024},
                                std::tuple{33, 77, 130}, std::tuple{4096, 4096, 4096}}) {
    for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8}) {
      for (const SuggestedKernel& one : peer->suggest(make_gemm(m, n, k, dtype), 8)) {
        EXPECT_GE(one.tile_m, 16);
        EXPECT_GE(one.tile_n, 8);
        EXPECT_GE(one.tile_k, 16);
        EXPECT_GE(one.split_k, 1);
        EXPECT_FALSE(nearest(one, configs).configs.empty());
        ++suggested;
      }
    }
  }
  EXPECT_GT(suggested, 12u);
  EXPECT_TRUE(peer->suggest(make_gemm(64, 64, 64), 8).empty()) << "fp32";
}

TEST(Nvmmh, ADeviceThatItDoesNotKnowIsSaid) {
  std::string why;
  EXPECT_EQ(MatmulHeuristics::open(device_preset("epyc-7763"), why), nullptr);
  EXPECT_FALSE(why.empty());
}

}  // namespace
}  // namespace kscout::bench
