#pragma once
/// \file
/// Runs a launch on the operands of a problem in guarded memory, verifies its result and times it.
///
///     VerifiedLaunch one(backend.prepare(problem, config), operands);
///     const Verification found = one.verify(*reference);   // found.error <= 1: right
///     const double us = one.time_us(calls);
#include <memory>

#include <kscout/launch.h>

#include "op/operands.h"
#include "op/reference.h"

namespace kscout {

class VerifiedLaunch {
 public:
  /// `operands`: those of the launch's problem. They must outlive this object.
  VerifiedLaunch(std::unique_ptr<Launch> launch, GemmOperands& operands);

  /// Runs once, with NaNs in the result, in the workspace and in what the launch packs.
  void run();
  /// Checks the result of run(). A write outside the result, the workspace or the packed filter is an error
  /// of infinite size; the guards are then written again.
  Verification check(const Reference& reference);
  Verification verify(const Reference& reference) {
    run();
    return check(reference);
  }

  /// Median microseconds of packing the filter a few times; NaN for a launch that packs nothing.
  double packing_us();
  /// Mean microseconds of `calls` consecutive calls.
  double time_us(int calls) { return time_us(*launch_, calls); }
  /// The same of a launch that does a part of the work in the same workspace.
  double time_us(Launch& part, int calls);
  /// Removes the operands and the workspace from all caches.
  void evict_from_caches() const;

  Launch& launch() const noexcept { return *launch_; }

 private:
  Buffers buffers();

  std::unique_ptr<Launch> launch_;
  GemmOperands& operands_;
  GuardedBuffer workspace_;
  GuardedBuffer packed_;  ///< the filter, of a launch that gets it packed once
};

}  // namespace kscout
