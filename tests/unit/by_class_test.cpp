#include "tune/by_class.h"

#include <gtest/gtest.h>

#include "lightgbm/lightgbm.h"
#include "select/model.h"
#include "support/two_trees.h"

namespace kscout {
namespace {

/// Two trees over (x, y), and a third column: the size.
Forest two_trees() {
  Forest trees = parse_lightgbm(test::kTwoTrees).forest;
  trees.feature_count = 3;
  return trees;
}

TEST(ByClass, TreesAddNothingOutsideTheirClasses) {
  const Forest trees = two_trees();
  const ClassSwitch classes{2, {1, 10, 100}};
  for (unsigned mask = 0; mask < 16; ++mask) {
    InClass in{};
    for (std::size_t c = 0; c < in.size(); ++c) in[c] = (mask >> c & 1) != 0;
    for (const std::size_t first : {0u, 1u}) {
      Forest forest = trees;
      append_in_classes(forest, trees, first, in, classes);
      check(forest);
      for (const double x : {0.0, 0.3, 0.9}) {
        for (const auto& [size, of] : {std::pair{0.5, 0}, {1.0, 0}, {5.0, 1}, {50.0, 2}, {100.5, 3}}) {
          const double row[] = {x, 1, size};
          const double added = first == 0 ? trees.predict(row) : 0.25;
          EXPECT_EQ(forest.predict(row),
                    trees.predict(row) + (in[static_cast<std::size_t>(of)] ? added : 0.0))
              << mask << ' ' << first << ' ' << x << ' ' << size;
        }
      }
    }
  }
}

TEST(ByClass, TheSwitchIsTheTimeAtTheDevicesPeak) {
  Device device;
  device.kind = DeviceKind::cpu;
  device.isa = "avx2";
  device.cores = 2;
  device.vector_bytes = 32;
  device.fma_per_cycle = 2;
  device.max_clock_mhz = 2500;  // 160 GFLOPS
  const Schema schema = Schema::find("gemm_any_cpu");
  const auto classes = class_switch(schema, device);
  ASSERT_TRUE(classes);
  EXPECT_EQ(schema.features()[classes->feature].id, "ideal_us");
  EXPECT_NEAR(classes->limits[0], 0.1 / 160 * 1e6, 1e-6);
  EXPECT_NEAR(classes->limits[2], 10.0 / 160 * 1e6, 1e-6);
  EXPECT_FALSE(class_switch(Schema::find("gemm"), device));
}

}  // namespace
}  // namespace kscout
