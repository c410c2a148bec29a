#include <cstdlib>
#include <system_error>

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
  // Beside the program: an installation that was moved finds its models all the same.
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    folders.push_back(program.parent_path() / "models");
    folders.push_back(program.parent_path().parent_path() / "share" / "kscout" / "models");
  }
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
