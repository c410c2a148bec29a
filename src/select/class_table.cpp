#include "select/class_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include <fmt/format.h>

#include <kscout/provider.h>
#include <kscout/selector.h>
#include <kscout/version.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "core/log.h"
#include "core/numbers.h"
#include "core/owners.h"
#include "op/gemm/gemm_views.h"

namespace kscout {

namespace {

constexpr std::int64_t kClassFileVersion = 1;
constexpr std::int64_t kMaxEvery = 1 << 20;
constexpr const char* kMeasure = "measure them with kscout classes";

/// Whether the bits of kernels depend on a fact of Backend::versions().
bool decides_bits(const std::string& fact) {
  return fact == "cublaslt_version" || fact.starts_with("library.");
}

std::string text_of(const Json& json, const char* name) { return json.at(name).get<std::string>(); }

ClassMember member_from(const Json& json, std::span<const std::int64_t> m) {
  ClassMember member{.config = text_of(json, "config"), .equal = {}, .time_us = {}};
  for (const char c : text_of(json, "equal")) member.equal.push_back(c == '1');
  if (member.equal.size() != m.size())
    fail(Errc::corrupt_data, "{}: equal has {} digits for {} M", member.config, member.equal.size(),
         m.size());
  member.time_us.resize(m.size(), std::numeric_limits<double>::quiet_NaN());
  for (const auto& [rows, us] : json.at("time_us").items()) {
    const auto at = std::ranges::find(m, number_in<std::int64_t>(rows).value_or(0));
    if (at == m.end())
      fail(Errc::corrupt_data, "{}: a time for M = {}, which is not measured", member.config, rows);
    member.time_us[static_cast<std::size_t>(at - m.begin())] = us.get<double>();
  }
  return member;
}

StoredClass class_from(const Json& json) {
  StoredClass one{.weight = text_of(json, "weight"),
                  .device = text_of(json, "device"),
                  .backend = text_of(json, "backend"),
                  .library = text_of(json, "library"),
                  .bits = text_of(json, "bits"),
                  .classes = json.at("classes").get<std::int64_t>(),
                  .every = json.at("every").get<std::int64_t>(),
                  .m = {},
                  .members = {}};
  if (one.every < 1 || one.every > kMaxEvery)
    fail(Errc::corrupt_data, "{}: every={}: must be from 1 to {}", one.weight, one.every, kMaxEvery);
  for (std::int64_t m = 1; m <= one.every; ++m) one.m.push_back(m);
  for (const Json& above : json.at("above")) one.m.push_back(above.get<std::int64_t>());
  if (std::ranges::adjacent_find(one.m, std::greater_equal()) != one.m.end())
    fail(Errc::corrupt_data, "{}: the M of above must be ascending and above {}", one.weight, one.every);
  for (const Json& member : json.at("members")) one.members.push_back(member_from(member, one.m));
  return one;
}

Json json_of(const StoredClass& one) {
  Json json = {{"weight", one.weight},   {"device", one.device},   {"backend", one.backend},
               {"library", one.library}, {"bits", one.bits},       {"classes", one.classes},
               {"every", one.every},     {"above", Json::array()}, {"members", Json::array()}};
  for (const std::int64_t m : one.m) {
    if (m > one.every) json["above"].push_back(m);
  }
  for (const ClassMember& member : one.members) {
    std::string equal;
    for (const std::uint8_t is_equal : member.equal) equal += is_equal != 0 ? '1' : '0';
    auto times = Json::object();
    for (std::size_t i = 0; i < one.m.size(); ++i) {
      if (!std::isnan(member.time_us[i])) times[std::to_string(one.m[i])] = member.time_us[i];
    }
    json["members"].push_back({{"config", member.config}, {"equal", equal}, {"time_us", std::move(times)}});
  }
  return json;
}

/// Whether both are about one weight on one device.
bool same_weight(const StoredClass& a, const StoredClass& b) {
  return a.weight == b.weight && a.device == b.device;
}

}  // namespace

bool StoredClass::holds(const ClassMember& member, std::int64_t of_m) const {
  const auto above = std::ranges::lower_bound(m, of_m);
  if (above == m.end()) return false;
  const auto at = static_cast<std::size_t>(above - m.begin());
  if (*above == of_m) return member.equal[at] != 0;
  if (at == 0 || member.equal[at] == 0 || member.equal[at - 1] == 0) return false;
  const auto upper_half = std::span(member.equal)
                              .first(static_cast<std::size_t>(every))
                              .subspan(static_cast<std::size_t>(every / 2));
  return std::ranges::find(upper_half, 0) == upper_half.end();
}

Problem with_m(ProblemRef of, std::int64_t m) {
  if (of.op() != Op::gemm) fail(Errc::unsupported, "{}: batch-invariant choices are for GEMMs", print(of));
  Problem problem = of.value();
  problem.set("m", m);
  return problem;
}

Problem without_m(ProblemRef of) {
  Problem problem = with_m(of, 1);
  const Signature signature = signature_of(of);
  const auto refuse = [&](const char* what) {
    fail(Errc::unsupported, "{}: batch-invariant choices need {}", print(of), what);
  };
  if (signature.layout != Layout::rcr && signature.layout != Layout::rrr)
    refuse("A by rows: layout rcr or rrr");
  if (batch_of(of) != 1) refuse("batch 1: with more, take one GEMM per item");
  if (signature.accumulate) refuse("a C that is not read (accumulate=0)");
  problem.set_weight(1);
  return problem;
}

std::string library_release(Backend& backend) {
  std::string text;
  for (const auto& [fact, value] : backend.versions()) {
    if (decides_bits(fact)) text += fmt::format("{}={} ", fact, value);
  }
  return text + fmt::format("kscout={}", KSCOUT_VERSION);
}

std::filesystem::path default_class_file() {
  const std::filesystem::path folder = user_folder("XDG_DATA_HOME", ".local/share");
  return folder.empty() ? folder : folder / "classes.json";
}

std::filesystem::path class_file(const std::filesystem::path& named) {
  if (!named.empty()) return named;
  const std::string asked = environment("KSCOUT_CLASSES");
  std::filesystem::path file = asked.empty() ? default_class_file() : std::filesystem::path(asked);
  refuse_if_others_write(file);
  return file;
}

std::vector<StoredClass> read_classes(const std::filesystem::path& file) {
  std::vector<StoredClass> classes;
  if (is_absent(file)) return classes;
  try {
    const Json json = Json::parse(read_file(file));
    if (const auto version = json.at("version").get<std::int64_t>(); version > kClassFileVersion)
      fail(Errc::unsupported, "version {}, this library reads up to {}", version, kClassFileVersion);
    for (const Json& one : json.at("weights")) classes.push_back(class_from(one));
  } catch (const Json::exception& error) {
    fail(Errc::corrupt_data, "classes {}: {}", file.string(), reason_of(error));
  } catch (const Error& error) {
    fail(error.code(), "classes {}: {}", file.string(), error.what());
  }
  return classes;
}

void store_classes(const std::filesystem::path& file, std::span<const StoredClass> classes) {
  if (file.empty())
    fail(Errc::invalid_argument, "classes: {}; set HOME, or name the file with KSCOUT_CLASSES or --classes",
         no_user_folder("XDG_DATA_HOME"));
  std::vector<StoredClass> all = read_classes(file);
  for (const StoredClass& one : classes) {
    std::erase_if(all, [&](const StoredClass& known) { return same_weight(known, one); });
    all.push_back(one);
  }
  std::ranges::sort(all, {}, [](const StoredClass& one) { return std::tie(one.weight, one.device); });
  Json json = {{"version", kClassFileVersion}, {"weights", Json::array()}};
  for (const StoredClass& one : all) json["weights"].push_back(json_of(one));
  make_own_folders(file.parent_path());
  write_file_atomically(file, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n", kOwnersMode);
}

ClassTable::ClassTable(std::vector<StoredClass> stored, ClassOrigin here, std::filesystem::path file)
    : here_(std::move(here)), file_(std::move(file)) {
  for (StoredClass& one : stored) {
    if (one.device == here_.device) stored_.emplace(one.weight, std::move(one));
  }
}

std::vector<ClassChoice> ClassTable::members(ProblemRef problem, std::string& why) const {
  const std::string weight = print(without_m(problem));
  const std::string asked = fmt::format("{}: policy batch-invariant", print(problem));
  const auto found = stored_.find(weight);
  if (found == stored_.end()) {
    why = fmt::format("{}: {} has no classes of it on {}; {} {}", asked, file_.string(), here_.device,
                      kMeasure, weight);
    return {};
  }
  const StoredClass& known = found->second;
  if (!here_.backend.empty() && known.backend != here_.backend) {
    why = fmt::format("{}: the classes of {} in {} are of backend {}, not {}", asked, weight, file_.string(),
                      known.backend, here_.backend);
    return {};
  }
  if (!here_.library.empty() && known.library != here_.library) {
    why = fmt::format("{}: the classes in {} were measured with {}, here is {}; {} --backend {} {}", asked,
                      file_.string(), known.library, here_.library, kMeasure, known.backend, weight);
    return {};
  }
  const std::int64_t m = product_of(problem).m;
  const auto above = std::ranges::lower_bound(known.m, m);
  if (m < 1 || above == known.m.end()) {
    why = fmt::format("{}: its classes in {} were measured for M from 1 to {}; {} --rows ... {}", asked,
                      file_.string(), known.m.back(), kMeasure, weight);
    return {};
  }
  std::vector<ClassChoice> members;
  for (const ClassMember& member : known.members) {
    if (!known.holds(member, m)) continue;
    // Between measured M, tiles of the next larger one are needed.
    auto at = static_cast<std::size_t>(above - known.m.begin());
    while (at + 1 < known.m.size() && std::isnan(member.time_us[at]) &&
           std::ranges::all_of(known.members,
                               [&](const ClassMember& one) { return std::isnan(one.time_us[at]); }))
      ++at;
    members.push_back({parse_kernel_to_run(member.config).config, member.time_us[at]});
  }
  if (members.empty())
    why = fmt::format(
        "{}: no config of the class in {} was found equal on both sides of M = {}; {} --rows ...,{},... {}",
        asked, file_.string(), m, kMeasure, m, weight);
  const auto unknown_last = [](const ClassChoice& one) {
    return std::isnan(one.time_us) ? std::numeric_limits<double>::infinity() : one.time_us;
  };
  std::ranges::stable_sort(members, {}, unknown_last);
  return members;
}

}  // namespace kscout
