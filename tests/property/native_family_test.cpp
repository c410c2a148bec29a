// Checks that families/native_*.toml and the compiled kernels agree: rules admit the compiled register tiles
// and no others.
#include <cmath>

#include <gtest/gtest.h>

#include <kscout/conv_problem.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "backend/cpu/conv/conv_kernels.h"
#include "backend/cpu/cpu_backend.h"
#include "family/legality.h"
#include "provider/native/native_conv.h"

namespace kscout {
namespace {

constexpr Layout kLayouts[] = {Layout::rcr, Layout::rrr, Layout::crr, Layout::ccr};

Device machine(std::string isa, double cores) {
  Device device;
  device.name = isa;
  device.isa = std::move(isa);
  device.cores = cores;
  return device;
}

std::vector<Device> machines() {
  return {machine("scalar", 1),  machine("avx2", 2),    machine("avx2", 3),
          machine("avx512", 16), machine("avx512", 96), machine("", Device::unknown)};
}

Family family_of(const std::string& rules, Layout layout, const Device& device) {
  FamilyRequest request;
  request.signature = signature_of(make_gemm(1, 1, 1, DType::fp32, layout));
  request.device = device;
  request.rules = rules;
  return enumerate(request);
}

TEST(NativeFamily, HoldsConfigsWhoseNamesReadBack) {
  for (const Device& device : machines()) {
    for (const Layout layout : kLayouts) {
      for (const std::string& rules : rule_set_names("native", Op::gemm)) {
        const Family family = family_of(rules, layout, device);
        for (std::size_t i = 0; i < family.configs.size(); ++i) {
          const NativeConfig config = NativeConfig::from(family.configs[i]);
          ASSERT_LE(config.threads(), std::max(1.0, std::isnan(device.cores) ? 1.0 : device.cores))
              << family.name(i);
          ASSERT_EQ(provider("native").parse(family.name(i)),
                    (NamedConfig{family.signature, family.configs[i]}));
        }
      }
    }
  }
}

TEST(NativeFamily, RuleSetsHaveTheirSizes) {
  for (const Layout layout : kLayouts) {
    for (const Device& device : {machine("avx2", 2), machine("avx512", 2)}) {
      EXPECT_LE(family_of("tiny", layout, device).configs.size(), 24u) << word(layout);
      const auto usual = family_of("default", layout, device).configs.size();
      const auto broad = family_of("broad", layout, device).configs.size();
      EXPECT_GE(usual, 40u) << word(layout);
      EXPECT_LE(5 * usual, 3 * broad) << word(layout);
      EXPECT_GE(broad, 100u) << word(layout);
      EXPECT_LE(broad, 200u) << word(layout);
      EXPECT_GE(family_of("full", layout, device).configs.size(), 600u) << word(layout);
    }
  }
}

TEST(NativeFamily, EveryProblemIsCoveredByEveryRuleSetAndItsDefault) {
  constexpr std::int64_t sizes[] = {0, 1, 4096};
  for (const Device& device : machines()) {
    for (const Layout layout : kLayouts) {
      for (const std::string& rules : rule_set_names("native", Op::gemm)) {
        const Family family = family_of(rules, layout, device);
        for (const std::int64_t m : sizes) {
          for (const std::int64_t n : sizes) {
            for (const std::int64_t k : sizes) {
              for (const std::int64_t split : {0, 5}) {
                GemmProblem problem = make_gemm(m, n, k, DType::fp32, layout);
                problem.split_k = split;
                std::vector<std::uint8_t> applicable(family.configs.size());
                applicable_configs(family, problem, applicable);
                ASSERT_EQ(applicable[family.default_config], 1)
                    << print(problem) << " by the default of " << rules;
              }
            }
          }
        }
      }
    }
  }
}

/// Instruction sets of this machine.
std::vector<NativeIsa> sets_here() {
  std::vector<NativeIsa> sets;
  for (const NativeIsa isa : {NativeIsa::scalar, NativeIsa::avx2, NativeIsa::avx512}) {
    if (machine_has(isa)) sets.push_back(isa);
  }
  return sets;
}

bool is_compiled(const NativeConfig& c, Layout layout) {
  const cpu::GemmKernels& set = *cpu::kernels_of<cpu::GemmKernels>(c.isa);
  const auto in = [&](const auto& tiles, std::int32_t rows, std::int32_t columns) {
    return static_cast<std::size_t>(rows) < std::size(tiles) &&
           static_cast<std::size_t>(columns) < std::size(tiles[0]) && tiles[rows][columns] != nullptr;
  };
  switch (native_form(c.kind, layout)) {
    case NativeForm::outer:
      return c.nr % set.lanes == 0 && in(set.outer[0][0], c.mr, c.nr / set.lanes);
    case NativeForm::dot:
      return in(set.dot[0], c.mr, c.nr);
    case NativeForm::update:
      return c.kind == NativeKind::skinny_m ? in(set.update[0], c.mr, c.nr) : in(set.update[0], c.nr, c.mr);
  }
  return false;
}

TEST(NativeFamily, RulesAdmitTheCompiledTilesOnly) {
  for (const NativeIsa isa : sets_here()) {
    const Device device = machine(std::string(axis_value_text(native_gemm_space.axes[0], int(isa))), 1);
    for (const Layout layout : kLayouts) {
      const Signature signature = signature_of(make_gemm(1, 1, 1, DType::fp32, layout));
      const std::int32_t kinds[] = {0, 1, 2, 3};
      for (const std::int32_t kind : kinds) {
        KernelConfig config(native_gemm_space);
        for (std::size_t i = 0; i < native_gemm_space.axes.size(); ++i) config[i] = 0;
        for (const char* const axis : {"split_k", "threads_m", "threads_n"}) config.set(axis, 1);
        config.set("isa", static_cast<std::int32_t>(isa));
        config.set("kind", kind);
        if (kind == 0) config.set("pack_b", 1);
        if (kind == 1) config.set("pack_a", !row_major_a(layout));
        if (kind == 1) config.set("pack_b", row_major_b(layout));
        for (std::int32_t mr = 0; mr <= 18; ++mr) {
          for (std::int32_t nr = 0; nr <= 5 * native_lanes(isa); ++nr) {
            config.set("mr", mr);
            config.set("nr", nr);
            const std::string why = legal_refusal(signature, config, device);
            ASSERT_EQ(why.empty(), is_compiled(NativeConfig::from(config), layout))
                << config_name(signature, config) << ": " << why;
            ASSERT_TRUE(why.empty() || why.find("-tile-is-compiled") != std::string::npos) << why;
          }
        }
      }
    }
  }
}

TEST(NativeFamily, RulesAdmitTheCompiledTilesOfConvolutionsOnly) {
  for (const NativeIsa isa : sets_here()) {
    const Device device = machine(std::string(axis_value_text(native_gemm_space.axes[0], int(isa))), 1);
    const cpu::ConvKernels& set = *cpu::kernels_of<cpu::ConvKernels>(isa);
    for (const Op op : kDirections) {
      const Signature signature = signature_of(make_conv(op, DType::fp32, Layout::nhwgc));
      for (const NativeConvKind kind : {NativeConvKind::rows, NativeConvKind::lanes}) {
        KernelConfig config(native_conv_space(op));
        for (std::size_t i = 0; i < config.space->axes.size(); ++i) config[i] = 0;
        for (const char* const axis : {"pixels", "threads_p", "threads_k"}) config.set(axis, 1);
        config.set("isa", static_cast<std::int32_t>(isa));
        config.set("kind", static_cast<std::int32_t>(kind));
        config.set("pack_w", op != Op::conv_bwd_weight);
        for (std::int32_t mr = 0; mr < cpu::kMaxSums + 2; ++mr) {
          for (std::int32_t nr = 0; nr <= 5 * set.lanes; ++nr) {
            config.set("mr", mr);
            config.set("nr", nr);
            const std::int32_t vectors = nr % set.lanes == 0 && nr <= 4 * set.lanes ? nr / set.lanes : 0;
            const bool sums = op == Op::conv_bwd_weight;
            const bool compiled = kind == NativeConvKind::rows
                                      ? mr <= cpu::kMaxOuterRows && set.tile[0][mr][vectors] != nullptr
                                  : sums ? vectors == 1 && mr <= cpu::kMaxSums && set.sums[mr][1] != nullptr
                                         : mr <= kMaxTileSide && set.direct[mr][vectors] != nullptr;
            ASSERT_EQ(legal_refusal(signature, config, device).empty(), compiled)
                << config_name(signature, config);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kscout
