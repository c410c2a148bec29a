#include "select_cached.h"

#include <algorithm>
#include <barrier>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <kscout/selector.h>

#include "measure/clock.h"

namespace kscout::bench {
namespace {

constexpr std::size_t kBlock = 64;  ///< calls behind one reading of the clock, which costs more than a hit
constexpr std::size_t kBlocks = 10'000;

std::vector<GemmProblem> problems(std::size_t count) {
  std::vector<GemmProblem> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(make_gemm(static_cast<std::int64_t>(1 + i % 512), 4096,
                            static_cast<std::int64_t>(1024 * (1 + i / 512))));
  }
  return all;
}

/// Nanoseconds of a call in each block; sorted.
std::vector<double> hit_ns(const Selector& selector, std::vector<GemmProblem> of, unsigned seed) {
  std::ranges::shuffle(of, std::mt19937(seed));  // an order that no prefetcher knows in the cache's memory
  std::vector<double> ns;
  ns.reserve(kBlocks);
  Choice choice;
  std::size_t next = 0, checked = 0;
  for (std::size_t block = 0; block < kBlocks; ++block) {
    const auto begin = now_ns();
    for (std::size_t i = 0; i < kBlock; ++i) {
      checked += selector.try_select(of[next], choice) == SelectStatus::ok ? 1 : 0;
      if (++next == of.size()) next = 0;
    }
    ns.push_back(static_cast<double>(now_ns() - begin) / kBlock);
  }
  if (checked != kBlock * kBlocks) throw std::runtime_error("a choice failed");
  std::ranges::sort(ns);
  return ns;
}

double at(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

struct Hits {
  double p50 = 0, p99 = 0, choices_per_us = 0;
};

Hits measure_threads(const Selector& selector, const std::vector<GemmProblem>& of, unsigned threads) {
  std::vector<std::vector<double>> ns(threads);
  std::barrier together(threads);
  std::vector<std::thread> pool;
  for (unsigned t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      together.arrive_and_wait();
      ns[t] = hit_ns(selector, of, t);
    });
  }
  for (auto& thread : pool) thread.join();
  Hits hits;
  std::vector<double> all;
  for (const auto& one : ns) {
    all.insert(all.end(), one.begin(), one.end());
    hits.choices_per_us += 1e3 / at(one, 0.5);
  }
  std::ranges::sort(all);
  hits.p50 = at(all, 0.5);
  hits.p99 = at(all, 0.99);
  return hits;
}

}  // namespace

std::string measure_cached() {
  const Selector selector = Selector::find(Op::gemm, DType::fp32, {.device = detect_cpu()});
  fmt::print("\nchoices of before, ns of a call in blocks of {}\n{:>9} {:>8} {:>8} {:>8} {:>12} {:>8}\n",
             kBlock, "problems", "threads", "p50", "p99", "M choices/s", "misses");
  std::string results;
  for (const std::size_t count : {1u, 64u, 1024u, 4096u}) {
    const auto of = problems(count);
    Choice choice;
    for (const GemmProblem& problem : of) {
      if (selector.try_select(problem, choice) != SelectStatus::ok)
        throw std::runtime_error("a choice failed");
    }
    for (const unsigned threads : {1u, 2u}) {
      const auto before = selector.cache_statistics().misses;
      const Hits hits = measure_threads(selector, of, threads);
      fmt::print("{:>9} {:>8} {:>8.1f} {:>8.1f} {:>12.1f} {:>8}\n", count, threads, hits.p50, hits.p99,
                 hits.choices_per_us, selector.cache_statistics().misses - before);
      if (count == 64 && threads == 1) results = fmt::format("RESULT select.cached_ns {:.1f} ns\n", hits.p50);
    }
  }
  return results;
}

}  // namespace kscout::bench
