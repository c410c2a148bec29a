#include "tune/by_class.h"

#include <gtest/gtest.h>

#include "core/files.h"
#include "dataset/dataset.h"
#include "evaluate/evaluate_model.h"
#include "lightgbm/lightgbm.h"
#include "select/model.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
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

// The new trees reverse the order of the configs: once that of a good model, once that of one that chooses
// the worst.
TEST(ByClass, NewTreesAnswerWhereTheyAreBetter) {
  const std::string files[] = {
      paths::in_repository("data/gemm_fp32_graniterapids-2c.sizes_held_out.parquet").string()};
  CompactTable held_out = read_compact(files);
  held_out.keep_problems([](const Problem& p) { return size_class(p) != SizeClass::to_10_gflop; });
  const test::TemporaryFolder folder;
  const Model shipped = Model::load(paths::in_repository("models/gemm_fp32_any_cpu"), &held_out.device);
  const Forest good = shipped.data().targets.front().forest;
  Forest bad = good;
  for (double& leaf : bad.leaf_value) leaf = -leaf;
  const auto save = [&](const char* name, bool any_cpu, const Forest& forest) {
    ModelData data = shipped.data();
    data.any_cpu = any_cpu;
    if (!any_cpu) {
      data.first_trees = 0;
      data.known_devices.clear();
    }
    data.targets.front().forest = forest;
    std::filesystem::create_directory(folder / name);
    write_file_atomically(folder / name / "model.ksf", Model(std::move(data)).bytes());
  };
  const auto forest_of = [&](const char* name) {
    return Model::load(folder / name, &held_out.device).data().targets.front().forest;
  };
  const auto classes = class_switch(*shipped.data().schema, held_out.device);
  InClass all;
  all.fill(true);
  for (const bool first_is_good : {true, false}) {
    SCOPED_TRACE(first_is_good);
    const Forest& base = first_is_good ? good : bad;
    Forest turn = first_is_good ? bad : good;
    for (double& leaf : turn.leaf_value) leaf *= 2;
    Forest turned = base;
    append_in_classes(turned, turn, 0, all, *classes);
    save("any_cpu", true, base);
    save("candidate", false, turned);
    const auto kept = keep_best_trees({folder / "candidate", folder / "any_cpu", {}}, held_out);
    ASSERT_TRUE(kept);
    for (std::size_t c = 0; c < kSizeClasses; ++c) {
      const bool held = c != static_cast<std::size_t>(SizeClass::to_10_gflop);
      EXPECT_EQ((*kept)[c], held && !first_is_good ? TreesOf::candidate : TreesOf::none) << c;
    }
    ModelEvaluationOptions how;
    how.in_sample = true;
    EXPECT_GT(evaluate_model(folder / "candidate", held_out, how).evaluation.overall.mean, 0.9);
    EXPECT_EQ(first_trees(forest_of("candidate"), base.tree_count()), base);
  }
  // What a model before added stays where nothing better is known.
  save("any_cpu", true, bad);
  save("before", false, forest_of("candidate"));
  save("candidate", false, bad);
  const auto kept = keep_best_trees({folder / "candidate", folder / "any_cpu", folder / "before"}, held_out);
  ASSERT_TRUE(kept);
  EXPECT_EQ((*kept)[0], TreesOf::before);

  // A model that does not begin with the same trees stays as it is.
  save("candidate", false, good);
  EXPECT_FALSE(keep_best_trees({folder / "candidate", folder / "any_cpu", folder / "before"}, held_out));
  EXPECT_EQ(forest_of("candidate"), good);
}

}  // namespace
}  // namespace kscout
