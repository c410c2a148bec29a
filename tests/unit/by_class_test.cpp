#include "tune/by_class.h"

#include <gtest/gtest.h>

#include "lightgbm/lightgbm.h"
#include "select/model.h"

namespace kscout {
namespace {

/// Two trees over (x, size): the first splits x, and then a category; the second is a single leaf.
Forest two_trees() {
  return parse_lightgbm(R"(tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=regression
feature_names=x size
feature_infos=[0:1] [0:1]
tree_sizes=300 100

Tree=0
num_leaves=3
num_cat=1
split_feature=0 0
threshold=0.5 0
decision_type=10 1
left_child=1 -1
right_child=-3 -2
leaf_value=1 2 4
cat_boundaries=0 1
cat_threshold=1
is_linear=0
shrinkage=1


Tree=1
num_leaves=1
num_cat=0
leaf_value=0.25
is_linear=0
shrinkage=1


end of trees
)")
      .forest;
}

TEST(ByClass, TreesAddNothingOutsideTheirClasses) {
  const Forest trees = two_trees();
  const ClassSwitch classes{1, {1, 10, 100}};
  for (unsigned mask = 0; mask < 16; ++mask) {
    InClass in{};
    for (std::size_t c = 0; c < in.size(); ++c) in[c] = (mask >> c & 1) != 0;
    for (const std::size_t first : {0u, 1u}) {
      Forest forest = trees;
      append_in_classes(forest, trees, first, in, classes);
      check(forest);
      for (const double x : {0.0, 0.3, 0.9}) {
        for (const auto& [size, of] : {std::pair{0.5, 0}, {1.0, 0}, {5.0, 1}, {50.0, 2}, {100.5, 3}}) {
          const double row[] = {x, size};
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
