#include "preload/packs.h"

#include <cstring>

namespace kscout::preload {

namespace {

template <class V>
void read(std::int64_t count, const void* values, std::int64_t& known, std::array<V, Pack::kMost>& to) {
  known = count;
  if (count > 0 && count <= Pack::kMost)
    std::memcpy(to.data(), values, static_cast<std::size_t>(count) * sizeof(V));
}

}  // namespace

void Packs::set(void* descriptor, int attribute, std::int64_t count, const void* values) noexcept try {
  if (!is_of_pack(attribute) || !values || count < 0) return;
  const std::scoped_lock lock(mutex_);
  Pack& pack = packs_[descriptor];
  switch (static_cast<cudnn::Attribute>(attribute)) {
    case cudnn::Attribute::pack_ids:
      return read(count, values, pack.ids, pack.id);
    case cudnn::Attribute::pack_pointers:
      return read(count, values, pack.addresses, pack.address);
    default:
      if (count == 1) std::memcpy(&pack.workspace, values, sizeof pack.workspace);
  }
} catch (...) {  // no memory: the pack is not found
}

std::optional<Pack> Packs::find(void* descriptor) const noexcept {
  const std::scoped_lock lock(mutex_);
  const auto found = packs_.find(descriptor);
  return found == packs_.end() ? std::nullopt : std::optional(found->second);
}

void Packs::forget(void* descriptor) noexcept {
  const std::scoped_lock lock(mutex_);
  packs_.erase(descriptor);
}

Operands operands_of(const PlanCall& plan, const std::optional<Pack>& pack, void* stream) noexcept {
  Operands operands{.stream = stream};
  if (!pack) return operands;
  const auto [a, b, c] = by_operand(plan.problem.op, pack->address_of(plan.in), pack->address_of(plan.wei),
                                    pack->address_of(plan.out));
  operands.a = a;
  operands.b = b;
  operands.c = c;
  operands.workspace = pack->workspace;
  operands.workspace_bytes = plan.workspace_bytes;
  return operands;
}

}  // namespace kscout::preload
