// Writes and reads the manifest of a sweep folder: SweepPlan as JSON.
#include <algorithm>

#include "core/device_facts.h"
#include "core/fail.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/json_fields.h"
#include "core/name_rules.h"
#include "family/declared.h"
#include "measure/timing.h"
#include "sweep/journal.h"
#include "sweep/plan.h"

namespace kscout {

namespace {
constexpr const char* kFormat = "kscout sweep 1";

std::string range_text(const std::vector<std::uint32_t>& list) {
  return print_ranges({list.begin(), list.end()});
}

std::vector<std::uint32_t> range_list(const std::string& text, std::size_t limit) {
  const auto list = parse_ranges(text, static_cast<int>(limit));
  return {list.begin(), list.end()};
}

/// The part of the plan that decides what is measured and how.
Json identity_json(const SweepPlan& plan) {
  Json out;
  out["format"] = kFormat;
  out["provider"] = plan.provider;
  if (const auto declaration = declaration_of(plan.provider); !declaration.empty())
    out["declaration"] = declaration;
  out["backend"] = plan.backend;
  out["rules"] = plan.rules;
  out["filter"] = plan.filter;
  out["op"] = word(plan.op);
  out["device"] = record_json(plan.device);
  out["protocol"] = record_json(plan.protocol);
  out["seed"] = plan.seed;
  Json& problems = out["problems"] = Json::array();
  for (const auto& problem : plan.problems) problems.push_back(print(problem));
  Json& axes = out["axes"] = Json::array();
  Json& configs = out["configs"] = Json::array();
  if (!plan.configs.empty()) {
    const auto& space = *plan.configs.front().space;
    for (const Axis& axis : space.axes) axes.push_back(axis.name);
    for (const auto& config : plan.configs) {
      Json row = Json::array();
      for (std::size_t a = 0; a < space.axes.size(); ++a)
        row.push_back(axis_value_text(space.axes[a], config[a]));
      configs.push_back(std::move(row));
    }
  }
  Json& candidates = out["candidates"] = Json::array();
  for (const auto& list : plan.candidates) candidates.push_back(range_text(list));
  return out;
}

/// Removes what does not identify the sweep.
void erase_notes(Json& manifest) {
  manifest.erase("provenance");
  manifest.erase("left_out");
}

/// The hash that binds a journal to its manifest.
std::string hash_of(const Json& manifest) { return hash_digits(text_hash(manifest.dump())); }

std::string short_text(const Json& value) {
  std::string text = value.dump();
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

/// Describes the first difference between two values of a key: "protocol.rounds is 10, yours 24", "problems
/// has 40 entries, yours 80". Long values may begin alike, so for them the first different entry is named.
std::string difference(const std::string& name, const Json& there, const Json& mine) {
  if (there.is_object() && mine.is_object()) {
    for (const auto& [key, value] : mine.items()) {
      const Json other = there.value(key, Json());
      if (other != value) return difference(name + "." + key, other, value);
    }
  }
  if (there.is_array() && mine.is_array()) {
    for (std::size_t i = 0; i < std::min(there.size(), mine.size()); ++i) {
      if (there[i] != mine[i]) return difference(fmt::format("{}[{}]", name, i), there[i], mine[i]);
    }
    return fmt::format("{} has {} entries, yours {}", name, there.size(), mine.size());
  }
  return fmt::format("{} is {}, yours {}", name, short_text(there), short_text(mine));
}

/// Device facts that drift (a clock that is calibrated at each start) do not make a different sweep: the
/// stored facts are kept.
void forgive_drift(const Json& there, Json& mine) {
  const auto device = there.find("device");
  if (device == there.end() || *device == mine["device"]) return;
  const Device before = device_from_json(*device, "device"), now = device_from_json(mine["device"], "device");
  if (device_difference(before, now).empty()) mine["device"] = *device;
}

Json parse_manifest(const std::filesystem::path& path) {
  if (is_absent(path)) {
    std::vector<std::string> parts;
    for (const std::string_view op : EnumWords<Op>::words) {
      const auto part = path.parent_path() / op;
      if (!is_absent(part / kManifestName)) parts.push_back(part.string());
    }
    if (!parts.empty())
      fail(Errc::not_found, "{}: a sweep of several operations; name one of {}", path.parent_path().string(),
           fmt::join(parts, ", "));
    fail(Errc::not_found, "{}: no sweep here; start one with kscout sweep --out {}", path.string(),
         path.parent_path().string());
  }
  try {
    Json manifest = Json::parse(read_file(path));
    if (manifest.value("format", "") != kFormat) {
      fail(Errc::corrupt_data, "{}: format '{}' is not '{}', which this version reads", path.string(),
           manifest.value("format", "none"), kFormat);
    }
    return manifest;
  } catch (const Json::exception& error) {
    fail(Errc::corrupt_data, "{}: {}", path.string(), reason_of(error));
  }
}

}  // namespace

std::string write_manifest(const std::filesystem::path& folder, const SweepPlan& plan) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(Errc::device_failure, "{}: cannot create the folder: {}", folder.string(), error.message());
  const auto path = folder / kManifestName;
  Json mine = identity_json(plan);
  if (!std::filesystem::exists(path)) {
    check_new_sweep_folder(folder, is_sweep_file);
    Json manifest = mine;
    manifest["provenance"] = plan.provenance;
    manifest["left_out"] = plan.left_out;
    create_file_atomically(path, readable_json(manifest));
  }
  Json there = parse_manifest(path);
  erase_notes(there);
  forgive_drift(there, mine);
  for (const auto& [key, value] : mine.items()) {
    const Json other = there.value(key, Json());
    if (other == value) continue;
    fail(Errc::invalid_argument, "{} holds another sweep: its {}; use another folder or the same arguments",
         folder.string(), difference(key, other, value));
  }
  return hash_of(mine);
}

SweepPlan read_manifest(const std::filesystem::path& folder, const SpaceLookup& spaces, std::string* hash) {
  const auto path = folder / kManifestName;
  Json manifest = parse_manifest(path);
  try {
    SweepPlan plan;
    plan.provider = manifest.at("provider");
    if (manifest.contains("declaration"))
      declare_if_unknown(plan.provider, manifest.at("declaration").get<std::string>(), path.string());
    plan.backend = manifest.at("backend");
    plan.rules = manifest.at("rules");
    plan.filter = manifest.at("filter");
    plan.op = parse<Op>(manifest.at("op").get<std::string>());
    plan.device = device_from_json(manifest.at("device"), "device");
    plan.protocol = record_from_json<Protocol>(manifest.at("protocol"), "protocol");
    plan.seed = manifest.at("seed");
    plan.provenance = manifest.at("provenance").get<std::map<std::string, std::string>>();
    plan.left_out = manifest.value("left_out", LeftOutCounts());  // older manifests have none
    for (const auto& text : manifest.at("problems"))
      plan.problems.push_back(parse_any_problem(text.get<std::string>()));
    const ConfigSpace& space = spaces(plan.provider, plan.op);
    std::vector<std::size_t> axes;
    for (const auto& name : manifest.at("axes")) axes.push_back(space.axis_index(name.get<std::string>()));
    for (const auto& row : manifest.at("configs")) {
      KernelConfig config(space);
      for (std::size_t a = 0; a < axes.size(); ++a) {
        config[axes[a]] = parse_axis_value(space.axes[axes[a]], row.at(a).get<std::string>());
      }
      plan.configs.push_back(config);
    }
    for (const auto& text : manifest.at("candidates"))
      plan.candidates.push_back(range_list(text.get<std::string>(), plan.configs.size()));
    if (plan.candidates.size() != plan.problems.size()) {
      fail(Errc::corrupt_data, "{} problems but {} lists of candidates", plan.problems.size(),
           plan.candidates.size());
    }
    if (hash) {
      erase_notes(manifest);
      *hash = hash_of(manifest);
    }
    return plan;
  } catch (const Json::exception& error) {
    fail(Errc::corrupt_data, "{}: {}", path.string(), reason_of(error));
  } catch (const Error& error) {
    fail(Errc::corrupt_data, "{}: {}", path.string(), error.what());
  }
}

}  // namespace kscout
