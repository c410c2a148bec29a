#include "generate/named_kernels.h"

#include <algorithm>

#include "core/fail.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/owners.h"
#include "family/family_file.h"
#include "generate/project.h"

namespace kscout {

namespace {

namespace fs = std::filesystem;

/// The rule sets of a provider and op, `default` first.
std::vector<std::string> sets_to_search(std::string_view provider, Op op) {
  std::vector<std::string> sets = rule_set_names(provider, op);
  std::stable_partition(sets.begin(), sets.end(), [](const std::string& set) { return set == "default"; });
  return sets;
}

fs::path cache_folder(const CompileRequest& request) {
  const fs::path cache = user_folder("XDG_CACHE_HOME", ".cache");
  if (cache.empty()) {
    fail(Errc::invalid_argument, "compiled kernels are kept in a cache: {}; set HOME or name a folder",
         no_user_folder("XDG_CACHE_HOME"));
  }
  std::uint64_t hash = text_hash(request.device.arch);
  for (const NamedConfig& named : request.kernels)
    hash = text_hash(config_name(named.signature, named.config), hash);
  return cache / "kernels" / hash_digits(hash);
}

/// The device under a name that an index of a library can state.
Device named_device(const Device& device) {
  try {
    return find_device(device.name);
  } catch (const Error& error) {
    if (error.code() != Errc::not_found) throw;
    return device_preset(device.arch);
  }
}

}  // namespace

NamedConfig completed(const NamedConfig& named, const Device& device) {
  if (is_complete(named.config)) return named;
  const std::string provider(named.config.space->provider);
  const FamilyFile& file = family_file(provider, named.signature.op);
  for (const std::string& set : sets_to_search(provider, named.signature.op)) {
    const FamilyRequest request{
        .provider = provider, .signature = named.signature, .device = device, .rules = set, .filter = {}};
    for (const auto& [signature, configs] : enumerate_signatures(request, std::span(&named.signature, 1))) {
      const auto refusals = refusals_of_all_rules(file, request, configs);
      for (std::size_t i = 0; i < configs.size(); ++i) {
        if (refusals[i].empty() && agree(configs[i], named.config)) return {signature, configs[i]};
      }
    }
  }
  fail(Errc::unsupported,
       "{}: its name leaves axes open, and no kernel of a rule set for '{}' agrees with it",
       config_name(named.signature, named.config), device.name);
}

fs::path compile_kernels(const CompileRequest& request) {
  if (request.kernels.empty()) fail(Errc::invalid_argument, "no kernels to compile");
  const std::string provider(request.kernels.front().config.space->provider);
  GenerateRequest project{.family = {.provider = provider,
                                     .signature = {},
                                     .device = named_device(request.device),
                                     .rules = "named",
                                     .filter = {}},
                          .signatures = {},
                          .out = request.folder.empty() ? cache_folder(request) : request.folder,
                          .name = "compiled"};
  for (const NamedConfig& named : request.kernels) {
    const std::string_view of = named.config.space->provider;
    if (of != provider)
      fail(Errc::invalid_argument, "kernels of {} and of {}: compile those of one provider at a time",
           provider, of);
    auto found = std::ranges::find(project.configs, named.signature, &SignatureConfigs::signature);
    if (found == project.configs.end())
      found = project.configs.insert(found, {named.signature, ConfigTable(*named.config.space)});
    found->configs.push_back(named.config);
  }
  const GenerateReport made = generate_project(project);
  if (!made.left_out.empty())
    fail(Errc::unsupported, "{}: no source can be written: {}", made.left_out[0].kernel,
         made.left_out[0].because);
  BuildRequest build = request.build;
  build.project = project.out;
  const BuildResult built = build_project(build);
  for (const BuiltKernel& one : built.kernels) {
    if (!one.ok)
      fail(Errc::unsupported, "{}: does not compile: {} (its log is in {})", one.name, one.message,
           (project.out / "build").string());
  }
  return built.index;
}

BuildResult compile_rule_set(const FamilyRequest& rules, std::span<const Signature> signatures,
                             const std::string& name, const BuildRequest& build) {
  GenerateRequest project{.family = rules,
                          .signatures = {signatures.begin(), signatures.end()},
                          .out = build.project,
                          .name = name};
  project.family.device = named_device(rules.device);
  const GenerateReport made = generate_project(project);
  BuildResult built = build_project(build);
  for (const LeftOut& one : made.left_out) built.kernels.push_back({one.kernel, false, one.because});
  if (built.index.empty())
    fail(Errc::unsupported, "no kernel of rule set '{}' compiles; the first: {}: {} (logs are in {})",
         rules.rules, built.kernels.front().name, built.kernels.front().message,
         (build.project / "build").string());
  return built;
}

}  // namespace kscout
