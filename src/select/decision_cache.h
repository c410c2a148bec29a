#pragma once
/// \file
/// Decisions of before, in bounded memory: many threads look up and add at once, none waits for another.
///
///     DecisionCache cache;
///     const DecisionKey key = cache.key(problem, By::best);
///     Choice choice;
///     if (!cache.find(key, choice)) {
///       choice = decide(problem);
///       cache.add(key, choice);
///     }
///
/// A small table first; when it is full a larger one beside it, up to 5,120 places in three tables, which
/// hold 4,096 problems without loss (decision_sets.h). clear() starts a new generation, which is part of the
/// key: it costs nothing, and what a thread adds that began before is not found any more. Memory: 67 kB, at
/// most 670 kB, and each distinct config once (config_pool.h).
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <kscout/selector.h>

#include "select/config_pool.h"
#include "select/decision_sets.h"

namespace kscout {

class DecisionCache {
 public:
  /// Places of the tables, in the order in which they are made.
  using Tables = std::array<std::size_t, 3>;

  explicit DecisionCache(const Tables& tables = {512, 1024, 3584});
  DecisionCache(const DecisionCache&) = delete;
  DecisionCache& operator=(const DecisionCache&) = delete;
  ~DecisionCache();

  /// All fields of the problem's identity, the order asked for, and the generation, which stands for model,
  /// device and environment. The weight of a problem changes nothing. Sizes share words: a GEMM with one of
  /// 2^32 or more is never kept (its generation is 0), nor is a convolution of 2^24 images, 2^20 channels or
  /// groups, 2^16 elements a side (depth: 2^12), or with filter or pads from 2^8, dilation 2^7, stride 2^6.
  DecisionKey key(ProblemRef problem, By by) const noexcept {
    return problem.gemm() ? key(*problem.gemm(), by) : key(*problem.conv(), by);
  }
  DecisionKey key(const GemmProblem& problem, By by) const noexcept;
  DecisionKey key(const ConvProblem& problem, By by) const noexcept;

  /// Writes `choice`, whose source becomes `cache`, when the key is there.
  bool find(const DecisionKey& key, Choice& choice) noexcept;
  /// Keeps a decision; does nothing when another thread writes to the place at the same time. Allocates when
  /// a table is full.
  void add(const DecisionKey& key, const Choice& choice) noexcept;
  void clear() noexcept { generation_.fetch_add(1); }

  /// Those of the tables made so far.
  std::size_t places() const noexcept;
  /// Exact once the threads that call find() and add() have finished.
  CacheStatistics statistics() const noexcept;

 private:
  using Word = std::atomic<std::uint64_t>;
  static constexpr std::size_t kCounters = 64;

  /// Counters of one thread; the last, of all threads for which there are no others.
  struct alignas(64) Counters {
    Word hits = 0, misses = 0, evictions = 0;
  };

  bool add_table() noexcept;
  void count(Word Counters::*counter) noexcept;

  std::atomic<std::uint64_t> generation_ = 1;
  std::atomic<std::size_t> made_ = 0;                                           ///< tables
  std::array<std::unique_ptr<DecisionSets>, std::tuple_size_v<Tables>> table_;  ///< read below `made_`
  const Tables places_;
  std::atomic<bool> adding_ = false;  ///< who has it may write table_
  ConfigPool configs_;
  std::array<Counters, kCounters> counters_;
};

}  // namespace kscout
