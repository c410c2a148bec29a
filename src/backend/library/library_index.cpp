
#include "backend/library/library_index.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include <kscout/kernel_library.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "core/name_rules.h"
#include "core/names.h"
#include "core/owners.h"
#include "core/printable.h"
#include "family/family_file.h"

namespace kscout {

namespace {
constexpr std::int64_t kVersion = 1;
constexpr std::string_view kChecksumKind = "fnv1a64:";
constexpr std::string_view kLibraryBackends[] = {"cpu", "cuda", "hip"};

/// Takes members of one object by name; members that are never taken are errors.
class Members {
 public:
  Members(const Json& object, std::string what, const std::filesystem::path& file)
      : object_(object), what_(std::move(what)), file_(file) {
    if (!object.is_object()) bad("is no object");
  }

  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(Errc::corrupt_data, "{}: {} {}", file_.string(), what_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  const Json* find(std::string_view name) {
    taken_.emplace_back(name);
    const auto found = object_.find(std::string(name));
    return found == object_.end() ? nullptr : &*found;
  }
  std::string text(std::string_view name) {
    const Json* const value = find(name);
    if (!value || !value->is_string()) bad("needs '{}', a text", name);
    return value->get<std::string>();
  }
  std::string text_or(std::string_view name, std::string_view otherwise) {
    return object_.contains(std::string(name)) ? text(name) : (find(name), std::string(otherwise));
  }
  std::int64_t number(std::string_view name) {
    const Json* const value = find(name);
    if (!value || !value->is_number_integer()) bad("needs '{}', a whole number", name);
    return value->get<std::int64_t>();
  }
  /// An empty list when the member is omitted.
  std::vector<Members> list(std::string_view name) {
    std::vector<Members> entries;
    const Json* const value = find(name);
    if (!value) return entries;
    if (!value->is_array()) bad("needs '{}' to be a list", name);
    for (std::size_t i = 0; i < value->size(); ++i) {
      entries.emplace_back((*value)[i], fmt::format("{}[{}]", name, i), file_);
    }
    return entries;
  }
  void end() const {
    const std::vector<std::string_view> known(taken_.begin(), taken_.end());
    for (const auto& [name, value] : object_.items()) {
      if (!find_word(name, known)) bad("has an {}", unknown_name_message("member", name, known));
    }
  }

 private:
  const Json& object_;
  std::string what_;
  const std::filesystem::path& file_;
  std::vector<std::string> taken_;
};

Json parse_json(std::string_view text, const std::filesystem::path& file) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    fail(Errc::corrupt_data, "{}: no JSON: {}", file.string(), reason_of(error));
  }
}

std::uint64_t parse_checksum(const Members& index, std::string_view text) {
  std::uint64_t value = 0;
  std::string_view digits = text;
  if (digits.starts_with(kChecksumKind)) digits.remove_prefix(kChecksumKind.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() != 16 || digits.size() == text.size() || error != std::errc() ||
      end != digits.data() + digits.size()) {
    index.bad("has checksum '{}': write {} and 16 hexadecimal digits", text, kChecksumKind);
  }
  return value;
}

NamedConfig parse_config(const Members& entry, const std::string& name) {
  try {
    return parse_kernel_to_run(name);
  } catch (const Error& error) {
    entry.bad("names an unknown config: {}", error.what());
  }
}

void read_configs(Members& members, LibraryIndex& index) {
  for (Members& entry : members.list("kernels")) {
    const std::string name = entry.text("config");
    NamedConfig config = parse_config(entry, name);
    index.kernels.push_back(entry.text_or("kernel", name));
    entry.end();
    const Provider& by = provider(config.config.space->provider);
    if (by.built_in()) {
      entry.bad(
          "names '{}', a kernel of provider {}, whose kernels this program has itself; give the library's "
          "kernel a name of ck_tile, cutlass or a family of your own",
          name, by.name());
    }
    if (index.provider && index.provider != &by) {
      entry.bad("is of provider {}, those before it are of {}; write one index for each", by.name(),
                index.provider->name());
    }
    index.provider = &by;
    if (std::ranges::find(index.configs, config) != index.configs.end()) {
      entry.bad("names '{}' a second time", name);
    }
    index.configs.push_back(std::move(config));
  }
  if (index.configs.empty()) members.bad("names no kernels");
}

/// The operations that a rule is for; empty: every one.
std::vector<Op> read_ops(Members& entry) {
  std::vector<Op> ops;
  const Json* const value = entry.find("ops");
  if (!value) return ops;
  if (!value->is_array()) entry.bad("needs 'ops' to be a list");
  for (const Json& one : *value) {
    const std::string name = one.is_string() ? one.get<std::string>() : one.dump();
    const auto at = find_word(name, EnumWords<Op>::words);
    if (!at) entry.bad("has an {}", unknown_name_message("op", name, EnumWords<Op>::words));
    ops.push_back(static_cast<Op>(*at));
  }
  return ops;
}

void read_rules(Members& members, LibraryIndex& index) {
  for (const NamedConfig& named : index.configs) index.applicability[named.signature.op];
  for (Members& entry : members.list("serves")) {
    const Rule rule{entry.text("name"), RuleKind::applicability, entry.text("admits"), entry.text("because")};
    const std::vector<Op> ops = read_ops(entry);
    entry.end();
    for (auto& [op, rules] : index.applicability) {
      if (!ops.empty() && std::ranges::find(ops, op) == ops.end()) continue;
      try {
        expr::Program::compile({{"rule " + rule.name, rule.admits}},
                               family_scope(index.provider->space(op), {}, true));
      } catch (const Error& error) {
        entry.bad("does not compile: {}", error.what());
      }
      rules.push_back(rule);
    }
  }
}

}  // namespace

