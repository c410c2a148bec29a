// Reads the `.ksf` file of a model: sections of forest/ksf.h plus one JSON text that describes their content.
#include <algorithm>
#include <cmath>
#include <map>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/json_fields.h"
#include "core/name_rules.h"
#include "family/declared.h"
#include "features/schema.h"
#include "forest/ksf.h"
#include "provider/joint.h"
#include "select/confidence_json.h"
#include "select/model.h"
#include "select/region_json.h"

namespace kscout {

namespace {
// Limits that bound the cost of a hostile file. Larger numbers would be a mistake.
constexpr std::size_t kMaxConfigs = 1U << 16, kMaxFamilies = 256, kMaxMembers = 1U << 18;

/// Sections of a file by kind, with a mark for each section that was read.
class Sections {
 public:
  explicit Sections(std::string_view file) {
    for (const KsfView& view : unpack_ksf(file)) by_kind_[view.kind].push_back({view.bytes, false});
  }
  std::string_view get(KsfKind kind, std::size_t index, std::string_view what) {
    const auto found = by_kind_.find(kind);
    if (found == by_kind_.end() || index >= found->second.size()) {
      fail(Errc::corrupt_data, ".ksf: section {} of {} is missing", index, what);
    }
    found->second[index].read = true;
    return found->second[index].bytes;
  }
  /// Refuses sections that were not read, because nothing has checked them.
  void check_all_read() const {
    for (const auto& [kind, of_kind] : by_kind_) {
      const auto unread = std::ranges::find(of_kind, false, &Section::read);
      if (unread != of_kind.end()) {
        fail(Errc::corrupt_data, ".ksf: section {} of kind {} is not referenced", unread - of_kind.begin(),
             static_cast<std::uint32_t>(kind));
      }
    }
  }

 private:
  struct Section {
    std::string_view bytes;
    bool read;
  };
  std::map<KsfKind, std::vector<Section>> by_kind_;
};

/// A member of a JSON object, with its type checked.
const Json& member(const Json& json, const char* name) {
  if (!json.is_object() || !json.contains(name))
    fail(Errc::corrupt_data, ".ksf: '{}' is missing in the description", name);
  return json[name];
}
std::string text_at(const Json& json, const char* name) {
  const Json& value = member(json, name);
  if (!value.is_string()) fail(Errc::corrupt_data, ".ksf: '{}' is not a text", name);
  return value.get<std::string>();
}
double number_at(const Json& json, const char* name) {
  const Json& value = member(json, name);
  if (!value.is_number()) fail(Errc::corrupt_data, ".ksf: '{}' is not a number", name);
  return value.get<double>();
}
std::uint32_t count_of(const Json& value, std::string_view name) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > UINT32_MAX) {
    fail(Errc::corrupt_data, ".ksf: '{}' is not a count", name);
  }
  return value.get<std::uint32_t>();
}
std::uint32_t count_at(const Json& json, const char* name) { return count_of(member(json, name), name); }
const Json& list_at(const Json& json, const char* name) {
  const Json& value = member(json, name);
  if (!value.is_array()) fail(Errc::corrupt_data, ".ksf: '{}' is not a list", name);
  return value;
}

/// Maps the file's axes to those of the program's space.
struct AxisMap {
  std::size_t axis;
  std::vector<std::int32_t> word;  ///< the program's value for each word of the file; empty for numbers
};

/// Finds axes of the program's space once, by name: a provider may reorder axes and words but not drop them.
std::vector<AxisMap> map_axes(const Json& axes, const ConfigSpace& space) {
  std::vector<AxisMap> maps;
  std::uint32_t seen = 0;
  for (const Json& json : axes) {
    AxisMap map{space.axis_index(text_at(json, "name")), {}};
    const Axis& axis = space.axes[map.axis];
    for (const Json& word : list_at(json, "words")) {
      if (!word.is_string()) fail(Errc::corrupt_data, ".ksf: a word of axis {} is not a text", axis.name);
      map.word.push_back(
          static_cast<std::int32_t>(parse_word(axis.name, word.get<std::string>(), axis.words)));
    }
    if (map.word.empty() != axis.words.empty() || ((seen >> map.axis) & 1U) != 0) {
      fail(Errc::corrupt_data, ".ksf: axis {} is listed twice or has no words", axis.name);
    }
    seen |= 1U << map.axis;
    maps.push_back(std::move(map));
  }
  return maps;
}

