#include "conv_cuda_match.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include <kscout/dispatcher.h>
#include <kscout/error.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cudnn_graph.h"
#include "core/fail.h"
#include "family/listed.h"
#include "provider/joint.h"

namespace kscout::bench {

namespace {

constexpr int kSuggestions = 8;
constexpr int kRuns = 3;
constexpr std::size_t kFinalists = 8;    // of a family, timed again to find its fastest
constexpr std::size_t kRanked = 16;      // choices to try before cuDNN's first suggestion
constexpr double kCompileSeconds = 120;  // for all plans of one problem
constexpr int kFirstCalls = 10;          // whose cost with refinement is reported
constexpr int kMoreCalls = 20;           // by then refinement is over
constexpr double kLongestUs = 1e6;       // of a call of the first suggestion

/// Memory of the GPU, uninitialised.
class GpuMemory {
 public:
  explicit GpuMemory(std::size_t bytes) : data_(cuda::gpu_memory().allocate(bytes)) {}
  ~GpuMemory() { cuda::gpu_memory().release(data_); }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  void* data() const noexcept { return data_; }

 private:
  void* data_;
};

std::size_t bytes_of(std::int64_t elements, DType dtype) {
  return static_cast<std::size_t>(static_cast<double>(elements) * bytes_per_element(dtype));
}

/// Uninitialised operands of a convolution, and workspace.
class Operands {
 public:
  explicit Operands(const ConvProblem& problem) : Operands(problem, operand_elements(problem)) {}

  ConvTensors tensors() const {
    return {.in = in_.data(), .wei = wei_.data(), .out = out_.data(), .space = cuda_backend().space()};
  }
  GemmBuffers buffers() const { return operands_of(op_, tensors()); }
  void* workspace() const { return workspace_.data(); }
  /// Waits for the calls before.
  void wait() const {
    std::byte last;
    cuda::gpu_memory().read(&last, buffers().c, 1, {});
  }

 private:
  Operands(const ConvProblem& problem, const ConvElements& elements)
      : op_(problem.op),
        in_(bytes_of(elements.in, problem.dtype_in)),
        wei_(bytes_of(elements.wei, problem.dtype_wei)),
        out_(bytes_of(elements.out, problem.dtype_out)),
        workspace_(kCudnnWorkspace) {}

