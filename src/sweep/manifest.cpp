// The manifest of a sweep folder: SweepPlan as JSON and back.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/fail.h"
#include "core/field_json.h"
#include "measure/affinity.h"
#include "sweep/plan.h"

namespace kscout {

namespace {

using json = nlohmann::ordered_json;

constexpr const char* kFormat = "kscout sweep 1";

std::string range_text(const std::vector<std::uint32_t>& list) {
  return print_ranges({list.begin(), list.end()});
}

std::vector<std::uint32_t> range_list(const std::string& text) {
  const auto list = parse_ranges(text);
  return {list.begin(), list.end()};
}

/// Everything that decides what is measured and how.
json identity_json(const SweepPlan& plan) {
  json out;
  out["format"] = kFormat;
  out["provider"] = plan.provider;
  out["backend"] = plan.backend;
  out["rules"] = plan.rules;
  out["filter"] = plan.filter;
  out["op"] = word(plan.op);
  out["device"] = record_json(plan.device);
  out["protocol"] = record_json(plan.protocol);
  out["seed"] = plan.seed;
  json& problems = out["problems"] = json::array();
  for (const auto& problem : plan.problems) problems.push_back(print(problem));
  json& axes = out["axes"] = json::array();
  json& configs = out["configs"] = json::array();
  if (!plan.configs.empty()) {
    const auto& space = *plan.configs.front().space;
    for (const Axis& axis : space.axes) axes.push_back(axis.name);
    for (const auto& config : plan.configs) {
      json row = json::array();
      for (std::size_t a = 0; a < space.axes.size(); ++a)
        row.push_back(axis_value_text(space.axes[a], config[a]));
      configs.push_back(std::move(row));
    }
  }
  json& candidates = out["candidates"] = json::array();
  for (const auto& list : plan.candidates) candidates.push_back(range_text(list));
  return out;
}

/// FNV-1a, 64 bits: binds a journal to its manifest; no defence against forgery.
std::string hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return fmt::format("{:016x}", hash);
}

std::string short_text(const json& value) {
  std::string text = value.dump();
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fail(Errc::not_found, "{}: no sweep here ({}); start one with kscout sweep --out {}", path.string(),
         std::strerror(errno), path.parent_path().string());
  }
  std::stringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

json parse_manifest(const std::filesystem::path& path) {
  try {
    json manifest = json::parse(read_text(path));
    if (manifest.value("format", "") != kFormat) {
      fail(Errc::corrupt_data, "{}: format '{}' is not '{}', which this version reads", path.string(),
           manifest.value("format", "none"), kFormat);
    }
    return manifest;
  } catch (const json::exception& error) {
    fail(Errc::corrupt_data, "{}: {}", path.string(), error.what());
  }
}

/// Writes all of `text` to a new file beside `path`, then gives it its name: a reader sees all or nothing,
/// and of two sweeps that start at once one wins.
void create_whole_file(const std::filesystem::path& path, const std::string& text) {
  const auto part = path.string() + fmt::format(".{}.part", getpid());
  const auto give_up = [&](const char* doing) {
    const int error = errno;
    unlink(part.c_str());
    fail(Errc::device_failure, "{}: cannot {}: {}", path.string(), doing, std::strerror(error));
  };
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) give_up("create it");
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = write(fd, text.data() + at, text.size() - at);
    if (wrote < 0) {
      close(fd);
      give_up("write it");
    }
    at += static_cast<std::size_t>(wrote);
  }
  fsync(fd);
  close(fd);
  if (link(part.c_str(), path.c_str()) != 0 && errno != EEXIST) give_up("name it");
  unlink(part.c_str());
}

}  // namespace

std::string write_manifest(const std::filesystem::path& folder, const SweepPlan& plan) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(Errc::device_failure, "{}: cannot create the folder: {}", folder.string(), error.message());
  const auto path = folder / kManifestName;
  const json mine = identity_json(plan);
  if (!std::filesystem::exists(path)) {
    json manifest = mine;
    manifest["provenance"] = plan.provenance;
    create_whole_file(path, manifest.dump(1) + "\n");
  }
  json there = parse_manifest(path);
  there.erase("provenance");
  if (there != mine) {
    for (const auto& [key, value] : mine.items()) {
      if (there.value(key, json()) == value) continue;
      fail(Errc::invalid_argument,
           "{} holds another sweep: its {} is {}, yours {}; use another folder or the same arguments",
           folder.string(), key, short_text(there.value(key, json())), short_text(value));
    }
  }
  return hash_of(mine.dump());
}

SweepPlan read_manifest(const std::filesystem::path& folder, const SpaceLookup& spaces, std::string* hash) {
  const auto path = folder / kManifestName;
  json manifest = parse_manifest(path);
  try {
    SweepPlan plan;
    plan.provider = manifest.at("provider");
    plan.backend = manifest.at("backend");
    plan.rules = manifest.at("rules");
    plan.filter = manifest.at("filter");
    plan.op = parse<Op>(manifest.at("op").get<std::string>());
    plan.device = record_from_json<Device>(manifest.at("device"), "device");
    plan.protocol = record_from_json<Protocol>(manifest.at("protocol"), "protocol");
    plan.seed = manifest.at("seed");
    plan.provenance = manifest.at("provenance").get<std::map<std::string, std::string>>();
    for (const auto& text : manifest.at("problems"))
      plan.problems.push_back(parse_problem(text.get<std::string>()));
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
      plan.candidates.push_back(range_list(text.get<std::string>()));
    if (plan.candidates.size() != plan.problems.size()) {
      fail(Errc::corrupt_data, "{} problems but {} lists of candidates", plan.problems.size(),
           plan.candidates.size());
    }
    for (const auto& list : plan.candidates) {
      if (!list.empty() && list.back() >= plan.configs.size()) {
        fail(Errc::corrupt_data, "candidate {} of {} configs", list.back(), plan.configs.size());
      }
    }
    if (hash) {
      manifest.erase("provenance");
      *hash = hash_of(manifest.dump());
    }
    return plan;
  } catch (const json::exception& error) {
    fail(Errc::corrupt_data, "{}: {}", path.string(), error.what());
  } catch (const Error& error) {
    fail(Errc::corrupt_data, "{}: {}", path.string(), error.what());
  }
}

}  // namespace kscout