/// Sets axes that the file lacks. A joint family may have got members since, whose axes are 0 in the configs
/// of others.
void set_absent_axes(std::vector<KernelConfig>& configs, std::span<const AxisMap> maps,
                     const ConfigSpace& space) {
  for (std::size_t axis = 0; axis < space.axes.size(); ++axis) {
    if (std::ranges::find(maps, axis, &AxisMap::axis) != maps.end()) continue;
    for (KernelConfig& config : configs) {
      if (!is_absent_in_member(config, axis)) {
        fail(Errc::corrupt_data,
             ".ksf: {} axes; {} has {}: the model is of another version of the provider, train again",
             maps.size(), space.provider, space.axes.size());
      }
      config[axis] = 0;
    }
  }
}

std::vector<KernelConfig> read_configs(Sections& sections, const Json& axes, const ConfigSpace& space) {
  const auto table = parse_table<std::int32_t>(sections.get(KsfKind::configs, 0, "configs"), "configs");
  const auto maps = map_axes(axes, space);
  if (table.columns != maps.size() || table.rows > kMaxConfigs) {
    fail(Errc::corrupt_data, ".ksf: {} columns of {} configs for {} axes", table.columns, table.rows,
         maps.size());
  }
  std::vector<KernelConfig> configs(table.rows, KernelConfig(space));
  for (std::size_t column = 0; column < maps.size(); ++column) {
    const AxisMap& map = maps[column];
    for (std::size_t row = 0; row < table.rows; ++row) {
      std::int32_t value = table.values[column * table.rows + row];
      if (!map.word.empty() && value != KernelConfig::unknown) {
        if (value < 0 || static_cast<std::size_t>(value) >= map.word.size()) {
          fail(Errc::corrupt_data, ".ksf: config {} has value {} on axis {}", row, value,
               space.axes[map.axis].name);
        }
        value = map.word[static_cast<std::size_t>(value)];
      }
      configs[row][map.axis] = value;
    }
  }
  set_absent_axes(configs, maps, space);
  return configs;
}

/// Reads traits by name: skips those that the program no longer has; those that the file lacks are unknown.
std::vector<Traits> read_traits(Sections& sections, std::uint32_t index, const Json& names,
                                std::size_t rows) {
  const auto table = parse_table<double>(sections.get(KsfKind::traits, index, "traits"), "traits");
  if (table.rows != rows || table.columns != names.size()) {
    fail(Errc::corrupt_data, ".ksf: traits of {} configs, {} columns; expected {} and {}", table.rows,
         table.columns, rows, names.size());
  }
  std::vector<Traits> traits(rows);
  for (std::size_t column = 0; column < names.size(); ++column) {
    if (!names[column].is_string()) fail(Errc::corrupt_data, ".ksf: a trait's name is not a text");
    for_each_field<Traits>([&](const auto& field) {
      if (names[column] != std::string(field.name)) return;
      for (std::size_t row = 0; row < rows; ++row) {
        const double value = table.values[column * rows + row];
        if (std::isinf(value)) fail(Errc::corrupt_data, ".ksf: trait {} is infinite", field.name);
        traits[row].*field.member = value;
      }
    });
  }
  return traits;
}

std::vector<Rule> read_rules(const Json& json) {
  std::vector<Rule> rules;
  for (const Json& rule : json) {
    rules.push_back(
        {text_at(rule, "name"), RuleKind::applicability, text_at(rule, "admits"), text_at(rule, "because")});
  }
  return rules;
}

