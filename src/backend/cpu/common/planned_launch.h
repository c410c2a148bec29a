#pragma once
/// \file
/// Runs plans on the threads of the backend, or on those of the calling thread's team.
///
///     return std::make_unique<PlannedLaunch<GemmPlan>>(make_gemm_plan(problem, config));
///
/// A plan has `workspace_floats`, `kept_floats` (of the operand B that is packed once for many runs) and two
/// functions: run_plan(plan, buffers, workspace), and pack_part(plan, b, packed, part), which all parts call.
#include <utility>

#include <kscout/launch.h>

#include "backend/cpu/common/team.h"
#include "backend/cpu/common/thread_pool.h"

namespace kscout::cpu {

/// Runs `part(i)` for i < parts, in other threads, too, when there are several.
template <class Part>
void run_parts(int parts, const Part& part) {
  if (parts == 1) return part(0);
  const ThreadPool::Part call = [](void* data, int i) { (*static_cast<const Part*>(data))(i); };
  void* const data = const_cast<void*>(static_cast<const void*>(&part));
  if (const Team* const team = current_team()) {
    team->run(parts, call, data);
  } else {
    pool().run(parts, call, data);
  }
}

/// pack_part() for every part.
template <class Plan>
void pack_all(const Plan& plan, const void* b, void* packed) {
  run_parts(plan.config.threads(), [&](int part) {
    pack_part(plan, static_cast<const float*>(b), static_cast<float*>(packed), part);
  });
}

template <class Plan>
class PlannedLaunch final : public Launch {
 public:
  explicit PlannedLaunch(Plan plan) : plan_(std::move(plan)) {}

  std::size_t workspace_bytes() const noexcept override {
    return sizeof(float) * static_cast<std::size_t>(plan_.workspace_floats);
  }
  std::size_t packed_bytes() const noexcept override {
    return sizeof(float) * static_cast<std::size_t>(plan_.kept_floats);
  }
  void pack(const void* b, void* packed, Stream) override {
    if (plan_.kept_floats > 0) pack_all(plan_, b, packed);
  }
  void run(const Buffers& given, void* workspace, Stream) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
    check_reach("cpu", {}, buffers.space);
    run_plan(plan_, buffers, static_cast<float*>(workspace));
  }

 private:
  Plan plan_;
};

}  // namespace kscout::cpu
