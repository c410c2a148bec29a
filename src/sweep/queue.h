#pragma once
/// \file
/// Tracks the remaining work of a sweep: pure bookkeeping, no processes and no clock.
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

/// Configs that a worker measures in one assignment.
struct Batch {
  std::uint32_t problem = 0;
  std::int32_t pass = 1;
  std::vector<std::uint32_t> configs;
};

/// Derives the remaining work from the rows, the crashes and the plan alone, so a resumed sweep continues
/// exactly as an uninterrupted one:
///  1. Pass 1: all configs without a row, in one batch. A config during which a worker crashed once is
///     measured alone.
///  2. Pass 2: the contenders (measure/protocol.h) without a row, interleaved. They are measured alone after
///     a worker crashed in their round.
/// crashed_twice() lists the keys (problem, config, pass) during which workers crashed twice; these keys get
/// a row with status `crashed`.
class WorkQueue {
 public:
  WorkQueue(const SweepPlan& plan, std::vector<std::uint32_t> order, const std::vector<JournalRow>& rows,
            const std::map<SweepKey, int>& crashes);

  /// Returns the next problem with remaining work; each problem once.
  std::optional<std::uint32_t> take_problem();
  /// take_problem() returns nothing from now on.
  void close() noexcept { next_ = order_.size(); }
  /// Returns the next batch of a taken problem; nothing when the problem is finished. `most` limits the
  /// configs of a batch in pass 1 (0: no limit); contenders are timed in rounds and stay together.
  std::optional<Batch> next_batch(std::uint32_t problem, std::size_t most = 0) const;
  /// Keys without a row during which workers crashed twice.
  std::vector<SweepKey> crashed_twice(std::uint32_t problem) const;

  /// Marks a problem as measured. The configs that were fast on it are tried early on the next problems.
  void finished(std::uint32_t problem);
  void answered(const SweepKey& key, const Measurement& measured);
  /// Counts a crash of a worker during this key.
  void worker_crashed(const SweepKey& key) { ++crashes_[key]; }
  /// Records a crash in a round of contenders: from now on they are measured one by one.
  void split_contenders(std::uint32_t problem) { split_.insert(problem); }

  /// Fastest ok time of pass 1; infinite when there is none.
  double best_us(std::uint32_t problem) const;
  /// Whether the problem has no work left.
  bool is_done(std::uint32_t problem) const { return done_.contains(problem); }
  /// Number of problems without work left.
  std::size_t problems_done() const noexcept { return done_.size(); }

 private:
  struct Known {
    std::uint32_t config;
    Status status;
    double time_us;
  };
  /// Configs of pass 1, or contenders of pass 2, without a row.
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
  /// Per config: its share of the best speed, summed over finished problems. Configs with high sums are
  /// measured first, so that later ones are pruned early.
  std::vector<double> score_;
};

}  // namespace kscout
