#include "preload/openmp_team.h"

#include <atomic>

#include "backend/cpu/common/float_control.h"

namespace kscout::preload {

namespace {

struct Region {
  std::atomic<int> next = 0;
  int parts;
  cpu::ThreadPool::Part part;
  void* data;
  cpu::FloatControl control;
};

/// Takes parts until none is left: the runtime may give fewer threads than there are parts.
void take_parts(void* of) {
  Region& region = *static_cast<Region*>(of);
  const cpu::FloatControlScope scope(region.control);
  for (int i; (i = region.next.fetch_add(1, std::memory_order_relaxed)) < region.parts;)
    region.part(region.data, i);
}

}  // namespace

void OpenMpTeam::run(int parts, cpu::ThreadPool::Part part, void* data) const noexcept {
  Region region{.parts = parts, .part = part, .data = data, .control = cpu::FloatControl::here()};
  // As many threads as in the program's own regions: the runtime may end those that a smaller one lacks.
  openmp_->parallel(take_parts, &region, 0, 0);
}

}  // namespace kscout::preload
