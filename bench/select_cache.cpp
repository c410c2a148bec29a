/// \file
/// What a choice costs that was made before: the decision cache, by number of problems in use and by threads.
///
///     ./dev bench select_cache [MODEL]
#include <algorithm>
#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <kscout/selector.h>

#include "measure/clock.h"

namespace {

using namespace kscout;

constexpr std::size_t kBlock = 64;  ///< calls behind one reading of the clock, which costs 25 ns itself
constexpr std::size_t kBlocks = 20'000;

std::vector<GemmProblem> problems(std::size_t count) {
  std::vector<GemmProblem> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(make_gemm(static_cast<std::int64_t>(1 + i % 512), 4096,
                            static_cast<std::int64_t>(1024 * (1 + i / 512))));
  }
  return all;
}

/// Nanoseconds of a call in each block.
std::vector<double> hit_ns(const Selector& selector, const std::vector<GemmProblem>& of, std::size_t seed) {
  std::vector<double> ns;
  ns.reserve(kBlocks);
  Choice choice;
  std::size_t next = seed, checked = 0;
  for (std::size_t block = 0; block < kBlocks; ++block) {
    const auto begin = now_ns();
    for (std::size_t i = 0; i < kBlock; ++i) {
      next = (next * 5 + 1) % of.size();  // an order that no prefetcher knows
      checked += selector.try_select(of[next], choice) == SelectStatus::ok ? 1 : 0;
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

}  // namespace

int main(int argc, char** argv) {
  const Selector selector =
      argc > 1 ? Selector::load(argv[1]) : Selector::find(Op::gemm, DType::fp32, {.device = detect_cpu()});
  fmt::print("model: {}\n\n{:>9} {:>8} {:>9} {:>9} {:>9} {:>14}\n", selector.model_path().string(),
             "problems", "threads", "p50_ns", "p99_ns", "max_ns", "M choices/s");
  double p50_one = 0;
  for (const std::size_t count : {std::size_t{1}, std::size_t{64}, std::size_t{1024}}) {
    const auto of = problems(count);
    Choice choice;
    for (const GemmProblem& problem : of) {
      if (selector.try_select(problem, choice) != SelectStatus::ok) return 1;
    }
    for (unsigned threads = 1; threads <= std::max(2U, std::thread::hardware_concurrency()); threads *= 2) {
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
      std::vector<double> all;
      double per_ns = 0;
      for (const auto& one : ns) {
        all.insert(all.end(), one.begin(), one.end());
        per_ns += 1 / at(one, 0.5);
      }
      std::ranges::sort(all);
      fmt::print("{:>9} {:>8} {:>9.1f} {:>9.1f} {:>9.1f} {:>14.1f}\n", count, threads, at(all, 0.5),
                 at(all, 0.99), all.back(), 1e3 * per_ns);
      if (count == 64 && threads == 1) p50_one = at(all, 0.5);
    }
  }
  const CacheStatistics statistics = selector.cache_statistics();
  fmt::print("\nhits {}, misses {}, evictions {}\n", statistics.hits, statistics.misses,
             statistics.evictions);
  fmt::print("RESULT select.cached_ns {:.1f} ns\n", p50_one);
}
