#include <algorithm>
#include <cmath>

#include <sched.h>
#include <unistd.h>

#include <kscout/device.h>

#include "core/device_facts.h"
#include "core/fail.h"
#include "core/field_text.h"
#include "core/files.h"
#include "core/log.h"
#include "core/name_rules.h"
#include "core/thread_limit.h"
#include "core/toml_reader.h"

namespace kscout {

namespace {

/// A container may hide /sys; the C library still reads cache sizes from cpuid.
void fill_cache_bytes(double& fact, int name) {
  if (std::isfinite(fact)) return;
  const long bytes = sysconf(name);
  if (bytes > 0) fact = static_cast<double>(bytes);
}

template <class V>
void read_fact(V& fact, std::string_view key, const toml::node& node, std::string_view where) {
  if constexpr (std::is_same_v<V, double>) {
    const auto value = node.value<double>();
    if (!node.is_number() || !value || !(*value > 0) || !std::isfinite(*value)) {
      fail(Errc::corrupt_data, "{}: {} must be a number above 0", where, key);
    }
    fact = *value;
  } else {
    if (!node.is_string()) fail(Errc::corrupt_data, "{}: {} must be a text in quotes", where, key);
    fact = parse_field<V>(key, *node.value<std::string_view>());
  }
}

Device read_preset(std::string_view name, const toml::table& facts, std::string_view file) {
  Device device;
  for (const auto& [key, node] : facts) {
    const std::string where = fmt::format("{}:{}: device '{}'", file, node.source().begin.line, name);
    const std::string_view fact = key.str();
    bool known = false;
    for_each_field<Device>([&, &value = node](const auto& field) {
      if (field.name != fact || fact == "name") return;
      read_fact(device.*field.member, fact, value, where);
      known = true;
    });
    if (!known) {
      fail(Errc::corrupt_data, "{}: {}", where, unknown_name_message("fact", fact, field_names<Device>()));
    }
  }
  if (!facts.contains("kind"))
    fail(Errc::corrupt_data, "{}: device '{}' does not state its kind", file, name);
  device.name = name;
  try {
    check_names(device);
  } catch (const Error& error) {
    fail(Errc::corrupt_data, "{}: {}", file, error.what());
  }
  if (device.kind == DeviceKind::cpu) derive_vector_facts(device, cpu_arch(device.arch, device.model));
  return device;
}

const std::vector<Device>& presets() {
  constexpr std::string_view kFile = "families/devices.toml";
  static const std::vector<Device> devices = parse_device_presets(embedded_file(kFile), kFile);
  return devices;
}

}  // namespace

// The mask grows until the kernel accepts it: machines may have more than 1,024 CPUs.
std::vector<int> usable_cpus() {
  std::vector<int> cpus;
  for (std::size_t bits = CPU_SETSIZE; bits <= (1U << 20); bits *= 2) {
    cpu_set_t* const mask = CPU_ALLOC(bits);
    const std::size_t bytes = CPU_ALLOC_SIZE(bits);
    const bool fits = sched_getaffinity(0, bytes, mask) == 0;
    for (std::size_t cpu = 0; fits && cpu < bits; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, mask)) cpus.push_back(static_cast<int>(cpu));
    }
    CPU_FREE(mask);
    if (fits) break;
  }
  return cpus;
}

std::vector<Device> parse_device_presets(std::string_view text, std::string_view file) {
  std::vector<Device> devices;
  const toml::table table = parse_toml(text, file);
  for (const auto& [name, node] : table) {
    if (!node.is_table()) {
      fail(Errc::corrupt_data, "{}:{}: '{}' stands outside a [device]", file, node.source().begin.line,
           name.str());
    }
    devices.push_back(read_preset(name.str(), *node.as_table(), file));
  }
  return devices;
}

Device detect_cpu() { return detect_cpu_part(usable_cpus()); }

Device detect_cpu_part(std::span<const int> cpus) {
  Device device = describe_cpu(read_text_file, cpus);
  use_instruction_set(device, best_instruction_set());
  restrict_isa(device, environment("KSCOUT_ISA"));
  fill_cache_bytes(device.l1_bytes, _SC_LEVEL1_DCACHE_SIZE);
  fill_cache_bytes(device.l2_bytes, _SC_LEVEL2_CACHE_SIZE);
  fill_cache_bytes(device.l3_bytes, _SC_LEVEL3_CACHE_SIZE);
  return device;
}

Device device_preset(std::string_view name) {
  const auto found = std::ranges::find(presets(), name, &Device::name);
  if (found != presets().end()) return *found;
  const auto names = device_preset_names();
  throw Error(Errc::not_found, unknown_name_message("device", name, views(names)));
}

std::vector<std::string> device_preset_names() {
  std::vector<std::string> names;
  for (const auto& device : presets()) names.push_back(device.name);
  return names;
}

Device find_device(std::string_view name_or_auto) {
  if (name_or_auto == "auto") return detect_cpu();
  if (name_or_auto != "gpu") {
    const auto found = std::ranges::find(presets(), name_or_auto, &Device::name);
    if (found != presets().end()) return *found;
    auto names = device_preset_names();
    names.insert(names.begin(), "auto");
    throw Error(Errc::not_found, unknown_name_message("device", name_or_auto, views(names)));
  }
  auto gpus = detect_amd_gpus();
  if (gpus.empty())
    fail(Errc::not_found, "device 'gpu': AMD's driver shows no GPU on this machine; name a preset");
  return std::move(gpus.front());
}

namespace {

bool differs(const auto& a, const auto& b, std::string_view unit) {
  if (same_value(a, b)) return false;
  if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(a)>>) {
    const bool counted = unit == "1" || unit == "lanes";
    return counted || !(std::fabs(a - b) <= kDeviceDrift * std::max(a, b));
  }
  return true;
}

std::string fact_text(const auto& fact, std::string_view unit) {
  std::string text = field_text(fact);
  if (text.empty() || text == "nan") return "unknown";
  return unit == "1" ? text : fmt::format("{} {}", text, unit);
}

}  // namespace

std::string device_difference(const Device& a, const Device& b) {
  std::string text;
  for_each_field<Device>([&](const auto& field) {
    const auto &of_a = a.*field.member, &of_b = b.*field.member;
    if (!differs(of_a, of_b, field.unit)) return;
    text += fmt::format("{}{} is {} and {}", text.empty() ? "" : "; ", field.name,
                        fact_text(of_a, field.unit), fact_text(of_b, field.unit));
  });
  return text;
}

double peak_fp32_gflops(const Device& device) noexcept {
  if (device.kind != DeviceKind::cpu) return Device::unknown;
  const double lanes = device.vector_bytes / sizeof(float);
  return device.cores * 2 * lanes * device.fma_per_cycle * device.max_clock_mhz / 1000;
}

Device any_cpu() {
  Device device;
  device.name = "any_cpu";
  device.isa = "scalar";
  device.cores = 1;
  return device;
}

std::string cpu_of(const Device& device) {
  const std::string restricted = "-" + device.isa;
  return device.arch.ends_with(restricted) ? device.arch.substr(0, device.arch.size() - restricted.size())
                                           : device.arch;
}

}  // namespace kscout
