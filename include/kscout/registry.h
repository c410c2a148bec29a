#pragma once
/// \file
/// Lists the kernels that can run here, by (device, op, element types, layout), from all backends.
///
///     kscout::Registry registry = kscout::Registry::here();
///     registry.add_library("kernels/toy.kscout-library.json");
///     for (const auto& [backend, family] : registry.kernels(signature_of(problem))) ...
///     std::string why = registry.supports(problem, config).refusal;   // empty: it can run
///
/// No function of the registry opens a device or loads a library.
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/backend.h>
#include <kscout/family.h>

namespace kscout {

class Registry {
 public:
  /// Backend cpu and, where there is an NVIDIA GPU, cuda; then the kernel libraries of library_search_path(),
  /// each with the memory of the backend that it names. One registry may hold backends of several memories:
  /// the operands of a run decide which of them can be used.
  static Registry here();

  /// Adds a backend. Where two backends offer the same kernel, the earlier one is used. Throws
  /// invalid_argument when the name is taken.
  void add(std::shared_ptr<Backend> backend);
  /// Adds a backend that outlives the registry.
  void add(Backend& backend);
  /// Adds the kernels of a library, by its index file (docs/formats/kernel-library.md). Throws not_found,
  /// corrupt_data (the index contains an error, or a kernel of a provider that the program has itself),
  /// unsupported (a newer format), invalid_argument (the name is taken, or another library has a kernel of
  /// the same name).
  Backend& add_library(const std::filesystem::path& index);

  std::span<const std::shared_ptr<Backend>> backends() const noexcept { return backends_; }
  /// Throws invalid_argument naming the nearest backend.
  Backend& backend(std::string_view name) const;

  /// The kernels that a backend can execute for a signature.
  struct Kernels {
    Backend* backend;
    Family family;
  };
  /// Every backend's kernels for a signature. Throws unsupported with each backend's reason when no backend
  /// has any.
  std::vector<Kernels> kernels(const Signature& signature, std::string_view rules = "default") const;

  /// The backend that can run a config on a problem.
  struct Support {
    Backend* backend = nullptr;  ///< null when no backend can
    std::string refusal;         ///< the reason in that case: the rule's name and text
  };
  /// `space`: considers only backends that reach this memory.
  Support supports(ProblemRef problem, const KernelConfig& config,
                   const std::optional<MemorySpace>& space = {}) const;

 private:
  std::vector<std::shared_ptr<Backend>> backends_;
};

/// Index files of the kernel libraries in KSCOUT_LIBRARY_PATH, separated by ':'. An entry is an index file,
/// or a folder whose *.kscout-library.json files are taken in the order of their names. Throws not_found.
std::vector<std::filesystem::path> library_search_path();

}  // namespace kscout
