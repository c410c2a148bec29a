#pragma once
/// \file
/// Executes configs on a kind of device.
///
///     kscout::Backend& cpu = kscout::backend("cpu");
///     auto launch = cpu.prepare(problem, config);               // all checks and look-ups happen here
///     std::vector<std::byte> workspace(launch->workspace_bytes());
///     launch->run({.a = a, .b = b, .c = c}, workspace.data());  // may be repeated
///
/// A provider describes kernels and needs no backend. A backend opens its device in the first prepare(). Its
/// name, device facts and refusals come from files, presets and queries that need no open device. A program
/// can therefore list and select kernels in a process that forks, or without running anything.
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/launch.h>

namespace kscout {

struct Family;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const noexcept = 0;
  /// The provider whose configs family() lists; provider_for() says which one where operations differ.
  virtual std::string_view provider() const noexcept = 0;
  virtual std::string_view provider_for(Op /*op*/) const noexcept { return provider(); }
  /// Whether its kernels come from a kernel library: measuring then verifies more of each kernel, because
  /// others built it.
  virtual bool is_library() const noexcept { return false; }
  /// Whether this backend executes configs of `provider`: its own provider, and joint providers that include
  /// it.
  virtual bool executes(std::string_view provider) const noexcept { return provider == this->provider(); }
  /// Why this machine cannot run a config, whatever the problem's sizes: its kernel library, or the right
  /// release of that library, is missing. Empty when the machine can. refusal() includes this reason. Opens
  /// no device.
  virtual std::string absence(const Signature& /*signature*/, const KernelConfig& /*config*/) { return {}; }
  /// The configs that this backend can execute for a signature. `rules` names a rule set where rules
  /// enumerate the configs. Throws unsupported when there are none.
  virtual Family family(const Signature& signature, std::string_view rules) = 0;
  /// The memory of operands and workspaces.
  virtual Memory& memory() { return host_memory(); }
  /// Names the memory of memory(); opens no device.
  virtual MemorySpace space() { return memory().space(); }
  /// Facts of the device that run() uses.
  virtual const Device& device() = 0;
  /// Versions of the driver and libraries, by name; stored as provenance of measurements.
  virtual std::map<std::string, std::string> versions() { return {}; }
  /// Why this config cannot run this problem here (a rule, or a missing instruction set); empty when it can.
  virtual std::string refusal(ProblemRef problem, const KernelConfig& config) = 0;
  /// A lower bound, in microseconds, of the time of a config that predictions are known to underestimate; 0
  /// for all others. Opens no device.
  virtual double min_us(ProblemRef /*problem*/, const KernelConfig& /*config*/) { return 0; }
  /// Prepares a config for a problem; the first call opens the device. Throws unsupported with refusal()'s
  /// text or the kernel's own reason, invalid_argument for a bad problem, device_failure.
  virtual std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig& config) = 0;
  /// prepare() of a config that keeps to `limits`: passes them to a library that chooses for itself, then
  /// checks the launch. Throws unsupported, naming the limit, when the config breaks one or that is not
  /// known.
  virtual std::unique_ptr<Launch> prepare_within(ProblemRef problem, const KernelConfig& config,
                                                 const Limits& limits);
  /// The kernels that the library behind this backend would run for a problem if nobody chose for it: the
  /// first `count` of its own suggestions, best first, each named by its algorithm. Opens the device. Empty
  /// for a problem that the library does not take. Throws unsupported when no library makes suggestions.
  virtual std::vector<KernelConfig> suggestions(ProblemRef problem, std::size_t count);
  /// Does what prepare() spends long on (code that is compiled at run time) for many configs of one problem
  /// at once, so that prepare() is quick. Returns one text per config: why it was left out, because `seconds`
  /// were over; empty for all others. By default nothing takes long.
  virtual std::vector<std::string> prepare_ahead(ProblemRef /*problem*/,
                                                 std::span<const KernelConfig> configs, double /*seconds*/) {
    return std::vector<std::string>(configs.size());
  }
};

/// The backend "cpu", "cuda" or "hip". Throws invalid_argument naming the nearest backend, unsupported when
/// this machine lacks the backend.
Backend& backend(std::string_view name);

/// SelectorRequest::suggestions of a backend: what its library lists for a problem; nothing where it has no
/// such library.
std::function<std::vector<KernelConfig>(ProblemRef, std::size_t)> suggestions_of(Backend& backend);

/// Those of backend "cuda" where `device` is this machine's GPU, which the first question opens; null for
/// other devices.
///
///     const Device gpu = backend("cuda").device();
///     Selector::find(Op::gemm, DType::bf16, {.device = gpu, .suggestions = suggestions_here(gpu)});
std::function<std::vector<KernelConfig>(ProblemRef, std::size_t)> suggestions_here(const Device& device);

/// The backends that this build and machine have.
std::span<const std::string_view> backend_names() noexcept;

}  // namespace kscout
