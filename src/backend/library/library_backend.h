#pragma once
/// \file
/// Checks the shared object of a kernel library, loads it in a child process as a test, then opens it in this
/// process and keeps it open.
///
///     const kscout_kernel_library& library = open_library_file(index);
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <kscout/backend.h>
#include <kscout/family.h>
#include <kscout/kernel_library.h>

#include "backend/library/library_index.h"
#include "core/fork_mutex.h"
#include "measure/measured_backend.h"

namespace kscout {

/// Opens the library of an index and calls its `open`. It stays open until the process ends.
///
/// Before any of its code runs here, the file's checksum is compared and a forked child loads it. A
/// constructor that crashes, exits or hangs (longer than 30 s, or KSCOUT_LIBRARY_SECONDS) ends the child only
/// and becomes an error here. The child calls dlopen and kscout_kernel_library_get, and reads what that
/// returns. The cost of the fork grows with the process's memory. Errors: not_found (no such file),
/// corrupt_data (checksum, no shared object, missing symbol, another ABI or backend than in the index,
/// numbers that no library has), device_failure (crash or hang while loading, `open` failed).
const kscout_kernel_library& open_library_file(const LibraryIndex& index);
/// The same without the call of `open`, so that no device is needed. An index without a backend accepts any.
const kscout_kernel_library& load_library_file(const LibraryIndex& index);

/// The kernels of a loaded library, in its order.
std::vector<const kscout_kernel*> kernels_of(const kscout_kernel_library& library);

// ---- Makes a backend from the kernels of a library. Listing and refusing read the index only; the first
// prepare() opens the library.

/// Thread-safe.
class LibraryBackend final : public MeasuredBackend {
 public:
  explicit LibraryBackend(LibraryIndex index);

  std::string_view name() const noexcept override { return index_.name; }
  std::string_view provider() const noexcept override { return index_.provider->name(); }
  bool is_library() const noexcept override { return true; }
  const Device& device() override { return device_; }
  /// Ignores `rules`: a library's configs are fixed.
  Family family(const Signature& signature, std::string_view rules) override;
  Memory& memory() override;
  /// Works even where the backend that the library names is missing.
  MemorySpace space() override;
  Instruments& instruments() override;
  std::string absence(const Signature& signature, const KernelConfig& config) override;
  std::string refusal(ProblemRef problem, const KernelConfig& config) override;
  std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig& config) override;

  bool holds(const Signature& signature, const KernelConfig& config) const noexcept;
  const LibraryIndex& index() const noexcept { return index_; }
  /// Throws invalid_argument when another library has a kernel of the same name: a choice could mean either.
  void check_apart(const LibraryBackend& other) const;
  bool is_open() const noexcept { return !kernels_.empty(); }

 private:
  /// Position of a config in the index; the number of configs when the index lacks it.
  std::size_t position(const Signature& signature, const KernelConfig& config) const noexcept;
  const kscout_kernel& kernel(std::size_t config);
  void open();

  LibraryIndex index_;
  std::unordered_multimap<KernelConfig, std::size_t> positions_;  ///< position in the index, by config
  Device device_;
  std::atomic<Memory*> gpu_memory_ = nullptr;  ///< set at the first use
  ForkMutex mutex_{ForkLevel::library};        ///< guards the members below
  std::vector<const kscout_kernel*> kernels_;  ///< in the index's order; empty until the first prepare
};

}  // namespace kscout
