#include <algorithm>
#include <cmath>
#include <numeric>

#include <kscout/provider.h>
#include <kscout/selector.h>

#include "core/fail.h"
#include "select/analytic.h"
#include "select/model.h"

namespace kscout {

namespace {

/// What a link of the chain says about the configs of a family.
struct Opinion {
  std::shared_ptr<const Family> family;
  std::vector<double> scores;   ///< higher is better; -infinity = cannot take the problem
  std::vector<double> tflops;   ///< predicted, NaN = cannot tell
  std::vector<double> time_us;  ///< the same
  ChoiceSource source = ChoiceSource::fallback;
};

constexpr double kUnserved = -std::numeric_limits<double>::infinity();
bool usable(double score) { return score > kUnserved; }

Target target_of(By by) {
  switch (by) {
    case By::tflops:
      return Target::tflops;
    case By::latency:
      return Target::latency;
    default:
      return Target::bandwidth;
  }
}

/// Positions of the best `count` usable scores; ties keep family order.
std::vector<std::size_t> best_of(const std::vector<double>& scores, std::size_t count) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (usable(scores[i])) order.push_back(i);
  }
  const std::size_t kept = std::min(count, order.size());
  const auto better = [&](std::size_t a, std::size_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), better);
  order.resize(kept);
  return order;
}

}  // namespace

struct Selector::Impl {
  std::optional<Model> model;
  std::filesystem::path model_path;
  Analytic analytic;

  explicit Impl(const SelectorRequest& request) : analytic(request) {}
  Impl(Device device, std::function<Family(const Signature&)> make)
      : analytic(std::move(device), std::move(make)) {}

  /// The model's opinion; nothing when it was not trained for such problems or none of its configs can take
  /// this one.
  std::optional<Opinion> ask_model(const GemmProblem& problem, By by) const {
    if (!model) return std::nullopt;
    const Family* const family = model->family(signature_of(problem));
    if (!family) return std::nullopt;
    const Target target = by == By::best ? model->default_target() : target_of(by);
    Opinion opinion;
    opinion.family = {std::shared_ptr<const void>(), family};  // owned by the model
    opinion.scores.resize(family->configs.size());
    model->score(problem, target, opinion.scores);
    if (std::ranges::none_of(opinion.scores, usable)) return std::nullopt;
    opinion.tflops = model->predicted_tflops(problem, target, opinion.scores);
    for (const double tflops : opinion.tflops) opinion.time_us.push_back(time_us_of(problem, tflops));
    opinion.source = ChoiceSource::model;
    return opinion;
  }

  /// Analytic costs, configs of unknown cost last; when all are unknown, the default config and then family
  /// order.
  Opinion ask_analytic(const GemmProblem& problem) const {
    Opinion opinion;
    opinion.family = analytic.family(signature_of(problem));
    const auto time_us = analytic.time_us(*opinion.family, problem);
    std::vector<std::uint8_t> serves;
    serving_configs(*opinion.family, problem, serves);
    opinion.scores.assign(time_us.size(), kUnserved);
    opinion.tflops.resize(time_us.size());
    opinion.time_us = time_us;
    for (std::size_t i = 0; i < time_us.size(); ++i) {
      opinion.tflops[i] = flop_count(problem) / time_us[i] * 1e-6;
      if (serves[i] == 0) continue;
      const bool known = !std::isnan(time_us[i]);
      if (known) opinion.source = ChoiceSource::analytic;
      const double untold = i == opinion.family->default_config ? 0.5 : 1;
      opinion.scores[i] = known ? -time_us[i] : -untold * std::numeric_limits<double>::max();
    }
    return opinion;
  }

  bool has(By by) const { return !model || by == By::best || model->has(target_of(by)); }

