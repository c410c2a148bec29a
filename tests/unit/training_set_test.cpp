#include "train/training_set.h"

#include <map>

#include <gtest/gtest.h>

#include "dataset/operations.h"
#include "support/compact_tables.h"
#include "support/expect_error.h"
#include "support/toy.h"
#include "train/cross_validate.h"
#include "train/lightgbm.h"
#include "train/train.h"

namespace kscout {
namespace {

TEST(Folds, SizesStayTogetherAndFoldsAreEven) {
  std::vector<Problem> problems;
  std::vector<std::uint32_t> weights;
  for (int i = 1; i <= 40; ++i) {
    for (const Layout layout : {Layout::rcr, Layout::rrr}) {
      problems.push_back(make_gemm(i, 2 * i, 3, DType::fp32, layout));
      weights.push_back(static_cast<std::uint32_t>(1 + i % 5));
    }
  }
  const auto folds = group_k_fold(problems, weights, 5);
  std::vector<std::uint32_t> load(5);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    EXPECT_EQ(folds[i], folds[i / 2 * 2]);
    load[folds[i]] += weights[i];
  }
  // Largest first to the lightest fold: loads differ by no more than the lightest group.
  EXPECT_LE(*std::ranges::max_element(load) - *std::ranges::min_element(load), 2u);
  EXPECT_EQ(group_k_fold(problems, weights, 5), folds);
  EXPECT_THROW(group_k_fold(problems, weights, 1), Error);
  EXPECT_THROW(group_k_fold(problems, weights, 41), Error);
}

TEST(TrainingSet, TimesThatNoKernelTakesAreRefused) {
  MeasurementTable table = toy::measurements(10, 3);
  table.rows[1].measured = {.status = Status::ok, .time_us = 5e-324};
  test::expect_error(Errc::invalid_argument, "no kernel takes less than 0.001 us", [&] {
    make_training_set(test::compact({&table, 1}), std::vector<Family>{toy::family()}, *toy::schema());
  });
}

TEST(TrainingSet, KeepsWhatWasMeasuredBest) {
  MeasurementTable table = toy::measurements(6, 1);
  table.problems.push_back(make_gemm(0, 4, 4));
  table.rows.push_back({6, 0, {}});  // no operations: says nothing
  auto again = table.rows.front();
  again.measured.status = Status::ok;
  again.measured.pass = 2;
  again.measured.time_us = 0.25;
  table.rows.push_back(again);
  table.rows[1].measured.status = Status::unsupported;
  table.rows[13].measured.status = Status::left_out;
  const auto families = std::vector{toy::family(Layout::rcr), toy::family(Layout::crr)};
  const TrainingSet set = make_training_set(test::compact({&table, 1}), families, *toy::schema());
  ASSERT_EQ(set.problems.size(), 6u);
  EXPECT_EQ(set.rows[0].time_us, 0.25);
  EXPECT_EQ(set.first_row[1], 11u);  // 12 configs, one of them unsupported
  EXPECT_EQ(set.best_tflops[0], flop_count(table.problems[0]) / 0.25 * 1e-6);
  EXPECT_EQ(set.features_of(0).size(), 11 * toy::schema()->size());
  EXPECT_EQ(set.problem_of(10), 0u);
  EXPECT_EQ(set.problem_of(11), 1u);

  MeasurementTable other = table;
  other.device.name = "else";
  const std::vector tables = {table, other};
  EXPECT_THROW(make_training_set(test::compact(tables), families, *toy::schema()), Error);
}

TEST(LightgbmDataset, OfBlocksGivesTheTreesOfTheWholeMatrix) {
  const std::vector<std::string> names = {"a", "b", "c"};
  std::vector<double> matrix;
  std::vector<float> labels;
  for (int r = 0; r < 700; ++r) {
    matrix.insert(matrix.end(),
                  {r % 13 ? r * 0.37 - 40 : 0.0, r % 7 ? r % 29 * 1.5 : std::nan(""), r % 3 * 1.0});
    labels.push_back(static_cast<float>(r % 29 * r % 101));
  }
  const std::vector<std::uint32_t> first_row = {0, 1, 90, 90, 400, 700};
  const auto block = [&](std::size_t b) {
    return std::vector<double>(matrix.begin() + first_row[b] * 3, matrix.begin() + first_row[b + 1] * 3);
  };
  for (const std::string sample : {"bin_construct_sample_cnt=200000", "bin_construct_sample_cnt=150"}) {
    const std::string parameters =
        "objective=regression min_data_in_leaf=3 max_bin=63 deterministic=true "
        "force_row_wise=true num_threads=1 verbosity=-1 " +
        sample;
    const auto trees = [&](lightgbm::Dataset data) {
      data.set_labels(labels);
      lightgbm::Booster booster(data, parameters);
      while (booster.iterations() < 8 && booster.update()) {
      }
      return booster.text(8);
    };
    const std::string whole = trees(lightgbm::Dataset(matrix, names, parameters));
    EXPECT_NE(whole.find("Tree=7"), std::string::npos);
    EXPECT_EQ(trees(lightgbm::Dataset(first_row, block, names, parameters)), whole) << sample;
  }
}

TEST(Families, OfSeveralRuleSetsOrAFileOfRulesWhatWasMeasured) {
  for (const char* const rules : {"default; full", "h200.toml:widened"}) {
    MeasurementTable table = toy::measurements(6, 1);
    table.metadata["rules"] = rules;
    const auto families = families_of(test::compact({&table, 1}));
    ASSERT_FALSE(families.empty()) << rules;
    EXPECT_EQ(families[0].configs.size(), table.configs.size()) << rules;
  }
}

TEST(Families, OfSeveralFiltersWhatAnyOfThemAdmits) {
  const auto configs = [](const std::vector<std::string>& filters) {
    std::vector<MeasurementTable> sweeps;
    for (const std::string& filter : filters) {
      sweeps.push_back(toy::measurements(6, 1));
      sweeps.back().metadata = {{"rules", "tiny"}, {"filter", filter}};
    }
    const MeasurementTable merged = merge(sweeps, Keep::first);
    return families_of(test::compact({&merged, 1})).at(0).configs.size();
  };
  const std::string low = "c.mr <= 4", high = "c.mr > 4 and c.nr > 0";
  EXPECT_GT(configs({low}), 0u);
  EXPECT_GT(configs({high}), 0u);
  EXPECT_EQ(configs({low, high}), configs({low}) + configs({high}));
  EXPECT_EQ(configs({low, low}), configs({low}));
  EXPECT_EQ(configs({low, ""}), configs({""}));
  EXPECT_EQ(configs({"", low}), configs({""})) << "a sweep without a filter measured all";
  EXPECT_GT(configs({""}), configs({low}));
}

TEST(Families, OfSeparateTablesAsOfMerged) {
  using Metadata = std::map<std::string, std::string>;
  const Metadata tiny{{"rules", "tiny"}}, low{{"rules", "tiny"}, {"filter", "c.mr <= 4"}},
      high{{"rules", "tiny"}, {"filter", "c.mr > 4"}}, full{{"rules", "full"}};
  const auto names = [](const Family& family) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < family.configs.size(); ++i) all.push_back(family.name(i));
    return all;
  };
  for (const auto& [first, second] : {std::pair(low, high), {low, tiny}, {tiny, full}}) {
    std::vector<MeasurementTable> sweeps(2, toy::measurements(6, 1));
    sweeps[0].metadata = first;
    sweeps[1].metadata = second;
    const MeasurementTable merged = merge(sweeps, Keep::first);
    const auto separate = families_of(test::compact(sweeps)),
               together = families_of(test::compact({&merged, 1}));
    ASSERT_EQ(separate.size(), together.size());
    for (std::size_t i = 0; i < separate.size(); ++i) {
      EXPECT_EQ(separate[i].signature, together[i].signature);
      EXPECT_EQ(separate[i].rules, together[i].rules);
      EXPECT_EQ(names(separate[i]), names(together[i]));
    }
    const auto of_first = families_of(test::compact(std::span(sweeps).first(1)));
    EXPECT_NE(names(separate.at(0)), names(of_first.at(0))) << "the second measured others as well";
  }
}

