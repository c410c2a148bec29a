#include "train/train.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <kscout/error.h>

#include "core/files.h"
#include "core/parquet_checksum.h"
#include "dataset/operations.h"
#include "evaluate/evaluate_model.h"
#include "lightgbm/lightgbm.h"
#include "support/compact_tables.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "support/toy.h"
#include "train/cross_validate.h"

namespace kscout {
namespace {

TrainOptions quick_options() {
  TrainOptions options;
  options.folds = 4;
  options.targets = {Target::tflops, Target::relative};
  options.parameters.rounds = 60;
  options.parameters.leaves = 15;
  return options;
}

TrainingResult train_toy(const TrainOptions& options) {
  const MeasurementTable table = toy::measurements(120, 3);
  return train(test::compact({&table, 1}),
               {toy::family(Layout::rcr), toy::family(Layout::crr), toy::family(Layout::ccr)}, toy::schema(),
               options, nullptr);
}

/// The toy model is trained once for the tests below.
const TrainingResult& trained() {
  static const TrainingResult result = train_toy(quick_options());
  return result;
}

TEST(Train, LearnsToChooseOnSizesNeverSeen) {
  const Model& model = trained().model;
  EXPECT_EQ(model.data().families.size(), 2u) << "ccr was not measured";
  double sum = 0, fixed = 0;
  const auto fresh = toy::problems(100, 99);
  for (const GemmProblem& p : fresh) {
    const Family& family = *model.family(signature_of(p));
    std::vector<double> scores(family.configs.size());
    model.score(p, scores);
    const std::size_t pick = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
    double best = 1e300;
    for (std::size_t c = 0; c < scores.size(); ++c) best = std::min(best, toy::time_us(p, family.traits[c]));
    sum += best / toy::time_us(p, family.traits[pick]) / 100;
    fixed += best / toy::time_us(p, family.traits[8]) / 100;
  }
  EXPECT_GT(sum, 0.95);
  EXPECT_GT(sum, fixed + 0.03);
}

TEST(Train, DefaultTargetChoosesBestOutOfFold) {
  const auto& targets = trained().targets;
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_GE(targets[0].validation.efficiency.mean, targets[1].validation.efficiency.mean);
  EXPECT_EQ(trained().model.default_target(), targets[0].target);
  for (const auto& target : targets) {
    EXPECT_EQ(target.validation.out_of_fold.size(), trained().set.row_count());
    double best = 0;
    for (const auto& [round, efficiency] : target.validation.curve) best = std::max(best, efficiency);
    EXPECT_EQ(target.validation.efficiency.mean, best) << "trees are chosen by selection efficiency";
  }
}

TEST(Train, PredictedTimesAreNearTheMeasuredOnes) {
  const Model& model = trained().model;
  for (const Target target : {Target::tflops, Target::relative}) {
    double off = 0;
    const auto fresh = toy::problems(60, 77);
    for (const GemmProblem& p : fresh) {
      const Family& family = *model.family(signature_of(p));
      std::vector<double> scores(family.configs.size());
      model.score(p, target, scores);
      const auto tflops = model.predicted_tflops(p, target, scores);
      const auto pick = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
      off += std::fabs(std::log(time_us_of(p, tflops[pick]) / toy::time_us(p, family.traits[pick]))) / 60;
    }
    EXPECT_LT(off, 0.5) << word(target) << ": mean |ln(predicted / true)|";
  }
}

TEST(Train, ApplicabilityRulesHold) {
  const Model& model = trained().model;
  const GemmProblem narrow = make_gemm(64, 4, 64);
  std::vector<double> scores(12);
  model.score(narrow, scores);
  for (std::size_t c = 0; c < scores.size(); ++c) EXPECT_EQ(std::isinf(scores[c]), c % 3 == 2) << c;
  EXPECT_THROW(model.score(make_gemm(4, 4, 4, DType::fp32, Layout::ccr), scores), Error);
  EXPECT_THROW(model.score(narrow, Target::rank, scores), Error);
}

TEST(Train, AModelHasTheMedianSetUpTimeOfEachConfig) {
  MeasurementTable table = toy::measurements(30, 2);
  EXPECT_TRUE(trained().model.data().families[0].setup_us.empty()) << "no row has one";
  for (auto& row : table.rows) {
    if (row.config == 1) continue;
    row.measured.setup_us = static_cast<double>(10 * row.config + row.problem % 3);
  }
  TrainOptions options;
  options.targets = {Target::tflops};
  options.parameters.rounds = 5;
  const Model model = train(test::compact({&table, 1}), {toy::family(Layout::rcr), toy::family(Layout::crr)},
                            toy::schema(), options, nullptr)
                          .model;
  for (const Family& family : model.data().families) {
    ASSERT_EQ(family.setup_us.size(), family.configs.size());
    for (std::size_t i = 0; i < family.configs.size(); ++i) {
      const auto at = static_cast<std::size_t>(std::ranges::find(table.configs, family.configs[i]) -
                                               table.configs.begin());
      if (at == 1) {
        EXPECT_TRUE(std::isnan(family.setup_us[i]));
      } else {
        EXPECT_NEAR(family.setup_us[i], 10 * static_cast<double>(at) + 1, 1);
      }
    }
  }
}

TEST(Train, EqualDataGivesEqualBytes) {
  const TrainingResult again = train_toy(quick_options());
  EXPECT_EQ(again.model.bytes(), trained().model.bytes());
  EXPECT_EQ(again.targets[0].text, trained().targets[0].text);
  TrainOptions other = quick_options();
  other.targets = {Target::rank};
  other.parameters.rounds = 20;
  EXPECT_NE(train_toy(other).model.bytes(), again.model.bytes());
}

/// How often the first fold began to grow.
int grown_one_by_one(TrainOptions options, const TrainingResult& together) {
  options.parameters.growth = FoldGrowth::one_by_one;
  const MeasurementTable table = toy::measurements(120, 3);
  int begun = 0;
  const TrainingResult alone =
      train(test::compact({&table, 1}), {toy::family(Layout::rcr), toy::family(Layout::crr)}, toy::schema(),
            options, [&](const std::string& text) {
              begun += text.find(fmt::format(": fold 1 of {}, 1 trees", options.folds)) != text.npos;
            });
  EXPECT_EQ(alone.model.bytes(), together.model.bytes());
  for (std::size_t i = 0; i < alone.targets.size(); ++i) {
    const CrossValidation &a = alone.targets[i].validation, &b = together.targets[i].validation;
    EXPECT_EQ(a.rounds, b.rounds);
    EXPECT_EQ(a.curve, b.curve);
    EXPECT_EQ(a.out_of_fold, b.out_of_fold);
    EXPECT_EQ(a.efficiency.p10, b.efficiency.p10);
    for (std::size_t f = 0; f < a.folds.size(); ++f) {
      EXPECT_EQ(a.folds[f].efficiency.mean, b.folds[f].efficiency.mean);
      EXPECT_EQ(a.folds[f].train_rows, b.folds[f].train_rows);
    }
    EXPECT_EQ(alone.targets[i].split_counts, together.targets[i].split_counts);
  }
  return begun;
}

TEST(Train, FoldsThatGrowOneByOneGiveTheSameModel) {
  grown_one_by_one(quick_options(), trained());
  TrainOptions ends_early = quick_options();
  ends_early.targets = {Target::rank, Target::latency};
  ends_early.hard_rounds = 1;
  ends_early.parameters.rounds = 40;
  ends_early.parameters.patience = ends_early.parameters.check_every = 1;
  ends_early.folds = 12;
  EXPECT_GT(grown_one_by_one(ends_early, train_toy(ends_early)), 4)
      << "2 targets with 2 cross-validations each; folds had to grow longer";
  TrainOptions no_split = quick_options();
  no_split.parameters.min_rows = 700;  // of about 1000 rows in 4 folds: some folds add no tree
  grown_one_by_one(no_split, train_toy(no_split));
}

TEST(Train, LargeSetsGrowOneByOne) {
  TrainingSet set;
  set.features = 1000;
  set.rows.resize(kTogetherValues / set.features);
  TrainParameters automatic, together, one_by_one;
  together.growth = FoldGrowth::together;
  one_by_one.growth = FoldGrowth::one_by_one;
  EXPECT_EQ(growth_of(automatic, set), FoldGrowth::together);
  EXPECT_EQ(growth_of(one_by_one, set), FoldGrowth::one_by_one);
  set.features = 1001;
  EXPECT_EQ(growth_of(automatic, set), FoldGrowth::one_by_one);
  EXPECT_EQ(growth_of(together, set), FoldGrowth::together);
}

/// Ends a training as Ctrl-C does.
struct Stopped {};

TEST(Train, AnInterruptedTrainingGoesOnFromFinishedTargets) {
  const test::TemporaryFolder temporary;
  TrainOptions options = quick_options();
  options.checkpoint = temporary / "kept";
  const MeasurementTable table = toy::measurements(120, 3);
  const auto train_until = [&](const Progress& progress) {
    return train(test::compact({&table, 1}),
                 {toy::family(Layout::rcr), toy::family(Layout::crr), toy::family(Layout::ccr)},
                 toy::schema(), options, progress);
  };
  // Once within the first target's last forest, once within the second target.
  const std::string first(word(options.targets[0])), second(word(options.targets[1]));
  EXPECT_THROW(train_until([&](const std::string& text) {
                 if (text.starts_with(first + ": all rows, 3 of")) throw Stopped{};
               }),
               Stopped);
  EXPECT_TRUE(std::filesystem::exists(options.checkpoint / (first + ".cbor")));
  EXPECT_THROW(train_until([&](const std::string& text) {
                 EXPECT_FALSE(text.starts_with(first + ": 1 trees")) << "cross-validated before";
                 if (text.starts_with(second + ": 20 trees")) throw Stopped{};
               }),
               Stopped);
  bool again = false, kept = false;
  const TrainingResult resumed = train_until([&](const std::string& text) {
    again = again || text.starts_with(first + ": all rows");
    kept = kept || text.starts_with(first + ": kept in ");
  });
  EXPECT_TRUE(kept);
  EXPECT_FALSE(again) << "the first target was finished";
  EXPECT_EQ(resumed.model.bytes(), trained().model.bytes());
  for (std::size_t i = 0; i < resumed.targets.size(); ++i) {
    EXPECT_EQ(resumed.targets[i].split_counts, trained().targets[i].split_counts);
    EXPECT_EQ(resumed.targets[i].validation.curve, trained().targets[i].validation.curve);
  }
  // Of another training nothing is taken, nor from a damaged file.
  options.parameters.seed = 7;
  bool fresh = false;
  const auto sees_first_tree = [&](const std::string& text) {
    fresh = fresh || text.starts_with(first + ": 1 trees");
  };
  train_until(sees_first_tree);
  EXPECT_TRUE(fresh);
  for (const Target target : options.targets)
    std::ofstream(options.checkpoint / (std::string(word(target)) + ".cbor")) << "damaged";
  fresh = false;
  train_until(sees_first_tree);
  EXPECT_TRUE(fresh);
}

TEST(ModelFolder, ANewModelKeepsTheOneBefore) {
  const test::TemporaryFolder temporary;
  const auto write = [](const std::filesystem::path& file, const char* text) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  };
  const auto model = temporary / "model", fresh = temporary / "fresh";
  for (const char* const name : {"first", "second", "third"}) {
    write(fresh / "model.ksf", name);
    install_model_folder(fresh, temporary / "model/");
    EXPECT_EQ(read_file(model / "model.ksf"), name);
    EXPECT_FALSE(std::filesystem::exists(fresh));
  }
  EXPECT_EQ(read_file(model / "previous/model.ksf"), "second");
  EXPECT_FALSE(std::filesystem::exists(model / "previous/previous"));
}

TEST(ModelFolder, AFailedInstallLeavesTheOldModelAndItsBackup) {
  const test::TemporaryFolder temporary;
  const auto write = [](const std::filesystem::path& file, const char* text) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  };
  const auto model = temporary / "above/model";
  write(model / "model.ksf", "good");
  write(model / "previous/model.ksf", "earlier");
  const auto expect_as_it_was = [&] {
    EXPECT_EQ(read_file(model / "model.ksf"), "good");
    EXPECT_EQ(read_file(model / "previous/model.ksf"), "earlier");
    std::size_t beside = 0;
    for (const auto& entry : std::filesystem::directory_iterator(model.parent_path()))
      beside += entry.path() != model;
    EXPECT_EQ(beside, 0u) << "nothing stays beside it";
  };
  EXPECT_THROW(install_model_folder(temporary / "absent", model), Error);
  expect_as_it_was();
  // A folder cannot move into itself: whatever moved the old model away moves it back.
  EXPECT_THROW(install_model_folder(temporary.path(), model), Error);
  expect_as_it_was();
  const auto album = temporary / "album";
  write(album / "photo.png", "me");
  write(temporary / "fresh/model.ksf", "new");
  EXPECT_THROW(install_model_folder(temporary / "fresh", album), Error);
  EXPECT_EQ(read_file(album / "photo.png"), "me");
}

