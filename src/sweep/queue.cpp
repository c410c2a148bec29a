#include "sweep/queue.h"

#include <algorithm>
#include <limits>

#include "core/numbers.h"

namespace kscout {

namespace {

constexpr std::size_t kLikelyBest = 8;  // configs that go first because they were good on other problems

}  // namespace

WorkQueue::WorkQueue(const SweepPlan& plan, std::vector<std::uint32_t> order,
                     const std::vector<JournalRow>& rows, const std::map<SweepKey, int>& crashes)
    : plan_(plan), order_(std::move(order)), crashes_(crashes), score_(plan.configs.size(), 0.0) {
  for (auto& pass : rows_) pass.resize(plan.problems.size());
  for (const auto& row : rows) answered(row.key, row.measured);
  for (const auto problem : order_) {
    if (missing(problem, 1).empty() && missing(problem, 2).empty()) finished(problem);
  }
}

void WorkQueue::answered(const SweepKey& key, const Measurement& measured) {
  // Stores the time with the journal's precision, so that a resumed sweep finds the same contenders.
  rows_[key.pass - 1][key.problem].push_back(
      {key.config, measured.status, with_digits(measured.time_us, kTimeDigits)});
}

int WorkQueue::crashes_of(const SweepKey& key) const {
  const auto found = crashes_.find(key);
  return found == crashes_.end() ? 0 : found->second;
}

double WorkQueue::best_us(std::uint32_t problem) const {
  double best = std::numeric_limits<double>::infinity();
  for (const Known& row : rows_[0][problem]) {
    if (row.status == Status::ok) best = std::min(best, row.time_us);
  }
  return best;
}

std::vector<std::uint32_t> WorkQueue::contenders(std::uint32_t problem) const {
  const Protocol& protocol = plan_.protocol;
  if (protocol.repeat > 0 || protocol.contenders <= 0) return {};
  const double limit = contender_limit_us(protocol, best_us(problem));
  std::vector<std::uint32_t> configs;
  for (const Known& row : rows_[0][problem]) {
    const bool right = row.status == Status::ok || row.status == Status::pruned_early;
    if (right && row.time_us <= limit) configs.push_back(row.config);
  }
  return configs;
}

std::vector<std::uint32_t> WorkQueue::missing(std::uint32_t problem, std::int32_t pass) const {
  std::vector<std::uint32_t> wanted = pass == 1 ? plan_.candidates[problem] : contenders(problem);
  std::set<std::uint32_t> there;
  for (const Known& row : rows_[pass - 1][problem]) there.insert(row.config);
  std::erase_if(wanted, [&](std::uint32_t config) { return there.contains(config); });
  return wanted;
}

std::vector<SweepKey> WorkQueue::crashed_twice(std::uint32_t problem) const {
  std::vector<SweepKey> keys;
  for (const std::int32_t pass : {1, 2}) {
    if (pass == 2 && !missing(problem, 1).empty()) break;  // the contenders are not known yet
    for (const auto config : missing(problem, pass)) {
      if (crashes_of({problem, config, pass}) >= 2) keys.push_back({problem, config, pass});
    }
  }
  return keys;
}

std::optional<std::uint32_t> WorkQueue::take_problem() {
  while (next_ < order_.size()) {
    const std::uint32_t problem = order_[next_++];
    if (!done_.contains(problem)) return problem;
  }
  return std::nullopt;
}

std::optional<Batch> WorkQueue::next_batch(std::uint32_t problem, std::size_t most) const {
  for (const std::int32_t pass : {1, 2}) {
    std::vector<std::uint32_t> together, alone;
    for (const auto config : missing(problem, pass)) {
      const int crashes = crashes_of({problem, config, pass});
      if (crashes == 0) together.push_back(config);
      if (crashes == 1) alone.push_back(config);
    }
    if (pass == 2 && split_.contains(problem) && together.size() > 1) together = {together.front()};
    if (!together.empty() && pass == 1) {
      together = likely_best_first(problem, std::move(together));
      if (most > 0 && together.size() > most) together.resize(most);
    }
    if (!together.empty()) return Batch{problem, pass, std::move(together)};
    if (!alone.empty()) return Batch{problem, pass, {alone.front()}};
  }
  return std::nullopt;
}

void WorkQueue::finished(std::uint32_t problem) {
  if (!done_.insert(problem).second) return;
  const double best = best_us(problem);
  for (const Known& row : rows_[0][problem]) {
    if (row.status == Status::ok && row.time_us > 0) score_[row.config] += best / row.time_us;
  }
}

std::vector<std::uint32_t> WorkQueue::likely_best_first(std::uint32_t problem,
                                                        std::vector<std::uint32_t> configs) const {
  const auto order = seeded_order(configs.size(), mix_hash(plan_.seed, problem));
  std::vector<std::uint32_t> shuffled;
  for (const auto i : order) shuffled.push_back(configs[i]);
  const std::size_t likely_best = std::min(kLikelyBest, shuffled.size());
  std::ranges::partial_sort(shuffled, shuffled.begin() + static_cast<std::ptrdiff_t>(likely_best),
                            [&](std::uint32_t a, std::uint32_t b) { return score_[a] > score_[b]; });
  return shuffled;
}

}  // namespace kscout
