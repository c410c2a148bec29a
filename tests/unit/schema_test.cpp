#include "features/schema.h"

#include <cmath>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "features/schema_text.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

using test::expect_error;

constexpr Axis kSchemaAxes[] = {{"x", "1", "any"}};
constexpr ConfigSpace kSchemaSpace{"test", Op::gemm, kSchemaAxes};

ConfigTable table_of(std::size_t rows) {
  ConfigTable table(kSchemaSpace);
  for (std::size_t i = 0; i < rows; ++i) table.push_back(KernelConfig(kSchemaSpace));
  return table;
}

/// A 4-core CPU with every fact known.
Device cpu() {
  Device device;
  device.name = "test";
  device.kind = DeviceKind::cpu;
  device.cores = 4;
  device.max_clock_mhz = 3000;
  device.l1_bytes = 32768;
  device.l2_bytes = 524288;
  device.l3_bytes = 16777216;
  device.vector_bytes = 32;
  device.fma_per_cycle = 2;
  device.memory_gb_s = 40;
  return device;
}

/// A packed tiled config of a fixed grid.
Traits tiled(double threads_m, double threads_n) {
  Traits t;
  t.tile_m = 144;
  t.tile_n = 4096;
  t.tile_k = 256;
  t.inner_m = 6;
  t.inner_n = 16;
  t.inner_k = 1;
  t.workers = threads_m * threads_n;
  t.workers_m = threads_m;
  t.workers_n = threads_n;
  t.vector_elements = 8;
  t.split_k = 1;
  t.packs_a = t.packs_b = 1;
  t.kind = 0;
  t.order = 1;
  return t;
}

double feature(std::string_view id, const GemmProblem& problem, const Device& device, const Traits& traits) {
  const Schema& schema = Schema::find("gemm");
  std::vector<double> row(schema.size());
  schema.evaluate(problem, device, KernelConfig(kSchemaSpace), traits, row);
  return row[schema.index(id)];
}

SchemaData small_schema() {
  return {
      .name = "small",
      .summary = "a \"quoted\" \\ text",
      .op = Op::gemm,
      .provider = "",
      .requirements = {{"p.m <= 10", "rows above 10 are not described"}},
      .terms = {{"twice", "2 * p.m", "elements", "twice the rows"}},
      .features = {{"a", "twice + t.tile_m", "elements", "sum"}, {"b", "p.n", "elements", "columns", true}}};
}

TEST(Schema, ReadsItsOwnText) {
  const Schema schema(small_schema());
  const Schema again = Schema::parse(schema.text(), "text");
  EXPECT_EQ(again, schema);
  EXPECT_EQ(again.hash(), schema.hash());
  for (const auto& name : Schema::names()) {
    const Schema& known = Schema::find(name);
    EXPECT_EQ(Schema::parse(known.text(), name), known) << name;
  }
}

TEST(Schema, HashIsOfFormulasNotOfMeanings) {
  SchemaData data = small_schema();
  const auto hash = Schema(data).hash();
  data.features[0].meaning = "another";
  EXPECT_EQ(Schema(data).hash(), hash);
  data.features[0].formula = "twice - t.tile_m";
  EXPECT_NE(Schema(data).hash(), hash);
  data = small_schema();
  data.terms[0].formula = "3 * p.m";
  EXPECT_NE(Schema(data).hash(), hash);
}

TEST(Schema, WritesRowsOfConfigs) {
  const Schema schema(small_schema());
  std::vector<Traits> traits(3);
  for (int i = 0; i < 3; ++i) traits[i].tile_m = 100 * i;
  std::vector<double> matrix(6);
  schema.evaluate(make_gemm(4, 5, 6), cpu(), table_of(3), traits, matrix);
  EXPECT_EQ(matrix, (std::vector<double>{8, 5, 108, 5, 208, 5}));
  EXPECT_EQ(schema.categorical(), std::vector<std::uint32_t>{1});
  EXPECT_TRUE(schema.depends(1).problem_only());
  EXPECT_FALSE(schema.depends(0).problem_only());
  std::vector<double> row(2);
  schema.evaluate_problem(make_gemm(4, 5, 6), cpu(), row);
  EXPECT_TRUE(std::isnan(row[0]));
  EXPECT_EQ(row[1], 5);
}

TEST(Schema, RefusesWhatItCannotDescribe) {
  const Schema schema(small_schema());
  std::vector<double> matrix(2);
  expect_error(Errc::unsupported, "rows above 10", [&] {
    schema.evaluate(make_gemm(11, 5, 6), cpu(), KernelConfig(kSchemaSpace), Traits{}, matrix);
  });
  expect_error(Errc::invalid_argument, "0 traits for 1 configs",
               [&] { schema.evaluate(make_gemm(1, 5, 6), cpu(), table_of(1), {}, matrix); });
  expect_error(Errc::invalid_argument, "1 configs x 2 features", [&] {
    schema.evaluate(make_gemm(1, 5, 6), cpu(), KernelConfig(kSchemaSpace), Traits{},
                    std::span(matrix).first(1));
  });
}