TEST(ModelFolder, TheFolderBehindALinkIsReplaced) {
  const test::TemporaryFolder temporary;
  const auto real = temporary / "disk/model", link = temporary / "model";
  std::filesystem::create_directory(temporary / "disk");
  std::filesystem::create_directory_symlink("disk/model/", link);
  EXPECT_EQ(real_model_folder(temporary / "model/"), real);
  write_model_folder(link, trained(), {});
  EXPECT_TRUE(std::filesystem::exists(real / "model.ksf"));
  const auto fresh = temporary / "fresh";
  std::filesystem::create_directory(fresh);
  std::ofstream(fresh / "model.ksf") << "new";
  install_model_folder(fresh, link);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_file(real / "model.ksf"), "new");
  EXPECT_EQ(read_file(real / "previous/model.ksf"), trained().model.bytes());
  std::filesystem::create_directory_symlink("ring", temporary / "ring");
  test::expect_error(Errc::device_failure, "/ring: cannot write: Too many levels of symbolic links",
                     [&] { check_model_folder(temporary / "ring"); });
}

TEST(ModelFolder, IsCheckedBeforeTheTraining) {
  const test::TemporaryFolder temporary;
  check_model_folder(temporary / "new/model");
  EXPECT_FALSE(std::filesystem::exists(temporary / "new/model"));
  std::ofstream(temporary / "file") << "x";
  test::expect_error(Errc::invalid_argument, "is a file", [&] { check_model_folder(temporary / "file"); });
  test::expect_error(Errc::device_failure, "no model can be written there",
                     [&] { check_model_folder(temporary / "file/model"); });
}