  Op op_;
  GpuMemory in_, wei_, out_, workspace_;
};

/// GPU time of some calls, in microseconds.
template <class Call>
double calls_us(const Operands& operands, int calls, const Call& call) {
  StreamClock& clock = *cuda::gpu_instruments().stream_clock();
  StreamClock::Span span = clock.start({});
  for (int i = 0; i < calls; ++i) call();
  double us = Choice::unknown;
  const bool stopped = clock.stop(span, {});
  operands.wait();
  if (stopped) clock.read(span, us);
  clock.give_back(span);
  return us;
}

}  // namespace

KernelConfig cudnn_suggestion(Op op, int place) {
  CudnnConfig config;
  config.suggestion = place;
  return config.kernel_config(op);
}

ConvMatch::ConvMatch(const Selector* selector, std::string rules, std::size_t refine)
    : selector_(selector), rules_(std::move(rules)), refine_(refine) {}

const Family& ConvMatch::family_for(const ConvProblem& problem) {
  const Signature signature = signature_of(problem);
  const auto known = std::ranges::find(families_, signature, &Family::signature);
  if (known != families_.end()) return *known;
  return families_.emplace_back(cuda_backend().family(signature, rules_));
}

ConvMatch::Ready ConvMatch::choose(const ConvProblem& problem) const {
  Ready ready;
  std::array<Choice, kRanked> ranked;
  const std::size_t count = selector_->rank(problem, ranked);
  for (std::size_t i = 0; i < count; ++i) {
    try {
      ready.launch = cuda_backend().prepare(problem, ranked[i].config);
      ready.config = member_config(ranked[i].config);
      return ready;
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      ++ready.refused;
    }
  }
  ready.config = cudnn_suggestion(problem.op, 1);
  ready.launch = cuda_backend().prepare(problem, ready.config);
  return ready;
}

void ConvMatch::measure_first_results(ConvRow& row) {
  const ConvProblem& problem = row.problem;
  const Operands operands(problem);
  const auto until_result_ms = [&](const auto& make) {
    return microseconds([&] {
             const std::unique_ptr<Launch> launch = make();
             launch->run(operands.buffers(), operands.workspace());
             operands.wait();
           }) /
           1e3;
  };
  KernelConfig chosen;
  const auto ours = [&] {
    row.first_result_ms = until_result_ms([&] {
      Ready ready = choose(problem);
      chosen = ready.config;
      return std::move(ready.launch);
    });
  };
  const KernelConfig first = cudnn_suggestion(problem.op, 1);
  const auto theirs = [&] {
    row.cudnn_first_result_ms = until_result_ms([&] { return cuda_backend().prepare(problem, first); });
  };
  if (!selector_) return theirs();
  // The library keeps things for later plans of the same problem, so the two take turns in being the first.
  ours_first_ = !ours_first_;
  if (ours_first_) {
    ours();
    if (chosen == first) {
      row.cudnn_first_result_ms = row.first_result_ms;
    } else {
      theirs();
    }
  } else {
    theirs();
    ours();
    if (chosen == first) row.first_result_ms = row.cudnn_first_result_ms;
  }
}

KernelConfig ConvMatch::refine(ConvRow& row) const {
  const ConvProblem& problem = row.problem;
  const Operands operands(problem);
  const RunOn on{.workspace = operands.workspace(), .workspace_bytes = kCudnnWorkspace};
  const auto first = cuda_backend().prepare(problem, cudnn_suggestion(problem.op, 1));
  const auto call_first = [&] { first->run(operands.buffers(), operands.workspace()); };
  call_first();
  if (const double us = calls_us(operands, 1, call_first); us > kLongestUs)
    fail(Errc::unsupported, "cuDNN's first suggestion takes {:.1f} s", us / 1e6);
  KernelConfig left;
  double ours_us = 0;
  // A kernel's first call loads its code. The second dispatcher finds it loaded, as the first suggestion is.
  for (int pass = 0; pass < 2; ++pass) {
    Dispatcher dispatcher(*selector_, cuda_backend(), {.refine = {.top = refine_}});
    const auto call = [&] { return dispatcher.run(problem, operands.tensors(), on); };
    const double ready_us =
        microseconds([&] { dispatcher.workspace_bytes(problem, cuda_backend().space()); });
    if (pass == 0) row.refine_ready_ms = ready_us / 1e3;
    ours_us = calls_us(operands, kFirstCalls, call);
    for (int i = 0; i < kMoreCalls; ++i) call();
    operands.wait();
    left = call().choice.config;
  }
  row.ten_calls = ours_us / calls_us(operands, kFirstCalls, call_first);
  return member_config(left);
}

std::optional<KernelConfig> ConvMatch::best_of_family(const ConvProblem& problem) {
  const Family& family = family_for(problem);
  std::vector<std::uint8_t> applicable(family.configs.size());
  applicable_configs(family, problem, applicable);
  std::vector<KernelConfig> configs;
  for (std::size_t i = 0; i < applicable.size(); ++i) {
    if (applicable[i]) configs.push_back(family.configs[i]);
  }
  const auto left_out = cuda_backend().prepare_ahead(problem, configs, kCompileSeconds);
  std::vector<KernelConfig> built;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (left_out[i].empty()) built.push_back(configs[i]);
  }
  const std::vector<KernelConfig> finalists = match_.shortlist(built, kFinalists);
  if (finalists.empty()) return std::nullopt;
  return finalists[fastest_of(match_.time(finalists))];
}