  /// What the first link says that can answer. Throws as Selector::rank.
  Opinion ask(const GemmProblem& problem, By by) const {
    check(problem);
    auto opinion = ask_model(problem, by);
    if (!opinion) opinion = ask_analytic(problem);
    if (std::ranges::any_of(opinion->scores, usable)) return *std::move(opinion);
    fail(Errc::unsupported, "{}: none of the {} configs of {} can take it", print(problem),
         opinion->scores.size(), opinion->family->provider);
  }

  Choice describe(const GemmProblem& problem, const Opinion& opinion, std::size_t index) const {
    Choice choice;
    choice.config = opinion.family->configs[index];
    choice.score = opinion.scores[index];
    choice.source = choice.decided_by = opinion.source;
    choice.tflops = opinion.tflops[index];
    choice.time_us = opinion.time_us[index];
    choice.gb_s = least_bytes(problem) / choice.time_us * 1e-3;
    return choice;
  }

  /// Fills `best` with the best configs of an opinion; how many.
  std::size_t fill(const GemmProblem& problem, const Opinion& opinion, std::span<Choice> best) const {
    // One more than asked: the last one's margin needs its follower.
    const auto order = best_of(opinion.scores, best.size() + 1);
    const std::size_t count = std::min(best.size(), order.size());
    for (std::size_t i = 0; i < count; ++i) {
      best[i] = describe(problem, opinion, order[i]);
      if (i + 1 < order.size()) best[i].margin = opinion.time_us[order[i + 1]] / best[i].time_us - 1;
    }
    return count;
  }
};

Selector::Selector(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Selector Selector::load(const std::filesystem::path& path) {
  Model model = Model::load(path);
  const Family& family = model.data().families.front();
  auto impl = std::make_shared<Impl>(SelectorRequest{family.provider, family.device, family.rules});
  impl->model.emplace(std::move(model));
  impl->model_path = path;
  return Selector(std::move(impl));
}

Selector Selector::analytic(const SelectorRequest& request) {
  return Selector(std::make_shared<Impl>(request));
}

Selector Selector::analytic(Device device, std::function<Family(const Signature&)> make) {
  return Selector(std::make_shared<Impl>(std::move(device), std::move(make)));
}

Selector Selector::find(Op op, DType dtype, const SelectorRequest& request) {
  const auto found = find_model(op, dtype, request.device);
  return found ? load(*found) : analytic(request);
}

const std::filesystem::path& Selector::model_path() const noexcept { return impl_->model_path; }
const Device& Selector::device() const noexcept { return impl_->analytic.device(); }

std::size_t Selector::rank(const GemmProblem& problem, std::span<Choice> best, By by) const {
  return impl_->fill(problem, impl_->ask(problem, by), best);
}

std::vector<Choice> Selector::rank(const GemmProblem& problem, std::size_t count, By by) const {
  const Opinion opinion = impl_->ask(problem, by);
  std::vector<Choice> best(std::min(count, opinion.scores.size()));
  best.resize(impl_->fill(problem, opinion, best));
  return best;
}

Choice Selector::select(const GemmProblem& problem, By by) const {
  Choice choice;
  rank(problem, std::span(&choice, 1), by);
  return choice;
}

SelectStatus Selector::try_rank(const GemmProblem& problem, std::span<Choice> best, std::size_t& count,
                                By by) const noexcept {
  try {
    count = rank(problem, best, by);
    return SelectStatus::ok;
  } catch (const Error& error) {
    if (!impl_->has(by)) return SelectStatus::bad_order;
    return error.code() == Errc::invalid_argument ? SelectStatus::bad_problem : SelectStatus::unserved;
  } catch (...) {
    return SelectStatus::failed;
  }
}

SelectStatus Selector::try_select(const GemmProblem& problem, Choice& choice, By by) const noexcept {
  std::size_t count = 0;
  return try_rank(problem, std::span(&choice, 1), count, by);
}

std::string Selector::name(const GemmProblem& problem, const Choice& choice) {
  return config_name(signature_of(problem), choice.config);
}

}  // namespace kscout
