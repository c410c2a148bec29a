#include "backend/library/found_libraries.h"

#include <algorithm>

#include "core/fail.h"
#include "core/hash.h"
#include "core/names.h"
#include "provider/joint.h"

namespace kscout {

FoundLibraries& FoundLibraries::of(std::string_view backend) {
  static FoundLibraries cpu("cpu"), cuda("cuda");
  return backend == "cpu" ? cpu : cuda;
}

FoundLibraries::FoundLibraries(std::string_view backend) : backend_(backend) {
  for (const auto& file : library_index_files()) {
    LibraryIndex index = read_library_index(file);
    if (index.backend != backend) continue;
    auto library = std::make_unique<LibraryBackend>(std::move(index));
    for (const auto& earlier : libraries_) library->check_apart(*earlier);
    libraries_.push_back(std::move(library));
  }
}

LibraryBackend* FoundLibraries::holder(const Signature& signature, const KernelConfig& config,
                                       std::string* why) const {
  std::string names;
  for (const auto& library : libraries_) {
    if (library->holds(signature, config)) return library.get();
    names += (names.empty() ? "" : ", ") + std::string(library->name());
  }
  *why = fmt::format("{} is in no library for backend {} on KSCOUT_LIBRARY_PATH ({})",
                     config_name(signature, config), backend_, names.empty() ? "which names none" : names);
  return nullptr;
}

std::map<std::string, std::string> FoundLibraries::versions() const {
  std::map<std::string, std::string> found;
  for (const auto& library : libraries_)
    found["library." + std::string(library->name())] = "fnv1a64:" + hash_digits(library->index().checksum);
  return found;
}

bool executes_with_libraries(std::string_view provider, std::span<const std::string_view> own) noexcept {
  if (find_word(provider, own)) return true;
  const JointProvider* const joint = joint_provider(provider);
  return joint && std::ranges::all_of(joint->members(), [&](const Provider* member) {
           return !member->built_in() || find_word(member->name(), own);
         });
}

}  // namespace kscout
