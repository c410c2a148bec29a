#include "preload/conv.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/selector.h>

#include "dispatch/solver.h"
#include "dispatch/timed_choice.h"
#include "family/listed.h"
#include "provider/cudnn/cudnn.h"
#include "provider/joint.h"

namespace kscout::preload {

namespace {

constexpr Limits kLimits = {.deterministic = true};

/// Why a convolution stays with the program's plan.
struct Refused {
  Outcome why;
};

/// A config of cuDNN without its place in the library's list; others as they are.
KernelConfig without_place(const KernelConfig& config) {
  const KernelConfig member = member_config(config);
  const auto placed = listed_config(member, 0);
  return placed ? *placed : member;
}

}  // namespace

thread_local bool ConvServer::is_ours_ = false;

/// Chooses for one direction and element type.
struct ConvServer::Chooser {
  Selector selector;
  Solver solver;

  /// Microseconds that the model expects of the program's own plan: of its config, if that is listed, else of
  /// the library's first suggestion. NaN where it expects nothing.
  double own_us(const ConvKey& key) const {
    std::vector<Choice> ranked = selector.rank(key.problem, 2 * kListedAlgorithms, By::best, kLimits);
    if (key.config.is_named()) {
      const auto found = std::ranges::find_if(
          ranked, [&](const Choice& one) { return key.is_by(without_place(one.config)); });
      return found == ranked.end() ? Choice::unknown : found->time_us;
    }
    return ranked.empty() ? Choice::unknown : static_cast<double>(ranked.front().suggestion_us);
  }
};

ConvServer::ConvServer(GpuSession& session) : session_(session) {}

ConvServer::~ConvServer() = default;

ConvServer::Decision* ConvServer::recall(Use& use, const PlanCall& call) noexcept try {
  if (session_.is_off()) {
    tally_.count(Outcome::off);
    return nullptr;
  }
  if (use.problem == 0) {
    const auto found =
        std::ranges::find(problems_, call.problem, &std::pair<ConvProblem, std::size_t>::first);
    use.problem = found != problems_.end() ? found->second : problems_.size() + 1;
    if (found == problems_.end()) problems_.emplace_back(call.problem, use.problem);
  }
  if (std::exchange(last_problem_, use.problem) != use.problem) ++runs_;
  if (use.decision) return use.decision;
  if (use.executions++ == 0) use.first_run = runs_;
  if (runs_ == use.first_run && use.executions <= kInARow) {
    tally_.count(Outcome::searching);
    return nullptr;
  }
  if (!session_.is_on_its_gpu()) {
    tally_.count(Outcome::gpu);
    return nullptr;
  }
  return use.decision = decision_of_key({call.problem, call.config});
} catch (...) {  // no memory
  tally_.count(Outcome::memory);
  return nullptr;
}

ConvServer::Decision* ConvServer::decision_of_key(const ConvKey& key) {
  const auto found = std::ranges::find(decisions_, key, &Decision::key);
  if (found != decisions_.end()) return &*found;
  if (decisions_.size() >= settings_.most_decisions()) throw std::bad_alloc();
  Decision& made = decisions_.emplace_back(key);
  made.outcome = Outcome::preparing;
  try {
    const std::scoped_lock lock(mutex_);
    wanted_.push_back(&made);
    if (has_thread_) {
      more_.notify_one();
      return &made;
    }
    // Signals of the program are not for this thread.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const auto run = [](void* server) -> void* {
      static_cast<ConvServer*>(server)->make_decisions();
      return nullptr;
    };
    const int error = pthread_create(&thread, nullptr, run, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error != 0) throw std::bad_alloc();
    pthread_detach(thread);
    has_thread_ = true;
  } catch (...) {
    decisions_.pop_back();
    throw;
  }
  return &made;
}

void ConvServer::make_decisions() noexcept {
  is_ours_ = true;
  while (true) {
    Decision* next = nullptr;
    {
      std::unique_lock lock(mutex_);
      more_.wait(lock, [&] { return ends_ || !wanted_.empty(); });
      if (ends_) return;
      next = wanted_.front();
      wanted_.pop_front();
      is_making_ = true;
    }
    make(*next);
    is_making_ = false;
  }
}

void ConvServer::make(Decision& one) noexcept {
  const CaptureAside aside(session_.driver());
  Outcome outcome = Outcome::failed;
  try {
    if (!session_.use_context() || !session_.open()) {
      outcome = Outcome::off;
    } else {
      choose(one);
      outcome = Outcome::served;
    }
  } catch (const Refused& refused) {
    outcome = refused.why;
  } catch (...) {
    outcome = outcome_of_failure(settings_);
  }
  if (one.contest) tally_.contests.fetch_add(1, std::memory_order_relaxed);
  one.outcome.store(outcome, std::memory_order_release);
}

Outcome ConvServer::serve(Decision& one, const Operands& operands) noexcept {
  Outcome outcome = Outcome::failed;
  try {
    outcome = try_serve(one, operands);
  } catch (const std::bad_alloc&) {
    outcome = Outcome::memory;
  } catch (...) {  // the program's plan computes it
  }
  if (outcome == Outcome::capture) session_.exchange_capture_mode();
  return tally_.count(outcome);
}

