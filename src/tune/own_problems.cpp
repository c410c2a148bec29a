#include "tune/own_problems.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

#include <kscout/family.h>

#include "backend/cpu/blas_backend.h"
#include "backend/cpu/cpu_backend.h"
#include "core/fail.h"
#include "core/numbers.h"
#include "dataset/operations.h"
#include "evaluate/baselines.h"
#include "evaluate/evaluate_model.h"
#include "family/family_file.h"
#include "family/listed.h"
#include "measure/problem_bench.h"
#include "select/model.h"

namespace kscout {

namespace {

namespace fs = std::filesystem;

/// The choice of a model for a problem.
struct OwnChoice {
  KernelConfig pick, oracle;
  double pick_us = Measurement::unknown, oracle_us = Measurement::unknown;
};
using OwnChoices = std::unordered_map<Problem, OwnChoice>;

bool is_gpu_library(Against against) { return against == Against::cublaslt || against == Against::cudnn; }

/// The choices on the problems that the model knows. The first pick that ran counts: a dispatcher takes the
/// next one when a config fails.
OwnChoices choices_of(const fs::path& folder, const MeasurementTable& own) {
  const Model model = Model::load(folder, &own.device);
  const MeasurementTable known = table_of_problems(
      own, [&](const Problem& problem) { return model.family(signature_of(problem)) != nullptr; });
  OwnChoices choices;
  const auto has_oracle = [](const auto& rows) { return oracle_of(rows).has_value(); };
  if (std::ranges::none_of(final_rows(known), has_oracle)) return choices;
  ModelEvaluationOptions how;
  how.in_sample = true;
  for (const ProblemResult& result : evaluate_model(folder, known, how).evaluation.results) {
    const auto ran =
        std::ranges::find_if(result.picks, [](const PickedConfig& one) { return one.efficiency > 0; });
    if (ran == result.picks.end()) continue;
    choices[result.problem] = {ran->config, result.oracle, ran->measured.time_us,
                               result.oracle_measured.time_us};
  }
  return choices;
}

/// The times of one config on the problems of a table.
class DefaultTimes {
 public:
  DefaultTimes(const MeasurementTable& own, Against against, const std::string& rules)
      : own_(own), against_(against), rules_(rules), rows_(final_rows(own)) {}

  /// NaN where it did not run.
  double time_us(std::size_t problem) {
    return fastest_us(problem, [&](const KernelConfig& config) {
      return is_gpu_library(against_) ? is_first_suggestion(config)
                                      : config == default_of(own_.problems[problem]);
    });
  }

  /// Of the library's first eight suggestions; nothing where it does not suggest.
  std::optional<double> best_of_8_us(std::size_t problem) const {
    if (!is_gpu_library(against_)) return std::nullopt;
    return fastest_us(problem, [](const KernelConfig& config) {
      const std::int32_t place = suggestion_place(config);
      return place >= 1 && place <= 8;
    });
  }

 private:
  /// Of the configs that ran; NaN without one.
  double fastest_us(std::size_t problem, const auto& wanted) const {
    double fastest = Measurement::unknown;
    for (const FinalRow& row : rows_[problem]) {
      const Status status = row.measured.status;
      const bool ran = status == Status::ok || status == Status::pruned_early;
      if (ran && wanted(own_.configs[row.config])) fastest = std::fmin(fastest, row.measured.time_us);
    }
    return fastest;
  }

  const KernelConfig& default_of(const Problem& problem) {
    const Signature signature = signature_of(problem);
    for (const auto& [known, config] : defaults_)
      if (known == signature) return config;
    const Family family = enumerate({.provider = std::string(own_.configs.front().space->provider),
                                     .signature = signature,
                                     .device = own_.device,
                                     .rules = rules_,
                                     .filter = {}});
    return defaults_.emplace_back(signature, family.configs[family.default_config]).second;
  }

