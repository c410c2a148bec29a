#include "backend/cuda/cuda_libraries.h"

#include <kscout/provider.h>
#include <kscout/registry.h>

#include "core/fail.h"
#include "core/hash.h"

namespace kscout {

CudaLibraries& CudaLibraries::here() {
  static CudaLibraries found;
  return found;
}

CudaLibraries::CudaLibraries() {
  for (const auto& file : library_search_path()) {
    LibraryIndex index = read_library_index(file);
    if (index.backend == "cuda") libraries_.push_back(std::make_unique<LibraryBackend>(std::move(index)));
  }
}

LibraryBackend* CudaLibraries::holder(const Signature& signature, const KernelConfig& config,
                                      std::string* why) const {
  std::string names;
  for (const auto& library : libraries_) {
    if (library->holds(signature, config)) return library.get();
    names += (names.empty() ? "" : ", ") + std::string(library->name());
  }
  *why = fmt::format("{} is in no library for backend cuda on KSCOUT_LIBRARY_PATH ({})",
                     config_name(signature, config), names.empty() ? "which names none" : names);
  return nullptr;
}

std::map<std::string, std::string> CudaLibraries::versions() const {
  std::map<std::string, std::string> found;
  for (const auto& library : libraries_)
    found["library." + std::string(library->name())] = "fnv1a64:" + hash_digits(library->index().checksum);
  return found;
}

}  // namespace kscout
