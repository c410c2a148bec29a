#include "train/checkpoint.h"

#include <algorithm>

#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "core/part_name.h"

namespace kscout {

namespace {

constexpr const char* kCheckpointFormat = "kscout training 1";

Json kept_efficiency(const EfficiencySummary& e) { return {e.mean, e.p10, e.p50, e.min, e.problems}; }

EfficiencySummary efficiency_from(const Json& json) {
  return {json.at(0), json.at(1), json.at(2), json.at(3), json.at(4)};
}

Json kept_validation(const CrossValidation& validation) {
  Json folds = Json::array();
  for (const FoldMetrics& fold : validation.folds) {
    folds.push_back({fold.fold, fold.rmse, fold.r2, kept_efficiency(fold.efficiency), fold.train_rows,
                     fold.validation_rows, fold.validation_problems});
  }
  return {{"rounds", validation.rounds},
          {"out_of_fold", validation.out_of_fold},
          {"efficiency", kept_efficiency(validation.efficiency)},
          {"folds", std::move(folds)},
          {"curve", validation.curve}};
}

CrossValidation validation_from(const Json& json) {
  CrossValidation validation;
  validation.rounds = json.at("rounds");
  validation.out_of_fold = json.at("out_of_fold").get<std::vector<double>>();
  validation.efficiency = efficiency_from(json.at("efficiency"));
  for (const Json& fold : json.at("folds")) {
    validation.folds.push_back({.fold = fold.at(0),
                                .rmse = fold.at(1),
                                .r2 = fold.at(2),
                                .efficiency = efficiency_from(fold.at(3)),
                                .train_rows = fold.at(4),
                                .validation_rows = fold.at(5),
                                .validation_problems = fold.at(6)});
  }
  validation.curve = json.at("curve").get<std::vector<std::pair<int, double>>>();
  return validation;
}

std::string kept_name(Target target) { return std::string(word(target)) + ".cbor"; }

bool is_kept_target(const std::filesystem::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  const auto has_the_name = [&](std::string_view target) {
    return finished_name(name) == std::string(target) + ".cbor";
  };
  return entry.is_regular_file() && std::ranges::any_of(EnumWords<Target>::words, has_the_name);
}

}  // namespace

std::filesystem::path Checkpoint::file_of(Target target) const { return folder_ / kept_name(target); }

std::optional<TrainedTarget> Checkpoint::load(Target target) const {
  if (folder_.empty() || is_absent(file_of(target))) return std::nullopt;
  const Json json = Json::from_cbor(read_file(file_of(target)), /*strict=*/true, /*allow_exceptions=*/false);
  try {
    if (json.at("format") != kCheckpointFormat || json.at("training") != training_) return std::nullopt;
    return TrainedTarget{.target = target,
                         .validation = validation_from(json.at("validation")),
                         .text = json.at("text"),
                         .split_counts = json.at("split_counts").get<std::vector<double>>(),
                         .earlier_trees = json.at("earlier_trees"),
                         .hard_round = json.at("hard_round")};
  } catch (const Json::exception&) {  // damaged or incomplete: counts as absent
    return std::nullopt;
  }
}

void Checkpoint::save(const TrainedTarget& target) const {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error)
    fail(Errc::device_failure, "{}: cannot create the folder: {}", folder_.string(), error.message());
  // Binary instead of text: doubles, also unknown ones, stay equal bit by bit.
  const std::vector<std::uint8_t> bytes =
      Json::to_cbor(Json{{"format", kCheckpointFormat},
                         {"training", training_},
                         {"validation", kept_validation(target.validation)},
                         {"text", target.text},
                         {"split_counts", target.split_counts},
                         {"earlier_trees", target.earlier_trees},
                         {"hard_round", target.hard_round}});
  write_file_atomically(file_of(target.target), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void check_checkpoint_folder(const std::filesystem::path& folder) {
  const std::filesystem::path other = foreign_entry(folder, is_kept_target);
  if (other.empty()) return;
  fail(Errc::invalid_argument,
       "{} is where the training keeps finished targets, but it holds {}: move that, or give another --out",
       folder.string(), other.filename().string());
}

void remove_checkpoint(const std::filesystem::path& folder) {
  if (is_absent(folder)) return;
  try {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (is_kept_target(entry)) std::filesystem::remove(entry.path());
    }
    if (std::filesystem::is_empty(folder)) std::filesystem::remove(folder);
  } catch (const std::filesystem::filesystem_error& error) {
    fail(Errc::device_failure, "finished targets cannot be removed: {}", error.what());
  }
}

}  // namespace kscout
