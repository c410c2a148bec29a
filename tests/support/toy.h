#pragma once
/// \file
/// Provides a problem space with a known truth: twelve configs, a cost that is a formula, and a schema from
/// which it can be learned.
#include <cmath>
#include <memory>
#include <random>

#include <kscout/family.h>
#include <kscout/measurement.h>
#include <kscout/provider.h>

#include "features/schema.h"
#include "select/model.h"

namespace kscout::toy {

inline Device device() { return device_preset("epyc-7763"); }

/// Register tiles 2, 4, 6, 8 x 8, 16, 32; tiles of 32 columns refuse problems of fewer than 8.
inline Family family(Layout layout = Layout::rcr) {
  Family family;
  family.provider = "native";
  family.signature = signature_of(make_gemm(1, 1, 1, DType::fp32, layout));
  family.device = device();
  family.rules = "tiny";
  const ConfigSpace& space = provider("native").space(Op::gemm);
  family.configs = ConfigTable(space);
  for (const int rows : {2, 4, 6, 8}) {
    for (const int columns : {8, 16, 32}) {
      KernelConfig config(space);
      for (std::size_t axis = 0; axis < space.axes.size(); ++axis) config[axis] = 0;
      config.set("isa", 1);
      config.set("mr", rows);
      config.set("nr", columns);
      family.configs.push_back(config);
      Traits traits;
      traits.inner_m = rows;
      traits.inner_n = columns;
      family.traits.push_back(traits);
    }
  }
  family.applicability = {{"wide-enough", RuleKind::applicability, "c.nr <= 16 or p.n >= 8", "a toy's rule"}};
  family.default_config = 4;
  return family;
}

inline std::shared_ptr<const Schema> schema() {
  SchemaData data;
  data.name = "toy";
  data.summary = "what decides a toy's cost";
  data.terms = {{"tiles_m", "ceil_div(p.m, t.inner_m)", "1", "tiles along m", false}};
  data.features = {
      {"m", "p.m", "elements", "rows", false},
      {"n", "p.n", "elements", "columns", false},
      {"k", "p.k", "elements", "depth", false},
      {"work", "p.m * p.n * p.k", "1", "multiplications", false},
      {"column_major_a", "if(p.layout == 'crr' or p.layout == 'ccr', 1, 0)", "1", "A is stored by columns",
       false},
      {"inner_m", "t.inner_m", "elements", "rows of a tile", false},
      {"inner_n", "t.inner_n", "elements", "columns of a tile", false},
      {"fill_m", "p.m / (tiles_m * t.inner_m)", "1", "used part of the tiles along m", false},
      {"fill_n", "p.n / (ceil_div(p.n, t.inner_n) * t.inner_n)", "1", "used part of the tiles along n",
       false},
  };
  return std::make_shared<Schema>(std::move(data));
}

/// Microseconds: padding is paid for, large tiles are faster inside, deep problems like tall tiles.
inline double time_us(const GemmProblem& p, const Traits& t) {
  const double padded = std::ceil(static_cast<double>(p.m) / t.inner_m) * t.inner_m *
                        std::ceil(static_cast<double>(p.n) / t.inner_n) * t.inner_n *
                        static_cast<double>(p.k);
  const double shape = p.k > 512 ? t.inner_m / t.inner_n : t.inner_n / t.inner_m;
  const double speed =
      2e4 * t.inner_m * t.inner_n / (t.inner_m + t.inner_n) / (1 + 0.1 * std::fabs(std::log2(shape)));
  return 0.5 + 2 * padded / speed;
}

inline std::vector<GemmProblem> problems(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto size = [&] {
    return static_cast<std::int64_t>(std::exp2(static_cast<double>(rng() % 1100) / 100.0));
  };
  std::vector<GemmProblem> problems;
  while (problems.size() < count) {
    const GemmProblem p =
        make_gemm(size(), size(), size(), DType::fp32, rng() % 2 == 0 ? Layout::rcr : Layout::crr);
    if (std::find(problems.begin(), problems.end(), p) == problems.end()) problems.push_back(p);
  }
  return problems;
}

/// What an exhaustive sweep would find; every seventh row of a slow config is pruned early, one in 60 failed.
inline MeasurementTable measurements(std::size_t count, std::uint64_t seed) {
  MeasurementTable table;
  table.device = device();
  const auto made = problems(count, seed);
  table.problems.assign(made.begin(), made.end());
  const Family of = family();
  for (std::size_t c = 0; c < of.configs.size(); ++c) table.configs.push_back(of.configs[c]);
  table.metadata["rules"] = "tiny";
  for (std::uint32_t p = 0; p < table.problems.size(); ++p) {
    for (std::uint32_t c = 0; c < table.configs.size(); ++c) {
      Measurement m;
      m.time_us = time_us(made[p], of.traits[c]);
      m.repeats = 5;
      if ((p + 5 * c) % 7 == 0 && c != of.default_config) m.status = Status::pruned_early;
      if ((p * 12 + c) % 60 == 59) {
        m.status = Status::wrong;
        m.time_us = Measurement::unknown;
      }
      table.rows.push_back({p, c, m});
    }
  }
  return table;
}

}  // namespace kscout::toy
