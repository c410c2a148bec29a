/// \file
/// The search that is our default: what is known before, trees fitted to the scores so far, moves along axes
/// and crossings of good configs.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "search/score_trees.h"
#include "search/tally.h"

namespace kscout {

namespace {

constexpr double kStartShare = 0.25;  // of the budget, before the first fit
constexpr std::size_t kRounds = 16;   // batches after the start
constexpr std::size_t kLeastBatch = 3;
constexpr std::size_t kPool = 4096;   // candidates of a round; a smaller space is rated whole
constexpr std::size_t kParents = 16;  // best configs from which the pool's moves and crossings start
constexpr std::size_t kOpinions = 6;  // groups of trees; each proposes in turn what it rates highest
constexpr double kWorth = 0.3;        // scores below this quantile all count as that bad
static_assert(ScoreTrees::trees % kOpinions == 0);

}  // namespace

/// One run. A config is "asked" from the moment it is put into a batch.
class GuidedSearch {
 public:
  GuidedSearch(Searcher& random, const SearchSpace& space, const Objective& objective,
               const SearchRequest& request)
      : random_(random),
        space_(space),
        prior_(request.prior),
        budget_(std::min(request.budget, space.size())),
        tally_(objective),
        trees_(space, request.prior),
        asked_(space.size()),
        pooled_(space.size()) {
    if (prior_.empty()) return;
    hopeful_.resize(space.size());
    std::iota(hopeful_.begin(), hopeful_.end(), 0u);
    const auto hope = [&](std::uint32_t c) { return std::isnan(prior_[c]) ? -HUGE_VAL : prior_[c]; };
    std::ranges::stable_sort(hopeful_, std::ranges::greater{}, hope);
  }

  SearchResult run(std::size_t top) {
    start();
    while (tally_.evaluations() < budget_) {
      size_ = std::min(std::max(kLeastBatch, budget_ / kRounds), budget_ - tally_.evaluations());
      fit();
      fill_pool();
      propose();
      ask();
    }
    return tally_.result(top);
  }

 private:
  using Opinions = std::array<double, kOpinions>;

  bool put(std::uint32_t config) {
    if (asked_[config] || batch_.size() == size_) return false;
    asked_[config] = true;
    batch_.push_back(config);
    return true;
  }

  void ask() {
    tally_.ask(batch_);
    batch_.clear();
  }

  /// Half what the prior holds best, half spread evenly over the family's order, in which neighbours are
  /// alike.
  void start() {
    size_ = std::min(
        budget_, std::max(kLeastBatch, static_cast<std::size_t>(kStartShare * static_cast<double>(budget_))));
    for (std::size_t i = 0; i < hopeful_.size() && batch_.size() < (size_ + 1) / 2; ++i) put(hopeful_[i]);
    const std::size_t spread = size_ - batch_.size(), first = random_.below(space_.size());
    for (std::size_t i = 0; i < spread; ++i)
      put(static_cast<std::uint32_t>((first + i * space_.size() / spread) % space_.size()));
    ask();
  }

  /// Differences among bad configs say little about good ones, so scores below a quantile count as equal.
  void fit() {
    std::vector<double> usable;
    for (const FoundConfig& one : tally_.found()) {
      if (std::isfinite(one.score)) usable.push_back(one.score);
    }
    if (usable.empty()) usable.push_back(0);
    const auto middle =
        usable.begin() + static_cast<std::ptrdiff_t>(kWorth * static_cast<double>(usable.size() - 1));
    std::ranges::nth_element(usable, middle);
    std::vector<std::uint32_t> configs;
    std::vector<double> scores;
    for (const FoundConfig& one : tally_.found()) {
      configs.push_back(one.config);
      scores.push_back(std::max(*middle, one.score));
    }
    trees_.fit(configs, scores, [this](std::size_t count) { return random_.below(count); });
    best_ = best_of({tally_.found().begin(), tally_.found().end()}, kParents);
  }

  void add_to_pool(std::uint32_t config) {
    if (asked_[config] || pooled_[config] || pool_.size() == kPool) return;
    pooled_[config] = true;
    pool_.push_back(config);
  }

