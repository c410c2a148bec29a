#include <algorithm>
#include <cmath>
#include <functional>
#include <system_error>

#include <fmt/format.h>

#include <kscout/error.h>
#include <kscout/selector.h>

#include "core/files.h"
#include "core/log.h"
#include "core/owners.h"
#include "op/operation.h"
#include "select/model.h"

// Folders of models in the build tree and in an installation; set by CMake.
#ifndef KSCOUT_MODEL_FOLDERS
#define KSCOUT_MODEL_FOLDERS ""
#endif

namespace kscout {

namespace {

namespace fs = std::filesystem;

void append_parts(const std::string& list, std::vector<fs::path>& folders) {
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) folders.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
}

/// Appends the model folder of the installation that contains a program or library.
void append_neighbours(const fs::path& file, std::vector<fs::path>& folders) {
  folders.push_back(file.parent_path() / "models");
  folders.push_back(file.parent_path().parent_path() / "share" / "kscout" / "models");
}

/// The types whose models answer for a type, the best first.
std::vector<DType> answering_types(Op op, DType dtype, const Device& device) {
  const Operation& of = operation(op);
  std::vector<DType> types = {dtype};
  for (const Signature& other : of.answers_for(signature_of(of.make(op, dtype)), device)) {
    if (std::ranges::find(types, other.dtype_a) == types.end()) types.push_back(other.dtype_a);
  }
  return types;
}

bool is_model_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "model.ksf", ignored);
}

using Admits = std::function<bool(const fs::path& folder)>;

bool any_folder(const fs::path&) { return true; }

/// A model decides what runs, and nobody named this one: it was found by search.
fs::path trusted(const fs::path& folder) {
  refuse_if_others_write(folder / "model.ksf");
  return folder;
}

std::optional<fs::path> first_model(Op op, DType dtype, const Device& device, const Admits& admits) {
  for (const DType type : answering_types(op, dtype, device)) {
    const std::string name = model_folder_name(op, type, device);
    for (const fs::path& folder : model_search_path()) {
      if (is_model_folder(folder / name) && admits(folder / name)) return trusted(folder / name);
      if (folder.filename() == name && is_model_folder(folder) && admits(folder)) return trusted(folder);
    }
  }
  return std::nullopt;
}

}  // namespace

std::string model_folder_name(Op op, DType dtype, const Device& device) {
  return fmt::format("{}_{}_{}", word(op), word(dtype), device.name);
}

std::filesystem::path user_model_folder() {
  const fs::path folder = user_folder("XDG_DATA_HOME", ".local/share");
  return folder.empty() ? folder : folder / "models";
}

std::vector<fs::path> model_search_path() {
  std::vector<fs::path> folders;
  append_parts(environment("KSCOUT_MODEL_PATH"), folders);
  if (const fs::path own = user_model_folder(); !own.empty()) folders.push_back(own);
  // Searches beside the program and beside the library that a program elsewhere loaded (Python, an
  // application), so that a moved installation still finds its models.
  const fs::path program = program_file(), library = library_file();
  if (!program.empty()) append_neighbours(program, folders);
  if (!library.empty() && library != program) append_neighbours(library, folders);
  append_parts(KSCOUT_MODEL_FOLDERS, folders);
  return folders;
}

std::optional<fs::path> find_model(Op op, DType dtype, const Device& device) {
  return first_model(op, dtype, device, any_folder);
}

std::string device_refusal(const Device& trained, const Device& device, DevicePolicy policy) {
  if (trained.name == device.name) return {};
  const bool any = trained.name == any_cpu().name && device.kind == DeviceKind::cpu;
  if (any && policy != DevicePolicy::exact) return {};
  const auto differ = [&](std::string_view fact, const auto& theirs, const auto& ours) {
    return fmt::format("it was trained on '{}', whose {} is {}; {} of '{}' is {} (policy {})", trained.name,
                       fact, theirs, fact, device.name, ours, word(policy));
  };
  if (trained.kind != device.kind) return differ("kind", word(trained.kind), word(device.kind));
  if (policy == DevicePolicy::any) return {};
  if (policy == DevicePolicy::exact) return differ("name", trained.name, device.name);
  if (trained.arch != device.arch || device.arch.empty())
    return differ("architecture", trained.arch, device.arch);
  if (trained.isa != device.isa) return differ("instruction set", trained.isa, device.isa);
  const bool cores_matter = device.kind == DeviceKind::cpu;
  if (cores_matter && trained.cores != device.cores)
    return differ("number of cores", trained.cores, device.cores);
  return {};
}

