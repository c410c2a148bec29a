#include <cstdlib>
#include <system_error>

#include <dlfcn.h>
#include <fmt/format.h>

#include <kscout/selector.h>

// Where the build leaves models and where an installation puts them; set by CMake.
#ifndef KSCOUT_MODEL_FOLDERS
#define KSCOUT_MODEL_FOLDERS ""
#endif

namespace kscout {

namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

void append_parts(const std::string& list, std::vector<fs::path>& folders) {
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) folders.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
}

/// Where an installation keeps models, seen from a program or library of it.
void append_neighbours(const fs::path& file, std::vector<fs::path>& folders) {
  folders.push_back(file.parent_path() / "models");
  folders.push_back(file.parent_path().parent_path() / "share" / "kscout" / "models");
}

/// The file that this code was loaded from: a shared library, or the program.
fs::path loaded_library() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void*>(&loaded_library), &info) || !info.dli_fname) return {};
  std::error_code error;
  const fs::path file = fs::canonical(info.dli_fname, error);
  return error ? fs::path() : file;
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
  // Beside the program, and beside the library that a program elsewhere loaded (Python, an application): an
  // installation that was moved finds its models all the same.
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error), library = loaded_library();
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

}  // namespace kscout
