#pragma once
/// \file
/// Who describes kernels: axes, names, traits. Describing is pure: it touches no device and works on any
/// machine.
///
///     const auto& native = kscout::provider("native");
///     std::string name = native.print(signature, config);
///     auto [again, same] = native.parse(name);
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/problem.h>
#include <kscout/traits.h>

namespace kscout {

/// A kernel's name read back.
struct NamedConfig {
  Signature signature;
  KernelConfig config;
  bool operator==(const NamedConfig&) const = default;
};

class KSCOUT_API Provider {
 public:
  virtual ~Provider() = default;

  virtual std::string_view name() const noexcept = 0;
  virtual std::string_view help() const noexcept = 0;
  /// The operations it has config spaces for.
  virtual std::span<const Op> ops() const noexcept = 0;
  /// Whether kernels of its configs can run on such a device: its kind and vendor.
  virtual bool runs_on(const Device& device) const noexcept = 0;
  /// Threads of the host that a kernel of this config computes with; 0 = not known, or it runs on a GPU.
  virtual int host_threads(const KernelConfig& /*config*/) const noexcept { return 0; }
  /// Throws unsupported when the provider has no kernels for `op`.
  virtual const ConfigSpace& space(Op op) const = 0;

  /// The name of a config under a signature: unique per (signature, config), stable over versions. Its
  /// grammar stands in the provider's source and in docs/formats/names.md.
  virtual std::string print(const Signature& signature, const KernelConfig& config) const = 0;
  /// Reverse of print. Throws invalid_argument naming the part that does not fit. Axes that a name leaves out
  /// become KernelConfig::unknown, or the value that leaving them out means.
  virtual NamedConfig parse(std::string_view name) const = 0;

  /// What the config does, in words common to all providers.
  virtual Traits traits(const Signature& signature, const KernelConfig& config,
                        const Device& device) const = 0;

  /// The config that runs when this one is asked for: where a kernel does something whatever an axis says (CK
  /// Tile's pipeline `mem` pads), that axis says so. Measurements, models and choices hold such configs only.
  virtual KernelConfig canonical(const KernelConfig& config) const { return config; }

  /// A config as one of this provider's: its own, or a member's where it is a joint one. Nothing for others.
  virtual std::optional<KernelConfig> own(const KernelConfig& config) const {
    return config.space && config.space->provider == name() ? std::optional(config) : std::nullopt;
  }
};

/// Throws invalid_argument naming the nearest provider.
KSCOUT_API const Provider& provider(std::string_view name);
KSCOUT_API std::span<const std::string_view> provider_names() noexcept;

/// Who describes kernels for a device when nobody says: native, cublaslt or ck_tile by its kind and vendor;
/// convolutions are ck_tile's.
KSCOUT_API std::string_view default_provider(Op op, const Device& device) noexcept;
/// Throws unsupported, naming the default provider, when a provider's kernels cannot run on a device.
KSCOUT_API void check_runs_on(const Provider& provider, Op op, const Device& device);

/// Provider::host_threads of a config of any provider.
KSCOUT_API int host_threads(const KernelConfig& config);

/// The name of a config under a signature, as its provider prints it.
KSCOUT_API std::string config_name(const Signature& signature, const KernelConfig& config);

/// Reads a kernel's name of any provider: each is asked in turn. Throws invalid_argument with the answer of
/// the provider whose prefix fits.
KSCOUT_API NamedConfig parse_config_name(std::string_view name);

/// The same for names of kernels that were or will be run (imported measurements, kernel libraries, --config,
/// KSCOUT_FORCE): Provider::canonical of what the name says.
KSCOUT_API NamedConfig parse_kernel_to_run(std::string_view name);

}  // namespace kscout