std::string foreign_device_warning(const Device& trained, const Device& device) {
  if (trained.name == device.name) return {};
  return fmt::format(
      "foreign_device: the model was trained on '{}' and answers for '{}'; tune on this device for a model "
      "of "
      "its own",
      trained.name, device.name);
}

namespace {

/// Facts that determine which config is fastest.
constexpr std::pair<std::string_view, double Device::*> kFacts[] = {
    {"cores", &Device::cores},
    {"vector bytes", &Device::vector_bytes},
    {"FMAs per cycle", &Device::fma_per_cycle},
    {"level-1 cache", &Device::l1_bytes},
    {"level-2 cache", &Device::l2_bytes},
    {"level-3 cache", &Device::l3_bytes},
    {"MHz", &Device::max_clock_mhz},
    {"GB/s", &Device::memory_gb_s},
};

/// |ln| of the ratio of a fact, 0 when neither device has it, 1 (a factor of e) when one lacks it.
double fact_distance(double trained, double ours) {
  if (std::isnan(trained) && std::isnan(ours)) return 0;
  const double ratio = std::fabs(std::log(trained / ours));
  return std::isfinite(ratio) ? ratio : 1;
}

/// Distance of a model's device from ours: a constant for another architecture, plus ratios of facts.
double distance(const Device& trained, const Device& device) {
  double sum = trained.arch == device.arch && trained.isa == device.isa ? 0 : 100;
  for (const auto& [name, fact] : kFacts) sum += fact_distance(trained.*fact, device.*fact);
  return sum;
}

/// Folders of models of any device that may answer for (op, dtype) on `device`: by type, then in the order of
/// the search path.
std::vector<fs::path> models_of_any_device(Op op, DType dtype, const Device& device) {
  std::vector<fs::path> found;
  for (const DType type : answering_types(op, dtype, device)) {
    const std::string prefix = fmt::format("{}_{}_", word(op), word(type));
    const auto add = [&](const fs::path& folder) {
      if (folder.filename().string().starts_with(prefix) && is_model_folder(folder)) found.push_back(folder);
    };
    for (const fs::path& folder : model_search_path()) {
      add(folder);
      std::vector<fs::path> inside;
      std::error_code absent;
      for (const auto& entry : fs::directory_iterator(folder, absent)) inside.push_back(entry.path());
      std::ranges::sort(inside);  // the file system's order is arbitrary
      for (const fs::path& entry : inside) add(entry);
    }
  }
  return found;
}

/// Why a model of `trained` leaves the answer to the library's first suggestion on `device`; empty: it
/// answers.
std::string suggestion_answers(const fs::path& folder, const Device& trained, const Device& device) {
  return device.kind == DeviceKind::gpu && trained.name != device.name ? suggestion_preferred(folder, device)
                                                                       : std::string();
}

/// The model for any CPU where it chooses better than `exact`, else `exact`. A damaged `exact` stays: loading
/// it reports the error.
fs::path better_of(const fs::path& exact, Op op, DType dtype, const Device& device) {
  if (device.kind != DeviceKind::cpu) return exact;
  try {
    const auto against = model_against_any_cpu(exact);
    if (!against || against->mean >= against->any_cpu_mean) return exact;
  } catch (const Error&) {
    return exact;
  }
  return find_model(op, dtype, any_cpu()).value_or(exact);
}

std::optional<fs::path> model_or_any_cpu(Op op, DType dtype, const Device& device, const Admits& admits) {
  const auto exact = first_model(op, dtype, device, admits);
  if (device.kind != DeviceKind::cpu) return exact;
  if (!exact) return first_model(op, dtype, any_cpu(), admits);
  fs::path better = better_of(*exact, op, dtype, device);
  return admits(better) ? better : *exact;
}

}  // namespace

