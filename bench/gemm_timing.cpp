#include "gemm_timing.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <random>
#include <thread>

#include "measure/timing.h"

namespace kscout::bench {

namespace {

constexpr double kSeriesUs = 100;  ///< min length of a coarse series
constexpr double kRoundUs = 1500;  ///< min length of one round of a finalist
constexpr double kPruneFactor =
    1.8;  ///< dropped after one series when this many times slower than the best so far

/// Microseconds per call of a series of at least `min_us`; `one_us` is the approximate time of a call.
double series(const std::function<void()>& call, double min_us, double one_us) {
  const int calls = static_cast<int>(std::clamp(min_us / std::max(one_us, 0.01), 1.0, 1e5));
  const std::int64_t begin = now_ns();
  for (int i = 0; i < calls; ++i) call();
  return static_cast<double>(now_ns() - begin) * 1e-3 / calls;
}

void fill(float* data, std::int64_t count, std::uint32_t seed) {
  std::minstd_rand rng(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  for (std::int64_t i = 0; i < count; ++i) data[i] = values(rng);
}

}  // namespace

Pages::Pages(std::size_t bytes) : data(std::aligned_alloc(4096, (bytes / 4096 + 1) * 4096), std::free) {
  if (!data) throw std::bad_alloc();
}

GemmTimer::GemmTimer(const GemmProblem& problem)
    : problem_(problem),
      sizes_(operand_elements(problem)),
      a_(sizeof(float) * static_cast<std::size_t>(sizes_.a)),
      b_(sizeof(float) * static_cast<std::size_t>(sizes_.b)),
      c_(sizeof(float) * static_cast<std::size_t>(sizes_.c)),
      workspace_(std::make_shared<Pages>(0)) {
  fill(a_.floats(), sizes_.a, 1);
  fill(b_.floats(), sizes_.b, 2);
  fill(c_.floats(), sizes_.c, 3);
}

void GemmTimer::add(const KernelConfig& config, const std::string& name) {
  if (!backend("cpu").refusal(problem_, config).empty()) return;
  launches_.push_back(backend("cpu").prepare(problem_, config));
  Launch* const launch = launches_.back().get();
  if (launch->workspace_bytes() > workspace_bytes_) {
    workspace_bytes_ = launch->workspace_bytes();
    *workspace_ = Pages(workspace_bytes_);
    fill(workspace_->floats(), static_cast<std::int64_t>(workspace_bytes_ / sizeof(float)), 4);
  }
  const GemmBuffers buffers{.a = a(), .b = b(), .c = c()};
  candidates_.push_back({name, false, [=, this] { launch->run(buffers, workspace_->data.get()); }});
}

void GemmTimer::add_peer(const std::string& name, std::function<void()> call) {
  candidates_.push_back({name, true, std::move(call)});
}

void GemmTimer::coarse() {
  double best = std::numeric_limits<double>::infinity();
  for (Candidate& one : candidates_) {
    if (one.peer) continue;
    double first = series(one.call, 0, 1);
    if (first < 2 * best && first < 20000) first = series(one.call, 0, 1);  // the first call runs cold code
    one.coarse_us = first;
    for (int i = 0; i < 3 && one.coarse_us < kPruneFactor * best && first * (i + 1) < 20000; ++i) {
      one.coarse_us = std::min(one.coarse_us, series(one.call, kSeriesUs, first));
    }
    best = std::min(best, one.coarse_us);
  }
}

void GemmTimer::interleaved(std::size_t finalists, int rounds) {
  std::vector<Candidate*> chosen;
  for (Candidate& one : candidates_) {
    if (!one.peer) chosen.push_back(&one);
  }
  std::ranges::stable_sort(chosen, {}, &Candidate::coarse_us);
  chosen.resize(std::min(chosen.size(), finalists));
  for (Candidate& one : candidates_) {
    if (one.peer) chosen.push_back(&one);
  }
  std::vector<std::vector<double>> times(chosen.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      chosen[i]->call();
      const double one_us = series(chosen[i]->call, 0, 1);
      times[i].push_back(series(chosen[i]->call, kRoundUs, one_us));
      // Waits until idle threads of other libraries stop spinning, which would slow down the next candidate.
      if (chosen[i]->peer) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    std::ranges::sort(times[i]);
    chosen[i]->time_us = times[i][times[i].size() / 2];
  }
}

const Candidate& GemmTimer::best(bool peer) const {
  const Candidate* found = nullptr;
  for (const Candidate& one : candidates_) {
    if (one.peer == peer && (found == nullptr || one.time_us < found->time_us)) found = &one;
  }
  return *found;
}

}  // namespace kscout::bench
