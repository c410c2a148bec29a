// Tests folders of CK Tile's trainer, of every generation of features. Predictor must return LightGBM's
// prediction for the row that an independent transcription of the features gives (tests/golden), and a model
// that is imported from a folder must choose in the order of LightGBM's predictions.
#include <cmath>
#include <filesystem>
#include <numeric>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <kscout/error.h>
#include <kscout/selector.h>

#include "core/files.h"
#include "golden/golden.h"
#include "provider/ck_tile/ck_tile.h"
#include "provider/ck_tile/export/ck_model.h"
#include "provider/ck_tile/import/ck_model.h"
#include "provider/ck_tile/select/ck_folder.h"
#include "select/predictor.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "train/lightgbm.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;
using namespace golden;

/// The table of a published schema; those of `ck_conv_74` and `ck_conv_91` are parts of others.
Golden table_of(const std::string& name) {
  const bool is_first = name == "ck_conv_74";
  if (!is_first && name != "ck_conv_91") return read_golden(name);
  Golden whole = read_golden(is_first ? "ck_conv_83" : "ck_conv_97"), part;
  const Schema& schema = Schema::find(name);
  for (Case& row : whole.cases) {
    Case& kept = part.cases.emplace_back(Case{std::move(row.in), {}});
    for (std::size_t i = 0; i < whole.features.size(); ++i) {
      const bool has =
          std::ranges::find(schema.features(), whole.features[i], &Feature::id) != schema.features().end();
      if (has) kept.expected.push_back(row.expected[i]);
    }
  }
  for (const Feature& feature : schema.features()) part.features.push_back(feature.id);
  return part;
}

nlohmann::json hardware_of(const Case& row) {
  nlohmann::json hardware;
  for (const CkHardwareConstant& constant : kCkHardware)
    hardware[constant.name] = parse_field<double>(constant.name, row.in.at(std::string(constant.name)));
  return hardware;
}

class PublishedFolder : public testing::TestWithParam<const char*> {
 protected:
  /// Trains on the golden rows and writes what the trainer writes.
  lightgbm::Booster write_folder(const Golden& golden,
                                 const nlohmann::json& more = nlohmann::json::object()) const {
    std::vector<double> matrix;
    std::vector<float> labels;
    std::mt19937 random(7);
    for (const Case& one : golden.cases) {
      matrix.insert(matrix.end(), one.expected.begin(), one.expected.end());
      labels.push_back(static_cast<float>(std::log1p(static_cast<double>(random() % 1000))));
    }
    const std::string parameters =
        "objective=regression num_leaves=15 min_data_in_leaf=2 num_threads=1 verbosity=-1 "
        "feature_pre_filter=false";
    lightgbm::Dataset data(matrix, golden.features, parameters);
    data.set_labels(labels);
    lightgbm::Booster booster(data, parameters);
    while (booster.iterations() < 15 && booster.update()) {
    }
    nlohmann::json spec = {{"op_type", "any"},
                           {"dtype", "bf16"},
                           {"arch", "gfx950"},
                           {"feature_names", golden.features},
                           {"categorical_features", nlohmann::json::array()},
                           {"targets", {"tflops"}},
                           {"log_targets", {"tflops"}}};
    if (GetParam() == std::string_view("ck_gemm_78")) spec["feature_encoding_version"] = 1;
    spec.update(more);
    write_file_atomically(folder_ / "feature_spec.json", spec.dump());
    write_file_atomically(folder_ / "model_tflops.lgbm.gz", gzip(booster.text(booster.iterations())));
    return booster;
  }

  double predicted(const Case& one, const std::optional<Device>& device = {}) const {
    const bool conv = std::string_view(GetParam()).starts_with("ck_conv");
    const Problem problem = conv ? Problem(conv_of(one)) : Problem(gemm_of(one));
    const KernelConfig config = conv ? conv_config_of(one) : gemm_config_of(one);
    ConfigTable table(*config.space);
    table.push_back(config);
    return Predictor(folder_.path(), "", device).predict(problem, table)[0];
  }
  double expected(const lightgbm::Booster& booster, const Case& one) const {
    return std::expm1(booster.predict(one.expected, one.expected.size())[0]);
  }

