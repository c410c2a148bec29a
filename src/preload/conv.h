#pragma once
/// \file
/// Computes the convolutions of a program's plans of cuDNN with the kernels that KernelScout's models choose:
/// other plans of the library, or kernels of ours.
///
///     ConvServer server(session);
///     ConvServer::Decision* const one = server.recall(use, call);   // of each execution of a plan
///     if (!one || server.serve(*one, operands) != Outcome::served) execute_the_plan();
///
/// A model's choice and its plan take milliseconds to tens of milliseconds. A thread of ours makes them while
/// the program's own plan computes, and later calls are served. The thread's captures are relaxed, so that it
/// breaks none of the program's.
///
/// A program that compares plans itself (torch.backends.cudnn.benchmark) executes several plans of one
/// problem in a row. So nothing is decided about a plan until a plan of another problem was executed after
/// it, or after kInARow executions. Thread-safe where nothing else is said.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pthread.h>

#include <kscout/config.h>

#include "preload/gpu_session.h"
#include "preload/read_plan.h"

namespace kscout::preload {

/// A convolution and the plan that computes it in the program, by which decisions about it are found.
struct ConvKey {
  ConvProblem problem;
  CudnnConfig config;  ///< engine 0: not known
  bool operator==(const ConvKey&) const = default;
  bool is_by(const KernelConfig& other) const {
    return config.is_named() && config.kernel_config(problem.op) == other;
  }
};

class ConvServer {
 public:
  explicit ConvServer(GpuSession& session);
  ~ConvServer();
  ConvServer(const ConvServer&) = delete;
  ConvServer& operator=(const ConvServer&) = delete;

  struct Decision : GpuDecision<ConvKey> {
    using GpuDecision::GpuDecision;
    std::vector<KernelConfig> configs = {};  ///< of `picks`, without their places in the library's list
  };
  /// What is known of a plan from its first execution until it is destroyed.
  struct Use {
    std::size_t problem = 0;  ///< a number; 0: none yet
    std::uint64_t first_run = 0;
    int executions = 0;
    Decision* decision = nullptr;  ///< null: nothing is decided yet
  };

  /// The decision about an execution of a plan; null, which is counted: there is none yet. One thread at a
  /// time.
  Decision* recall(Use& use, const PlanCall& call) noexcept;
  /// Enqueues the convolution; or returns why the plan has to be executed. The result is unchanged then.
  Outcome serve(Decision& one, const Operands& operands) noexcept;

  void in_child() noexcept;
  /// Before the process ends: nothing of ours may run when the driver is gone. Waits for what is being made.
  void finish() noexcept;

  const Tally& tally() const noexcept { return tally_; }
  /// Whether this thread makes decisions: calls of libraries in it are not the program's.
  static bool is_this_thread_ours() noexcept { return is_ours_; }

 private:
  struct Chooser;
  /// Executions after which a plan is taken for the one that the program keeps: a search times each plan on
  /// fewer.
  static constexpr int kInARow = 200;
  static constexpr std::size_t kPicks = 3;  ///< that are timed against the program's plan (--refine)

  Outcome try_serve(Decision& one, const Operands& operands);
  /// Of a plan that the program keeps. Throws bad_alloc.
  Decision* decision_of_key(const ConvKey& key);
  void make_decisions() noexcept;
  void make(Decision& one) noexcept;
  void choose(Decision& one);
  /// The best of the others, to be timed with the pick.
  void add_contenders(const Chooser& by, double own_us, Decision& one);
  Chooser* chooser(Op op, DType dtype);
  void store(const Decision& one, const ContestResult& result) const;

  GpuSession& session_;
  const ServeSettings& settings_ = session_.settings();
  // Of recall().
  std::list<std::pair<ConvProblem, std::size_t>> problems_;
  std::list<Decision> decisions_;
  std::size_t last_problem_ = 0;
  std::uint64_t runs_ = 0;  ///< of one problem without another between

  std::mutex mutex_;  ///< guards the members down to the next one
  std::condition_variable more_;
  std::deque<Decision*> wanted_;
  bool has_thread_ = false;
  std::atomic<bool> is_making_ = false, ends_ = false;

  // Of the thread that makes decisions.
  std::unordered_map<Op, std::unordered_map<DType, std::unique_ptr<Chooser>>> choosers_;

  Tally tally_;
  static thread_local bool is_ours_;
};

}  // namespace kscout::preload
