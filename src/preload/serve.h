#pragma once
/// \file
/// Computes a program's products with the configs that KernelScout's models choose.
///
///     Server server(find, settings, /*off=*/"");
///     const Server::Known known = server.recall(problem);
///     if (known.why != Passed::none || server.serve(problem, known, operands) != Passed::none)
///       call_the_original();
///
/// The first product opens backend `cuda` on the GPU that is current then. Each problem is decided once, at
/// its first call. Later calls take the decision from a hash table and enqueue its kernels on the caller's
/// stream. Work runs in the caller's workspace where that is large enough, else in memory of the stream's
/// own. All choices give equal bits in every run; only while a problem is timed, the time decides.
/// Thread-safe.
#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include <kscout/backend.h>
#include <kscout/dispatcher.h>
#include <kscout/problem.h>

#include "preload/calls.h"
#include "preload/read_calls.h"
#include "preload/refine.h"
#include "preload/workspaces.h"
#include "select/decision_db.h"

namespace kscout {
class Solver;
}

namespace kscout::preload {

struct ServeSettings {
  /// By how much the model must expect the library's own suggestion to take longer than our choice.
  double min_gain = 0.02;
  /// And by how many microseconds: a call costs the CPU about this much.
  double min_saved_us = 1;
  /// Whether to time picks against the library's own kernels. Not where CUBLAS_WORKSPACE_CONFIG asks for
  /// equal bits in every run.
  bool refine = false;
  /// Serves every product of a weight that has a class, by the class (Limits::batch_invariant), and no other.
  bool batch_invariant = false;
  /// Timings of earlier processes; those of this one are added.
  std::filesystem::path db = {};

  /// Reads KSCOUT_PRELOAD_MIN_GAIN (percent), KSCOUT_PRELOAD_MIN_SAVED_US, KSCOUT_PRELOAD_REFINE,
  /// KSCOUT_PRELOAD_POLICY and KSCOUT_DB; `wrong` receives a text for a setting that is no number of at least
  /// 0, neither 0 nor 1, or no policy.
  static ServeSettings from_environment(std::string& wrong);
};

/// What a server did; for reports.
struct ServeCounts {
  std::uint64_t served = 0, wrong_suggestions = 0;
  double saved_us = 0;           ///< by the model, or as timed
  std::uint64_t given_back = 0;  ///< how often workspaces were released because the program needed memory
  /// Problems timed by --refine: begun, finished, and those where the library's kernel was faster.
  std::uint64_t contests = 0, refined = 0, library_kept = 0;
  std::array<std::uint64_t, kPassedWords.size()> passed{};
};

/// Says once in a process on standard error why policy batch-invariant passes a product on.
void report_without_class(const char* why) noexcept;

class Server {
 public:
  /// `off`: a reason to serve nothing; empty: none.
  Server(kscout_find find, const ServeSettings& settings, std::string off);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  struct Decision;
  /// What is known of a problem before its operands are read.
  struct Known {
    Passed why = Passed::none;     ///< not none: no call of the problem is served
    Decision* decision = nullptr;  ///< null: the problem is new
  };
  Known recall(const GemmProblem& problem) noexcept;

  /// Enqueues the product; or returns why the library has to compute it. C is unchanged then. `known` is
  /// recall() of the problem, with no reason.
  Passed serve(const GemmProblem& problem, const Known& known, const Operands& operands) noexcept;
  /// Whether after_original() has to follow the original of a call for which serve() returned this reason:
  /// the call is timed; or a graph is captured, and the thread may load kernels until then, because a program
  /// that warms up first has not made the original do so.
  static constexpr bool watches(Passed why) noexcept {
    return why == Passed::capture || why == Passed::timed;
  }
  void after_original(int status) noexcept;
  /// Counts a product that is passed on without serve().
  void pass(Passed why) noexcept { passed_[static_cast<std::size_t>(why)].fetch_add(1, kRelaxed); }

  /// Releases workspaces outside of captures. Returns whether there were any.
  bool give_back() noexcept;

  /// A child process has no GPU context: it serves nothing.
  void in_child() noexcept;

  ServeCounts counts() const noexcept;
  /// Why nothing is served; empty while anything may be.
  const char* off_reason() const noexcept;
  /// Which release of cuBLASLt restricts what is served; empty: none does.
  const char* restriction() const noexcept;

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  struct Chooser;
  struct Hash {
    std::size_t operator()(const GemmProblem& problem) const noexcept { return quick_hash(problem); }
  };

  Passed try_serve(const GemmProblem& problem, Decision* one, const Operands& operands);
  void exchange_capture_mode() noexcept;
  Decision* look_up(const GemmProblem& problem);
  Decision* decide(const GemmProblem& problem);
  void choose(const GemmProblem& problem, Decision& decision);
  /// The same under policy batch-invariant.
  void choose_in_class(const GemmProblem& problem, Decision& decision);
  static void set_alignment(const Solution& solution, Decision& decision);
  Chooser* chooser(const GemmProblem& problem);
  void open();
  /// Reads the releases of the program's cuBLASLt and of the one that backend cuda uses.
  void compare_releases();
  /// From now on, only copies and kernels that need no cuBLASLt are served.
  void restrict(const std::string& why) noexcept;
  void turn_off(const std::string& why) noexcept;
  std::uint64_t given_back() const noexcept;
  /// Ends the contest of a decision whose samples are known.
  void settle(Decision& decision) noexcept;
  /// The pick on copies that was faster than the library when both were timed.
  std::optional<Solution> timed_form(const GemmProblem& problem) const;
  /// The config that stands for the library's own kernel, of the release that the program has loaded.
  KernelConfig library_config() const;
  bool is_library(const KernelConfig& config) const;

  const ServeSettings settings_;
  kscout_find find_;
  Driver driver_;
  std::atomic<bool> off_ = false;
  std::array<char, 512> off_reason_{};
  std::once_flag turned_off_;
  std::atomic<bool> restricted_ = false;
  std::array<char, 512> restriction_{};

  std::mutex deciding_;  ///< guards the members down to the next one
  bool open_ = false;
  Backend* gpu_ = nullptr;
  std::unordered_map<DType, std::unique_ptr<Chooser>> choosers_;
  std::unique_ptr<Solver> classes_;  ///< of policy batch-invariant; null before its first product
  bool reported_wrong_ = false;
  DecisionTable timings_;     ///< of the decision file
  std::int32_t release_ = 0;  ///< of the program's cuBLASLt; 0: unknown
  bool same_library_ = true;  ///< backend cuda uses the program's cuBLASLt
  std::atomic<bool> reported_lost_ = false;

  std::atomic<void*> context_ = nullptr;  ///< of the first product
  std::shared_mutex looking_;
  std::unordered_map<GemmProblem, std::unique_ptr<Decision>, Hash> decisions_;
  std::unique_ptr<StreamWorkspaces> workspaces_;
  std::atomic<StreamWorkspaces*> opened_workspaces_ = nullptr;
  EventTimer timer_{driver_};

  std::atomic<std::uint64_t> served_ = 0, saved_ns_ = 0, wrong_suggestions_ = 0;
  std::atomic<std::uint64_t> contests_ = 0, refined_ = 0, library_kept_ = 0;
  std::array<std::atomic<std::uint64_t>, kPassedWords.size()> passed_{};
};

}  // namespace kscout::preload