  const test::TemporaryFolder folder_;
};

TEST_P(PublishedFolder, PredictsAsLightgbmDoes) {
  const std::string name = GetParam();
  const Golden golden = table_of(name);
  const lightgbm::Booster booster = write_folder(golden);
  EXPECT_EQ(Predictor(folder_.path()).schema(), name) << "the schema of exactly these features";
  std::size_t different = 0;
  const double first = expected(booster, golden.cases[0]);
  for (std::size_t i = 0; i < 40; ++i) {
    const Case& one = golden.cases[i];
    const double said = predicted(one, device_of(one)), want = expected(booster, one);
    EXPECT_NEAR(said, want, 1e-12 * std::abs(want)) << name << " case " << i;
    different += i > 0 && said != first;
  }
  EXPECT_GT(different, 20u) << "the models tell rows apart";
  EXPECT_THROW(Predictor(folder_.path(), name.starts_with("ck_conv") ? "ck_gemm_55" : "ck_conv_83"), Error)
      << "features of another kind";
}

TEST_P(PublishedFolder, CountsWithTheHardwareOfItsTraining) {
  const Golden golden = table_of(GetParam());
  std::size_t compared = 0;
  for (std::size_t i = 0; i < golden.cases.size() && compared < 6; ++i) {
    const Case& one = golden.cases[i];
    const auto arch = one.in.find("arch");
    if (arch != one.in.end() && arch->second != "gfx950") continue;
    const lightgbm::Booster booster = write_folder(golden, {{"hardware", hardware_of(one)}});
    const double want = expected(booster, one);
    EXPECT_NEAR(predicted(one), want, 1e-12 * std::abs(want)) << "case " << i;
    ++compared;
  }
  EXPECT_EQ(compared, 6u);
}

TEST_P(PublishedFolder, WithoutHardwareCountsWithTheLdsOfPublishedTrainings) {
  const Golden golden = table_of(GetParam());
  const lightgbm::Booster booster = write_folder(golden);
  std::size_t compared = 0;
  for (const Case& one : golden.cases) {
    const Device device = device_of(one);
    const auto arch = one.in.find("arch");
    if (device.cores != 256 || device.shared_bytes_per_core != 65536) continue;
    if (arch != one.in.end() && arch->second != "gfx950") continue;
    const double want = expected(booster, one);
    EXPECT_NEAR(predicted(one), want, 1e-12 * std::abs(want));
    ++compared;
  }
  EXPECT_GE(compared, 10u);
}

TEST_P(PublishedFolder, RefusesOtherEnginesAndEncodings) {
  const Golden golden = table_of(GetParam());
  const auto refused = [&](const nlohmann::json& more, Errc code,
                           std::initializer_list<std::string_view> parts) {
    write_folder(golden, more);
    test::expect_error(code, parts, [&] { Predictor(folder_.path()); });
  };
  refused({{"feature_encoding_version", 7}}, Errc::unsupported, {"feature_encoding_version 7", GetParam()});
  refused({{"feature_engine", "FmhaFeatureEngine"}}, Errc::unsupported, {"FmhaFeatureEngine is unknown"});
  const bool conv = std::string_view(GetParam()).starts_with("ck_conv");
  const char* const other = conv ? "GemmUniversalFeatureEngine" : "GroupedConvFeatureEngine";
  refused({{"feature_engine", other}}, Errc::unsupported, {other, "is another one"});
  refused({{"hardware", {{"lds_capacty", 65536}}}}, Errc::invalid_argument, {"did you mean 'lds_capacity'"});
  refused({{"hardware", {{"num_cus", 0}}}}, Errc::corrupt_data, {"num_cus = 0: must be above 0"});
}

