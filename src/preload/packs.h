#pragma once
/// \file
/// Remembers the variant packs of cuDNN that a program has filled in: the library returns neither names nor
/// addresses of a pack's tensors (docs/design/0017-convolutions-under-programs.md).
///
///     Packs packs;
///     packs.set(descriptor, attribute, count, values);      // of each cudnnBackendSetAttribute
///     const Operands operands = operands_of(plan, packs.find(descriptor), stream);
#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "backend/cuda/cudnn_library.h"
#include "preload/read_calls.h"
#include "preload/read_plan.h"

namespace kscout::preload {

struct Pack {
  static constexpr std::int64_t kMost = 8;  ///< tensors: a convolution has three
  std::int64_t ids = 0, addresses = 0;  ///< how many are set; more than kMost: it is none of a convolution
  std::array<std::int64_t, kMost> id{};
  std::array<void*, kMost> address{};
  void* workspace = nullptr;

  /// Null for a tensor that the pack does not have.
  void* address_of(std::int64_t tensor) const noexcept {
    if (ids != addresses || ids > kMost) return nullptr;
    const auto end = id.begin() + ids, found = std::find(id.begin(), end, tensor);
    return found == end ? nullptr : address[static_cast<std::size_t>(found - id.begin())];
  }
};

/// Thread-safe.
class Packs {
 public:
  static bool is_of_pack(int attribute) noexcept {
    using enum cudnn::Attribute;
    for (const auto one : {pack_ids, pack_pointers, pack_workspace})
      if (attribute == static_cast<int>(one)) return true;
    return false;
  }
  /// `values` as in cudnnBackendSetAttribute; other attributes than those of packs change nothing.
  void set(void* descriptor, int attribute, std::int64_t count, const void* values) noexcept;
  std::optional<Pack> find(void* descriptor) const noexcept;
  void forget(void* descriptor) noexcept;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<void*, Pack> packs_;
};

/// Null addresses for tensors that the pack does not have.
Operands operands_of(const PlanCall& plan, const std::optional<Pack>& pack, void* stream) noexcept;

}  // namespace kscout::preload
