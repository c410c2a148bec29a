#include "sweep/model_check.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include <kscout/selector.h>

#include "core/fail.h"
#include "select/model.h"

namespace kscout {

namespace {

/// Enough rounds for medians that are known within a percent.
constexpr Protocol kProtocol{.contenders = 100, .rounds = 40};

/// Adds configs to a plan, each once.
class PlannedConfigs {
 public:
  explicit PlannedConfigs(SweepPlan& plan) : plan_(plan) {}
  std::uint32_t operator()(const KernelConfig& config) {
    const auto [at, added] = known_.emplace(config, static_cast<std::uint32_t>(plan_.configs.size()));
    if (added) plan_.configs.push_back(config);
    return at->second;
  }

 private:
  SweepPlan& plan_;
  std::unordered_map<KernelConfig, std::uint32_t> known_;
};

SweepPlan plan_of(const std::vector<CheckedProblem>& problems, Backend& backend) {
  SweepPlan plan;
  plan.provider = problems.front().choice.space->provider;
  plan.backend = backend.name();
  plan.rules = "reference_times";
  plan.op = problems.front().recorded.problem.op();
  plan.device = backend.device();
  plan.protocol = kProtocol;
  plan.protocol.cache = problems.front().recorded.cache;
  if (plan.device.kind == DeviceKind::gpu) plan.protocol.slack_us = 0;
  plan.provenance = host_provenance();
  plan.provenance.merge(backend.versions());
  PlannedConfigs number(plan);
  for (const CheckedProblem& one : problems) {
    std::vector<std::uint32_t> candidates = {number(one.choice)};
    for (const ReferenceTime& time : one.recorded.times) candidates.push_back(number(time.config));
    std::ranges::sort(candidates);
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    plan.problems.push_back(one.recorded.problem);
    plan.candidates.push_back(std::move(candidates));
  }
  return plan;
}

/// The last measurement of each config of one problem.
using Times = std::unordered_map<KernelConfig, Measurement>;

std::unordered_map<Problem, Times> times_of(const MeasurementTable& table) {
  std::unordered_map<Problem, Times> times;
  for (const MeasurementTable::Row& row : table.rows) {
    Times& of_problem = times[table.problems[row.problem]];
    const auto [at, is_new] = of_problem.emplace(table.configs[row.config], row.measured);
    if (!is_new && row.measured.pass >= at->second.pass) at->second = row.measured;
  }
  return times;
}

bool is_timed(const Measurement& measured) {
  return (measured.status == Status::ok || measured.status == Status::pruned_early) && measured.time_us > 0;
}

/// Fills the times of a problem; adds the ratios of its times to the recorded ones.
void evaluate(CheckedProblem& one, const Times& times, bool same_device, std::vector<double>& log_ratios) {
  double best = INFINITY;
  for (const auto& [config, measured] : times) {
    if (is_timed(measured)) best = std::min(best, measured.time_us);
  }
  for (const ReferenceTime& recorded : one.recorded.times) {
    const auto here = times.find(recorded.config);
    if (here != times.end() && is_timed(here->second)) {
      log_ratios.push_back(std::log(here->second.time_us / recorded.time_us));
    } else if (same_device) {
      best = std::min(best, recorded.time_us);
    }
  }
  one.best_us = std::isfinite(best) ? best : 0;
  const auto chosen = times.find(one.choice);
  if (chosen == times.end()) {
    one.failure = "not measured";
  } else if (is_timed(chosen->second)) {
    one.time_us = chosen->second.time_us;
  } else {
    one.failure = word(chosen->second.status);
  }
}

}  // namespace

double CheckedProblem::efficiency() const noexcept {
  return time_us > 0 ? std::min(best_us / time_us, 1.0) : 0;
}

bool ModelCheck::holds(double keep) const noexcept {
  const auto changed = std::ranges::count_if(problems, &CheckedProblem::choice_changed);
  const bool failed = std::ranges::any_of(problems, [](const auto& one) { return !one.failure.empty(); });
  return !failed && 2 * static_cast<std::size_t>(changed) <= problems.size() && mean >= keep * recorded_mean;
}

ModelCheck check_model(const std::filesystem::path& model, Backend& backend, const MeasurePlan& measure) {
  const Device trained = model_device(model);
  SelectorRequest request{.device = backend.device(), .devices = DevicePolicy::any};
  request.absence = [&](const Signature& signature, const KernelConfig& config) {
    return backend.absence(signature, config);
  };
  request.suggestions = [&](ProblemRef problem, std::size_t count) {
    return backend.suggestions(problem, count);
  };
  const std::string provider_name(Model::load(model).provider());
  if (!backend.executes(provider_name)) {
    fail(Errc::invalid_argument, "{} chooses kernels of provider {}, which backend {} does not execute",
         model.string(), provider_name, backend.name());
  }
  const Selector selector = Selector::load(model, request);
  const Provider& provider = kscout::provider(provider_name);

  ModelCheck check;
  for (const ReferenceProblem& reference : read_reference_times(model, provider)) {
    CheckedProblem one{.recorded = reference, .choice = selector.select(reference.problem).config};
    const Signature signature = signature_of(reference.problem);
    for (std::size_t i = 0; i < reference.times.size(); ++i) {
      const std::string why = backend.absence(signature, reference.times[i].config);
      if (why.empty()) continue;
      ++check.absent;
      if (check.absence.empty()) check.absence = why;
      if (i == reference.chosen) one.choice_changed = true;
    }
    check.configs += reference.times.size();
    check.problems.push_back(std::move(one));
  }
  const auto times = times_of(measure(plan_of(check.problems, backend)));
  std::vector<double> log_ratios;
  for (CheckedProblem& one : check.problems) {
    const auto found = times.find(one.recorded.problem);
    evaluate(one, found == times.end() ? Times() : found->second, trained.name == backend.device().name,
             log_ratios);
    check.mean += one.efficiency() / static_cast<double>(check.problems.size());
    check.recorded_mean += one.recorded.efficiency() / static_cast<double>(check.problems.size());
  }
  double sum = 0;
  for (const double ratio : log_ratios) sum += ratio;
  check.time_ratio = log_ratios.empty() ? NAN : std::exp(sum / static_cast<double>(log_ratios.size()));
  return check;
}

}  // namespace kscout