TEST_P(PublishedFolder, RefusesNamesThatFitNoSchemaExactly) {
  Golden golden = table_of(GetParam());
  const auto is_refused = [&](std::initializer_list<std::string_view> parts) {
    write_folder(golden);
    test::expect_error(Errc::invalid_argument, parts, [&] { Predictor(folder_.path()); });
  };
  // One feature less: other schemas have all of the rest, with other meanings.
  const std::string dropped = "cu_utilization";
  const auto at = std::ranges::find(golden.features, dropped) - golden.features.begin();
  golden.features.erase(golden.features.begin() + at);
  for (Case& one : golden.cases) one.expected.erase(one.expected.begin() + at);
  is_refused({GetParam(), "lacks 1 (cu_utilization)", "name the schema"});
  EXPECT_EQ(Predictor(folder_.path(), GetParam()).targets().size(), 1u) << "named, it is taken";
  golden.features.push_back("moon_phase");
  for (Case& one : golden.cases) one.expected.push_back(0);
  is_refused({GetParam(), "1 (moon_phase) are not in it"});
}

/// Names of 100 kernels in bf16; those of GEMMs pad every size.
std::vector<std::string> hundred_kernels(bool conv) {
  std::vector<std::string> names;
  const auto add = [&](std::string name) {
    if (names.size() < 100) names.push_back(std::move(name));
  };
  for (const char* const pipeline : {"compv3", "compv4", "mem", "compv5"}) {
    for (const int tile_m : {16, 32, 64, 128, 256}) {
      for (const int tile_n : {64, 128, 256}) {
        for (const int tile_k : {32, 64}) {
          if (conv) {
            add(fmt::format("grouped_conv_forward_bf16_2d_{}x{}x{}_{}", tile_m, tile_n, tile_k, pipeline));
          } else {
            add(fmt::format(
                "gemm_universal_bf16_rcr_{}_cshuffle_intrawave_True_True_True_False_{}x{}x{}_2x2x1_"
                "16x16x32",
                pipeline, tile_m, tile_n, tile_k));
          }
        }
      }
    }
  }
  return names;
}

std::vector<Problem> hundred_problems(bool conv) {
  std::mt19937 random(82);
  const auto below = [&](unsigned most) { return static_cast<std::int64_t>(random() % most); };
  std::vector<Problem> problems;
  while (problems.size() < 100) {
    if (!conv) {
      problems.push_back(make_gemm(1 + below(4096), 8 * (1 + below(512)), 8 * (1 + below(512)), DType::bf16));
      continue;
    }
    ConvProblem p = make_conv(Op::conv_fwd, DType::bf16);
    p.n = 1 + below(16), p.c = 16 * (1 + below(40)), p.k = 16 * (1 + below(40));
    p.h = 7 + below(60), p.w = 7 + below(60), p.y = 1 + below(3), p.x = 1 + below(3);
    p.stride_h = p.stride_w = 1 + below(2);
    problems.push_back(p);
  }
  return problems;
}

/// What LightGBM predicts for the rows of these configs.
std::vector<double> lightgbm_scores(const lightgbm::Booster& booster, const CkFolder& folder,
                                    const Problem& problem, const Family& family) {
  std::vector<double> matrix(family.configs.size() * folder.schema.size());
  folder.schema.evaluate(problem, folder.device, family.configs, family.traits, matrix);
  return booster.predict(matrix, folder.schema.size());
}

