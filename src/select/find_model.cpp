#include <algorithm>
#include <cmath>
#include <system_error>

#include <fmt/format.h>

#include <kscout/error.h>
#include <kscout/selector.h>

#include "core/files.h"
#include "core/log.h"
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

bool is_model_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "model.ksf", ignored);
}

}  // namespace

std::string model_folder_name(Op op, DType dtype, const Device& device) {
  return fmt::format("{}_{}_{}", word(op), word(dtype), device.name);
}

std::filesystem::path user_model_folder() {
  const std::string data = environment("XDG_DATA_HOME"), home = environment("HOME");
  if (!data.empty()) return fs::path(data) / "kscout" / "models";
  return fs::path(home.empty() ? "." : home) / ".local" / "share" / "kscout" / "models";
}

std::vector<fs::path> model_search_path() {
  std::vector<fs::path> folders;
  append_parts(environment("KSCOUT_MODEL_PATH"), folders);
  folders.push_back(user_model_folder());
  // Searches beside the program and beside the library that a program elsewhere loaded (Python, an
  // application), so that a moved installation still finds its models.
  const fs::path program = program_file(), library = library_file();
  if (!program.empty()) append_neighbours(program, folders);
  if (!library.empty() && library != program) append_neighbours(library, folders);
  append_parts(KSCOUT_MODEL_FOLDERS, folders);
  return folders;
}

std::optional<fs::path> find_model(Op op, DType dtype, const Device& device) {
  const std::string name = model_folder_name(op, dtype, device);
  for (const fs::path& folder : model_search_path()) {
    if (is_model_folder(folder / name)) return folder / name;
    if (folder.filename() == name && is_model_folder(folder)) return folder;
  }
  return std::nullopt;
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
  if (trained.name == any_cpu().name) {
    return fmt::format(
        "any_cpu: nobody measured '{}', so a model trained on other CPUs answers; kscout tune measures this "
        "CPU "
        "and makes a model that chooses better",
        device.name);
  }
  return fmt::format(
      "foreign_device: the model was trained on '{}' and answers for '{}'; tune on this device for a model "
      "of "
      "its own",
      trained.name, device.name);
}

namespace {

/// Distance of a model's device from ours: a constant for another architecture, plus ratios of the facts that
/// determine speed.
double distance(const Device& trained, const Device& device) {
  double sum = trained.arch == device.arch && trained.isa == device.isa ? 0 : 100;
  for (const auto fact : {&Device::cores, &Device::max_clock_mhz, &Device::memory_gb_s}) {
    const double ratio = std::fabs(std::log(trained.*fact / device.*fact));
    sum += std::isfinite(ratio) ? ratio : 1;  // unknown facts count as a factor of e
  }
  return sum;
}

/// Folders of models for (op, dtype) of any device, in the order of the search path.
std::vector<fs::path> models_of_any_device(Op op, DType dtype) {
  const std::string prefix = fmt::format("{}_{}_", word(op), word(dtype));
  std::vector<fs::path> found;
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
  return found;
}

}  // namespace

std::optional<fs::path> find_model_or_any_cpu(Op op, DType dtype, const Device& device) {
  if (auto exact = find_model(op, dtype, device)) return exact;
  return device.kind == DeviceKind::cpu ? find_model(op, dtype, any_cpu()) : std::nullopt;
}

std::optional<fs::path> find_model(Op op, DType dtype, const Device& device, DevicePolicy policy) {
  if (auto exact = find_model(op, dtype, device)) return exact;
  if (policy == DevicePolicy::exact) return std::nullopt;
  if (policy == DevicePolicy::any) {
    if (auto near = find_model(op, dtype, device, DevicePolicy::same_arch)) return near;
  }
  const std::string any = model_folder_name(op, dtype, any_cpu());
  std::optional<fs::path> nearest;
  double least = 0;
  for (const fs::path& folder : models_of_any_device(op, dtype)) {
    try {
      if (folder.filename() == any) continue;
      const Device trained = model_device(folder);
      if (!device_refusal(trained, device, policy).empty()) continue;
      const double far = distance(trained, device);
      if (nearest && far >= least) continue;
      nearest = folder;
      least = far;
    } catch (const Error&) {  // damaged, or of a newer version: loading it by name reports the error
    }
  }
  if (nearest) return nearest;
  return device.kind == DeviceKind::cpu ? find_model(op, dtype, any_cpu()) : std::nullopt;
}

}  // namespace kscout