Family read_family(Sections& sections, const Json& meta, const Json& json,
                   const std::vector<KernelConfig>& configs, const ConfigSpace& space) {
  Family family;
  family.provider = text_at(meta, "provider");
  family.rules = text_at(meta, "rules");
  family.device = device_from_json(member(meta, "device"), ".ksf: device");
  family.signature = record_from_json<Signature>(member(json, "signature"), ".ksf: signature");
  if (family.signature.op != space.op) {
    fail(Errc::corrupt_data, ".ksf: a family of op {} in a model of {}", word(family.signature.op),
         word(space.op));
  }
  const auto members = parse_table<std::uint32_t>(
      sections.get(KsfKind::members, count_at(json, "members"), "members"), "members");
  if (members.columns != 1) fail(Errc::corrupt_data, ".ksf: members in {} columns", members.columns);
  family.configs = ConfigTable(space);
  family.configs.reserve(members.values.size());
  std::vector<bool> seen(configs.size());
  for (const std::uint32_t index : members.values) {
    if (index >= configs.size())
      fail(Errc::corrupt_data, ".ksf: family refers to config {} of {}", index, configs.size());
    if (seen[index]) fail(Errc::corrupt_data, ".ksf: family lists config {} twice", index);
    seen[index] = true;
    family.configs.push_back(configs[index]);
  }
  family.traits =
      read_traits(sections, count_at(json, "traits"), list_at(meta, "traits"), family.configs.size());
  if (json.contains("setup")) {
    auto setup = parse_table<double>(sections.get(KsfKind::setup, count_at(json, "setup"), "set-up times"),
                                     "set-up times");
    if (setup.columns != 1) fail(Errc::corrupt_data, ".ksf: set-up times in {} columns", setup.columns);
    family.setup_us = std::move(setup.values);  // Model checks their number and values
  }
  family.applicability = read_rules(list_at(json, "serves"));
  family.default_config = count_at(json, "default_config");
  return family;
}

/// A config without a name could be chosen but not reported.
void check_names(const Family& family) {
  const Provider& of = provider(family.provider);
  for (std::size_t i = 0; i < family.configs.size(); ++i) of.print(family.signature, family.configs[i]);
}

ModelTarget read_target(Sections& sections, const Json& json) {
  ModelTarget target;
  target.target = parse<Target>(text_at(json, "target"));
  target.offset = number_at(json, "offset");
  target.slope = number_at(json, "slope");
  if (json.contains("scale")) target.scale = parse<Scale>(text_at(json, "scale"));
  target.forest = parse_forest(sections.get(KsfKind::forest, count_at(json, "forest"), "forests"));
  return target;
}

std::shared_ptr<const Schema> read_schema(Sections& sections, const Json& meta) {
  auto schema =
      std::make_shared<Schema>(Schema::parse(sections.get(KsfKind::schema, 0, "the schema"), ".ksf schema"));
  if (hash_digits(schema->hash()) != text_at(meta, "schema_hash")) {
    fail(Errc::corrupt_data,
         ".ksf: the formulas of schema {} do not have the hash that the model was trained with",
         schema->name());
  }
  return schema;
}

std::vector<Family> read_families(Sections& sections, const Json& meta,
                                  const std::vector<KernelConfig>& configs, const ConfigSpace& space) {
  const Json& list = list_at(meta, "families");
  if (list.size() > kMaxFamilies) fail(Errc::corrupt_data, ".ksf: {} families", list.size());
  std::vector<Family> families;
  std::size_t members = 0;
  for (const Json& json : list) {
    families.push_back(read_family(sections, meta, json, configs, space));
    members += families.back().configs.size();
    if (members > kMaxMembers) {
      fail(Errc::corrupt_data, ".ksf: {} families list {} configs; the limit is {}", families.size(), members,
           kMaxMembers);
    }
  }
  return families;
}

/// The model's provider, declared if the program lacks it.
std::string declared_provider_of(const Json& meta) {
  std::string of = text_at(meta, "provider");
  if (meta.contains("declaration"))
    declare_if_unknown(of, text_at(meta, "declaration"), ".ksf: the declaration");
  return of;
}

/// The config space of the model's provider and op. When the program lacks that space, the model is not
/// corrupt, only unsupported.
const ConfigSpace& space_of(const Json& meta) {
  const std::string of = declared_provider_of(meta), op = text_at(meta, "op");
  try {
    return provider(of).space(parse<Op>(op));
  } catch (const Error& error) {
    fail(Errc::unsupported,
         ".ksf: a model of provider '{}' and op '{}', which this program does not have: {}; take a model of "
         "another provider or a program that has this one",
         of, op, error.what());
  }
}