TEST_P(PublishedFolder, ChoosesInLightgbmsOrderOnceImported) {
  const bool conv = std::string_view(GetParam()).starts_with("ck_conv");
  const lightgbm::Booster booster = write_folder(table_of(GetParam()));
  const std::vector<std::string> kernels = hundred_kernels(conv);
  write_file_atomically(folder_ / "kernels.txt",
                        fmt::format("# kernels\n{0}\n{1}\nno_kernel\n"
                                    "gemm_universal_fp16_rcr_compv3_cshuffle_intrawave_True_True_True_False_"
                                    "16x64x64_2x2x1_16x16x32\n",
                                    fmt::join(kernels, "\n"), kernels[3]));
  const CkModel made = import_ck_model({.folder = folder_.path(), .kernels = folder_ / "kernels.txt"});
  EXPECT_EQ(made.repeated, 1u);
  ASSERT_EQ(made.skipped.size(), 2u);
  EXPECT_EQ(made.skipped[0].line, 103u);
  EXPECT_EQ(made.model.data().schema->name(), GetParam());

  write_file_atomically(folder_ / "made.ksf", made.model.bytes());
  const Model model = Model::load(folder_ / "made.ksf");
  const Selector selector = Selector::load(folder_ / "made.ksf");
  const CkFolder folder = read_ck_folder(folder_.path());
  const Family& family = model.data().families.at(0);
  ASSERT_EQ(family.configs.size(), kernels.size());
  for (std::size_t i = 0; i < kernels.size(); ++i) ASSERT_EQ(family.name(i), kernels[i]);
  std::vector<std::size_t> order(kernels.size());
  std::vector<double> scores(kernels.size());
  std::vector<Choice> ranked(kernels.size());
  std::size_t pairs = 0, ties = 0, choices = 0;
  for (const Problem& problem : hundred_problems(conv)) {
    const std::vector<double> want = lightgbm_scores(booster, folder, problem, family);
    model.exact_scores(problem, Target::tflops, scores);
    ASSERT_EQ(scores, want) << print(problem);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return want[i]; });
    ASSERT_EQ(selector.rank(problem, ranked), kernels.size()) << print(problem);
    for (std::size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(ranked[i].config, family.configs[order[i]]) << print(problem) << " rank " << i;
      ASSERT_NEAR(ranked[i].tflops, std::expm1(want[order[i]]), 1e-12 * std::expm1(want[order[i]]));
      ties += i > 0 && want[order[i]] == want[order[i - 1]];
    }
    const Choice choice = selector.select(problem);
    EXPECT_EQ(choice.config, ranked[0].config);
    EXPECT_EQ(choice.source, ChoiceSource::model);
    EXPECT_TRUE(std::isnan(choice.confidence)) << "the folder says nothing about it";
    pairs += order.size();
    choices += choice.config != family.configs[0];
  }
  EXPECT_EQ(pairs, 10000u);
  EXPECT_GT(ties, 100u) << "the order of equal kernels is tested";
  EXPECT_GT(choices, 10u) << "problems differ";
}

TEST_P(PublishedFolder, ListsThatFitNoFolderAreRefused) {
  write_folder(table_of(GetParam()));
  const auto refused = [&](const std::string& list, Errc code,
                           std::initializer_list<std::string_view> parts) {
    write_file_atomically(folder_ / "kernels.txt", list);
    test::expect_error(code, parts, [&] {
      import_ck_model({.folder = folder_.path(), .kernels = folder_ / "kernels.txt"});
    });
  };
  refused("no_kernel\n", Errc::invalid_argument,
          {"none of its 1 names is a kernel of any bf16", "no_kernel"});
  refused("# nothing\n", Errc::invalid_argument, {"none of its 0 names"});
  refused("{\"kernels\": [7]}", Errc::corrupt_data, {"kernels.txt", "'kernels'"});
  refused("a,b\n1,2\n", Errc::corrupt_data, {"kernels.txt", "no column of kernel names (kernel, "});
  refused("grouped_conv_forward_bf16_2d_16x64x64_compv3\ngrouped_conv_bwd_data_bf16_2d_16x64x64_compv3\n",
          Errc::invalid_argument,
          {std::string_view(GetParam()).starts_with("ck_conv") ? "kernels of conv_fwd and of conv_bwd_data"
                                                               : "a kernel of ck_tile conv_fwd bf16"});
}

TEST_P(PublishedFolder, ComesBackFromAModelUnchanged) {
  const bool conv = std::string_view(GetParam()).starts_with("ck_conv");
  const lightgbm::Booster booster = write_folder(table_of(GetParam()));
  write_file_atomically(folder_ / "kernels.txt", fmt::format("{}", fmt::join(hundred_kernels(conv), "\n")));
  const Model model = import_ck_model({.folder = folder_.path(), .kernels = folder_ / "kernels.txt"}).model;
  const test::TemporaryFolder back;
  for (const auto& [name, text] : ck_model_files(model, {})) write_file_atomically(back / name, text);
  const CkFolder before = read_ck_folder(folder_.path()), after = read_ck_folder(back.path());
  EXPECT_EQ(after.schema.name(), GetParam());
  EXPECT_EQ(after.schema.hash(), Schema::find(GetParam()).hash());
  EXPECT_EQ(after.device.shared_bytes_per_core, 65536) << "the constants of the training come back";
  EXPECT_EQ(after.folder.targets.at(0).log1p, before.folder.targets.at(0).log1p);
  EXPECT_EQ(after.folder.encoding_version, before.folder.encoding_version);
  const Family& family = model.data().families.at(0);
  const lightgbm::Booster again(read_file(back / "model_tflops.lgbm"));
  for (const Problem& problem : hundred_problems(conv)) {
    EXPECT_EQ(lightgbm_scores(again, after, problem, family),
              lightgbm_scores(booster, before, problem, family))
        << print(problem);
  }
}

