#include <algorithm>
#include <array>
#include <set>

#include <gtest/gtest.h>

#include <kscout/conv_problem.h>
#include <kscout/provider.h>

#include "family/family_file.h"
#include "provider/ck_tile/ck_tile.h"
#include "select/model.h"
#include "support/paths.h"

namespace kscout {
namespace {

std::vector<SignatureConfigs> all_of(const std::string& rules, const std::string& device) {
  return enumerate_signatures(
      {.provider = "ck_tile", .signature = {}, .device = device_preset(device), .rules = rules, .filter = ""},
      family_signatures("ck_tile"));
}

std::size_t total(const std::vector<SignatureConfigs>& all) {
  std::size_t configs = 0;
  for (const auto& one : all) configs += one.configs.size();
  return configs;
}

std::size_t count(const std::vector<SignatureConfigs>& all, Op op, DType dtype, Layout layout) {
  for (const auto& one : all) {
    if (one.signature == signature_of(make_conv(op, dtype, layout))) return one.configs.size();
  }
  return 0;
}

struct Counts {
  Op op;
  std::size_t fp16_2d, bf16_2d, fp32_2d, fp16_3d, bf16_3d, fp32_3d;
};
/// The counts that CK Tile's tables give, enumerated independently from their text.
constexpr Counts kFull[] = {{Op::conv_fwd, 659, 659, 320, 649, 649, 320},
                            {Op::conv_bwd_data, 124, 124, 84, 104, 104, 84},
                            {Op::conv_bwd_weight, 2404, 2404, 258, 2392, 2392, 258}};

TEST(CuratedConv, CountsOfEverySignature) {
  for (const std::string device : {"gfx942", "gfx950"}) {
    const auto full = all_of("full", device);
    for (const Counts& c : kFull) {
      EXPECT_EQ(count(full, c.op, DType::fp16, Layout::nhwgc), c.fp16_2d);
      EXPECT_EQ(count(full, c.op, DType::bf16, Layout::nhwgc), c.bf16_2d);
      EXPECT_EQ(count(full, c.op, DType::fp32, Layout::nhwgc), c.fp32_2d);
      EXPECT_EQ(count(full, c.op, DType::fp16, Layout::ndhwgc), c.fp16_3d);
      EXPECT_EQ(count(full, c.op, DType::bf16, Layout::ndhwgc), c.bf16_3d);
      EXPECT_EQ(count(full, c.op, DType::fp32, Layout::ndhwgc), c.fp32_3d);
    }
    for (const DType dtype : {DType::fp16, DType::bf16, DType::fp32})
      EXPECT_EQ(count(full, Op::conv_fwd, dtype, Layout::ngchw), 20u);
    EXPECT_EQ(total(full), 14048u);
  }
  EXPECT_EQ(total(all_of("full", "gfx90a")), 9936u);  // single-wave pairs fall back to what the arch has
}

TEST(CuratedConv, SmallerSetsAreParts) {
  const auto full = all_of("full", "gfx942"), tests = all_of("full-tests", "gfx942"),
             tiny = all_of("tiny", "gfx942");
  EXPECT_EQ(total(tests), 2805u);
  EXPECT_GE(total(tiny), 10u);
  const auto holds = [](const std::vector<SignatureConfigs>& outer,
                        const std::vector<SignatureConfigs>& inner) {
    for (std::size_t s = 0; s < inner.size(); ++s) {
      std::set<std::string> names;
      for (std::size_t i = 0; i < outer[s].configs.size(); ++i)
        names.insert(config_name(outer[s].signature, outer[s].configs[i]));
      for (std::size_t i = 0; i < inner[s].configs.size(); ++i) {
        const std::string name = config_name(inner[s].signature, inner[s].configs[i]);
        if (!names.contains(name)) return name + " is missing";
      }
    }
    return std::string();
  };
  EXPECT_EQ(holds(full, tests), "");
  EXPECT_EQ(holds(tests, tiny), "");
}

TEST(CuratedConv, TheOtherSetsHaveTheirSizes) {
  struct Size {
    const char *device, *rules;
    std::size_t fwd, bwd_data, bwd_weight;
  };
  for (const Size& size : {Size{"gfx950", "default", 16, 20, 40}, Size{"gfx942", "default", 14, 16, 32},
                           Size{"gfx950", "first", 30, 20, 20}}) {
    const auto all = all_of(size.rules, size.device);
    for (const Layout layout : {Layout::nhwgc, Layout::ndhwgc}) {
      EXPECT_EQ(count(all, Op::conv_fwd, DType::bf16, layout), size.fwd) << size.rules << size.device;
      EXPECT_EQ(count(all, Op::conv_bwd_data, DType::bf16, layout), size.bwd_data)
          << size.rules << size.device;
      EXPECT_EQ(count(all, Op::conv_bwd_weight, DType::bf16, layout), size.bwd_weight)
          << size.rules << size.device;
    }
  }
}

/// The kernels of the public measurements, which a shipped model chooses from, under the first published
/// names.
TEST(CuratedConv, KernelsOfShippedDataAreInANamedSet) {
  const Model model = Model::load(paths::in_repository("models/conv_fwd_bf16_gfx950"));
  const Family& measured = model.data().families.front();
  const Family first = enumerate({.provider = "ck_tile",
                                  .signature = measured.signature,
                                  .device = device_preset("gfx950"),
                                  .rules = "first",
                                  .filter = ""});
  const auto agrees = [](const KernelConfig& named, const KernelConfig& whole) {
    for (std::size_t axis = 0; axis < named.space->axes.size(); ++axis) {
      if (named[axis] != KernelConfig::unknown && named[axis] != whole[axis]) return false;
    }
    return true;
  };
  EXPECT_EQ(measured.configs.size(), 20u);
  for (std::size_t i = 0; i < measured.configs.size(); ++i) {
    bool found = false;
    for (std::size_t c = 0; c < first.configs.size() && !found; ++c)
      found = agrees(measured.configs[i], first.configs[c]);
    EXPECT_TRUE(found) << measured.name(i);
  }
}

/// K of the warp tile by class, width and tile: the cases that the tables are checked with.
TEST(CuratedConv, DepthOfWarpTiles) {
  const auto full = all_of("full", "gfx942");
  std::set<std::string> seen;
  using enum CkConvAxis;
  for (const auto& [signature, configs] : full) {
    for (std::size_t i = 0; i < configs.size(); ++i) {
      const KernelConfig c = configs[i];
      if (signature.op != Op::conv_fwd || signature.layout != Layout::nhwgc) continue;
      seen.insert(std::string(word(signature.dtype_a)) + " " + std::to_string(value_of(c, warp_tile_m)) +
                  " " + std::to_string(value_of(c, tile_k)) + " " + std::to_string(value_of(c, warp_tile_k)));
    }
  }
  for (const char* expected :
       {"bf16 16 64 32", "bf16 32 64 16", "bf16 16 16 16", "bf16 32 8 8", "fp32 16 16 4", "fp32 32 32 8"})
    EXPECT_TRUE(seen.contains(expected)) << expected;
  EXPECT_FALSE(seen.contains("bf16 16 64 16"));
}

/// Configs of the family that apply to a problem.
std::vector<KernelConfig> applicable(const char* text) {
  const ConvProblem problem = parse_conv_problem(text);
  const Family family = enumerate({.provider = "ck_tile",
                                   .signature = signature_of(problem),
                                   .device = device_preset("gfx950"),
                                   .rules = "full",
                                   .filter = "c.merged_groups == 1"});
  std::vector<std::uint8_t> applicable(family.configs.size());
  applicable_configs(family, problem, applicable);
  std::vector<KernelConfig> configs;
  for (std::size_t i = 0; i < applicable.size(); ++i) {
    if (applicable[i]) configs.push_back(family.configs[i]);
  }
  return configs;
}

/// Their (vec_a, vec_b, vec_c).
std::set<std::array<std::int32_t, 3>> widths_for(const char* text) {
  std::set<std::array<std::int32_t, 3>> widths;
  for (const KernelConfig& config : applicable(text))
    widths.insert({config["vec_a"], config["vec_b"], config["vec_c"]});
  return widths;
}

TEST(CuratedConv, SpecialisationsFollowTheFilter) {
  const auto words = [](const char* text) {
    std::set<std::string> seen;
    for (const KernelConfig& config : applicable(text))
      seen.insert(axis_value_text(config.space->axes[config.space->axis_index("specialization")],
                                  config["specialization"]));
    return seen;
  };
  using Words = std::set<std::string>;
  EXPECT_EQ(words("conv_fwd:2x64x9x9:64x3x3:bf16:nhwgc:pad=1"), Words{"default"});
  EXPECT_EQ(words("conv_fwd:2x16x9x9:32x3x3:bf16:nhwgc:g=16:pad=1"), (Words{"default", "filter3x3"}))
      << "one input channel per group";
  EXPECT_EQ(words("conv_fwd:2x16x9x9:32x3x5:bf16:nhwgc:g=16:pad=1"), Words{"default"});
  EXPECT_EQ(words("conv_fwd:2x16x9x9x9:32x1x3x3:bf16:ndhwgc:g=16"), Words{"default"});
  EXPECT_EQ(words("conv_fwd:2x16x9x9x9:32x3x3x3:bf16:ndhwgc:g=16"), (Words{"default", "filter3x3"}));
  EXPECT_EQ(words("conv_fwd:2x64x9x9:64x1x1:bf16:nhwgc:stride=2"), (Words{"default", "filter1x1_pad0"}));
}

TEST(CuratedConv, VectorsFollowTheChannelsOfAGroup) {
  const auto all = [](const auto& widths, const auto& holds) { return std::ranges::all_of(widths, holds); };
  using Widths = std::array<std::int32_t, 3>;
  // 6 input and 12 output channels a group.
  const auto forward = widths_for("conv_fwd:2x12x9x9:24x3x3:bf16:nhwgc:g=2:pad=1");
  EXPECT_FALSE(forward.empty());
  EXPECT_TRUE(
      all(forward, [](const Widths& w) { return w[0] <= 2 && w[1] <= 2 && (w[2] <= 2 || w[2] == 4); }));
  for (const char* const text : {"conv_bwd_data:2x12x9x9:24x3x3:bf16:nhwgc:g=2:pad=1",
                                 "conv_bwd_weight:2x12x9x9:24x3x3:bf16:nhwgc:g=2:pad=1"}) {
    const auto backward = widths_for(text);
    EXPECT_FALSE(backward.empty()) << text;
    EXPECT_TRUE(all(backward, [](const Widths& w) { return w[0] <= 4 && w[1] <= 2 && w[2] <= 2; })) << text;
  }
  const auto even = widths_for("conv_fwd:2x64x9x9:64x3x3:bf16:nhwgc:pad=1");
  EXPECT_TRUE(std::ranges::any_of(even, [](const Widths& w) { return w[0] == 8 && w[1] == 8; }));
}

}  // namespace
}  // namespace kscout