TEST(Schema, NamesWhatIsWrongInADefinition) {
  SchemaData twice = small_schema();
  twice.features[1].id = "a";
  expect_error(Errc::invalid_argument, "'a' is defined twice", [&] { Schema{twice}; });
  for (const char* const id : {"a b", "1st", "a-b", "a\n"}) {
    SchemaData no_id = small_schema();
    no_id.features[1].id = id;
    expect_error(Errc::corrupt_data, {"f.toml:", "is no id"},
                 [&] { Schema::parse(schema_text(no_id), "f.toml"); });
  }
  SchemaData unknown = small_schema();
  unknown.features[1].formula = "p.mm";
  expect_error(Errc::invalid_argument, "did you mean 'p.m'", [&] { Schema{unknown}; });
  SchemaData mixed = small_schema();
  mixed.requirements[0].formula = "p.m < t.tile_m";
  expect_error(Errc::invalid_argument, "mixes problem and config", [&] { Schema{mixed}; });
  expect_error(Errc::invalid_argument, "did you mean 'gemm'", [] { Schema::find("gem"); });
  expect_error(Errc::invalid_argument, "did you mean 'wave_efficiency'",
               [] { Schema::find("gemm").index("wave_eficiency"); });
  expect_error(Errc::corrupt_data, "f.toml:2: unknown key 'nme'",
               [] { Schema::parse("op='gemm'\nnme='x'\n", "f.toml"); });
  expect_error(Errc::corrupt_data, "'name' is missing", [] { Schema::parse("op='gemm'\n", "f.toml"); });
  expect_error(Errc::corrupt_data, "f.toml:1", [] { Schema::parse("op=", "f.toml"); });
}

TEST(Schema, IsNamedByTheCatalogueOrAFile) {
  const test::TemporaryFolder folder;
  const auto file = folder / "own.toml";
  std::ofstream(file) << Schema(small_schema()).text();
  EXPECT_EQ(Schema::named(file.string()), Schema(small_schema()));
  EXPECT_EQ(Schema::named("gemm"), Schema::find("gemm"));
  expect_error(Errc::not_found, "other.toml", [&] { Schema::named((folder / "other.toml").string()); });
  expect_error(Errc::invalid_argument, "did you mean 'gemm'", [] { Schema::named("gem"); });
  std::ofstream(file) << "name = \"own\"\nop = 3\n";
  expect_error(Errc::corrupt_data, {"own.toml", "summary"}, [&] { Schema::named(file.string()); });
}

TEST(Catalogue, PageIsUpToDate) {
  std::ifstream in(paths::in_repository("docs/features.md"));
  std::ostringstream page;
  page << in.rdbuf();
  EXPECT_TRUE(page.str() == catalogue_markdown())
      << "write it again: kscout features --format markdown > docs/features.md";
}

TEST(GemmSchema, IsExactAndKnowsItsDependencies) {
  const Schema& schema = Schema::find("gemm");
  EXPECT_GE(schema.size(), 30u);
  for (const auto& operation : schema.program().operations()) {
    EXPECT_NE(operation.code, expr::Code::log2);
    EXPECT_NE(operation.code, expr::Code::ln);
  }
  EXPECT_TRUE(schema.depends(schema.index("arithmetic_intensity")).problem_only());
  EXPECT_TRUE(schema.depends(schema.index("inner_intensity")).config_only());
  EXPECT_FALSE(schema.depends(schema.index("waves")).config_only());
}

TEST(GemmSchema, CountsTilesWavesAndTails) {
  Device gpu;
  gpu.kind = DeviceKind::gpu;
  gpu.cores = 100;
  Traits t;
  t.tile_m = 128;
  t.tile_n = 64;
  t.tile_k = 32;
  t.workers_m = t.workers_n = 0;
  t.workers = 0;
  t.workers_per_core = 2;
  t.split_k = 3;
  GemmProblem p = make_gemm(1000, 1000, 1000, DType::fp16);
  EXPECT_EQ(feature("tiles", p, gpu, t), 8 * 16 * 3);
  EXPECT_EQ(feature("workers", p, gpu, t), 200);
  EXPECT_EQ(feature("waves", p, gpu, t), 384.0 / 200);
  EXPECT_EQ(feature("wave_efficiency", p, gpu, t), 384.0 / 200 / 2);
  EXPECT_EQ(feature("tile_efficiency", p, gpu, t), 1e6 / (1024 * 1024));
  EXPECT_EQ(feature("k_steps", p, gpu, t), 11);  // ceil(ceil(1000 / 3) / 32)
  p.batch = 2;
  EXPECT_EQ(feature("tiles", p, gpu, t), 768);
}

