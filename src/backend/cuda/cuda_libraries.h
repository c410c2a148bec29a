#pragma once
/// \file
/// Kernel libraries of backend `cuda`: what runs configs of providers that are compiled (cutlass).
///
///     std::string why;
///     LibraryBackend* const holder = CudaLibraries::here().holder(signature, config, &why);
///     if (holder) launch = holder->prepare(problem, config);
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/library_backend.h"

namespace kscout {

/// Those on KSCOUT_LIBRARY_PATH that take memory of backend `cuda`. Their indexes are read on the first
/// question; a library is opened by its first prepare().
class CudaLibraries {
 public:
  static CudaLibraries& here();

  /// The library that has the kernel, or null; `why` then says so.
  LibraryBackend* holder(const Signature& signature, const KernelConfig& config, std::string* why) const;
  /// "library.NAME": checksum of each, for a measurement's provenance.
  std::map<std::string, std::string> versions() const;

 private:
  CudaLibraries();
  std::vector<std::unique_ptr<LibraryBackend>> libraries_;
};

}  // namespace kscout