LibraryIndex parse_library_index(std::string_view text, const std::filesystem::path& file) {
  const Json json = parse_json(text, file);
  Members members(json, "the index", file);
  if (members.text("format") != "kscout-kernel-library") {
    members.bad("is of another format: 'format' must be 'kscout-kernel-library'");
  }
  if (const auto version = members.number("version"); version != kVersion) {
    fail(Errc::unsupported, "{}: format version {}; this program reads {}", file.string(), version, kVersion);
  }
  if (const auto abi = members.number("abi"); abi != KSCOUT_KERNEL_ABI) {
    fail(Errc::unsupported, "{}: kernels of ABI {}; this program calls ABI {}: build the library again",
         file.string(), abi, KSCOUT_KERNEL_ABI);
  }
  const auto check_own = [&](std::string_view member, std::string_view name) {
    if (!is_name(name))
      members.bad("has {} '{}': a name has letters, digits and . _ + -", member, printable_line(name));
  };
  LibraryIndex index{};
  index.file = file;
  index.name = members.text("name");
  if (index.name.empty()) members.bad("has an empty 'name'");
  check_own("name", index.name);
  index.library = file.parent_path() / members.text("library");
  index.checksum = parse_checksum(members, members.text("checksum"));
  index.backend = members.text("backend");
  if (!find_word(index.backend, kLibraryBackends)) {
    members.bad("has an {}", unknown_name_message("backend", index.backend, kLibraryBackends));
  }
  index.device = members.text_or("device", "auto");
  check_own("device", index.device);
  if (const std::string family = members.text_or("family", ""); !family.empty()) {
    const std::filesystem::path declared = file.parent_path() / family;
    refuse_if_others_write(declared);
    declare_provider(read_file(declared), declared.string());
  }
  read_configs(members, index);
  read_rules(members, index);
  members.end();
  return index;
}

LibraryIndex read_library_index(const std::filesystem::path& file) {
  refuse_if_others_write(file);
  return parse_library_index(read_file(file), file);
}

namespace {

constexpr std::string_view kIndexSuffix = ".kscout-library.json";

void add_indexes(const std::filesystem::path& entry, std::vector<std::filesystem::path>& found) {
  std::error_code error;
  if (!std::filesystem::is_directory(entry, error)) {
    found.push_back(entry);
    return;
  }
  const std::size_t first = found.size();
  for (const auto& file : std::filesystem::directory_iterator(entry, error)) {
    if (file.path().filename().string().ends_with(kIndexSuffix)) found.push_back(file.path());
  }
  if (error)
    fail(Errc::device_failure, "KSCOUT_LIBRARY_PATH: cannot list {}: {}", entry.string(), error.message());
  std::sort(found.begin() + static_cast<std::ptrdiff_t>(first), found.end());
}

}  // namespace

std::vector<std::filesystem::path> library_index_files() {
  std::vector<std::filesystem::path> found;
  const char* const listed = std::getenv("KSCOUT_LIBRARY_PATH");
  std::string_view rest = listed ? listed : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) add_indexes(std::filesystem::path(rest.substr(0, end)), found);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return found;
}

}  // namespace kscout