TEST(GemmSchema, PartsOfAFixedGridAreWholeRegisterTiles) {
  const GemmProblem p = make_gemm(100, 64, 512);
  EXPECT_EQ(feature("part_m", p, cpu(), tiled(4, 1)),
            30);  // 17 register tiles of 6 rows; the largest part has 5
  EXPECT_EQ(feature("part_n", p, cpu(), tiled(4, 1)), 64);
  EXPECT_EQ(feature("wave_efficiency", p, cpu(), tiled(4, 1)), 100.0 / 120);
  EXPECT_EQ(feature("wave_efficiency", p, cpu(), tiled(1, 4)), 1);
  EXPECT_EQ(feature("register_efficiency", p, cpu(), tiled(1, 4)), 100.0 / 102);
}

TEST(AnalyticTime, IsNearTheRooflineOfLargeProblemsOnACpu) {
  // 4 cores x 8 lanes x 2 FMAs x 3000 MHz: 384 GFLOPS at best.
  const double gflops = feature("analytic_gflops", make_gemm(2048, 2048, 2048), cpu(), tiled(2, 2));
  EXPECT_GT(gflops, 250);
  EXPECT_LT(gflops, 384);
  // One row streams B once: 64 MiB at 40 GB/s.
  Traits skinny = tiled(1, 4);
  skinny.kind = 1;
  skinny.inner_m = 1;
  skinny.inner_n = 4;
  skinny.inner_k = 8;
  skinny.packs_a = skinny.packs_b = 0;
  skinny.tile_m = skinny.tile_n = skinny.tile_k = Traits::unknown;
  const double us = feature("analytic_time_us", make_gemm(1, 4096, 4096), cpu(), skinny);
  EXPECT_GT(us, 67108864 / 40e3);
  EXPECT_LT(us, 1.2 * 67108864 / 40e3);
}

TEST(AnalyticTime, RanksAsExperienceDoes) {
  const auto us = [](const GemmProblem& p, const Traits& t) {
    return feature("analytic_time_us", p, cpu(), t);
  };
  EXPECT_LT(us(make_gemm(1024, 1024, 1024), tiled(2, 2)), us(make_gemm(1024, 1024, 1024), tiled(1, 1)));
  EXPECT_GT(us(make_gemm(16, 16, 16), tiled(2, 2)), us(make_gemm(16, 16, 16), tiled(1, 1)));
  EXPECT_LT(us(make_gemm(4096, 8, 512), tiled(4, 1)), us(make_gemm(4096, 8, 512), tiled(1, 4)));
  Traits narrow = tiled(2, 2);
  narrow.inner_m = 1;
  EXPECT_LT(us(make_gemm(1024, 1024, 1024), tiled(2, 2)), us(make_gemm(1024, 1024, 1024), narrow));
}

TEST(AnalyticTime, RanksGpuTilesByWaves) {
  const Device h200 = device_preset("h200");
  const auto us = [&](const GemmProblem& p, double tile_m, double tile_n) {
    Traits t;
    t.tile_m = tile_m;
    t.tile_n = tile_n;
    t.tile_k = 64;
    t.workers_per_core = 1;
    return feature("analytic_time_us", p, h200, t);
  };
  const GemmProblem large = make_gemm(8192, 8192, 8192, DType::bf16),
                    small = make_gemm(512, 512, 4096, DType::bf16);
  EXPECT_LT(us(large, 128, 256), us(large, 64, 64));
  EXPECT_LT(us(small, 64, 64), us(small, 128, 256));
  EXPECT_GT(flop_count(large) / us(large, 128, 256) / 1e6, 400);   // TFLOPS
  EXPECT_LT(flop_count(large) / us(large, 128, 256) / 1e6, 1070);  // 132 x 4096 x 1.98 GHz
}

TEST(AnalyticTime, IsPositiveForEverySizeAndUnknownWithoutATile) {
  const std::int64_t sizes[] = {0, 1, 7, 4096, std::int64_t{1} << 30};
  for (const auto m : sizes) {
    for (const auto n : sizes) {
      for (const auto k : sizes) {
        const double us = feature("analytic_time_us", make_gemm(m, n, k), cpu(), tiled(2, 2));
        EXPECT_TRUE(us > 0 && std::isfinite(us)) << m << " " << n << " " << k;
        const double bare = feature("analytic_time_us", make_gemm(m, n, k), Device{}, Traits{});
        EXPECT_TRUE(bare > 0 && std::isfinite(bare)) << m << " " << n << " " << k;
      }
    }
  }
  Device gpu;
  gpu.kind = DeviceKind::gpu;
  EXPECT_TRUE(std::isnan(feature("analytic_time_us", make_gemm(64, 64, 64), gpu, Traits{})));
}

TEST(AnalyticTime, IsTheFeatureOfTheSchema) {
  const std::vector<Traits> traits = {tiled(2, 2), tiled(1, 1), tiled(4, 1)};
  std::vector<double> us(3);
  analytic_schema().evaluate(make_gemm(100, 200, 300), cpu(), table_of(3), traits, us);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(us[i], feature("analytic_time_us", make_gemm(100, 200, 300), cpu(), traits[i]));
  }
}

}  // namespace
}  // namespace kscout