  /// The whole space when it is small; else moves and crossings, what the prior holds best, and a random
  /// rest.
  void fill_pool() {
    for (const std::uint32_t config : pool_) pooled_[config] = false;
    pool_.clear();
    if (space_.size() <= kPool) {
      for (std::uint32_t config = 0; config < space_.size(); ++config) add_to_pool(config);
      return;
    }
    for (const FoundConfig& one : best_) add_moves(space_.point(one.config));
    for (std::size_t i = 0; best_.size() > 1 && i < kPool / 8; ++i) {
      add_crossing(space_.point(best_[random_.below(best_.size())].config),
                   space_.point(best_[random_.below(best_.size())].config));
    }
    const std::size_t hopeful = std::min(kPool, pool_.size() + kPool / 4);
    for (std::size_t i = 0; i < hopeful_.size() && pool_.size() < hopeful; ++i) add_to_pool(hopeful_[i]);
    for (std::size_t i = 0; i < kPool / 2; ++i) add_to_pool(random_.below(space_.size()));
  }

  /// Everything legal that differs on one axis.
  void add_moves(std::span<const std::uint16_t> from) {
    child_.assign(from.begin(), from.end());
    for (std::size_t axis = 0; axis < child_.size(); ++axis) {
      for (child_[axis] = 0; child_[axis] < space_.values(axis); ++child_[axis]) {
        if (const auto legal = space_.find(child_)) add_to_pool(*legal);
      }
      child_[axis] = from[axis];
    }
  }

  /// A child with each axis from either, one of them anew.
  void add_crossing(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b) {
    child_.clear();
    for (std::size_t axis = 0; axis < a.size(); ++axis)
      child_.push_back(random_.chance(0.5) ? a[axis] : b[axis]);
    const std::size_t axis = random_.below(child_.size());
    child_[axis] = static_cast<std::uint16_t>(random_.below(space_.values(axis)));
    if (const auto legal = space_.find(child_)) add_to_pool(*legal);
  }

  /// Every group of trees in turn proposes the candidate that it rates highest; among equals any, since they
  /// may be alike in all that matters. Then one drawn from the pool, for what no tree knows.
  void propose() {
    std::vector<Opinions> rating(pool_.size());
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      for (std::size_t tree = 0; tree < ScoreTrees::trees; ++tree)
        rating[i][tree % kOpinions] += trees_.of(tree, pool_[i]);
    }
    std::vector<std::uint32_t> order(pool_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::vector<std::uint32_t> draw = order;  // who comes first among equals
    for (std::size_t i = draw.size(); i > 1; --i) std::swap(draw[i - 1], draw[random_.below(i)]);
    // The others put fewer than a batch in, so a batch of candidates suffices for each group.
    const std::size_t kept = std::min(size_, pool_.size());
    std::array<std::vector<std::uint32_t>, kOpinions> ranked;
    for (std::size_t group = 0; group < kOpinions; ++group) {
      std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(kept),
                                [&](std::uint32_t a, std::uint32_t b) {
                                  if (rating[a][group] != rating[b][group])
                                    return rating[a][group] > rating[b][group];
                                  return draw[a] < draw[b];
                                });
      ranked[group].assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept));
    }
    std::array<std::size_t, kOpinions> next{};
    for (std::size_t turn = 0; batch_.size() < size_ && turn < pool_.size() * (kOpinions + 1); ++turn) {
      const std::size_t group = (turn + round_) % (kOpinions + 1);
      if (group == kOpinions) {
        put(pool_[random_.below(pool_.size())]);
        continue;
      }
      while (next[group] < kept && !put(pool_[ranked[group][next[group]]])) ++next[group];
    }
    round_ += size_;
  }

  Searcher& random_;
  const SearchSpace& space_;
  std::span<const double> prior_;
  std::size_t budget_, size_ = 0, round_ = 0;
  Tally tally_;
  ScoreTrees trees_;
  std::vector<bool> asked_, pooled_;
  std::vector<std::uint32_t> hopeful_;  ///< by falling prior
  std::vector<std::uint32_t> batch_, pool_;
  std::vector<FoundConfig> best_;
  SearchPoint child_;
};

SearchResult Searcher::guide(const SearchSpace& space, const Objective& objective,
                             const SearchRequest& request) {
  return GuidedSearch(*this, space, objective, request).run(request.top);
}

}  // namespace kscout