TEST(ModelFolder, TrainingOverATunedModelKeepsWhatTuneLeft) {
  const test::TemporaryFolder temporary;
  const auto folder = temporary / "model";
  write_model_folder(folder, trained(), {});
  std::ofstream(folder / kKeptMeasurements) << "rows";
  std::filesystem::create_directory(folder / kPreviousModel);
  std::ofstream(folder / kPreviousModel / "model.ksf") << "before";
  write_model_folder(folder, trained(), {});
  EXPECT_EQ(read_file(folder / kPreviousModel / "model.ksf"), "before");
  EXPECT_EQ(read_file(folder / kKeptMeasurements), "rows");
}

TEST(Train, FileGivesTheSameModel) {
  const Model& model = trained().model;
  const Model again = Model::parse(model.bytes());
  EXPECT_EQ(again.bytes(), model.bytes());
  for (const GemmProblem& p : toy::problems(20, 5)) {
    std::vector<double> a(12), b(12);
    model.score(p, a);
    again.score(p, b);
    EXPECT_EQ(a, b);
    EXPECT_EQ(model.predicted_tflops(p, a), again.predicted_tflops(p, b));
  }
}

/// For tests/parity/stock_lightgbm.py: the folder stays, with rows and the scores that our tree walk gives
/// them.
void keep_for_stock_lightgbm(const std::filesystem::path& folder) {
  const char* const keep = std::getenv("KSCOUT_KEEP_MODEL");
  if (!keep) return;
  std::filesystem::copy(folder, std::filesystem::path(keep) / "model",
                        std::filesystem::copy_options::recursive);
  const TrainingSet& set = trained().set;
  for (const ModelTarget& target : trained().model.data().targets) {
    std::ofstream out(std::filesystem::path(keep) / fmt::format("rows_{}.txt", word(target.target)));
    for (std::size_t r = 0; r < set.row_count(); ++r) {
      const std::size_t problem = set.problem_of(r);
      const std::vector<double> values = set.features_of(problem);
      const auto row = std::span(values).subspan((r - set.first_row[problem]) * set.features, set.features);
      out << fmt::format("{} {}\n", fmt::join(row, " "), target.forest.predict(row));
    }
  }
}

