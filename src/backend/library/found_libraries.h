#pragma once
/// \file
/// Finds the kernel libraries from which a backend takes the kernels that it lacks: those of compiled
/// providers (cutlass), and of families of users that are joined with its own (provider/joint.h).
///
///     std::string why;
///     LibraryBackend* const holder = FoundLibraries::of("cuda").holder(signature, config, &why);
///     if (holder) launch = holder->prepare(problem, config);
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/library/library_backend.h"

namespace kscout {

/// The libraries on KSCOUT_LIBRARY_PATH that use a backend's memory. The first query reads their indexes; the
/// first prepare() of a library opens it.
class FoundLibraries {
 public:
  /// `backend`: cpu or cuda.
  static FoundLibraries& of(std::string_view backend);

  /// The library that has the kernel, or null with the reason in `why`.
  LibraryBackend* holder(const Signature& signature, const KernelConfig& config, std::string* why) const;
  /// "library.NAME" and the checksum of each library, for a measurement's provenance.
  std::map<std::string, std::string> versions() const;

 private:
  explicit FoundLibraries(std::string_view backend);
  std::string backend_;
  std::vector<std::unique_ptr<LibraryBackend>> libraries_;
};

/// Whether a backend executes configs of a provider: one of `own`, or a joint one of which each member is one
/// of them or comes from kernel libraries.
bool executes_with_libraries(std::string_view provider, std::span<const std::string_view> own) noexcept;

}  // namespace kscout
