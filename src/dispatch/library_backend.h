#pragma once
/// \file
/// The kernels of a library as a backend. Listing and refusing read the index only; the first prepare() opens
/// the library.
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <kscout/backend.h>
#include <kscout/family.h>
#include <kscout/kernel_library.h>

#include "dispatch/library_index.h"

namespace kscout {

/// Thread-safe.
class LibraryBackend final : public Backend {
 public:
  explicit LibraryBackend(LibraryIndex index);

  std::string_view name() const noexcept override { return index_.name; }
  std::string_view provider() const noexcept override { return index_.provider->name(); }
  const Device& device() override { return device_; }
  /// `rules` is not asked: a library holds what it holds.
  Family family(const Signature& signature, std::string_view rules) override;
  Memory& memory() override;
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
  std::mutex mutex_;                           ///< guards what follows
  std::vector<const kscout_kernel*> kernels_;  ///< by config of the index; empty until the first prepare
};

}  // namespace kscout