std::string any_cpu_note(std::span<const Device> known, const Device& device) {
  constexpr std::string_view kTune = "kscout tune measures this CPU and makes a model that chooses better";
  if (known.empty()) {
    return fmt::format("any_cpu: a model trained on other CPUs answers for '{}'; {}", device.name, kTune);
  }
  const Device& nearest =
      *std::ranges::min_element(known, {}, [&](const Device& one) { return distance(one, device); });
  if (nearest.name == device.name) {
    return fmt::format("any_cpu: a model of {} kinds of CPUs answers, one of them '{}'; {}", known.size(),
                       device.name, kTune);
  }
  constexpr double kAlike = 0.05;  // ratios of facts that count as equal
  std::string differs;
  if (nearest.arch != device.arch) differs = fmt::format("{} instead of {}", nearest.arch, device.arch);
  for (const auto& [name, fact] : kFacts) {
    if (fact_distance(nearest.*fact, device.*fact) > kAlike) {
      differs += fmt::format("{}{} {:g} instead of {:g}", differs.empty() ? "" : ", ", name, nearest.*fact,
                             device.*fact);
    }
  }
  return fmt::format(
      "any_cpu: nobody measured '{}', so a model of {} kinds of CPUs answers; the nearest is '{}' ({}); {}",
      device.name, known.size(), nearest.name, differs, kTune);
}

std::optional<fs::path> find_model_or_any_cpu(Op op, DType dtype, const Device& device) {
  return model_or_any_cpu(op, dtype, device, any_folder);
}

std::optional<fs::path> find_model_or_any_cpu(Op op, DType dtype, const Device& device,
                                              const std::function<bool(std::string_view)>& executes) {
  return model_or_any_cpu(op, dtype, device, [&](const fs::path& folder) {
    try {
      return executes(model_provider(folder));
    } catch (const Error&) {
      return true;
    }
  });
}

std::optional<fs::path> find_model(Op op, DType dtype, const Device& device, DevicePolicy policy) {
  if (auto exact = find_model(op, dtype, device))
    return policy == DevicePolicy::exact ? *exact : better_of(*exact, op, dtype, device);
  if (policy == DevicePolicy::exact) return std::nullopt;
  if (policy == DevicePolicy::any) {
    if (auto near = find_model(op, dtype, device, DevicePolicy::same_arch)) return near;
  }
  const std::string any = model_folder_name(op, dtype, any_cpu());
  std::optional<fs::path> nearest;
  double least = 0;
  for (const fs::path& folder : models_of_any_device(op, dtype, device)) {
    try {
      if (folder.filename() == any) continue;
      const Device trained = model_device(folder);
      if (!device_refusal(trained, device, policy).empty()) continue;
      if (device.kind == DeviceKind::gpu && trained.vendor != device.vendor) continue;  // kernels of its own
      if (policy == DevicePolicy::same_arch && !suggestion_answers(folder, trained, device).empty()) continue;
      const double far = distance(trained, device);
      if (nearest && far >= least) continue;
      nearest = folder;
      least = far;
    } catch (const Error&) {  // damaged, or of a newer version: loading it by name reports the error
    }
  }
  if (nearest) return trusted(*nearest);
  return device.kind == DeviceKind::cpu ? find_model(op, dtype, any_cpu()) : std::nullopt;
}

std::string library_first_note(Op op, DType dtype, const Device& device) {
  for (const fs::path& folder : models_of_any_device(op, dtype, device)) {
    try {
      const Device trained = model_device(folder);
      if (!device_refusal(trained, device, DevicePolicy::same_arch).empty()) continue;
      if (const auto why = suggestion_answers(folder, trained, device); !why.empty()) {
        return fmt::format(
            "library_first: no model of '{}' is installed, so the library's first suggestion answers; the "
            "model of "
            "'{}' is left out: {}; tune on this device, or allow any device",
            device.name, trained.name, why);
      }
    } catch (const Error&) {  // as find_model()
    }
  }
  return {};
}

}  // namespace kscout
