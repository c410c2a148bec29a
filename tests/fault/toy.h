#pragma once
/// \file
/// Provides a provider and a backend whose configs misbehave on purpose, and plans of their sweeps. A clock
/// of their own times them, so that no status depends on what else runs.
#include <string_view>
#include <vector>

#include <kscout/backend.h>

#include "sweep/plan.h"
#include "sweep/sweep.h"

namespace kscout::toy {

enum class Behaviour : std::int32_t {
  good,   ///< the plainest GEMM
  slow,   ///< right, but takes kSlowUs
  crash,  ///< SIGSEGV in run
  crash_in_prepare,
  crash_later,       ///< right at first, SIGSEGV in the second call
  leave,             ///< exit code 3
  hang,              ///< waits for ever; first writes the file that kHangsVariable names
  wrong,             ///< one element is off
  lazy,              ///< writes nothing
  past_end,          ///< right, and 8 bytes behind C
  before_workspace,  ///< right, and 4 bytes before its workspace
  writes_a,          ///< scribbles on an operand
  refuse,            ///< prepare says unsupported
  fail_to_run,       ///< run throws device_failure
  chatter,           ///< right, prints on standard output
  compile,           ///< prepare_ahead leaves it out
};
inline constexpr std::string_view kBehaviourWords[] = {
    "good",   "slow",        "crash",   "crash_in_prepare", "crash_later",      "leave",
    "hang",   "wrong",       "lazy",    "past_end",         "before_workspace", "writes_a",
    "refuse", "fail_to_run", "chatter", "compile"};

inline constexpr double kGoodUs = 10, kSlowUs = 1000;
inline constexpr const char* kHangsVariable = "KSCOUT_TOY_HANGS";

const ConfigSpace& space(std::string_view provider, Op op);
Backend& backend(std::string_view name);
KernelConfig config(Behaviour behaviour, std::int32_t variant);

/// Every problem tries every config.
SweepPlan plan(const std::vector<GemmProblem>& problems, const std::vector<KernelConfig>& configs,
               const Protocol& protocol = {});

/// A sweep of `problems` tiny problems and `configs` good configs, two calls each: what the kill tests run.
SweepPlan quick_plan(int problems, int configs);

}  // namespace kscout::toy
