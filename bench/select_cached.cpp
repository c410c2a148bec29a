// Measures hits of the decision cache: nanoseconds of a hit on one thread by number of problems, and how hits
// scale with threads.
//
//   select_cached
//
// Cyclic: a shuffled list of problems, repeated. Random: each problem drawn uniformly. Scaling of n threads:
// throughput(n) / (n x throughput(1)). The last column, "arithmetic", is the scaling of a loop without memory
// accesses: it shows the limit of the host's clock and hardware threads.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <kscout/selector.h>

#include "core/numbers.h"
#include "measure/timing.h"

namespace {

using namespace kscout;

constexpr std::size_t kBlock = 64;  ///< calls between two readings of the clock, which costs more than a hit
constexpr std::size_t kBlocks = 10'000;
constexpr int kRounds = 7;
constexpr std::int64_t kScalingNs = 100'000'000;

enum class Order { cyclic, random };

std::vector<GemmProblem> problems(std::size_t count) {
  std::vector<GemmProblem> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(make_gemm(static_cast<std::int64_t>(1 + i % 512), 4096,
                            static_cast<std::int64_t>(1024 * (1 + i / 512))));
  }
  std::ranges::shuffle(all, std::mt19937(1));  // defeats prefetching of the cache's memory
  return all;
}

/// Selects problems in a given order.
class Chooser {
 public:
  Chooser(const Selector& selector, const std::vector<GemmProblem>& of, Order order, unsigned seed)
      : selector_(selector),
        of_(of),
        order_(order),
        state_(seed * 2654435761U + 1),
        next_(seed % of.size()) {}

  void choose_block() {
    std::size_t ok = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      ok += selector_.try_select(of_[next_], choice_) == SelectStatus::ok ? 1 : 0;
      if (order_ == Order::cyclic) {
        if (++next_ == of_.size()) next_ = 0;
      } else {
        state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
        next_ = (state_ >> 32) * of_.size() >> 32;
      }
    }
    if (ok != kBlock) throw std::runtime_error("a choice failed");
  }

 private:
  const Selector& selector_;
  const std::vector<GemmProblem>& of_;
  const Order order_;
  std::uint64_t state_;
  std::size_t next_;
  Choice choice_;
};

/// Multiplies for about the duration of a block of hits.
void arithmetic_block() {
  std::uint64_t product = 1;
  for (int i = 0; i < 1500; ++i) {
    product = product * 6364136223846793005ULL + 1442695040888963407ULL;
    asm volatile("" : "+r"(product));
  }
}

/// Blocks per nanosecond of all threads together; `make` returns each thread's function for one block.
double throughput(unsigned threads, const auto& make) {
  std::barrier together(threads);
  std::vector<double> rate(threads);
  std::vector<std::thread> pool;
  for (unsigned t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      auto block = make(t);
      for (int i = 0; i < 200; ++i) block();
      together.arrive_and_wait();
      const auto begin = now_ns();
      auto now = begin;
      std::int64_t blocks = 0;
      for (; now < begin + kScalingNs; now = now_ns(), ++blocks) block();
      rate[t] = static_cast<double>(blocks) / static_cast<double>(now - begin);
    });
  }
  for (auto& thread : pool) thread.join();
  double sum = 0;
  for (const double one : rate) sum += one;
  return sum;
}

struct Hit {
  double p50 = 0, p99 = 0;
};

Hit hit_ns(Chooser asker) {
  std::vector<double> ns;
  for (std::size_t block = 0; block < kBlocks; ++block) {
    const auto begin = now_ns();
    asker.choose_block();
    ns.push_back(static_cast<double>(now_ns() - begin) / kBlock);
  }
  return {quantile(ns, 0.5), quantile(ns, 0.99)};
}

/// Makes the selector decide each problem once.
void warm(const Selector& selector, const std::vector<GemmProblem>& of) {
  Choice choice;
  for (const GemmProblem& problem : of) {
    if (selector.try_select(problem, choice) != SelectStatus::ok) throw std::runtime_error("a choice failed");
  }
}

