#pragma once
/// \file
/// What is left to do in a sweep: pure bookkeeping, no processes and no clock.
///
///     WorkQueue queue(plan, measuring_order(plan), state.rows, state.crashes);
///     while (auto problem = queue.take_problem()) {
///       while (auto batch = queue.next_batch(*problem)) { ...measure...; queue.answered(key, measured); }
///     }
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "sweep/journal_file.h"
#include "sweep/plan.h"

namespace kscout {

/// Configs that one worker measures in one go.
struct Batch {
  std::uint32_t problem = 0;
  std::int32_t pass = 1;
  std::vector<std::uint32_t> configs;
};

/// What is left follows from the rows, the crashes and the plan alone, so a resumed sweep goes the same way
/// as one that was never interrupted:
///  1. pass 1: all configs without a row, together; those that a worker died of once, alone
///  2. pass 2: the contenders (protocol) without a row, interleaved; alone once a worker died in their round
///  Whatever ended a worker twice is listed by crashed_twice(): its row is `crashed`.
class WorkQueue {
 public:
  WorkQueue(const SweepPlan& plan, std::vector<std::uint32_t> order, const std::vector<JournalRow>& rows,
            const std::map<SweepKey, int>& crashes);

  /// The next problem that has anything left; each is given out once.
  std::optional<std::uint32_t> take_problem();
  /// The next batch of a problem that was taken; nothing when it is finished.
  /// `most` configs at most in pass 1 (0: no limit); contenders are timed in turns and stay together.
  std::optional<Batch> next_batch(std::uint32_t problem, std::size_t most = 0) const;
  /// Keys without a row whose workers died twice.
  std::vector<SweepKey> crashed_twice(std::uint32_t problem) const;

  /// All of a problem is measured: which configs were good there helps to order those of the next.
  void finished(std::uint32_t problem);
  void answered(const SweepKey& key, const Measurement& measured);
  /// A worker died of this key.
  void worker_crashed(const SweepKey& key) { ++crashes_[key]; }
  /// A worker died somewhere in a round of contenders: from now on they are measured one by one.
  void split_contenders(std::uint32_t problem) { split_.insert(problem); }

  /// Fastest ok row of pass 1; infinite without one.
  double best_us(std::uint32_t problem) const;
  /// Nothing of it is left.
  bool is_done(std::uint32_t problem) const { return done_.contains(problem); }
  /// Problems of the order with nothing left.
  std::size_t problems_done() const noexcept { return done_.size(); }

 private:
  struct Known {
    std::uint32_t config;
    Status status;
    double time_us;
  };
  /// Configs of pass 1, or contenders, without a row.
  std::vector<std::uint32_t> missing(std::uint32_t problem, std::int32_t pass) const;
  std::vector<std::uint32_t> contenders(std::uint32_t problem) const;
  int crashes_of(const SweepKey& key) const;
  std::vector<std::uint32_t> likely_best_first(std::uint32_t problem,
                                               std::vector<std::uint32_t> configs) const;

  const SweepPlan& plan_;
  std::vector<std::uint32_t> order_;
  std::size_t next_ = 0;
  std::vector<std::vector<Known>> rows_[2];  ///< by pass, by problem
  std::map<SweepKey, int> crashes_;
  std::set<std::uint32_t> split_;
  std::set<std::uint32_t> done_;
  /// How close each config came to the best on problems done before, summed: good ones go first, so that
  /// later ones are pruned early.
  std::vector<double> score_;
};

}  // namespace kscout
