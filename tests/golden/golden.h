#pragma once
/// \file
/// Reads tables of golden values: inputs in columns `in.<name>`, one column per feature.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/any_problem.h>
#include <kscout/device.h>
#include <kscout/provider.h>
#include <kscout/traits.h>

#include "core/field_text.h"
#include "features/schema.h"
#include "support/paths.h"

namespace kscout::golden {

inline std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    out.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

/// One row of the table: inputs by name, expected values in order.
struct Case {
  std::map<std::string, std::string> in;
  std::vector<double> expected;
};

struct Golden {
  std::vector<std::string> features;
  std::vector<Case> cases;
};

inline Golden read_golden(const std::string& name) {
  std::ifstream in(paths::in_repository("tests/golden/" + name + ".csv"));
  EXPECT_TRUE(in) << name;
  std::string line;
  std::getline(in, line);
  const auto header = cells(line);
  Golden golden;
  for (const auto& column : header) {
    if (!column.starts_with("in.")) golden.features.push_back(column);
  }
  while (std::getline(in, line)) {
    const auto values = cells(line);
    Case& row = golden.cases.emplace_back();
    for (std::size_t i = 0; i < header.size(); ++i) {
      if (header[i].starts_with("in.")) {
        row.in[header[i].substr(3)] = values.at(i);
      } else {
        row.expected.push_back(parse_field<double>(header[i], values.at(i)));
      }
    }
  }
  return golden;
}

inline Device device_of(const Case& row) {
  const auto fact = [&](const char* name) { return parse_field<double>(name, row.in.at(name)); };
  Device device;
  device.kind = DeviceKind::gpu;
  device.cores = fact("num_cus");
  device.simds_per_core = fact("simds_per_cu");
  device.shader_engines = fact("shader_engines");
  device.max_clock_mhz = fact("max_clock_mhz");
  device.max_waves_per_core = fact("max_waves_per_cu");
  device.wavefront_size = fact("wavefront_size");
  device.shared_bytes_per_core = fact("lds_capacity");
  device.l1_bytes = fact("l1_cache_kb") * 1024;
  device.l2_bytes = fact("l2_cache_kb") * 1024;
  device.l3_bytes = fact("l3_cache_kb") * 1024;
  device.dies = fact("num_xcd");
  if (const auto arch = row.in.find("arch"); arch != row.in.end()) device.arch = arch->second;
  return device;
}

inline GemmProblem gemm_of(const Case& row) {
  const auto size = [&](const char* name) { return parse_field<std::int64_t>(name, row.in.at(name)); };
  GemmProblem p = make_gemm(size("m"), size("n"), size("k"), parse<DType>(row.in.at("dtype")),
                            parse<Layout>(row.in.at("layout")));
  p.split_k = size("split_k");
  return p;
}

inline KernelConfig gemm_config_of(const Case& row) {
  const ConfigSpace& space = provider("ck_tile").space(Op::gemm);
  KernelConfig config(space);
  for (const Axis& axis : space.axes) {
    const auto given = row.in.find(std::string(axis.name));
    if (given == row.in.end() || axis.name == "split_k") continue;
    config.set(axis.name, parse_axis_value(axis, given->second));
  }
  return config;
}

inline ConvProblem conv_of(const Case& row) {
  const auto size = [&](const std::string& name) { return parse_field<std::int64_t>(name, row.in.at(name)); };
  ConvProblem p = make_conv(Op::conv_fwd, parse<DType>(row.in.at("dtype")));
  for_each_field<ConvProblem>([&](const auto& field) {
    using V = typename std::remove_cvref_t<decltype(field)>::value;
    if constexpr (std::is_same_v<V, std::int64_t>) {
      if (row.in.contains(std::string(field.name))) p.*field.member = size(std::string(field.name));
    }
  });
  p.left_pad_d = p.right_pad_d = size("pad_d");
  p.left_pad_h = p.right_pad_h = size("pad_h");
  p.left_pad_w = p.right_pad_w = size("pad_w");
  return p;
}

inline KernelConfig conv_config_of(const Case& row) {
  const ConfigSpace& space = provider("ck_tile").space(Op::conv_fwd);
  KernelConfig config(space);
  for (const Axis& axis : space.axes) {
    const auto given = row.in.find(std::string(axis.name));
    if (given == row.in.end() || axis.name.starts_with("stride")) continue;
    config.set(axis.name, parse_axis_value(axis, given->second));
  }
  return config;
}

/// Every row of table `whole` against schema `name`, which has some of its features in the same order.
template <class ProblemOf, class ConfigOf>
void compare_part(const std::string& name, std::size_t features, const std::string& whole,
                  ProblemOf&& problem_of, ConfigOf&& config_of) {
  const Golden golden = read_golden(whole);
  const Schema& schema = Schema::find(name);
  ASSERT_GE(golden.cases.size(), 200u);
  ASSERT_EQ(schema.size(), features);
  std::vector<std::size_t> columns;
  for (const Feature& feature : schema.features()) {
    const auto found = std::ranges::find(golden.features, feature.id);
    ASSERT_NE(found, golden.features.end()) << feature.id;
    columns.push_back(static_cast<std::size_t>(found - golden.features.begin()));
  }
  ASSERT_TRUE(std::ranges::is_sorted(columns)) << name << " is in another order";
  std::vector<double> row(features);
  for (std::size_t c = 0; c < golden.cases.size(); ++c) {
    const Case& expected = golden.cases[c];
    const auto problem = problem_of(expected);
    schema.evaluate(problem, device_of(expected), config_of(expected), Traits{}, row);
    for (std::size_t i = 0; i < features; ++i) {
      const double want = expected.expected[columns[i]];
      EXPECT_LE(std::abs(row[i] - want), 1e-10 * std::abs(want))
          << name << " row " << c + 2 << " feature " << schema.features()[i].id << ": " << row[i]
          << ", expected " << want;
    }
  }
}

/// Every row and column of the table against the schema of that name.
template <class ProblemOf, class ConfigOf>
void compare(const std::string& name, std::size_t features, ProblemOf&& problem_of, ConfigOf&& config_of) {
  ASSERT_EQ(read_golden(name).features.size(), features);
  compare_part(name, features, name, problem_of, config_of);
}

}  // namespace kscout::golden