TEST(Train, FolderHoldsWhatItShould) {
  const test::TemporaryFolder temporary;
  const auto folder = temporary / "model";
  write_model_folder(folder, trained(), {{"toy.parquet"}, {{"rules", "tiny"}}, 1440});
  write_model_folder(folder, trained(), {{"toy.parquet"}, {}, 1440});  // over an old model
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"model.ksf", "feature_spec.json", "train_manifest.json",
                                          "training_sizes.parquet", "cv_metrics_tflops.json",
                                          "cv_metrics_relative.json", "feature_importances_tflops.json",
                                          "feature_importances_relative.json", "oof_predictions.parquet"}));
  for (const char* const name : {"training_sizes.parquet", "oof_predictions.parquet"})
    EXPECT_TRUE(check_parquet_checksum(folder / name)) << name;
  keep_for_stock_lightgbm(folder);
  const Model model = Model::load(folder);
  EXPECT_EQ(model.bytes(), trained().model.bytes());
  const auto manifest = nlohmann::json::parse(read_file(folder / "train_manifest.json"));
  std::set<ProblemSizes> sizes;
  for (const Problem& problem : trained().set.problems) sizes.insert(sizes_of(problem));
  EXPECT_EQ(training_sizes(folder), sizes);
  EXPECT_EQ(manifest["unique_shapes"], sizes.size());
  EXPECT_FALSE(manifest.contains("training_sizes"));
  EXPECT_EQ(manifest["data_fingerprint"], model.data().fingerprint);
  ASSERT_TRUE(trained().confidence);
  EXPECT_EQ(manifest["confidence"]["choices"], trained().confidence->out_of_fold.size());
  EXPECT_EQ(manifest["confidence"]["log_loss"], trained().confidence->log_loss);
  ASSERT_TRUE(model.data().region);
  EXPECT_EQ(model.data().region->prototypes.size(), model.data().families.size());
  EXPECT_FALSE(model.data().guard) << "no library suggests these configs";
  const auto metrics = nlohmann::json::parse(read_file(folder / "cv_metrics_relative.json"));
  EXPECT_EQ(metrics.size(), 4u);

  const auto album = temporary / "album";
  std::filesystem::create_directories(album / "photos");
  EXPECT_THROW(write_model_folder(album, trained(), {}), Error) << "a folder of something else is left alone";
  EXPECT_TRUE(std::filesystem::exists(album / "photos"));
}