/// Files of version 1 have no shortlist.
std::optional<Shortlist> read_shortlist(Sections& sections, const Json& meta,
                                        const std::vector<KernelConfig>& configs) {
  if (!meta.contains("shortlist") || meta["shortlist"].is_null()) return std::nullopt;
  const Json& json = meta["shortlist"];
  Shortlist shortlist = parse_shortlist(sections.get(KsfKind::shortlist, 0, "the shortlist"));
  const auto outputs = parse_table<std::uint32_t>(
      sections.get(KsfKind::members, count_at(json, "configs"), "members"), "members");
  for (const std::uint32_t index : outputs.values) {
    if (index >= configs.size())
      fail(Errc::corrupt_data, ".ksf: the shortlist refers to config {} of {}", index, configs.size());
    shortlist.configs.push_back(configs[index]);
  }
  return shortlist;
}

/// Models for one device do not have the member.
bool is_for_any_cpu(const Json& meta) { return meta.contains("any_cpu") && meta["any_cpu"].get<bool>(); }

/// A share from 0 to 1.
double mean_at(const Json& json, const char* name) {
  const double mean = number_at(json, name);
  if (!(mean >= 0 && mean <= 1)) fail(Errc::corrupt_data, ".ksf: {} = {} is not from 0 to 1", name, mean);
  return mean;
}

std::optional<AgainstAnyCpu> read_against_any_cpu(const Json& meta) {
  if (!meta.contains("against_any_cpu")) return std::nullopt;
  const Json& json = meta["against_any_cpu"];
  return AgainstAnyCpu{mean_at(json, "mean"), mean_at(json, "any_cpu_mean"), count_at(json, "problems")};
}

std::vector<OnAnotherGpu> read_on_other_gpus(const Json& meta) {
  std::vector<OnAnotherGpu> results;
  if (!meta.contains("on_other_gpus")) return results;
  for (const Json& json : list_at(meta, "on_other_gpus"))
    results.push_back({text_at(json, "device"), mean_at(json, "mean"), mean_at(json, "suggestion_mean"),
                       count_at(json, "problems")});
  return results;
}

std::vector<Device> read_known_devices(const Json& meta) {
  std::vector<Device> devices;
  if (!meta.contains("known_devices")) return devices;
  for (const Json& json : list_at(meta, "known_devices"))
    devices.push_back(device_from_json(json, ".ksf: known device"));
  return devices;
}

ModelData read_data(std::string_view bytes) {
  Sections sections(bytes);
  const Json meta = Json::parse(sections.get(KsfKind::meta, 0, "the description"));
  const ConfigSpace& space = space_of(meta);
  const auto configs = read_configs(sections, list_at(meta, "axes"), space);
  ModelData data;
  data.schema = read_schema(sections, meta);
  data.families = read_families(sections, meta, configs, space);
  for (const Family& family : data.families) check_names(family);
  for (const Json& json : list_at(meta, "targets")) data.targets.push_back(read_target(sections, json));
  const Json& best = member(meta, "best_tflops");
  if (!best.is_null()) {
    data.best_tflops = parse_forest(sections.get(KsfKind::forest, count_at(best, "forest"), "forests"));
    for (const Json& feature : list_at(best, "features"))
      data.best_features.push_back(count_of(feature, "features"));
  }
  data.shortlist = read_shortlist(sections, meta, configs);
  if (meta.contains("first_trees")) data.first_trees = count_at(meta, "first_trees");
  data.fingerprint = text_at(meta, "fingerprint");
  data.confidence = confidence_from_json(meta.contains("confidence") ? meta["confidence"] : Json(nullptr));
  if (meta.contains("region")) data.region = region_from_json(meta["region"]);
  if (meta.contains("lead_guard")) data.guard = guard_from_json(meta["lead_guard"]);
  if (meta.contains("listed_kinds")) data.listed_kinds = listed_kinds_from_json(meta["listed_kinds"]);
  data.any_cpu = is_for_any_cpu(meta);
  data.known_devices = read_known_devices(meta);
  data.against_any_cpu = read_against_any_cpu(meta);
  data.on_other_gpus = read_on_other_gpus(meta);
  sections.check_all_read();
  return data;
}

}  // namespace

Model Model::parse(std::string_view bytes) {
  try {
    return Model(read_data(bytes));
  } catch (const Json::exception& error) {
    fail(Errc::corrupt_data, ".ksf: the description is not valid JSON: {}", reason_of(error));
  } catch (const Error& error) {
    // A wrong argument to a called function is wrong data in this file.
    const bool own = error.code() == Errc::corrupt_data || error.code() == Errc::unsupported;
    throw Error(own ? error.code() : Errc::corrupt_data,
                own ? error.what() : fmt::format(".ksf: {}", error.what()));
  }
}