void ConvMatch::measure(ConvRow& row, std::optional<KernelConfig> refined) {
  const ConvProblem& problem = row.problem;
  std::optional<KernelConfig> chosen, best;
  if (selector_) {
    const Ready ready = choose(problem);
    chosen = ready.config;
    row.refused = ready.refused;
  }
  match_.open(problem);
  std::vector<KernelConfig> eight;
  for (int place = 1; place <= kSuggestions; ++place) eight.push_back(cudnn_suggestion(problem.op, place));
  cuda_backend().prepare_ahead(problem, eight, kCompileSeconds);
  // The fastest of the eight is determined by timing before the comparison, as an application would do it.
  const KernelConfig of_8 = eight[fastest_of(match_.time(eight))];
  if (!rules_.empty()) best = best_of_family(problem);
  if (!chosen) chosen = best;
  if (!chosen) fail(Errc::unsupported, "the library takes no config of the rule set");
  row.config = config_name(signature_of(problem), *chosen);
  if (refined) row.refined_config = config_name(signature_of(problem), *refined);
  for (auto* const config : {&chosen, &refined}) {
    const std::int32_t place = *config ? suggestion_place(**config) : 0;
    if (place >= 1 && place <= kSuggestions) *config = eight[static_cast<std::size_t>(place - 1)];
  }
  const std::vector<Timed> timed =
      match_.time({*chosen, eight[0], of_8, best.value_or(*chosen), refined.value_or(*chosen)}, kRuns);
  row.ours = timed[0];
  row.first = timed[1];
  row.of_8 = timed[2];
  if (best) row.best = timed[3];
  if (refined) row.refined = timed[4];
  const auto& failures = match_.last_failures();
  if (!failures[0].empty()) row.failure = row.config + ": " + failures[0];
  if (!failures[1].empty()) row.failure = "cuDNN's first suggestion: " + failures[1];
}

ConvRow ConvMatch::play(const ConvProblem& problem, bool first_results) {
  ConvRow row;
  row.problem = problem;
  try {
    std::optional<KernelConfig> refined;
    if (first_results && selector_ && refine_ >= 2) {
      refined = refine(row);
    } else if (first_results) {
      measure_first_results(row);
    }
    measure(row, refined);
    if (row.failure.empty() && (std::isnan(row.ours.us) || std::isnan(row.first.us)))
      row.failure = "no time in any run";
  } catch (const Error& error) {
    row.failure = error.what();
  }
  return row;
}

DecisionTimes compare_conv_deciding(Selector* selector, std::span<const ConvProblem> problems) {
  cuda::open_module();
  const cudnn::Target target = cudnn::Target::gpu();
  Times cold{"kscout, cold", {}}, cached{"kscout, cached", {}};
  Times mode_a{"cuDNN's heuristic, mode a", {}}, mode_b{"cuDNN's heuristic, mode b", {}};
  const auto ask = [&](const ConvProblem& problem, CudnnMode mode) {
    return microseconds([&] { (void)cudnn::ConvGraph(problem, target).suggestions(mode); });
  };
  Choice choice;
  // The first decision prepares the family of a signature; the first query loads the library's parts.
  if (selector) {
    for (const ConvProblem& problem : problems) (void)selector->try_select(problem, choice);
    selector->clear_cache();
  }
  for (const CudnnMode mode : {CudnnMode::a, CudnnMode::b}) ask(problems.front(), mode);
  for (const ConvProblem& problem : problems) {
    if (selector) {
      cold.us.push_back(microseconds([&] { (void)selector->try_select(problem, choice); }));
      // A cache hit is shorter than the clock's resolution, so a thousand are timed together.
      cached.us.push_back(microseconds([&] {
                            for (int i = 0; i < 1000; ++i) (void)selector->try_select(problem, choice);
                          }) /
                          1000);
    }
    try {
      mode_a.us.push_back(ask(problem, CudnnMode::a));
      mode_b.us.push_back(ask(problem, CudnnMode::b));
    } catch (const Error& error) {
      fmt::print("not asked: {}: {}\n", print(problem), error.what());
    }
  }
  fmt::print(
      "\nmicroseconds to decide, one core, {} problems (cuDNN: a graph made for each query)\n{:34} "
      "{:>10} {:>10} {:>10}\n",
      problems.size(), word(problems.front().op), "p50", "p99", "max");
  for (Times* times : {&cold, &cached, &mode_a, &mode_b}) {
    if (!times->us.empty()) times->print();
  }
  return {cold.us.empty() ? Choice::unknown : cold.at(0.5),
          mode_a.us.empty() ? Choice::unknown : mode_a.at(0.5)};
}

}  // namespace kscout::bench
