#include "core/own_files.h"

#include <system_error>

#include <dlfcn.h>

namespace kscout {

std::filesystem::path program_file() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

std::filesystem::path library_file() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&library_file), &info) == 0 || !info.dli_fname) return {};
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::filesystem::path() : file;
}

}  // namespace kscout
