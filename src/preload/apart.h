#pragma once
/// \file
/// Runs slow code of ours so that the program's thread does not notice it.
///
///     run_apart([&] { decide(problem); });
///
/// The code gets a stack of its own, because a thread or fiber of the program may have a few kilobytes only;
/// the floating-point environment in which a thread begins, so that choices do not depend on the program's;
/// and no signals for what it writes.
#include <cerrno>
#include <cfenv>
#include <exception>
#include <new>

#include "core/held_signals.h"
#include "preload/own_stack.h"

namespace kscout::preload {

/// Keeps the caller's floating-point environment: models and kernels raise exceptions that mean nothing, for
/// features that do not exist and for the padding of tiles. NumPy reports them, and programs may trap them.
class FloatingPoint {
 public:
  FloatingPoint() noexcept { std::feholdexcept(&environment_); }
  ~FloatingPoint() { std::fesetenv(&environment_); }
  FloatingPoint(const FloatingPoint&) = delete;
  FloatingPoint& operator=(const FloatingPoint&) = delete;

 private:
  std::fenv_t environment_;
};

/// Throws what `code` throws, and bad_alloc where there is no memory for the stack.
template <class Code>
void run_apart(Code&& code) {
  struct Job {
    Code& code;
    std::exception_ptr error;
  } job{code, nullptr};
  const auto run = [](void* data) {
    Job& of = *static_cast<Job*>(data);
    const FloatingPoint guard;
    std::fesetenv(FE_DFL_ENV);
    kscout_held_signals held;
    kscout_hold_signals(&held, SIGPIPE, SIGXFSZ);
    try {
      of.code();
    } catch (...) {
      of.error = std::current_exception();
    }
    kscout_release_signals(&held);
  };
  if (!kscout_on_own_stack(run, &job)) throw std::bad_alloc();
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace kscout::preload
