#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <kscout/conv_problem.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "core/names.h"
#include "provider/ck_tile/ck_tile.h"
#include "provider/cublaslt/cublaslt.h"
#include "provider/cudnn/cudnn.h"
#include "provider/cutlass/cutlass.h"
#include "provider/declared.h"
#include "provider/groupwise/groupwise.h"
#include "provider/hopper/hopper.h"
#include "provider/joint.h"
#include "provider/miopen/miopen.h"
#include "provider/native/native.h"

namespace kscout {
namespace {

/// Whether a kernel's name begins with that of a provider.
bool begins_with(std::string_view kernel_name, std::string_view provider) noexcept {
  return kernel_name.starts_with(provider) && kernel_name.substr(provider.size()).starts_with('_');
}

struct Entry {
  std::string_view name;
  const Provider& (*get)();
  /// Which kernel names are this provider's; null: those that begin with its name.
  bool (*knows_name)(std::string_view kernel_name) noexcept = nullptr;

  bool knows(std::string_view kernel_name) const noexcept {
    return knows_name ? knows_name(kernel_name) : begins_with(kernel_name, name);
  }
};

const Provider& nvidia_provider() {
  static const JointProvider provider("nvidia", "cublaslt and cutlass as one family, run by backend cuda",
                                      {Op::gemm}, {"cublaslt", "cutlass"});
  return provider;
}
const Provider& nvidia_conv_provider() {
  static const JointProvider provider(
      "nvidia_conv", "cudnn, groupwise and hopper as one family, run by backend cuda",
      {std::begin(kDirections), std::end(kDirections)}, {"cudnn", "groupwise", "hopper"});
  return provider;
}

/// For joint providers, whose names are those of the members.
bool is_nobodys_name(std::string_view) noexcept { return false; }

/// Every provider, in the order in which kernel names are tried.
constexpr std::array kProviders = {
    Entry{"native", native_provider},
    Entry{"cublaslt", cublaslt_provider},
    Entry{"cudnn", cudnn_provider},
    Entry{"cutlass", cutlass_provider},
    Entry{"nvidia", nvidia_provider, is_nobodys_name},
    Entry{"ck_tile", ck_tile_provider, is_ck_tile_name},
    Entry{"miopen", miopen_provider},
    Entry{"hopper", hopper_provider},
    Entry{"groupwise", groupwise_provider},
    Entry{"nvidia_conv", nvidia_conv_provider, is_nobodys_name},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kProviders.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kProviders[i].name;
  return names;
}();

/// What is declared at one moment. An older one stays, because another thread may be reading it; there is one
/// for each declaration of the process.
struct Declared {
  const Declared* before = nullptr;
  std::vector<const Provider*> providers;
  std::vector<std::string_view> names{kNames.begin(), kNames.end()};  ///< of all providers
};
std::atomic<const Declared*> all_declared = [] {
  auto* const first = new Declared;
  for (const Provider* const one : further_providers()) {
    first->providers.push_back(one);
    first->names.push_back(one->name());
  }
  return first;
}();

/// The declared provider whose name, the longest of several, begins the kernel's name.
const Provider* declared_provider_of(std::string_view kernel_name) noexcept {
  const Provider* longest = nullptr;
  for (const Provider* const one : all_declared.load()->providers) {
    const std::string_view name = one->name();
    if (begins_with(kernel_name, name) && (!longest || longest->name().size() < name.size())) longest = one;
  }
  return longest;
}

}  // namespace

[[gnu::weak]] std::span<const Provider* const> further_providers() noexcept { return {}; }

void check_provider_name(std::string_view name) {
  const std::string begin = fmt::format("{}_", name);
  for (const Entry& own : kProviders) {
    if (own.knows(begin) || own.name == name)
      fail(Errc::invalid_argument, "provider '{}': names of provider {} begin so; take another name", name,
           own.name);
  }
}

const Provider& add_provider(std::unique_ptr<const Provider> provider) {
  static std::mutex adding;
  const std::lock_guard lock(adding);
  auto next = std::make_unique<Declared>(*all_declared.load());
  next->before = all_declared.load();
  next->providers.push_back(provider.get());
  next->names.push_back(provider->name());
  all_declared = next.release();
  return *provider.release();
}

const Provider* declared_provider(std::string_view name) noexcept {
  const auto& providers = all_declared.load()->providers;
  const auto found = std::ranges::find(providers, name, [](const Provider* one) { return one->name(); });
  return found == providers.end() ? nullptr : *found;
}

const Provider& provider(std::string_view name) {
  if (const auto own = find_word(name, kNames)) return kProviders[*own].get();
  if (const Provider* const known = declared_provider(name)) return *known;
  declare_providers_of_environment();
  if (const Provider* const known = declared_provider(name)) return *known;
  fail(Errc::invalid_argument, "{}; KSCOUT_FAMILIES names the files of others",
       unknown_name_message("provider", name, provider_names()));
}

const JointProvider* joint_provider(std::string_view name) noexcept {
  if (name == "nvidia") return static_cast<const JointProvider*>(&nvidia_provider());
  if (name == "nvidia_conv") return static_cast<const JointProvider*>(&nvidia_conv_provider());
  return dynamic_cast<const JointProvider*>(declared_provider(name));
}

std::span<const std::string_view> provider_names() noexcept { return all_declared.load()->names; }

std::string_view default_provider(Op op, const Device& device) noexcept {
  if (device.kind == DeviceKind::cpu) return "native";
  if (device.vendor != "NVIDIA") return "ck_tile";
  if (op == Op::grouped_gemm) return "hopper";
  const auto ops = provider("cudnn").ops();
  return std::ranges::find(ops, op) != ops.end() ? "cudnn" : "cublaslt";
}

void check_runs_on(const Provider& provider, Op op, const Device& device) {
  if (provider.runs_on(device)) return;
  const std::string_view usual = default_provider(op, device);
  fail(Errc::unsupported, "provider {}: its kernels cannot run on {} ({}{}{}); {}", provider.name(),
       device.name, device.vendor, device.vendor.empty() ? "" : " ", word(device.kind),
       kscout::provider(usual).runs_on(device)
           ? fmt::format("take provider {}", usual)
           : fmt::format("no provider has kernels of {} for it; name another "
                         "device",
                         word(op)));
}

int host_threads(const KernelConfig& config) {
  return config.space ? provider(config.space->provider).host_threads(config) : 0;
}

std::string config_name(const Signature& signature, const KernelConfig& config) {
  if (!config.space) fail(Errc::invalid_argument, "a config without a space has no name");
  return provider(config.space->provider).print(signature, config);
}

NamedConfig parse_config_name(std::string_view name) {
  if (const Provider* const known = declared_provider_of(name)) return known->parse(name);
  for (const Entry& entry : kProviders) {
    if (entry.knows(name)) return entry.get().parse(name);
  }
  declare_providers_of_environment();
  if (const Provider* const known = declared_provider_of(name)) return known->parse(name);
  fail(Errc::invalid_argument, "'{}' does not begin like a kernel's name of any provider ({})", name,
       fmt::join(provider_names(), ", "));
}

NamedConfig parse_kernel_to_run(std::string_view name) {
  NamedConfig named = parse_config_name(name);
  named.config = provider(named.config.space->provider).canonical(named.config);
  return named;
}

}  // namespace kscout
