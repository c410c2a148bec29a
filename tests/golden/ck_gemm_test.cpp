// ck_gemm_55 and ck_gemm_72 against an independent transcription of their public description
// (ck_gemm_reference.py).
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include <kscout/error.h>
#include <kscout/provider.h>

#include "core/field_text.h"
#include "features/schema.h"

namespace kscout {
namespace {

std::vector<std::string> cells(const std::string& line) {
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

Golden read_golden(const std::string& name) {
  std::ifstream in(KSCOUT_TEST_DATA "/golden/" + name + ".csv");
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

GemmProblem problem_of(const Case& row) {
  const auto size = [&](const char* name) { return parse_field<std::int64_t>(name, row.in.at(name)); };
  GemmProblem p = make_gemm(size("m"), size("n"), size("k"), parse<DType>(row.in.at("dtype")),
                            parse<Layout>(row.in.at("layout")));
  p.split_k = size("split_k");
  return p;
}

KernelConfig config_of(const Case& row) {
  const ConfigSpace& space = provider("ck_tile").space(Op::gemm);
  KernelConfig config(space);
  for (const Axis& axis : space.axes) {
    const auto given = row.in.find(std::string(axis.name));
    if (given == row.in.end() || axis.name == "split_k") continue;
    config.set(axis.name, parse_axis_value(axis, given->second));
  }
  return config;
}

Device device_of(const Case& row) {
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
  return device;
}

void compare(const std::string& name, std::size_t features) {
  const Golden golden = read_golden(name);
  const Schema& schema = Schema::find(name);
  ASSERT_GE(golden.cases.size(), 200u);
  ASSERT_EQ(schema.size(), features);
  ASSERT_EQ(golden.features.size(), features);
  for (std::size_t i = 0; i < features; ++i) EXPECT_EQ(schema.features()[i].id, golden.features[i]);
  std::vector<double> row(features);
  for (std::size_t c = 0; c < golden.cases.size(); ++c) {
    const Case& expected = golden.cases[c];
    schema.evaluate(problem_of(expected), device_of(expected), config_of(expected), Traits{}, row);
    for (std::size_t i = 0; i < features; ++i) {
      const double want = expected.expected[i];
      EXPECT_LE(std::abs(row[i] - want), 1e-10 * std::abs(want))
          << name << " row " << c + 2 << " feature " << golden.features[i] << ": " << row[i] << ", expected "
          << want;
    }
  }
}

TEST(CkGemmSchemas, Gives55FeaturesAsPublished) { compare("ck_gemm_55", 55); }
TEST(CkGemmSchemas, Gives72FeaturesAsPublished) { compare("ck_gemm_72", 72); }

TEST(CkGemmSchemas, ListTheCategoricalOnes) {
  for (const char* name : {"ck_gemm_55", "ck_gemm_72"}) {
    const Schema& schema = Schema::find(name);
    std::vector<std::string> ids;
    for (const auto i : schema.categorical()) ids.push_back(schema.features()[i].id);
    EXPECT_EQ(ids, (std::vector<std::string>{"layout", "pipeline", "scheduler", "epilogue"}));
  }
}

TEST(CkGemmSchemas, RefuseWhatTheEncodingDoesNotKnow) {
  const Golden golden = read_golden("ck_gemm_72");
  const Schema& schema = Schema::find("ck_gemm_72");
  const Device device = device_of(golden.cases[0]);
  const KernelConfig config = config_of(golden.cases[0]);
  const GemmProblem problem = problem_of(golden.cases[0]);
  std::vector<double> row(schema.size());
  const auto refuses = [&](const GemmProblem& p, const KernelConfig& c, std::string_view part) {
    try {
      schema.evaluate(p, device, c, Traits{}, row);
      ADD_FAILURE() << "not refused: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::unsupported);
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
    }
  };
  refuses(make_gemm(1, 2, 3, DType::fp64), config, "knows fp32");
  KernelConfig unknown = config;
  unknown.set("pipeline", KernelConfig::unknown);
  refuses(problem, unknown, "knows pipelines");
  KernelConfig newer = config;
  newer.set("epilogue", parse_axis_value(config.space->axes[config.space->axis_index("epilogue")], "tdm"));
  refuses(problem, newer, "knows epilogues");
}

TEST(CkGemmSchemas, TakeSplitKFromTheConfigWhenTheProblemLeavesItOpen) {
  const Golden golden = read_golden("ck_gemm_55");
  const Schema& schema = Schema::find("ck_gemm_55");
  GemmProblem problem = problem_of(golden.cases[0]);
  KernelConfig config = config_of(golden.cases[0]);
  std::vector<double> row(schema.size());
  const auto split_k = [&] {
    schema.evaluate(problem, device_of(golden.cases[0]), config, Traits{}, row);
    return row[schema.index("split_k")];
  };
  problem.split_k = 0;
  EXPECT_EQ(split_k(), 1);
  config.set("split_k", 4);
  EXPECT_EQ(split_k(), 4);
  problem.split_k = 2;
  EXPECT_EQ(split_k(), 2);
}

}  // namespace
}  // namespace kscout
