#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "core/names.h"
#include "lightgbm/lightgbm.h"

namespace kscout {

namespace {

namespace fs = std::filesystem;
/// Target names of the trainer's first releases, for a spec that does not list targets.
constexpr std::array<std::string_view, 3> kUsualTargets = {"tflops", "latency", "bandwidth"};

std::string text_or_empty(const Json& spec, const char* name) {
  const auto found = spec.find(name);
  return found != spec.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> words_at(const Json& spec, const char* name) {
  std::vector<std::string> words;
  const auto found = spec.find(name);
  if (found == spec.end()) return words;
  for (const Json& word : *found) words.push_back(word.get<std::string>());
  return words;
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// The text of a target's model; nothing when the folder has none. Older tools unpack a .gz beside itself,
/// and the copy may be stale, so files that differ are an error.
std::optional<std::string> model_text(const fs::path& folder, const std::string& target) {
  std::optional<std::string> text;
  for (const char* const ending : {".lgbm", ".lgbm.gz", ".txt", ".txt.gz"}) {
    const fs::path file = folder / ("model_" + target + ending);
    if (is_absent(file)) continue;
    std::string here = read_maybe_gzip(file);
    if (text && *text != here) {
      fail(Errc::corrupt_data, "{}: another model of target {} stands beside it and differs; remove one",
           file.string(), target);
    }
    text = std::move(here);
  }
  return text;
}

/// Whether LightGBM named the features Column_0, Column_1, ... because its caller gave no names.
bool nameless(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != fmt::format("Column_{}", i)) return false;
  }
  return true;
}

void check_features(const LightgbmFolder& folder, const LightgbmTarget& target) {
  const auto& names = target.model.feature_names;
  if (names.size() != folder.feature_names.size()) {
    fail(Errc::corrupt_data, "the model of target {} reads {} features, feature_spec.json lists {}",
         target.name, names.size(), folder.feature_names.size());
  }
  if (names == folder.feature_names || nameless(names)) return;
  const auto differs = std::ranges::mismatch(names, folder.feature_names);
  fail(Errc::corrupt_data, "the model of target {} reads feature '{}' where feature_spec.json has '{}'",
       target.name, *differs.in1, *differs.in2);
}

LightgbmFolder read_folder(const fs::path& path) {
  const Json spec = Json::parse(read_file(path / "feature_spec.json"));
  LightgbmFolder folder;
  folder.op = text_or_empty(spec, "op_type");
  folder.dtype = text_or_empty(spec, "dtype");
  folder.arch = text_or_empty(spec, "arch");
  folder.feature_names = words_at(spec, "feature_names");
  folder.categorical = words_at(spec, "categorical_features");
  folder.engine = text_or_empty(spec, "feature_engine");
  folder.encoding_version = spec.value("feature_encoding_version", 0);
  folder.hardware = spec.value("hardware", std::map<std::string, double>());
  for (const auto& [name, value] : folder.hardware) {
    if (!(value > 0))
      fail(Errc::corrupt_data, "feature_spec.json: hardware constant {} = {}: must be above 0", name, value);
  }
  auto targets = words_at(spec, "targets");
  if (targets.empty()) targets.assign(kUsualTargets.begin(), kUsualTargets.end());
  const auto logged = words_at(spec, "log_targets");
  const bool tflops_logged = spec.value("tflops_log_transform", false);
  for (const std::string& name : targets) {
    const auto text = model_text(path, name);
    if (!text) continue;  // listed, but not trained
    folder.targets.push_back(
        {name, contains(logged, name) || (tflops_logged && name == "tflops"), parse_lightgbm(*text)});
    check_features(folder, folder.targets.back());
  }
  if (folder.targets.empty()) {
    fail(Errc::not_found, "no model of any target ({}): expected model_{}.lgbm or .lgbm.gz",
         fmt::join(targets, ", "), targets.front());
  }
  return folder;
}

}  // namespace

double microseconds_per_latency(const LightgbmFolder& folder) {
  return find_word(folder.op, EnumWords<Op>::words) ? 1 : 1e3;
}

double LightgbmTarget::value(double score) const noexcept {
  const double output = model.output(score);
  if (log1p) return std::expm1(output);
  const bool quantity = std::ranges::find(kUsualTargets, name) != kUsualTargets.end();
  return quantity ? std::max(0.0, output) : output;
}

const LightgbmTarget& LightgbmFolder::target(std::string_view name) const {
  const auto found = std::ranges::find(targets, name, &LightgbmTarget::name);
  if (found != targets.end()) return *found;
  std::vector<std::string> names;
  for (const LightgbmTarget& has : targets) names.push_back(has.name);
  fail(Errc::not_found, "no model of target '{}'; the folder has {}", name, fmt::join(names, ", "));
}

LightgbmFolder read_lightgbm_folder(const fs::path& path) {
  try {
    return read_folder(path);
  } catch (const Json::exception& error) {
    fail(Errc::corrupt_data, "{}: {}", (path / "feature_spec.json").string(), reason_of(error));
  } catch (const Error& error) {
    if (std::string_view(error.what()).find(path.string()) != std::string_view::npos) throw;
    fail(error.code(), "{}: {}", path.string(), error.what());
  }
}

}  // namespace kscout