TEST(Train, GoesOnFromAnEarlierModel) {
  const test::TemporaryFolder temporary;
  const auto folder = temporary / "earlier";
  write_model_folder(folder, trained(), {});
  TrainOptions more = quick_options();
  more.targets = {Target::tflops, Target::latency};
  more.parameters.rounds = 10;
  more.warm_start = folder;
  const TrainingResult warm = train_toy(more);
  for (const TrainedTarget& target : warm.targets) {
    const bool known = target.target == Target::tflops;
    const auto before = std::ranges::find(trained().targets, Target::tflops, &TrainedTarget::target);
    EXPECT_EQ(target.earlier_trees, known ? before->validation.rounds : 0);
    EXPECT_EQ(target.validation.rounds, 10) << "as many as asked for";
    const Forest forest = parse_lightgbm(target.text).forest, old = parse_lightgbm(before->text).forest;
    ASSERT_EQ(forest.tree_count(), static_cast<std::size_t>(target.earlier_trees + 10));
    if (!known) continue;
    EXPECT_TRUE(std::equal(old.leaf_value.begin(), old.leaf_value.end(), forest.leaf_value.begin()))
        << "the earlier trees come first, as they were";
    EXPECT_GE(target.validation.efficiency.mean, 0.95 * before->validation.efficiency.mean);
    EXPECT_LE(target.validation.folds[0].rmse, 1.1 * before->validation.folds[0].rmse);
  }

  // The .ksf file is what is read: nothing else of the folder is needed.
  const auto refused_model = [&](const char* words, const auto& change) {
    ModelData data = trained().model.data();
    change(data);
    const auto file = temporary / "other.ksf";
    write_file_atomically(file, Model(std::move(data)).bytes());
    TrainOptions from_file = more;
    from_file.warm_start = file;
    test::expect_error(Errc::invalid_argument, words, [&] { train_toy(from_file); });
  };
  refused_model("architecture gfx950", [](ModelData& data) {
    for (Family& family : data.families) family.device.arch = "gfx950";
  });
  std::filesystem::remove_all(folder);
  test::expect_error(Errc::not_found, folder.string(), [&] { train_toy(more); });
}

