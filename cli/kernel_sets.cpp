#include "kernel_sets.h"

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include <fmt/format.h>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "family/family_file.h"
#include "outputs.h"
#include "provider/ck_tile/family/ck_builder.h"
#include "provider/kernel_list.h"
#include "verbs.h"

namespace kscout::cli {
namespace {

std::int64_t as_json_count(std::size_t count) { return static_cast<std::int64_t>(count); }

/// Reads kernel names from a file.
std::vector<NamedConfig> read_names(const std::string& path) {
  std::vector<NamedConfig> named;
  for (const ListedKernel& one : listed_kernels(read_plain_text(path), path)) {
    try {
      named.push_back(parse_config_name(one.name));
    } catch (const Error& error) {
      fail(Errc::corrupt_data, "{}:{}: {}", path, one.line, error.what());
    }
  }
  return named;
}

std::vector<SignatureConfigs> configs_of(const SetRequest& request,
                                         const std::vector<Signature>& signatures) {
  return request.is_builder_list() ? listed_by_builder(request)
                                   : enumerate_signatures(request.family, signatures);
}

/// The signatures of the provider's families; where the families name none, the requested signature.
std::vector<Signature> compared_signatures(const SetRequest& request) {
  auto signatures = family_signatures(request.family.provider);
  return signatures.empty() ? std::vector{request.family.signature} : signatures;
}

/// Whether the name is a rule set of the provider, for any op. A file of that name must be written ./NAME.
bool is_rule_set(const SetRequest& request, const std::string& name) {
  for (const Op op : provider(request.family.provider).ops()) {
    const auto names = rule_set_names(request.family.provider, op);
    if (std::ranges::find(names, name) != names.end()) return true;
  }
  return !request.builder_configs.empty() && (name == "profiler" || name == "tests");
}

/// The configs of `other`, from names or from a rule set.
std::vector<NamedConfig> other_configs(const SetRequest& request, const std::string& other) {
  std::error_code ignored;
  if (!is_rule_set(request, other) && std::filesystem::exists(other, ignored)) return read_names(other);
  SetRequest of = request;
  of.family.rules = other;
  std::vector<NamedConfig> named;
  for (const auto& [signature, configs] : configs_of(of, compared_signatures(request))) {
    for (std::size_t i = 0; i < configs.size(); ++i) named.push_back({signature, configs[i]});
  }
  return named;
}

/// Looks up configs in a rule set under one signature.
class Holder {
 public:
  explicit Holder(const SignatureConfigs& from) : signature(from.signature) {
    for (std::size_t i = 0; i < from.configs.size(); ++i) configs_.insert(from.configs[i]);
  }
  bool holds(const KernelConfig& config) const {
    if (configs_.contains(config)) return true;
    if (is_complete(config)) return false;
    return std::ranges::any_of(configs_, [&](const KernelConfig& one) { return agree(one, config); });
  }
  Signature signature;

 private:
  std::unordered_set<KernelConfig> configs_;
};

/// Prints names or their count, or writes a JSON file with `metadata` and every axis.
void print_configs(const std::vector<SignatureConfigs>& all, Json metadata, const ListOptions& options) {
  Table names({"config"});
  Json kernels = Json::array();
  for (const auto& [signature, configs] : all) {
    const auto& axes = configs.space().axes;
    for (std::size_t i = 0; i < configs.size(); ++i) {
      const KernelConfig config = configs[i];
      const std::string name = config_name(signature, config);
      names.add_row({text(name)});
      if (options.export_json.empty()) continue;
      Json kernel{{"name", name}};
      for (std::size_t axis = 0; axis < axes.size(); ++axis)
        kernel[std::string(axes[axis].name)] = axis_value_text(axes[axis], config[axis]);
      kernels.push_back(std::move(kernel));
    }
  }
  if (!options.export_json.empty()) {
    metadata["count"] = names.size();
    const Json out{{"metadata", std::move(metadata)}, {"kernels", std::move(kernels)}};
    write_out(options.export_json, out.dump(1, ' ', false, Json::error_handler_t::replace) + '\n');
    fmt::print(stderr, "{} kernels written to {}\n", names.size(), options.export_json);
    if (!options.count) return;
  }
  if (options.count) {
    fmt::print("{}\n", names.size());
  } else {
    names.print(options.format);
  }
}

}  // namespace

std::vector<SignatureConfigs> listed_by_builder(const SetRequest& request) {
  BuilderLists lists = read_builder_lists(request.builder_configs, request.family.rules);
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0; i < std::min(kShown, lists.skipped.size()); ++i)
    fmt::print(stderr, "kscout: {}: {}\n", lists.skipped[i].place, lists.skipped[i].because);
  if (!lists.skipped.empty())
    fmt::print(stderr, "kscout: {} lines of '{}' have no config here\n", lists.skipped.size(),
               request.family.rules);
  return std::move(lists.signatures);
}

bool SetRequest::is_builder_list() const {
  return !builder_configs.empty() && (family.rules == "profiler" || family.rules == "tests");
}

void print_signature_counts(const SetRequest& request, Format format) {
  const auto signatures = family_signatures(request.family.provider);
  if (signatures.empty()) {
    fail(Errc::unsupported,
         "the families of provider '{}' name no signatures; give --op, --dtype and --layout",
         request.family.provider);
  }
  Table table({"op", "layout", "dtype", "configs"});
  std::size_t total = 0;
  for (const auto& [signature, configs] : configs_of(request, signatures)) {
    if (configs.empty()) continue;
    total += configs.size();
    table.add_row({text(word(signature.op)), text(word(signature.layout)), text(word(signature.dtype_a)),
                   number(as_json_count(configs.size()))});
  }
  table.add_row({text("all"), text(""), text(""), number(as_json_count(total))});
  table.print(format);
}

void print_coverage(const SetRequest& request, const std::string& other, std::size_t most, Format format) {
  const std::vector<NamedConfig> wanted = other_configs(request, other);
  if (wanted.empty()) {
    fail(Errc::invalid_argument, "--covers {}: holds no config to compare with", other);
  }
  std::vector<Signature> signatures = compared_signatures(request);
  for (const NamedConfig& one : wanted) {
    if (std::ranges::find(signatures, one.signature) == signatures.end()) signatures.push_back(one.signature);
  }
  std::vector<Holder> holders;
  for (const SignatureConfigs& one : configs_of(request, signatures)) holders.emplace_back(one);
  Table missing({"missing"});
  std::size_t count = 0;
  for (const NamedConfig& one : wanted) {
    const auto holder = std::ranges::find(holders, one.signature, &Holder::signature);
    if (holder != holders.end() && holder->holds(one.config)) continue;
    if (count++ < most) missing.add_row({text(config_name(one.signature, one.config))});
  }
  if (format != Format::text || missing.size() != 0) missing.print(format);
  fmt::print(stderr, "{} holds {} of the {} configs of {}\n", request.family.rules, wanted.size() - count,
             wanted.size(), other);
  if (count != 0) throw CheckFailed();
}

void print_builder_list(const SetRequest& request, const ListOptions& options) {
  print_configs(listed_by_builder(request),
                {{"rules", request.family.rules}, {"config_file", request.builder_configs}}, options);
}

void print_trait_configs(const FamilyRequest& request, const std::string& file, TraitMode mode,
                         const ListOptions& options) {
  print_configs(trait_configs(read_plain_text(file), file, request, mode),
                {{"config_file", file}, {"arch", request.device.arch}, {"mode", word(mode)}}, options);
}

}  // namespace kscout::cli
