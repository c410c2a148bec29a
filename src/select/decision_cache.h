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
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <kscout/selector.h>

#include "core/hash.h"
#include "core/thread_number.h"
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
  DecisionKey key(const ProblemRef& problem, By by) const noexcept {
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

  /// Where a choice has the numbers of a kept decision.
  static constexpr double Choice::*kNumberOf[] = {&Choice::time_us, &Choice::tflops,     &Choice::gb_s,
                                                  &Choice::margin,  &Choice::confidence, &Choice::score};
  static constexpr std::size_t kNumbers = std::tuple_size_v<decltype(KeptDecision::number)>;
  static_assert(std::size(kNumberOf) == kNumbers);
};

inline DecisionKey DecisionCache::key(const GemmProblem& p, By by) const noexcept {
  const auto bits = [](auto value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t all = bits(p.m | p.n | p.k | p.batch | p.split_k | p.lda | p.ldb | p.ldc);
  const std::uint64_t types = bits(p.dtype_a) | bits(p.dtype_b) << 8 | bits(p.dtype_c) << 16 |
                              bits(p.dtype_acc) << 24 | bits(p.layout) << 32 | bits(p.epilogue) << 40 |
                              bits(p.accumulate) << 48 | bits(by) << 56;
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  DecisionKey key;  // where it stays: a copy would be read in vectors before its words are stored
  key.word = {bits(p.m) | bits(p.n) << 32,
              bits(p.k) | bits(p.batch) << 32,
              bits(p.lda) | bits(p.ldb) << 32,
              bits(p.ldc) | bits(p.split_k) << 32,
              types,
              all >> 32 == 0 ? generation : 0};
  key.hash = words_hash(key.word);
  return key;
}

inline bool DecisionCache::find(const DecisionKey& key, Choice& choice) noexcept {
  KeptDecision decision;
  for (std::size_t t = made_.load(std::memory_order_acquire); t-- > 0;) {  // the largest first
    if (!table_[t]->find(key, decision)) continue;
    choice.config = *decision.config;
    for (std::size_t i = 0; i < kNumbers; ++i) {
      choice.*kNumberOf[i] = std::bit_cast<double>(decision.number[i]);
    }
    choice.source = ChoiceSource::cache;
    choice.decided_by = static_cast<ChoiceSource>(decision.link);
    count(&Counters::hits);
    return true;
  }
  count(&Counters::misses);
  return false;
}

inline void DecisionCache::count(Word Counters::*counter) noexcept {
  const std::size_t number = std::min(thread_number(), kCounters - 1);
  Word& word = counters_[number].*counter;
  if (number == kCounters - 1) {
    word.fetch_add(1, std::memory_order_relaxed);
  } else {  // nobody else writes it
    word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
}

}  // namespace kscout
