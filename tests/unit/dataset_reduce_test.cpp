#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "dataset/operations.h"
#include "dataset/reduce.h"
#include "dataset_fixture.h"
#include "family/family_file.h"

namespace kscout {
namespace {

using test::timed;

constexpr std::string_view kNative = "native_gemm_fp32_rcr__avx2_tiled_6x16_packab_b144x256x4096_n_s1_t1x2";

Family family_of(const Signature& signature, const std::string& rules) {
  return enumerate({.provider = "nvidia",
                    .signature = signature,
                    .device = device_preset("h200"),
                    .rules = rules,
                    .filter = {}});
}

/// One row of these configs for each of the problems, all ok.
MeasurementTable product(std::vector<Problem> problems, std::vector<KernelConfig> configs,
                         Status status = Status::ok) {
  MeasurementTable table;
  table.device = device_preset("h200");
  table.problems = std::move(problems);
  table.configs = std::move(configs);
  for (std::uint32_t p = 0; p < table.problems.size(); ++p) {
    for (std::uint32_t c = 0; c < table.configs.size(); ++c) table.rows.push_back({p, c, timed(10, status)});
  }
  return table;
}

TEST(DatasetReduce, ARuleSetKeepsItsConfigsOfEachSignature) {
  const Problem rcr = make_gemm(64, 128, 256, DType::bf16, Layout::rcr),
                rrr = make_gemm(64, 128, 256, DType::bf16, Layout::rrr);
  const Family of_rcr = family_of(signature_of(rcr), "listed"),
               of_rrr = family_of(signature_of(rrr), "listed");
  const auto holds = [](const Family& family, const KernelConfig& config) {
    for (std::size_t i = 0; i < family.configs.size(); ++i) {
      if (family.configs[i] == config) return true;
    }
    return false;
  };
  const Family full = family_of(signature_of(rcr), "full");
  std::vector<KernelConfig> configs;
  for (std::size_t i = 0; i < full.configs.size(); ++i) configs.push_back(full.configs[i]);
  const MeasurementTable table = product({rcr, rrr}, configs);
  const RuleSetRows reduced = rows_of_rule_set(table, "listed");
  std::size_t wanted = 0, only_rcr = 0, suggestions = 0;
  for (const KernelConfig& config : configs) {
    wanted += holds(of_rcr, config) + holds(of_rrr, config);
    only_rcr += holds(of_rcr, config) && !holds(of_rrr, config);
    suggestions += holds(of_rcr, config) && config["suggestion"] > 0;
  }
  ASSERT_GT(only_rcr, 0u) << "else signatures are not told apart here";
  ASSERT_GT(suggestions, 0u) << "else none are kept here";
  EXPECT_EQ(reduced.table.rows.size(), wanted);
  EXPECT_EQ(reduced.unmeasured, of_rcr.configs.size() + of_rrr.configs.size() - wanted);
  for (const auto& row : reduced.table.rows) {
    const Family& family = reduced.table.problems[row.problem] == rcr ? of_rcr : of_rrr;
    EXPECT_TRUE(holds(family, reduced.table.configs[row.config]));
  }
  EXPECT_LT(reduced.table.configs.size(), configs.size()) << "those without rows are gone";
}

TEST(DatasetReduce, MetadataNameTheRuleSetInsteadOfThoseOfTheSweeps) {
  const Problem problem = make_gemm(64, 128, 256, DType::bf16);
  MeasurementTable table = product({problem}, {family_of(signature_of(problem), "listed").configs[0]});
  table.metadata = {{"rules", "listed; a.toml:these"}, {"seed", "1; 2"}};
  const auto metadata = rows_of_rule_set(table, "listed").table.metadata;
  EXPECT_EQ(metadata.at("rules"), "listed");
  EXPECT_EQ(metadata.at("seed"), "1; 2");
  EXPECT_EQ(rules_name("some/folder/a.toml:these"), "a.toml:these");
}

TEST(DatasetReduce, RuleSetsThatSayNothingOfTheTableAreRefused) {
  const Problem problem = make_gemm(64, 128, 256);
  MeasurementTable table = product({problem}, {provider("native").parse(kNative).config});
  table.device = device_preset("epyc-7763");
  EXPECT_THROW(rows_of_rule_set(table, "prunde"), Error);
  EXPECT_THROW(rows_of_rule_set(table, "tiny"), Error) << "its only config is in none";
  table.rows.clear();
  EXPECT_THROW(rows_of_rule_set(table, "default"), Error);
}

TEST(DatasetReduce, OnlyRowsWithATime) {
  MeasurementTable table = test::toy_table();
  const MeasurementTable reduced = timed_rows(table);
  ASSERT_EQ(reduced.rows.size(), 5u);
  for (const auto& row : reduced.rows) EXPECT_TRUE(std::isfinite(row.measured.time_us));
  std::erase_if(table.rows, [](const auto& row) { return row.problem == 0; });
  table.rows[0].measured = test::failed(Status::timeout);
  EXPECT_TRUE(timed_rows(table).problems.empty()) << "problems without rows are gone";
}

/// Among how many rows (1 to 60) the one of the table stays.
std::set<std::uint32_t> stays_among(const MeasurementTable& table) {
  std::set<std::uint32_t> counts;
  for (std::uint32_t one_in = 1; one_in <= 60; ++one_in) {
    if (!sample_pruned_early(table, one_in).rows.empty()) counts.insert(one_in);
  }
  return counts;
}

std::set<std::uint32_t> divisors(std::uint32_t hash) {
  std::set<std::uint32_t> out;
  for (std::uint32_t d = 1; d <= 60; ++d) {
    if (hash % d == 0) out.insert(d);
  }
  return out;
}

// The hashes are Python's: zlib.crc32(b"256,512,64,rcr,native_gemm_...").
TEST(DatasetReduce, ARowPrunedEarlyStaysByTheHashOfItsNames) {
  GemmProblem gemm = make_gemm(256, 512, 64);
  EXPECT_EQ(stays_among(product({gemm}, {provider("native").parse(kNative).config}, Status::pruned_early)),
            divisors(997148845));
  ConvProblem conv = parse_any_problem("conv_fwd:1x128x32x32:256x2x2:bf16:nhwgc:stride=2").conv();
  const auto kernel = provider("ck_tile").parse("grouped_conv_forward_bf16_2d_16x64x64_compv3");
  EXPECT_EQ(stays_among(product({conv}, {kernel.config}, Status::pruned_early)), divisors(1604799041));
}

TEST(DatasetReduce, WhichPrunedRowsStayDependsOnNothingElse) {
  std::vector<Problem> problems;
  for (int m = 1; m <= 400; ++m) problems.push_back(make_gemm(m, 64, 64));
  const KernelConfig config = provider("native").parse(kNative).config;
  const MeasurementTable table = product(problems, {config}, Status::pruned_early);
  const MeasurementTable reduced = sample_pruned_early(table, 5);
  EXPECT_GT(reduced.rows.size(), 50u);
  EXPECT_LT(reduced.rows.size(), 110u);
  EXPECT_EQ(sample_pruned_early(reduced, 5).rows, reduced.rows) << "reduced again";
  EXPECT_EQ(sample_pruned_early(table, 1).rows, table.rows);
  EXPECT_THROW(sample_pruned_early(table, 0), Error);

  std::ranges::reverse(problems);
  const auto other_way =
      compare(reduced, sample_pruned_early(product(problems, {config}, Status::pruned_early), 5));
  EXPECT_EQ(other_way.both, reduced.rows.size());
  EXPECT_EQ(other_way.only_a + other_way.only_b, 0u);
  EXPECT_EQ(sample_pruned_early(product(problems, {config}), 5).rows.size(), 400u)
      << "rows that were not pruned early stay";
}

TEST(DatasetReduce, TimesOfRowsPrunedEarlyHaveADigitLess) {
  const KernelConfig config = provider("native").parse(kNative).config;
  MeasurementTable table =
      product({make_gemm(64, 64, 64), make_gemm(65, 64, 64), make_gemm(66, 64, 64)}, {config});
  table.rows[0].measured.time_us = table.rows[1].measured.time_us = 12.34567;
  table.rows[0].measured.spread = 0.01234;
  table.rows[1].measured.status = Status::pruned_early;
  table.rows[2].measured = test::failed(Status::crashed);
  const MeasurementTable reduced = with_time_digits(table, 4);
  EXPECT_EQ(reduced.rows[0].measured.time_us, 12.35);
  EXPECT_EQ(reduced.rows[0].measured.spread, 0.012);
  EXPECT_EQ(reduced.rows[1].measured.time_us, 12.3);
  EXPECT_EQ(reduced.rows[2], table.rows[2]);
}

TEST(DatasetReduce, RowsPrunedEarlyKeepACoarseTimeAndHowOftenTheyWereTimed) {
  MeasurementTable table = test::toy_table();
  for (std::size_t r : {0u, 1u}) {
    table.rows[r].measured = test::timed(12.3456, r == 0 ? Status::pruned_early : Status::ok, 2);
    table.rows[r].measured.spread = 0.01;
    table.rows[r].measured.error = 0.5;
    table.rows[r].measured.setup_us = 3;
    table.rows[r].measured.repeats = 7;
    table.rows[r].measured.noisy = true;
  }
  const MeasurementTable reduced = coarsen_pruned_early(table, 3);
  ASSERT_EQ(reduced.rows.size(), table.rows.size());
  Measurement wanted = test::timed(12.3, Status::pruned_early, 2);
  wanted.repeats = 7;
  wanted.spread = wanted.error = wanted.setup_us = Measurement::unknown;
  EXPECT_EQ(reduced.rows[0].measured, wanted);
  for (std::size_t r = 1; r < table.rows.size(); ++r) {
    if (table.rows[r].measured.status == Status::pruned_early) continue;
    EXPECT_EQ(reduced.rows[r], table.rows[r]) << r;
  }
  EXPECT_EQ(coarsen_pruned_early(reduced, 3).rows, reduced.rows) << "reduced again";
  EXPECT_THROW(coarsen_pruned_early(table, 0), Error);
}

}  // namespace
}  // namespace kscout
