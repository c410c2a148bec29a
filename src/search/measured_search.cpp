#include "search/measured_search.h"

#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "search/time_surrogate.h"

namespace kscout {

namespace {

/// Coarse times err, on a busy CPU by milliseconds, so the fastest of them are timed again whatever lies
/// between them: the interleaved rounds give up slow configs at once.
constexpr std::size_t kContenders = 16;

class MeasuredSearch {
 public:
  MeasuredSearch(const SearchSpace& space, ConfigTimer& timer, const MeasuredSearchRequest& request)
      : timer_(timer),
        request_(request),
        surrogate_(space, request.start.expected_us),
        expected_(surrogate_.optimistic()),
        tried_(space.size()) {}

  MeasuredSearchResult run() {
    for (const std::uint32_t config : request_.start.first) {
      if (config >= tried_.size() || tried_[config])
        fail(Errc::invalid_argument, "config {} of {} cannot be timed first: name each once", config,
             tried_.size());
      if (may_go_on()) try_config(config);
    }
    for (std::size_t ordered = 0; may_go_on(); ++ordered) {
      const std::uint32_t next =
          most_promising(ordered < request_.start.in_order ? expected_ : surrogate_.optimistic());
      if (const double time_us = try_config(next); !std::isnan(time_us)) surrogate_.learn(next, time_us);
    }
    choose();
    return std::move(result_);
  }

 private:
  bool may_go_on() const {
    if (result_.timed >= std::min(request_.evaluations, tried_.size())) return false;
    return result_.timed == 0 || !request_.stop || !request_.stop();
  }

  double try_config(std::uint32_t config) {
    tried_[config] = true;
    ++result_.timed;
    const double time_us = timer_.time_us(config);
    if (std::isnan(time_us)) {
      ++result_.failed;
    } else {
      result_.best.push_back({config, time_us, result_.timed, false});
    }
    return time_us;
  }

  /// The first of equals. Not all configs are tried yet.
  std::uint32_t most_promising(const std::vector<double>& values) const {
    std::size_t best = values.size();
    for (std::size_t c = 0; c < values.size(); ++c) {
      if (!tried_[c] && (best == values.size() || values[c] < values[best])) best = c;
    }
    return static_cast<std::uint32_t>(best);
  }

  void choose() {
    std::vector<TimedConfig>& best = result_.best;
    std::ranges::stable_sort(best, {}, &TimedConfig::time_us);
    std::vector<std::uint32_t> contenders;
    for (std::size_t i = 0; i < std::min(best.size(), kContenders); ++i) contenders.push_back(best[i].config);
    if (contenders.size() > 1) {
      const std::vector<Retimed> retimed = timer_.retime(contenders);
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        best[i].time_us = retimed[i].time_us;
        best[i].in_rounds = retimed[i].in_rounds;
      }
      result_.failed += std::erase_if(best, [](const TimedConfig& one) { return std::isnan(one.time_us); });
      std::ranges::stable_sort(best, [](const TimedConfig& a, const TimedConfig& b) {
        return a.in_rounds != b.in_rounds ? a.in_rounds : a.time_us < b.time_us;
      });
    }
    if (best.size() > request_.top) best.resize(request_.top);
  }

  ConfigTimer& timer_;
  const MeasuredSearchRequest& request_;
  TimeSurrogate surrogate_;
  const std::vector<double> expected_;  ///< before anything was learnt
  std::vector<bool> tried_;
  MeasuredSearchResult result_;
};

}  // namespace

MeasuredSearchResult search_by_measuring(const SearchSpace& space, ConfigTimer& timer,
                                         const MeasuredSearchRequest& request) {
  return MeasuredSearch(space, timer, request).run();
}

}  // namespace kscout
