#include "gpu_match.h"

#include <fmt/format.h>

#include "backend/cuda/cuda_backend.h"
#include "bench_program.h"
#include "provider/cublaslt/cublaslt.h"

namespace kscout::bench {

std::size_t fastest_of(std::span<const Timed> timed) {
  std::size_t fastest = 0;
  for (std::size_t i = 1; i < timed.size(); ++i) {
    if (timed[i].us < timed[fastest].us || std::isnan(timed[fastest].us)) fastest = i;
  }
  return fastest;
}

GpuMatch::GpuMatch()
    : bench_(
          {.cache = CacheState::cold, .slack_us = 0, .contenders = 8, .rounds = 16, .rounds_budget_us = 4e5},
          1, cuda::gpu_instruments()) {}

void GpuMatch::open(const Problem& problem) { bench_.open(problem); }

std::vector<Timed> GpuMatch::time(const std::vector<KernelConfig>& configs, int runs) {
  std::vector<KernelConfig> distinct;
  std::vector<std::size_t> place;
  for (const KernelConfig& config : configs) {
    const auto known = std::ranges::find(distinct, config);
    place.push_back(static_cast<std::size_t>(known - distinct.begin()));
    if (known == distinct.end()) distinct.push_back(config);
  }
  const std::vector<Timed> each = time_each(distinct, runs);
  const std::vector<std::string> failures = std::move(failures_);
  std::vector<Timed> timed;
  failures_.clear();
  for (const std::size_t at : place) {
    timed.push_back(each[at]);
    failures_.push_back(failures[at]);
  }
  return timed;
}

std::vector<Timed> GpuMatch::time_each(const std::vector<KernelConfig>& configs, int runs) {
  std::vector<kscout::Candidate> candidates;
  for (const KernelConfig& config : configs) candidates.push_back({&cuda_backend(), config});
  // Verifies all configs. This also loads them: a kernel's first call takes milliseconds.
  failures_.clear();
  for (const kscout::Candidate& one : candidates) {
    const Outcome first = bench_.coarse(one, std::numeric_limits<double>::infinity());
    failures_.push_back(first.measured.status == Status::ok
                            ? ""
                            : fmt::format("{}: {}", word(first.measured.status), first.reason));
  }
  std::vector<std::vector<Timed>> medians(configs.size());
  for (int run = 0; run < runs; ++run) {
    bench_.contenders(candidates, [&](std::size_t i, const Outcome& outcome) {
      const Measurement& m = outcome.measured;
      // A config pruned early is known to be slow, so its coarse time is good enough.
      if (failures_[i].empty() && (m.status == Status::ok || m.status == Status::pruned_early))
        medians[i].push_back({m.time_us, m.status == Status::ok && m.noisy});
    });
  }
  std::vector<Timed> timed(configs.size());
  for (std::size_t i = 0; i < timed.size(); ++i) {
    if (medians[i].empty()) continue;
    std::ranges::sort(medians[i], {}, &Timed::us);
    timed[i] = medians[i][medians[i].size() / 2];
  }
  return timed;
}

std::vector<KernelConfig> GpuMatch::shortlist(std::span<const KernelConfig> configs, std::size_t count) {
  std::vector<std::pair<double, std::size_t>> timed;
  double best_us = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const Measurement m = bench_.coarse({&cuda_backend(), configs[i]}, best_us).measured;
    if (m.status != Status::ok) continue;
    timed.emplace_back(m.time_us, i);
    best_us = std::min(best_us, m.time_us);
  }
  std::ranges::sort(timed);
  timed.resize(std::min(timed.size(), count));
  std::vector<KernelConfig> fastest;
  for (const auto& [us, at] : timed) fastest.push_back(configs[at]);
  return fastest;
}

SelectorRequest cuda_request(std::string_view provider) {
  return {.provider = std::string(provider),
          .device = cuda_backend().device(),
          .rules = "default",
          .absence = [](const Signature& of,
                        const KernelConfig& config) { return cuda_backend().absence(of, config); },
          .suggestions = suggestions_of(cuda_backend())};
}

KernelConfig library_suggestion(int place) {
  CublasLtConfig config;
  config.suggestion = place;
  return config.kernel_config();
}

Summary compare(std::span<const std::pair<Timed, Timed>> pairs) {
  Summary summary;
  std::vector<double> all;
  for (const auto& [ours, theirs] : pairs) {
    const double r = theirs.us / ours.us;
    if (!(r > 0)) continue;
    all.push_back(r);
    const bool known = !ours.noisy && !theirs.noisy;
    summary.wins += known && r > 1.03;
    summary.losses += known && r < 1 / 1.03;
  }
  if (all.empty()) return summary;
  summary.problems = all.size();
  summary.geomean = geomean(all);
  std::ranges::sort(all);
  summary.p10 = all[all.size() / 10];
  summary.least = all.front();
  return summary;
}

double Times::at(double share) const {
  return us[std::min(us.size() - 1, static_cast<std::size_t>(share * static_cast<double>(us.size())))];
}

void Times::print() {
  std::ranges::sort(us);
  fmt::print("{:34} {:>10.3f} {:>10.3f} {:>10.3f}\n", who, at(0.5), at(0.99), us.back());
}

}  // namespace kscout::bench
