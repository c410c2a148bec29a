#pragma once
/// \file
/// Computes a program's products of a BLAS on the CPU, with the native kernels that the models choose.
///
///     BlasServer server(settings);
///     if (server.serve(call, problem) != Passed::none) call_the_original();
///
/// Each problem is decided once for each number of threads. A call returns when C is complete. It computes on
/// the threads of the OpenMP runtime that the caller's library uses; without one, on threads of ours: where
/// several calls want these, one of them gets them. Thread-safe, also across fork(): children are served.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include <kscout/backend.h>
#include <kscout/problem.h>

#include "core/fork_mutex.h"
#include "dispatch/padding.h"
#include "preload/calls.h"
#include "preload/read_calls.h"
#include "preload/serve.h"

namespace kscout {
class Solver;
}

namespace kscout::preload {

class BlasServer {
 public:
  explicit BlasServer(const ServeSettings& settings);
  ~BlasServer();
  BlasServer(const BlasServer&) = delete;
  BlasServer& operator=(const BlasServer&) = delete;

  /// Computes the product; or returns why the BLAS has to. C is unchanged then.
  Passed serve(const kscout_blas_call& call, const GemmProblem& problem) noexcept;
  /// Follows the original of a call for which serve() returned Passed::timed.
  void after_original() noexcept;

  ServeCounts counts() const noexcept;
  /// Forgets the counts of the parent process.
  void in_child() noexcept;

 private:
  /// A problem on at most so many threads, which are those of an OpenMP runtime, or ours.
  struct Asked {
    GemmProblem problem;
    int threads;
    bool on_openmp;
    bool operator==(const Asked&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Asked& asked) const noexcept {
      return quick_hash(asked.problem) + static_cast<std::size_t>(asked.threads);
    }
  };
  struct Decision;
  struct Running;

  /// How many threads the calling thread may use: its CPUs and the quotas of its cgroup may change.
  int allowed_threads();
  /// At most as many as the runtime and the BLAS may use now, and as are worthwhile.
  int threads_for(const kscout_blas_call& call, const GemmProblem& problem);
  Decision& decide(const Asked& asked);
  void choose(const Asked& asked, Decision& decision);
  /// The launch and workspace of a call, unless a reason is returned.
  Passed begin(const Asked& asked, Running& running);
  /// Ends the process where C may be damaged.
  void compute(Running& running, const Operands& operands);
  void finish(Running running) noexcept;

  const ServeSettings settings_;
  std::array<std::atomic<std::uint64_t>, kPassedWords.size()> passed_{};
  std::atomic<std::uint64_t> served_ = 0, contests_ = 0, refined_ = 0, library_kept_ = 0;

  ForkMutex mutex_{ForkLevel::dispatcher};  ///< guards the members below; not held while a kernel runs
  std::unordered_map<int, std::unique_ptr<Solver>> solvers_;  ///< by number of threads
  std::unordered_map<Asked, std::unique_ptr<Decision>, Hash> decisions_;
  std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace kscout::preload
