#pragma once
/// \file
/// What can run here: kernels by (device, op, element types, layout), offered by backends.
///
///     kscout::Registry registry = kscout::Registry::here();
///     registry.add_library("kernels/toy.kscout-library.json");
///     for (const auto& [backend, family] : registry.kernels(signature_of(problem))) ...
///     std::string why = registry.supports(problem, config).refusal;   // empty: it can run
///
/// Filling, listing and asking open no device and load no library.
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

class KSCOUT_API Registry {
 public:
  /// Backends cpu and, where there is an NVIDIA GPU, cuda; then the kernel libraries of
  /// library_search_path(), whose memory is that of the backend that they name. Backends of several memories
  /// may stand in one registry: the operands of a run say which of them can be asked.
  static Registry here();

  /// Earlier backends come first wherever two offer the same. Throws invalid_argument when the name is taken.
  void add(std::shared_ptr<Backend> backend);
  /// The same for one that outlives the registry.
  void add(Backend& backend);
  /// The kernels of a library, by its index file (docs/formats/kernel-library.md). Throws not_found,
  /// corrupt_data (an index that says something wrong), unsupported (a newer format).
  Backend& add_library(const std::filesystem::path& index);

  std::span<const std::shared_ptr<Backend>> backends() const noexcept { return backends_; }
  /// Throws invalid_argument naming the nearest one.
  Backend& backend(std::string_view name) const;

  /// What a backend can execute for a signature.
  struct Kernels {
    Backend* backend;
    Family family;
  };
  /// Every backend's kernels for a signature. Throws unsupported with each backend's reason when none has
  /// any.
  std::vector<Kernels> kernels(const Signature& signature, std::string_view rules = "default") const;

  /// Who can run a config on a problem.
  struct Support {
    Backend* backend = nullptr;  ///< null when nobody can
    std::string refusal;         ///< then why: the rule's name and reason
  };
  /// `space`: only backends that reach this memory are asked.
  Support supports(ProblemRef problem, const KernelConfig& config,
                   const std::optional<MemorySpace>& space = {}) const;

 private:
  std::vector<std::shared_ptr<Backend>> backends_;
};

/// A backend's refusal of a config, with the legal rule of its family that says so where there is one; empty
/// when the backend takes it.
KSCOUT_API std::string refusal_by_rule(Backend& backend, ProblemRef problem, const KernelConfig& config);

/// Index files of the kernel libraries in KSCOUT_LIBRARY_PATH (separated by ':'; an entry is an index file or
/// a folder of files *.kscout-library.json, which are taken in the order of their names). Throws not_found.
KSCOUT_API std::vector<std::filesystem::path> library_search_path();

}  // namespace kscout
