#include "provider/ck_tile/select/ck_folder.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "core/fail.h"
#include "core/names.h"
#include "provider/ck_tile/ck_tile.h"

namespace kscout {
namespace {

constexpr std::array<CkEngine, 3> kEngines = {{{"GemmUniversalFeatureEngine", 0},
                                               {"GemmUniversalVecFeatureEngine", 1},
                                               {"GroupedConvFeatureEngine", 0}}};

std::set<std::string> ids_of(const Schema& schema) {
  std::set<std::string> ids;
  for (const Feature& feature : schema.features()) ids.insert(feature.id);
  return ids;
}

std::vector<std::string> without(const std::set<std::string>& all, const std::set<std::string>& other) {
  std::vector<std::string> rest;
  std::ranges::set_difference(all, other, std::back_inserter(rest));
  return rest;
}

/// "3 features (a, b, c)"; at most five names.
std::string counted(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 5;
  return fmt::format("{} ({}{})", names.size(),
                     fmt::join(names.begin(), names.begin() + std::min(names.size(), kMost), ", "),
                     names.size() > kMost ? ", ..." : "");
}

bool of_our_trainer(const LightgbmFolder& folder) {
  return find_word(folder.op, EnumWords<Op>::words).has_value();
}

}  // namespace

const CkEngine& ck_engine(const Schema& schema) {
  if (is_direction(schema.data().op)) return kEngines[2];
  return kEngines[schema.name() == "ck_gemm_78" ? 1 : 0];
}

CkFolder read_ck_folder(const std::filesystem::path& path, std::string_view schema,
                        const std::optional<Device>& device) {
  LightgbmFolder folder = read_lightgbm_folder(path);
  const Schema whole = schema.empty() ? ck_schema(folder, path.string()) : Schema::named(schema);
  if (whole.name().starts_with("ck_")) check_ck_encoding(folder, whole, path.string());
  std::vector<std::uint32_t> positions;
  for (const auto& feature : folder.feature_names)
    positions.push_back(static_cast<std::uint32_t>(whole.index(feature)));
  Device known = device ? *device : ck_device(folder, path.string());
  return {std::move(folder), whole.only(positions), std::move(known)};
}

const Schema& ck_schema(const LightgbmFolder& folder, const std::string& path) {
  const std::set<std::string> names(folder.feature_names.begin(), folder.feature_names.end());
  const Schema* nearest = nullptr;
  double most_alike = -1;  // names in common over all names of both
  for (const std::string& name : Schema::names()) {
    if (!name.starts_with("ck_")) continue;
    const Schema& schema = Schema::find(name);
    const std::set<std::string> ids = ids_of(schema);
    if (ids == names) return schema;
    const std::size_t unknown = without(names, ids).size();
    const double alike =
        static_cast<double>(names.size() - unknown) / static_cast<double>(ids.size() + unknown);
    if (alike > most_alike) {
      nearest = &schema;
      most_alike = alike;
    }
  }
  const std::set<std::string> ids = ids_of(*nearest);
  const auto unknown = without(names, ids), absent = without(ids, names);
  std::string differences;
  if (!unknown.empty()) differences += fmt::format("; {} are not in it", counted(unknown));
  if (!absent.empty()) differences += fmt::format("; the folder lacks {} of its features", counted(absent));
  fail(Errc::invalid_argument,
       "{}: no published schema has exactly its {} features; the nearest is {}{}. Features of one name mean "
       "different things in different schemas: name the schema that the folder was trained with",
       path, names.size(), nearest->name(), differences);
}

void check_ck_encoding(const LightgbmFolder& folder, const Schema& schema, const std::string& path) {
  const CkEngine& engine = ck_engine(schema);
  if (!folder.engine.empty() && folder.engine != engine.name) {
    const bool known = std::ranges::find(kEngines, folder.engine, &CkEngine::name) != kEngines.end();
    fail(Errc::unsupported, "{}: feature_engine {} {}, schema {} computes the features of {}", path,
         folder.engine, known ? "is another one" : "is unknown", schema.name(), engine.name);
  }
  if (folder.encoding_version != engine.encoding_version) {
    fail(Errc::unsupported,
         "{}: feature_encoding_version {}, schema {} computes version {}: features of the same names have "
         "other values; take a folder of this version, or train again with kscout train",
         path, folder.encoding_version, schema.name(), engine.encoding_version);
  }
}

Device ck_device(const LightgbmFolder& folder, const std::string& path) {
  if (folder.arch.empty()) {
    fail(Errc::invalid_argument, "{}: feature_spec.json names no arch: name a device", path);
  }
  Device device = device_preset(folder.arch.substr(0, folder.arch.find(':')));
  if (of_our_trainer(folder)) return device;
  if (folder.hardware.empty()) {
    constexpr double kPublishedLds = 65536;
    device.shared_bytes_per_core = kPublishedLds;
  }
  for (const auto& [name, value] : folder.hardware) {
    const CkHardwareConstant& constant = find_ck_hardware(name);
    device.*constant.fact = value * constant.unit;
  }
  return device;
}

}  // namespace kscout