  const MeasurementTable& own_;
  Against against_;
  std::string rules_;
  std::vector<std::vector<FinalRow>> rows_;
  std::vector<std::pair<Signature, KernelConfig>> defaults_;
};

/// Of a problem: with the library, with the model's choice, with the fastest config.
struct Times {
  double library_us, pick_us, oracle_us;
  std::optional<double> best_of_8_us = {};
};
/// The times of a problem, which is given by its index; throws why it has none.
using TimeOf = std::function<Times(std::size_t problem, const OwnChoice& choice)>;

/// Times a library, a model's choice and the fastest config, interleaved.
class BlasTimes {
 public:
  explicit BlasTimes(Against against) : library_(blas_backend(word(against))), bench_(kProtocol, 1) {}

  /// Throws what keeps the library from the problem.
  Times time(const Problem& problem, const OwnChoice& choice) {
    if (const std::string why = library_.refusal(problem, {}); !why.empty())
      fail(Errc::unsupported, "{}", why);
    bench_.open(problem);
    std::vector<double> library, pick, oracle;
    for (int turn = 0; turn < kTurns; ++turn) {
      library.push_back(sample({&library_, {}}));
      // Its idle threads spin for a while, which would slow down the next kernel.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      pick.push_back(sample({&cpu_backend(), choice.pick}));
      oracle.push_back(choice.pick == choice.oracle ? pick.back() : sample({&cpu_backend(), choice.oracle}));
    }
    const auto median = [](const std::vector<double>& times) { return quantile(times, 0.5); };
    const double pick_us = median(pick);
    return {median(library), pick_us, std::min(median(oracle), pick_us)};
  }

 private:
  static constexpr int kTurns = 3;
  static constexpr Protocol kProtocol{.repeat = 5, .contenders = 0};

  double sample(const Candidate& candidate) {
    const Outcome outcome = bench_.coarse(candidate, std::numeric_limits<double>::infinity());
    if (outcome.measured.status != Status::ok) fail(Errc::unsupported, "{}", outcome.reason);
    return outcome.measured.time_us;
  }