TEST(Train, GoesOnFromAFolderOfAnotherTrainer) {
  const test::TemporaryFolder temporary;
  const auto folder = temporary / "earlier";
  write_model_folder(folder, trained(), {});
  const auto before = std::ranges::find(trained().targets, Target::tflops, &TrainedTarget::target);
  write_file_atomically(folder / "model_tflops.lgbm", before->text);
  std::filesystem::remove(folder / "model.ksf");
  TrainOptions more = quick_options();
  more.targets = {Target::tflops};
  more.parameters.rounds = 10;
  more.warm_start = folder;
  EXPECT_EQ(train_toy(more).targets[0].earlier_trees, before->validation.rounds);

  const auto spec_file = folder / "feature_spec.json";
  const auto spec = nlohmann::json::parse(read_file(spec_file));
  const auto refused = [&](const char* key, const nlohmann::json& value, const char* words) {
    auto other = spec;
    other[key] = value;
    write_file_atomically(spec_file, other.dump());
    test::expect_error(Errc::invalid_argument, words, [&] { train_toy(more); });
  };
  refused("arch", "gfx950", "architecture gfx950");
  refused("dtype", "bf16", "element type bf16");
  refused("op_type", "conv_fwd", "operation conv_fwd");
  refused("categorical_features", {"m"}, "categorical features are [m]");
  refused("log_targets", nlohmann::json::array(), "learnt as it is");
  // Their trainer counts latencies in milliseconds; only a target that is trained has to fit.
  auto theirs = spec;
  theirs["op_type"] = "gemm_universal";
  theirs["targets"] = {"tflops", "latency"};
  theirs["log_targets"] = {"tflops", "latency"};
  write_file_atomically(spec_file, theirs.dump());
  write_file_atomically(folder / "model_latency.lgbm", before->text);
  EXPECT_EQ(train_toy(more).targets[0].earlier_trees, before->validation.rounds);
  more.targets = {Target::latency};
  test::expect_error(Errc::invalid_argument, "latency was learnt in milliseconds", [&] { train_toy(more); });
  more.targets = {Target::tflops};
  write_file_atomically(spec_file, spec.dump());
  const MeasurementTable table = toy::measurements(20, 3);
  const auto part = std::make_shared<Schema>(toy::schema()->only(std::array{0U, 1U}));
  test::expect_error(Errc::invalid_argument, "removed [", [&] {
    train(test::compact({&table, 1}), {toy::family(Layout::rcr), toy::family(Layout::crr)}, part, more,
          nullptr);
  });
}

TEST(Train, WeightsOnHardProblemsNeverMakeItWorse) {
  TrainOptions options = quick_options();
  options.targets = {Target::tflops};
  options.parameters.rounds = 20;
  const TrainingResult plain = train_toy(options);
  options.hard_rounds = 2;
  const TrainingResult mined = train_toy(options);
  EXPECT_GE(mined.targets[0].validation.efficiency.mean, plain.targets[0].validation.efficiency.mean);
  EXPECT_EQ(mined.targets[0].hard_round == 0, mined.targets[0].text == plain.targets[0].text);
}

TEST(Train, TooLittleDataIsAnError) {
  MeasurementTable table = toy::measurements(3, 3);
  EXPECT_THROW(train(test::compact({&table, 1}), {toy::family(), toy::family(Layout::crr)}, toy::schema(),
                     quick_options(), nullptr),
               Error);
  table.rows.clear();
  EXPECT_THROW(train(test::compact({&table, 1}), {toy::family()}, toy::schema(), quick_options(), nullptr),
               Error);
}

}  // namespace
}  // namespace kscout
