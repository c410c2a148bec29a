// Checks that families/native_gemm.toml and the compiled kernels agree: every config that the rules admit
// runs, on every kind of machine.
#include <cmath>

#include <gtest/gtest.h>

#include <kscout/backend.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "provider/native/native.h"

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

TEST(NativeFamily, HoldsOnlyWorkingConfigsWhoseNamesReadBack) {
  for (const Device& device : machines()) {
    for (const Layout layout : kLayouts) {
      for (const std::string& rules : rule_set_names("native", Op::gemm)) {
        const Family family = family_of(rules, layout, device);
        for (std::size_t i = 0; i < family.configs.size(); ++i) {
          const NativeConfig config = NativeConfig::from(family.configs[i]);
          ASSERT_EQ(native_illegal(family.signature, config), "") << family.name(i) << " in " << rules;
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
      EXPECT_GE(usual, 100u) << word(layout);
      EXPECT_LE(usual, 200u) << word(layout);
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

TEST(NativeFamily, RunsWhateverItAdmitsOnThisMachine) {
  const Device& here = backend("cpu").device();
  for (const Layout layout : kLayouts) {
    const Family family = family_of("full", layout, here);
    const GemmProblem problem = make_gemm(5, 5, 300, DType::fp32, layout);
    for (std::size_t i = 0; i < family.configs.size(); ++i) {
      ASSERT_EQ(backend("cpu").refusal(problem, family.configs[i]), "") << family.name(i);
    }
  }
}

}  // namespace
}  // namespace kscout