namespace {

/// Calls `read` with the bytes of a model; errors name the file.
template <class Read>
auto read_model_file(const std::filesystem::path& folder_or_file, Read&& read) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(folder_or_file, ignored);
  const auto file = folder ? folder_or_file / "model.ksf" : folder_or_file;
  if (folder && is_absent(file) && !is_absent(folder_or_file / "feature_spec.json")) {
    fail(Errc::not_found,
         "{}: no model.ksf here, only LightGBM models, which score rows and do not know the configs: make a "
         "model of them with kscout import {} --from ck-model --kernels LIST --out MODEL, or train one",
         folder_or_file.string(), folder_or_file.string());
  }
  const std::string bytes = read_file(file);
  try {
    return read(bytes);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", file.string(), error.what()));
  }
}

}  // namespace

Model Model::load(const std::filesystem::path& folder_or_file, const Device* device) {
  return read_model_file(folder_or_file, [&](std::string_view bytes) {
    Model model = parse(bytes);
    if (model.data().any_cpu) return model.for_device(device ? *device : detect_cpu());
    return model;
  });
}

namespace {

/// Reads the description of a file only.
template <class Read>
auto read_meta(const std::filesystem::path& folder_or_file, Read&& read) {
  return read_model_file(folder_or_file, [&](std::string_view bytes) {
    Sections sections(bytes);
    try {
      return read(Json::parse(sections.get(KsfKind::meta, 0, "the description")));
    } catch (const Json::exception& error) {
      fail(Errc::corrupt_data, ".ksf: the description is not valid JSON: {}", reason_of(error));
    }
  });
}

}  // namespace

Device model_device(const std::filesystem::path& folder_or_file) {
  return read_meta(folder_or_file, [](const Json& meta) {
    if (is_for_any_cpu(meta)) return detect_cpu();
    return device_from_json(member(meta, "device"), ".ksf: device");
  });
}

std::string model_provider(const std::filesystem::path& folder_or_file) {
  return read_meta(folder_or_file, declared_provider_of);
}

std::optional<AgainstAnyCpu> model_against_any_cpu(const std::filesystem::path& folder_or_file) {
  return read_meta(folder_or_file, read_against_any_cpu);
}

namespace {

/// Reads a model, changes its data and writes it again.
template <class Change>
void rewrite(const std::filesystem::path& folder_or_file, Change&& change) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(folder_or_file, ignored);
  ModelData data = Model::load(folder_or_file).data();
  change(data);
  write_file_atomically(folder ? folder_or_file / "model.ksf" : folder_or_file,
                        Model(std::move(data)).bytes());
}

}  // namespace

void store_against_any_cpu(const std::filesystem::path& folder_or_file, const AgainstAnyCpu& against) {
  rewrite(folder_or_file, [&](ModelData& data) { data.against_any_cpu = against; });
}

void store_on_another_gpu(const std::filesystem::path& folder_or_file, const OnAnotherGpu& result) {
  rewrite(folder_or_file, [&](ModelData& data) {
    std::erase_if(data.on_other_gpus, [&](const OnAnotherGpu& old) { return old.device == result.device; });
    data.on_other_gpus.push_back(result);
  });
}

std::string suggestion_preferred(const std::filesystem::path& folder_or_file, const Device& device) {
  return read_meta(folder_or_file, [&](const Json& meta) -> std::string {
    const auto& axes = list_at(meta, "axes");
    if (std::ranges::none_of(axes, [](const Json& axis) { return text_at(axis, "name") == "suggestion"; }))
      return {};
    const auto results = read_on_other_gpus(meta);
    const auto here = std::ranges::find(results, device.name, &OnAnotherGpu::device);
    if (here == results.end())
      return fmt::format("no result of it on '{}' is recorded (kscout evaluate --store)", device.name);
    if (here->mean >= here->suggestion_mean + kClearlyBetter) return {};
    return fmt::format("on {} problems of '{}' it reaches {:.2f} %, the first suggestion {:.2f} %",
                       here->problems, device.name, 100 * here->mean, 100 * here->suggestion_mean);
  });
}

}  // namespace kscout
