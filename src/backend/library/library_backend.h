#pragma once
/// \file
/// The shared object of a kernel library: checked, tried in a process of its own, then opened for good.
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
#include "measure/instruments.h"

namespace kscout {

/// Opens the library of an index and calls its `open`. It stays open until the process ends.
///
/// Before anything of it runs here, the file's checksum is compared and a forked child loads it first: a
/// constructor that crashes, exits or hangs (longer than 30 s, or KSCOUT_LIBRARY_SECONDS) ends the child, and
/// here becomes an error. The child does what dlopen does and calls kscout_kernel_library_get, nothing else.
/// The fork costs the more, the more memory the process uses. Errors: not_found (no such file),
/// corrupt_data (checksum, no shared object, missing symbol, another ABI or backend than the index says),
/// device_failure (crash or hang while loading, `open` failed).
const kscout_kernel_library& open_library_file(const LibraryIndex& index);

// ---- The kernels of a library as a backend. Listing and refusing read the index only; the first prepare()
// opens the library.

/// Thread-safe.
class LibraryBackend final : public MeasuredBackend {
 public:
  explicit LibraryBackend(LibraryIndex index);

  std::string_view name() const noexcept override { return index_.name; }
  std::string_view provider() const noexcept override { return index_.provider->name(); }
  const Device& device() override { return device_; }
  /// `rules` is not asked: a library holds what it holds.
  Family family(const Signature& signature, std::string_view rules) override;
  Memory& memory() override;
  /// Also where the backend that the library names is not on this machine.
  MemorySpace space() override;
  Instruments& instruments() override;
  std::string absence(const Signature& signature, const KernelConfig& config) override;
  std::string refusal(ProblemRef problem, const KernelConfig& config) override;
  std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig& config) override;

  bool holds(const Signature& signature, const KernelConfig& config) const noexcept;
  const LibraryIndex& index() const noexcept { return index_; }
  bool is_open() const noexcept { return !kernels_.empty(); }

 private:
  /// Position of a config in the index; its number of configs when it is not there.
  std::size_t position(const Signature& signature, const KernelConfig& config) const noexcept;
  const kscout_kernel& kernel(std::size_t config);
  void open();

  LibraryIndex index_;
  std::unordered_multimap<KernelConfig, std::size_t> positions_;  ///< by config: in the index
  Device device_;
  std::atomic<Memory*> gpu_memory_ = nullptr;  ///< found at the first question
  ForkMutex mutex_{ForkLevel::library};        ///< guards what follows
  std::vector<const kscout_kernel*> kernels_;  ///< by config of the index; empty until the first prepare
};

}  // namespace kscout