INSTANTIATE_TEST_SUITE_P(Schemas, PublishedFolder,
                         testing::Values("ck_gemm_55", "ck_gemm_72", "ck_gemm_78", "ck_conv_74", "ck_conv_83",
                                         "ck_conv_91", "ck_conv_97", "ck_conv_113"));

/// A folder with three targets, as CK Tile's first release wrote it: its models learned the values
/// themselves.
TEST(CkModel, ScoresStandForTheValuesThatTheirModelsLearned) {
  const test::TemporaryFolder folder;
  const Schema& schema = Schema::find("ck_gemm_55");
  std::vector<std::string> names;
  for (const Feature& feature : schema.features()) names.push_back(feature.id);
  const auto write = [&](const char* target, double score, const char* objective) {
    LightgbmModel model{.forest = {}, .feature_names = names, .objective = objective, .link = Link::identity};
    model.forest.feature_count = static_cast<std::uint32_t>(names.size());
    model.forest.tree_nodes = {0, 0};
    model.forest.tree_leaves = {0, 1};
    model.forest.leaf_value = {score};
    write_file_atomically(folder / fmt::format("model_{}.lgbm", target), lightgbm_text(model));
  };
  nlohmann::json spec = {{"op_type", "gemm_universal"},
                         {"dtype", "bf16"},
                         {"arch", "gfx950"},
                         {"feature_names", names},
                         {"targets", {"tflops", "latency", "bandwidth"}}};
  const auto model = [&] {
    write_file_atomically(folder / "feature_spec.json", spec.dump());
    write_file_atomically(folder / "kernels.txt", hundred_kernels(false)[0] + "\n");
    return Model::parse(
        import_ck_model({.folder = folder.path(), .kernels = folder / "kernels.txt"}).model.bytes());
  };
  write("tflops", 250, "regression");
  write("latency", 0.5, "regression");
  write("bandwidth", std::log1p(1000), "regression");
  spec["log_targets"] = {"bandwidth"};
  const GemmProblem problem = make_gemm(1024, 1024, 1024, DType::bf16);
  const auto predicted = [&](const Model& of, Target target) {
    std::vector<double> scores(1);
    of.exact_scores(problem, target, scores);
    return of.predicted_tflops(problem, target, scores)[0];
  };
  EXPECT_NEAR(predicted(model(), Target::tflops), 250, 1e-9);
  EXPECT_NEAR(predicted(model(), Target::latency), flop_count(problem) / 500e-6 * 1e-12, 1e-9) << "0.5 ms";
  EXPECT_NEAR(predicted(model(), Target::bandwidth),
              flop_count(problem) / min_bytes(problem) * 1000e9 * 1e-12, 1e-6);
  EXPECT_EQ(model().bytes()[8], 4) << "programs that know only ln(1 + value) refuse the file";
  spec["targets"] = {"bandwidth"};
  EXPECT_EQ(model().bytes()[8], 2) << "they read this one";
  EXPECT_EQ(model().default_target(), Target::bandwidth);

  spec["targets"] = {"tflops"};
  write("tflops", std::log(250), "poisson");
  EXPECT_NEAR(predicted(model(), Target::tflops), 250, 1e-9);
  spec["log_targets"] = {"tflops"};
  test::expect_error(Errc::unsupported, {"target tflops has objective 'poisson' and is in log_targets"},
                     model);
}

}  // namespace
}  // namespace kscout
