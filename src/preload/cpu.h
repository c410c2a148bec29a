#pragma once
/// \file
/// Computes a program's products of a BLAS on the CPU, with the native kernels that the models choose.
///
///     CpuServer server(settings);
///     if (server.serve(call, product) != Outcome::served) call_the_original();
///
/// Each problem is decided once for each number of threads. A call returns when C is complete. It computes on
/// the threads of the OpenMP runtime that the caller's library uses; without one, on threads of ours: where
/// several calls want these, one of them gets them. Thread-safe, also across fork(): children are served.
/// Calls of a known problem take no lock.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include <kscout/backend.h>

#include "core/fork_mutex.h"
#include "dispatch/padding.h"
#include "preload/calls.h"
#include "preload/decide.h"
#include "preload/read_calls.h"
#include "preload/shelf.h"

namespace kscout {
class Solver;
}

namespace kscout::preload {

/// A product on at most so many threads, which are those of an OpenMP runtime, or ours, in place of a
/// library.
struct CpuKey : ProductKey {
  int threads;
  bool on_openmp;
  const char* library;  ///< kscout_blas_call::library
  bool operator==(const CpuKey&) const = default;
};
inline std::size_t quick_hash(const CpuKey& key) noexcept {
  return quick_hash(static_cast<const ProductKey&>(key)) + static_cast<std::size_t>(key.threads);
}

class CpuServer {
 public:
  explicit CpuServer(const ServeSettings& settings);
  ~CpuServer();
  CpuServer(const CpuServer&) = delete;
  CpuServer& operator=(const CpuServer&) = delete;

  /// Computes the product; or returns why the BLAS has to. C is unchanged then.
  Outcome serve(const kscout_blas_call& call, const ProductKey& product) noexcept;
  /// Follows the original of a call for which serve() returned Outcome::timed.
  void after_original() noexcept;

  const Tally& tally() const noexcept { return tally_; }
  /// Forgets the counts of the parent process.
  void in_child() noexcept { tally_.forget(); }

  struct Decision : BasicDecision<CpuKey, HostClock> {
    using BasicDecision::BasicDecision;
    Solution solution;
    std::size_t workspace_bytes = 0;
    Shelf<Launch> launches;  ///< a launch runs in one thread at a time
    bool can_fail = false;   ///< the kernel is one of a library
  };

 private:
  struct Running;
  /// By problem and number of threads, as the decision file writes both.
  using Timings = std::map<std::pair<std::string, std::string>, StoredDecision>;

  /// How many threads the calling thread may use: its CPUs and the quotas of its cgroup may change.
  int allowed_threads();
  /// At most as many as the runtime and the BLAS may use now, and as are worthwhile.
  int threads_for(const kscout_blas_call& call, const ProductKey& product);
  Outcome try_serve(const kscout_blas_call& call, const ProductKey& product);
  Decision* decide(const CpuKey& key);
  void choose(Decision& decision);
  /// What a contest with this library found in an earlier process; null: nothing.
  const StoredDecision* timed(const CpuKey& key);
  void store(const Decision& one, const ContestResult& result) const;
  /// Fills in the launch and the workspace. Throws bad_alloc, and the errors of Solver::make_ready().
  void prepare(Running& running);
  /// Ends the process where C may be damaged.
  void compute(Running& running, const Operands& operands);
  /// `is_recorded`: the call of a contest has a time.
  void end_turn(Decision& one, const Turn& turn, HostClock::Span span, bool is_recorded) noexcept;

  const ServeSettings settings_;
  Tally tally_;
  DecisionMap<Decision> decisions_{settings_};
  Shelf<Workspace> workspaces_;
  HostClock clock_;

  ForkMutex deciding_{ForkLevel::dispatcher};                 ///< guards the two maps and the contests
  std::unordered_map<int, std::unique_ptr<Solver>> solvers_;  ///< by number of threads
  std::map<std::string, Timings> timings_;                    ///< by library
};

}  // namespace kscout::preload
