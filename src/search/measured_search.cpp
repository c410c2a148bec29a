#include "search/measured_search.h"

#include <algorithm>
#include <cmath>

#include <kscout/provider.h>

#include "core/fail.h"
#include "features/schema.h"
#include "search/time_surrogate.h"

namespace kscout {

namespace {

constexpr std::size_t kShare = 20;  // of this many configs, one is timed
constexpr std::size_t kMinWithModel = 16, kMinWithout = 24;

std::size_t evaluations_of(std::size_t configs, std::size_t least) {
  return std::min(configs, std::max((configs + kShare - 1) / kShare, least));
}

std::vector<Traits> traits_of(ProblemRef problem, const ConfigTable& configs, const Device& device) {
  const Provider& of = provider(configs.space().provider);
  const Signature signature = signature_of(problem);
  std::vector<Traits> traits;
  for (std::size_t i = 0; i < configs.size(); ++i) traits.push_back(of.traits(signature, configs[i], device));
  return traits;
}

/// Positions of the configs that stand for a vendor library's own suggestions, from the first suggestion to
/// suggestion number `last`.
std::vector<std::uint32_t> suggestions(const std::vector<Traits>& traits, double last) {
  std::vector<std::uint32_t> positions;
  for (std::uint32_t i = 0; i < traits.size(); ++i) {
    if (traits[i].suggestion >= 1 && traits[i].suggestion <= last) positions.push_back(i);
  }
  std::ranges::stable_sort(positions, {}, [&](std::uint32_t i) { return traits[i].suggestion; });
  return positions;
}

}  // namespace

SearchStart start_by_model(const Model& model, ProblemRef problem, const ConfigTable& configs) {
  SearchStart start;
  start.expected_us = model.predicted_tflops(problem, model.score_configs(problem, configs));
  for (double& value : start.expected_us) value = time_us_of(problem, value);
  const std::vector<Traits> traits = traits_of(problem, configs, model.device());
  for (const std::uint32_t any : suggestions(traits, HUGE_VAL)) start.expected_us[any] = Traits::unknown;
  start.first = suggestions(traits, 1);
  start.evaluations = evaluations_of(configs.size(), kMinWithModel);
  start.in_order = start.evaluations / 2;
  return start;
}

SearchStart start_by_cost(ProblemRef problem, const ConfigTable& configs, const Device& device) {
  SearchStart start;
  const std::vector<Traits> traits = traits_of(problem, configs, device);
  start.expected_us.resize(configs.size());
  analytic_schema(signature_of(problem).op, configs.space().provider)
      .evaluate(problem, device, configs, traits, start.expected_us);
  start.first = suggestions(traits, HUGE_VAL);
  start.evaluations = evaluations_of(configs.size(), kMinWithout);
  return start;
}

namespace {

/// Coarse times have errors, of milliseconds on a busy CPU. So this many of the fastest configs are always
/// timed again, whatever lies between their times: the interleaved rounds drop slow configs at once.
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

  /// The first one where several are equal. Callers make sure that at least one config is untried.
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
  const std::vector<double> expected_;  ///< before anything was learned
  std::vector<bool> tried_;
  MeasuredSearchResult result_;
};

}  // namespace

MeasuredSearchResult search_by_measuring(const SearchSpace& space, ConfigTimer& timer,
                                         const MeasuredSearchRequest& request) {
  return MeasuredSearch(space, timer, request).run();
}

}  // namespace kscout
