#pragma once
/// \file
/// Describes kernels: axes, names, traits. Needs no device and works on any machine.
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

/// The signature and config that a kernel's name states.
struct NamedConfig {
  Signature signature;
  KernelConfig config;
  bool operator==(const NamedConfig&) const = default;
};

class Provider {
 public:
  virtual ~Provider() = default;

  virtual std::string_view name() const noexcept = 0;
  virtual std::string_view help() const noexcept = 0;
  /// The operations for which the provider has config spaces.
  virtual std::span<const Op> ops() const noexcept = 0;
  /// Whether kernels of this provider can run on a device of this kind and vendor.
  virtual bool runs_on(const Device& device) const noexcept = 0;
  /// Whether a backend of this program has the provider's kernels. A kernel library must not bring kernels of
  /// such a provider, because one name would then mean two kernels.
  virtual bool built_in() const noexcept { return false; }
  /// Whether the library that runs the kernels decides which sizes a config takes, and no rule of the family
  /// says so. A model then learns what the library refuses.
  virtual bool library_decides() const noexcept { return false; }
  /// Host threads that a kernel of this config uses; 0 = unknown, or it runs on a GPU.
  virtual int host_threads(const KernelConfig& /*config*/) const noexcept { return 0; }
  /// Throws unsupported when the provider has no kernels for `op`.
  virtual const ConfigSpace& space(Op op) const = 0;

  /// The name of a config for a signature: unique per (signature, config), stable over versions. The
  /// provider's source and docs/formats/names.md define its grammar.
  virtual std::string print(const Signature& signature, const KernelConfig& config) const = 0;
  /// Inverse of print. Throws invalid_argument naming the part that does not fit. An axis that the name omits
  /// becomes KernelConfig::unknown, or the value that its omission stands for.
  virtual NamedConfig parse(std::string_view name) const = 0;

  /// Describes the config in terms that all providers share.
  virtual Traits traits(const Signature& signature, const KernelConfig& config,
                        const Device& device) const = 0;

  /// The config that runs when this one is requested. Where a kernel ignores an axis (CK Tile's pipeline
  /// `mem` always pads), that axis gets the value in effect. Measurements, models and choices hold such
  /// canonical configs only.
  virtual KernelConfig canonical(const KernelConfig& config) const { return config; }

  /// Converts a config to one of this provider. Own configs are returned unchanged; a joint provider converts
  /// the configs of its members. Returns nothing for all others.
  virtual std::optional<KernelConfig> own(const KernelConfig& config) const {
    return config.space && config.space->provider == name() ? std::optional(config) : std::nullopt;
  }
};

/// Declares a provider of kernels that the program does not have itself: its axes, names, traits, rules and
/// rule sets (docs/formats/family.md). It is known until the process ends.
///
///     kscout::declare_provider(text_of_file, "mine.kscout-family.toml");
///     kscout::provider("mine").parse("mine_gemm_fp32_rcr__tile8");
///
/// The files that KSCOUT_FAMILIES names (`:`-separated files or folders) are declared when a name is not
/// known, and the file that a kernel library's index names when the index is read. Declaring a provider again
/// returns the known one if its axes are equal. Throws corrupt_data with `file` and line, invalid_argument
/// for a name that is taken.
const Provider& declare_provider(std::string_view toml, std::string_view file);

/// Throws invalid_argument naming the nearest provider.
const Provider& provider(std::string_view name);
std::span<const std::string_view> provider_names() noexcept;

/// The provider that is used when none is named, by the operation and the device's kind and vendor. Says
/// nothing about the kernels that are installed.
std::string_view default_provider(Op op, const Device& device) noexcept;
/// Throws unsupported, naming the default provider, when a provider's kernels cannot run on a device.
void check_runs_on(const Provider& provider, Op op, const Device& device);

/// Provider::host_threads of a config of any provider.
int host_threads(const KernelConfig& config);

/// The name of a config for a signature, as its provider prints it.
std::string config_name(const Signature& signature, const KernelConfig& config);

/// Reads a kernel name of any provider; tries each provider in turn. Throws invalid_argument with the error
/// of the provider whose prefix fits.
NamedConfig parse_config_name(std::string_view name);

/// Like parse_config_name, for kernels that were run or will be run (imported measurements, kernel libraries,
/// --config, KSCOUT_FORCE): applies Provider::canonical to the config.
NamedConfig parse_kernel_to_run(std::string_view name);

}  // namespace kscout