TEST(Labels, FailuresAreWorst) {
  const MeasurementTable table = toy::measurements(30, 2);
  const auto families = std::vector{toy::family(Layout::rcr), toy::family(Layout::crr)};
  const TrainingSet set = make_training_set(test::compact({&table, 1}), families, *toy::schema());
  for (const Target target :
       {Target::tflops, Target::latency, Target::bandwidth, Target::relative, Target::rank}) {
    const auto labels = labels_of(set, target);
    const double sign = target == Target::latency ? -1 : 1;
    for (std::size_t p = 0; p < set.problems.size(); ++p) {
      for (std::size_t a = set.first_row[p]; a < set.first_row[p + 1]; ++a) {
        for (std::size_t b = set.first_row[p]; b < set.first_row[p + 1]; ++b) {
          // Faster never has the worse label; floats may make near ones equal.
          if (set.tflops(p, a) > set.tflops(p, b)) {
            EXPECT_GE(sign * labels[a], sign * labels[b]) << word(target);
          }
        }
      }
    }
  }
}

TEST(Labels, AHandicapLowersTheLabelsOfItsConfigsAlone) {
  const MeasurementTable table = toy::measurements(30, 2);
  const auto families = std::vector{toy::family(Layout::rcr), toy::family(Layout::crr)};
  const std::int32_t rows = table.configs.front()["mr"];
  const std::string where = fmt::format("c.mr == {}", rows);
  const TrainingSet plain = make_training_set(test::compact({&table, 1}), families, *toy::schema()),
                    set =
                        make_training_set(test::compact({&table, 1}), families, *toy::schema(), {where, 0.5});
  ASSERT_EQ(set.row_count(), plain.row_count());
  std::size_t lower = 0, others = 0;
  for (const Target target : {Target::tflops, Target::relative, Target::rank}) {
    const auto before = labels_of(plain, target), after = labels_of(set, target);
    for (std::size_t r = 0; r < set.row_count(); ++r) {
      const bool ours = set.configs[set.rows[r].config]["mr"] == rows;
      EXPECT_EQ(set.rows[r].handicapped, ours ? 1u : 0u);
      const std::size_t p = set.problem_of(r);
      EXPECT_EQ(set.tflops(p, r), plain.tflops(p, r));
      if (target == Target::tflops || !ours) {
        EXPECT_EQ(after[r], before[r]) << word(target);
        others += !ours;
      } else {
        EXPECT_LE(after[r], before[r]) << word(target);
        lower += after[r] < before[r];
      }
    }
  }
  EXPECT_GT(lower, 30u);
  EXPECT_GT(others, 30u);
  EXPECT_THROW(make_training_set(test::compact({&table, 1}), families, *toy::schema(), {where, 1.0}), Error);
}

}  // namespace
}  // namespace kscout
