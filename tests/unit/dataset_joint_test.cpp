// Tests that tables of the members of a joint provider, and of older forms of it, are read and merged.
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dataset/columns.h"
#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "dataset_fixture.h"
#include "provider/joint.h"
#include "support/expect_error.h"

namespace kscout {
namespace {

using test::expect_error;
using test::toy_table;

/// One problem under configs of these names, all in the same time.
MeasurementTable table_of(std::string_view provider_name, std::initializer_list<std::string_view> names,
                          double time_us) {
  MeasurementTable table;
  table.device = toy_table().device;
  table.problems = {make_gemm(64, 64, 64, DType::bf16)};
  for (const std::string_view name : names) {
    table.configs.push_back(provider(provider_name).parse(name).config);
    table.rows.push_back({0,
                          static_cast<std::uint32_t>(table.rows.size()),
                          {.status = Status::ok, .time_us = time_us, .repeats = 1}});
  }
  return table;
}

TEST(DatasetOfAJointProvider, MembersMeasurementsBecomeTheJointProviders) {
  const std::string_view first = "cublaslt_gemm_bf16_rcr_v0__suggestion1",
                         second = "cublaslt_gemm_bf16_rcr_v0__suggestion2";
  const auto member = table_of("cublaslt", {first, second}, 10), joint = table_of("nvidia", {first}, 12);
  for (const auto& tables : {std::vector{member, joint}, std::vector{joint, member}}) {
    const MeasurementTable merged = merge(tables, Keep::last);
    ASSERT_EQ(merged.configs.size(), 2u);
    for (const KernelConfig& config : merged.configs) EXPECT_EQ(config.space->provider, "nvidia");
    ASSERT_EQ(merged.rows.size(), 2u);
    for (const auto& row : merged.rows) {
      const std::string name = config_name(signature_of(merged.problems[0]), merged.configs[row.config]);
      EXPECT_EQ(row.measured.time_us, name == first ? tables.back().rows.front().measured.time_us : 10);
    }
  }
  const auto other =
      table_of("native", {"native_gemm_fp32_rcr__avx2_tiled_6x16_packab_b72x256x512_n_s1_t1x1"}, 10);
  for (const auto& tables : {std::vector{member, other}, std::vector{joint, other}})
    EXPECT_THROW(merge(tables, Keep::mean), Error);
}

/// A table of provider nvidia_conv as it was before hopper, whose axis `cluster` no other member has.
std::string table_without_hopper(std::string_view kernel) {
  const NamedConfig named = parse_config_name(kernel);
  const KernelConfig config = joint_config(provider("nvidia_conv").space(Op::conv_fwd), named.config);
  std::string head = "n,c,k,h,w,y,x,dtype_in,dtype_wei,dtype_out,dtype_acc,time_us";
  std::string row = "2,64,64,28,28,3,3,bf16,bf16,bf16,fp32,10";
  for (std::size_t i = 0; i < config.space->axes.size(); ++i) {
    const Axis& axis = config.space->axes[i];
    if (axis.name == "cluster") continue;
    head += fmt::format(",config_{}", axis.name);
    row += "," + axis_value_text(axis, config[i]);
  }
  return fmt::format("op,provider,{}\nconv_fwd,nvidia_conv,{}\n", head, row);
}

TEST(DatasetOfAJointProvider, TablesMayBeOlderThanAMemberOfTheirJointFamily) {
  DatasetOptions options;
  options.device = device_preset("h200");
  const std::string_view old = "groupwise_conv_fwd_bf16_nhwgc__gemm_t64x32_m1_k1";
  const auto table = parse_dataset_csv(table_without_hopper(old), "t.csv", options);
  ASSERT_EQ(table.configs.size(), 1u);
  EXPECT_EQ(table.configs[0]["cluster"], 0);
  EXPECT_EQ(config_name(signature_of(table.problems[0]), table.configs[0]), old);
  // Files list the axes of their configs in family order.
  const std::string text = config_text(table.configs[0]);
  const std::string before = text.substr(0, text.rfind(','));
  KernelConfig other = table.configs[0];
  other.set("split_k", 4);
  EXPECT_EQ(family_places(std::vector{other, table.configs[0]}, {before}),
            (std::vector<std::uint32_t>{1, 0}));
  expect_error(Errc::corrupt_data, "config_cluster", [&] {
    parse_dataset_csv(table_without_hopper("hopper_conv_fwd_bf16_nhwgc__128x64x64_c2_k1"), "t.csv", options);
  });
}

TEST(DatasetOfAJointProvider, TablesMayShareASpaceWithoutBeingMerged) {
  const std::string_view name = "cublaslt_gemm_bf16_rcr_v0__suggestion1";
  std::vector tables = {table_of("cublaslt", {name}, 10), table_of("nvidia", {name}, 12)};
  ASSERT_TRUE(in_one_space(tables));
  for (const MeasurementTable& table : tables) {
    EXPECT_EQ(table.configs.front().space->provider, "nvidia");
    EXPECT_EQ(config_name(signature_of(table.problems[0]), table.configs.front()), name);
  }
  const std::string_view native = "native_gemm_fp32_rcr__avx2_tiled_6x16_packab_b72x256x512_n_s1_t1x1";
  tables.push_back(table_of("native", {native}, 10));
  EXPECT_FALSE(in_one_space(tables));
  EXPECT_EQ(tables.back().configs.front().space->provider, "native");
}

}  // namespace
}  // namespace kscout