  Backend& library_;
  ProblemBench bench_;
};

void add_call_times(CallTimes& sum, double calls, const Times& times, std::optional<double> before_us) {
  sum.before_us = sum.problems == 0 ? std::optional(0.0) : sum.before_us;
  ++sum.problems;
  sum.calls += calls;
  sum.today_us += calls * times.library_us;
  sum.model_us += calls * times.pick_us;
  sum.oracle_us += calls * times.oracle_us;
  if (times.best_of_8_us) sum.best_of_8_us = sum.best_of_8_us.value_or(0) + calls * *times.best_of_8_us;
  // One problem that the model before does not know makes its sum unknown.
  sum.before_us =
      sum.before_us && before_us ? std::optional(*sum.before_us + calls * *before_us) : std::nullopt;
}

/// Adds up the times of all problems of a table.
OwnResult add_up(OwnResult result, const OwnRequest& request, const MeasurementTable& own,
                 const OwnChoices& now, const OwnChoices& before, const TimeOf& time) {
  for (std::size_t i = 0; i < own.problems.size(); ++i) {
    const Problem& problem = own.problems[i];
    const bool is_held_out = group_fraction(problem, request.seed, request.by) < request.held_out;
    if (!is_held_out) ++result.trained_on;
    try {
      const auto found = now.find(problem);
      if (found == now.end()) fail(Errc::unsupported, "the model has no choice that ran");
      const OwnChoice& choice = found->second;
      const Times times = time(i, choice);
      std::optional<double> before_us;
      // A library is timed anew, at another moment: scaled to the sweep's time of the model's choice.
      if (const auto old = before.find(problem); old != before.end())
        before_us = old->second.pick_us * times.pick_us / choice.pick_us;
      add_call_times(result.all, problem.weight(), times, before_us);
      if (is_held_out) add_call_times(result.held_out, problem.weight(), times, before_us);
    } catch (const Error& error) {
      if (result.left_out++ == 0) result.reason = fmt::format("{}: {}", print(problem), error.what());
    }
  }
  return result;
}

}  // namespace

bool is_blas(Against against) { return against == Against::openblas || against == Against::onednn; }

std::string leave_out_uncomputable(std::vector<Problem>& problems, const std::string& provider,
                                   const Device& device, const std::string& rules) {
  std::vector<std::pair<Signature, bool>> known;
  std::string reason;
  const auto computes = [&](const Problem& problem) {
    const Signature signature = signature_of(problem);
    for (const auto& [other, has_config] : known)
      if (other == signature) return has_config;
    bool has_config = true;
    try {
      enumerate(
          {.provider = provider, .signature = signature, .device = device, .rules = rules, .filter = {}});
    } catch (const Error& error) {
      if (error.code() == Errc::invalid_argument) throw;  // the rule set
      if (reason.empty()) reason = fmt::format("{}: {}", print(problem), error.what());
      has_config = false;
    }
    return known.emplace_back(signature, has_config).second;
  };
  std::erase_if(problems, [&](const Problem& problem) { return !computes(problem); });
  return reason;
}

MeasurementTable rows_of_problems(const MeasurementTable& table, const std::vector<Problem>& problems) {
  std::unordered_map<Problem, double> calls;
  for (const Problem& problem : problems) calls.emplace(problem, problem.weight());
  MeasurementTable own =
      table_of_problems(table, [&](const Problem& problem) { return calls.contains(problem); });
  for (Problem& problem : own.problems) problem.set_weight(calls.at(problem));
  return own;
}

OwnResult evaluate_own(const OwnRequest& request, const fs::path& model, const MeasurementTable& table) {
  const MeasurementTable own = rows_of_problems(table, request.problems);
  OwnResult result{
      .today = is_blas(request.against) || is_gpu_library(request.against)
                   ? std::string(word(request.against))
                   : fmt::format("the default config of rule set '{}'", rules_name(request.rules)),
      .given = request.problems.size(),
      .measured = own.problems.size(),
      .all = {},
      .held_out = {}};
  if (own.problems.empty()) return result;
  const OwnChoices now = choices_of(model, own);
  OwnChoices before;
  if (!request.before.empty()) before = choices_of(request.before, own);
  const auto sums = [&](const TimeOf& time) { return add_up(result, request, own, now, before, time); };
  if (!is_blas(request.against)) {
    DefaultTimes defaults(own, request.against, request.rules);
    return sums([&](std::size_t i, const OwnChoice& choice) -> Times {
      const double library_us = defaults.time_us(i);
      if (!std::isfinite(library_us)) fail(Errc::unsupported, "{} did not run", result.today);
      return {library_us, choice.pick_us, choice.oracle_us, defaults.best_of_8_us(i)};
    });
  }
  result.library = blas_backend(word(request.against)).versions();
  std::string busy = busy_text(request.load_during(wait_a_second), request.max_load);
  if (busy.empty()) {
    OwnResult compared;
    const Load load = request.load_during([&] {
      BlasTimes blas(request.against);
      compared =
          sums([&](std::size_t i, const OwnChoice& choice) { return blas.time(own.problems[i], choice); });
    });
    busy = busy_text(load, request.max_load);
    if (busy.empty()) return compared;
  }
  result.refused = fmt::format(
      "{}, then repeat the command, with a small --budget: what was measured is kept. --max-load 1 compares "
      "all the same",
      busy);
  return sums([](std::size_t, const OwnChoice& choice) -> Times {
    return {Measurement::unknown, choice.pick_us, choice.oracle_us};
  });
}

void check_against(Against against, Op op, std::string_view backend) {
  const std::string_view name = word(against);
  if (backend == "cpu" && is_gpu_library(against))
    fail(Errc::invalid_argument,
         "--against {}: is a library of NVIDIA's GPUs; on a CPU give default, openblas or onednn", name);
  if (backend != "cpu" && against != library_of(op))
    fail(Errc::invalid_argument, "--against {}: on a GPU kscout tune compares {} with {}; give that", name,
         word(op), word(library_of(op)));
  if (!is_blas(against)) return;
  if (op != Op::gemm)
    fail(Errc::invalid_argument, "--against {}: is timed on gemm only, not on {}; give default", name,
         word(op));
  blas_backend(name);
}

}  // namespace kscout
