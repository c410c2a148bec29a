#pragma once
/// \file
/// Computes on the threads of an OpenMP runtime that the program uses.
///
///     const OpenMpTeam team(call.openmp);
///     const cpu::TeamScope scope(&team);
///     launch->run(buffers, workspace);       // inside of a parallel region of that runtime
///
/// The threads that wait actively after the program's own loops do the work: they need not be woken, and
/// nothing competes with them. Number, affinity and limits of threads are the runtime's.
#include "backend/cpu/common/team.h"
#include "preload/calls.h"

namespace kscout::preload {

class OpenMpTeam final : public cpu::Team {
 public:
  explicit OpenMpTeam(const kscout_openmp* openmp) noexcept : openmp_(openmp) {}
  void run(int parts, cpu::ThreadPool::Part part, void* data) const noexcept override;

 private:
  const kscout_openmp* openmp_;
};

}  // namespace kscout::preload