std::string measure_one_thread(const Selector& selector) {
  std::string results;
  fmt::print("one thread, ns of a hit, means of {} calls\n{:>9} {:>8} {:>8} {:>8} {:>8}\n", kBlock,
             "problems", "order", "p50", "p99", "misses");
  for (const std::size_t count : {1U, 64U, 1024U, 4096U}) {
    const auto of = problems(count);
    warm(selector, of);
    for (const Order order : {Order::cyclic, Order::random}) {
      const auto before = selector.cache_statistics().misses;
      const Hit hit = hit_ns({selector, of, order, 1});
      fmt::print("{:>9} {:>8} {:>8.1f} {:>8.1f} {:>8}\n", count, order == Order::cyclic ? "cyclic" : "random",
                 hit.p50, hit.p99, selector.cache_statistics().misses - before);
      if (order == Order::cyclic && count == 64) {
        results += fmt::format("RESULT select.cached_ns {:.1f} ns\n", hit.p50);
      }
      if (order == Order::random && count == 4096) {
        results += fmt::format("RESULT select.cached_ns_4096 {:.1f} ns\n", hit.p50);
      }
    }
  }
  return results;
}

std::string measure_scaling(const Selector& selector) {
  const auto few = problems(64), many = problems(4096);
  warm(selector, few);
  warm(selector, many);
  std::vector<unsigned> threads = {1};
  while (2 * threads.back() <= std::min(16U, std::thread::hardware_concurrency())) {
    threads.push_back(2 * threads.back());
  }
  const auto asks = [&](const std::vector<GemmProblem>& of) {
    return [&](unsigned seed) {
      return [asker = Chooser(selector, of, Order::random, seed)]() mutable { asker.choose_block(); };
    };
  };
  // Interleaved: each round measures all numbers of threads.
  struct Rates {
    std::vector<double> few, many, arithmetic;
  };
  std::vector<Rates> rates(threads.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < threads.size(); ++i) {
      rates[i].few.push_back(throughput(threads[i], asks(few)));
      rates[i].many.push_back(throughput(threads[i], asks(many)));
      rates[i].arithmetic.push_back(throughput(threads[i], [](unsigned) { return arithmetic_block; }));
    }
  }
  fmt::print("\nscaling, random order, medians of {} rounds\n{:>8} {:>10} {:>10} {:>10} {:>10} {:>11}\n",
             kRounds, "threads", "M hits/s", "scaling", "M hits/s", "scaling", "arithmetic");
  fmt::print("{:>8} {:>10} {:>10} {:>10} {:>10}\n", "", "64", "64", "4096", "4096");
  double last = 1;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const auto scaling = [&](std::vector<double> Rates::*of) {
      return quantile(rates[i].*of, 0.5) / (threads[i] * quantile(rates[0].*of, 0.5));
    };
    last = scaling(&Rates::many);
    fmt::print("{:>8} {:>10.1f} {:>10.2f} {:>10.1f} {:>10.2f} {:>11.2f}\n", threads[i],
               1e3 * kBlock * quantile(rates[i].few, 0.5), scaling(&Rates::few),
               1e3 * kBlock * quantile(rates[i].many, 0.5), last, scaling(&Rates::arithmetic));
  }
  return fmt::format("RESULT select.cached_scaling_{} {:.2f} x\n", threads.back(), last);
}

}  // namespace

int main() {
  try {
    const Selector selector = Selector::find(Op::gemm, DType::fp32, {.device = detect_cpu()});
    std::string results = measure_one_thread(selector);
    results += measure_scaling(selector);
    fmt::print("\n{}", results);
  } catch (const std::exception& error) {
    fmt::print(stderr, "select_cached: {}\n", error.what());
    return 4;
  }
  return 0;
}