Outcome ConvServer::try_serve(Decision& one, const Operands& operands) {
  if (const Outcome outcome = one.outcome.load(std::memory_order_acquire); outcome != Outcome::served)
    return outcome;
  if (one.failed.load(std::memory_order_relaxed)) return Outcome::failed;
  if (!session_.is_on_its_gpu()) return Outcome::gpu;
  for (const void* const address : {operands.a, operands.b, static_cast<const void*>(operands.c)})
    if (!address || !is_aligned(address, kLineAlignment)) return Outcome::address;
  // The first run of a kernel loads it, which a capture may forbid.
  if (!one.has_run.load(std::memory_order_relaxed) && session_.driver().captures(operands.stream))
    return Outcome::capture;
  if (one.is_undecided()) {
    if (const auto result = session_.settled(one, tally_)) keep([&] { store(one, *result); });
    if (const Outcome outcome = one.outcome; outcome != Outcome::served) return outcome;
  }
  return session_.run(one, operands, tally_);
}

ConvServer::Chooser* ConvServer::chooser(Op op, DType dtype) {
  const auto [found, is_new] = choosers_[op].try_emplace(dtype);
  if (!is_new) return found->second.get();
  Backend& gpu = session_.gpu();
  // Timing decides under --refine: there, a model of any GPU names what is timed.
  const DevicePolicy devices = settings_.refine ? DevicePolicy::any : DevicePolicy::same_arch;
  const auto model = find_model(op, dtype, gpu.device(), devices);
  if (!model) return nullptr;
  Selector selector = Selector::load(
      *model,
      {.provider = std::string(gpu.provider_for(op)),
       .device = gpu.device(),
       .devices = devices,
       .db = settings_.db,
       .backend = std::string(gpu.name()),
       .absence = [&gpu](const Signature& of, const KernelConfig& config) { return gpu.absence(of, config); },
       .suggestions = [&gpu](ProblemRef problem,
                             std::size_t count) { return gpu.suggestions(problem, count); }});
  Registry registry;
  registry.add(gpu);
  Solver solver(selector, std::move(registry), {.limits = kLimits});
  found->second.reset(new Chooser{std::move(selector), std::move(solver)});
  return found->second.get();
}

void ConvServer::choose(Decision& one) {
  const ConvKey& key = one.key;
  Chooser* const by = chooser(key.problem.op, key.problem.dtype_in);
  if (!by) throw Refused{Outcome::model};
  Backend& gpu = session_.gpu();
  Solution solution = by->solver.solve(key.problem, gpu.space(), kLimits);
  const ChoiceSource source = solution.choice.decided_by;
  const bool decided = source == ChoiceSource::forced || source == ChoiceSource::db;
  if (!decided && source != ChoiceSource::model) throw Refused{Outcome::model};
  const double own_us = by->own_us(key);
  const double ours_us = std::max(solution.choice.time_us, gpu.min_us(key.problem, solution.choice.config));
  const double saved_us = own_us - ours_us;
  const bool is_theirs = key.is_by(without_place(solution.choice.config));
  const bool gains = saved_us >= settings_.min_gain * ours_us && saved_us >= settings_.min_saved_us;
  const bool timed = settings_.refine && !decided;
  if (!timed && (is_theirs || !(gains || decided))) throw Refused{Outcome::gain};
  one.saved_us = std::isnan(saved_us) ? 0 : std::max(saved_us, 0.0);
  if (!is_theirs) {
    one.picks.push_back(by->solver.make_ready(key.problem, solution, kLimits));
    one.configs.push_back(without_place(solution.choice.config));
  }
  if (timed) add_contenders(*by, own_us, one);
  if (one.picks.empty()) throw Refused{Outcome::gain};
  for (const auto& pick : one.picks)
    one.workspace_bytes = std::max(one.workspace_bytes, pick->workspace_bytes());
}

void ConvServer::add_contenders(const Chooser& by, double own_us, Decision& one) {
  constexpr double kDropAbove = 1.5;
  constexpr int kSamples = 3;
  const ConvProblem& problem = one.key.problem;
  for (const Choice& next : by.selector.rank(problem, 2 * kListedAlgorithms, By::best, kLimits)) {
    if (one.picks.size() == kPicks || next.time_us > kDropAbove * own_us) break;
    const KernelConfig config = without_place(next.config);
    if (one.key.is_by(config) || std::ranges::find(one.configs, config) != one.configs.end()) continue;
    try {
      one.picks.push_back(session_.gpu().prepare_within(problem, next.config, kLimits));
      one.configs.push_back(config);
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
    }
  }
  one.contest = std::make_unique<Contest<EventTimer>>(
      ContestRules{.kernels = one.picks.size() + 1, .samples = kSamples, .drop = kDropAbove});
}

void ConvServer::store(const Decision& one, const ContestResult& result) const {
  if (!one.key.config.is_named()) return;
  Backend& gpu = session_.gpu();
  const KernelConfig theirs = one.key.config.kernel_config(one.key.problem.op),
                     ours = one.configs[result.pick];
  const auto [best, next] = std::minmax(result.pick_us, result.library_us);
  StoredDecision decision = decision_of(one.key.problem, result.is_library_faster() ? theirs : ours,
                                        Fastest{.time_us = best, .next_us = next, .timed = 2}, gpu);
  decision.limits = print(kLimits);
  const Signature signature = signature_of(one.key.problem);
  const std::vector<StoredTiming> timings = {
      timing_of(one.key.problem, config_name(signature, theirs), result.library_us, gpu),
      timing_of(one.key.problem, config_name(signature, ours), result.pick_us, gpu)};
  DecisionDb(settings_.db).put(std::span(&decision, 1), timings);
}

void ConvServer::in_child() noexcept { tally_.forget(); }

void ConvServer::finish() noexcept {
  constexpr int kTries = 3000, kWaitUs = 1000;
  int tries = 0;
  const auto wait = [&] { return ++tries < kTries && usleep(kWaitUs) == 0; };
  while (!mutex_.try_lock())
    if (!wait()) return;
  ends_ = true;
  mutex_.unlock();
  while (is_making_ && wait()) {
  }
}

}  // namespace kscout::preload
