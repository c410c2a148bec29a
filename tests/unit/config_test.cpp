#include <gtest/gtest.h>

#include <kscout/config.h>
#include <kscout/error.h>

namespace kscout {
namespace {

constexpr std::string_view kWords[] = {"off", "on"};
constexpr Axis kAxes[] = {{"tile", "elements", "a number"}, {"mode", "1", "a word", kWords}};
constexpr ConfigSpace kSpace{"toy", Op::gemm, kAxes};

TEST(Config, ValuesAreReachedByNameAndPosition) {
  KernelConfig config(kSpace);
  EXPECT_EQ(config["tile"], KernelConfig::unknown);
  config.set("mode", 1);
  EXPECT_EQ(config[1], 1);
  EXPECT_THROW(config["tyle"], Error);
}

TEST(Config, AxisValuesReadBack) {
  EXPECT_EQ(parse_axis_value(kAxes[1], axis_value_text(kAxes[1], 1)), 1);
  EXPECT_EQ(parse_axis_value(kAxes[0], "-3"), -3);
  EXPECT_EQ(axis_value_text(kAxes[0], KernelConfig::unknown), "?");
  EXPECT_EQ(parse_axis_value(kAxes[0], "?"), KernelConfig::unknown);
  EXPECT_THROW(parse_axis_value(kAxes[1], "onn"), Error);
  EXPECT_THROW(parse_axis_value(kAxes[0], "6k"), Error);
  EXPECT_THROW(axis_value_text(kAxes[1], 2), Error);
}

TEST(Config, TableKeepsRowsInOrder) {
  ConfigTable table(kSpace);
  for (int i = 0; i < 3; ++i) {
    KernelConfig config(kSpace);
    config.set("tile", i);
    config.set("mode", i % 2);
    table.push_back(config);
  }
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table[2]["tile"], 2);
  EXPECT_EQ(table.column(1)[1], 1);
}

}  // namespace
}  // namespace kscout
