#pragma once
/// \file
/// Computes a program's products with the configs that KernelScout's models choose.
///
///     GpuServer server(session, guard);
///     const GpuServer::Known known = server.recall(product);
///     if (known.outcome != Outcome::served || server.serve(product, known) != Outcome::served)
///       call_the_original();
///
/// The first product opens backend `cuda` on the GPU that is current then. Each problem is decided once, at
/// its first call. Later calls take the decision from a hash table and enqueue its kernels on the caller's
/// stream. All choices give equal bits in every run; only while a problem is timed, the time decides.
/// Thread-safe.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/backend.h>
#include <kscout/config.h>
#include <kscout/dispatcher.h>

#include "preload/gpu_session.h"
#include "preload/guard.h"

namespace kscout {
class Solver;
}

namespace kscout::preload {

class GpuServer {
 public:
  /// `guard` examines each pick; null: none does.
  GpuServer(GpuSession& session, Guard* guard);
  ~GpuServer();
  GpuServer(const GpuServer&) = delete;
  GpuServer& operator=(const GpuServer&) = delete;

  struct Decision : GpuDecision<ProductKey> {
    using GpuDecision::GpuDecision;
    /// Of a contest: the pick computes the problem itself, or a form of it on copies that take so long.
    struct Pick {
      Problem form;
      KernelConfig config;
      double copies_us = 0;
    } pick = {};
    bool replaces_wrong = false;
    bool aligned_a = false, aligned_b = false, aligned_c = false;  ///< addresses have to be aligned
  };
  /// What is known of a problem before its operands are read.
  struct Known {
    Outcome outcome = Outcome::served;  ///< another: no call of the problem is served
    Decision* decision = nullptr;       ///< null: the problem is new
  };
  Known recall(const ProductKey& product) noexcept;

  /// Enqueues the product; or returns why the library has to compute it. C is unchanged then. `known` is
  /// recall() of the product, with outcome `served`.
  Outcome serve(const ProductCall& product, const Known& known) noexcept;
  /// Counts a product that is passed on without serve().
  void pass(Outcome why) noexcept { tally_.count(why); }

  void in_child() noexcept { tally_.forget(); }

  const Tally& tally() const noexcept { return tally_; }
  /// Of the program's cuBLASLt, as cublasLtGetVersion() tells it; 0: unknown, or nothing was to be served
  /// yet.
  std::int32_t release() const noexcept { return release_.load(kRelaxed); }
  /// Which release of cuBLASLt restricts what is served; empty: none does.
  const char* restriction() const noexcept;

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  struct Chooser;

  Outcome try_serve(const ProductCall& product, Decision* one);
  Decision* decide(const ProductCall& product);
  void choose(ProblemRef problem, Decision& decision);
  /// The same under policy batch-invariant.
  void choose_in_class(ProblemRef problem, Decision& decision);
  static void set_alignment(const Solution& solution, Decision& decision);
  Chooser* chooser(DType dtype);
  /// What cuBLASLt lists for the problem. Keeps the last answer, since a decision reads it twice.
  const std::vector<KernelConfig>& listed(ProblemRef problem);
  /// Reads the releases of the program's cuBLASLt and of the one that backend cuda uses.
  void compare_releases();
  /// From now on, only copies and kernels that need no cuBLASLt are served.
  void restrict(const std::string& why) noexcept;
  /// Stores the faster of the pick and the library's kernel as a decision, and both times as timings. Of a
  /// pick on copies, the kernel's own time is stored without the copies, and no timings.
  void store(const Decision& one, const ContestResult& result) const;
  /// The pick on copies that was faster than the library when both were timed.
  std::optional<Solution> timed_form(ProblemRef problem) const;
  /// The config that stands for the library's own kernel, of the release that the program has loaded.
  KernelConfig library_config() const;
  bool is_library(const KernelConfig& config) const;

  GpuSession& session_;
  const ServeSettings& settings_ = session_.settings();
  Guard* guard_;
  std::atomic<bool> restricted_ = false;
  std::array<char, 512> restriction_{};

  std::mutex deciding_;  ///< guards the members down to the next one
  std::unordered_map<DType, std::unique_ptr<Chooser>> choosers_;
  std::unique_ptr<Solver> classes_;  ///< of policy batch-invariant; null before its first product
  bool reported_wrong_ = false;
  std::optional<Problem> listed_for_;
  std::vector<KernelConfig> listed_;
  bool knows_release_ = false;
  bool same_library_ = true;  ///< backend cuda uses the program's cuBLASLt

  std::atomic<std::int32_t> release_ = 0;
  DecisionMap<Decision> decisions_{settings_};
  Tally tally_;
};

}  // namespace kscout::preload
