#include "fault/toy.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <unistd.h>

#include <kscout/family.h>

#include "core/fail.h"
#include "measure/measured_backend.h"
#include "op/gemm/gemm_views.h"
#include "op/operands.h"
#include "support/stand_in_instruments.h"

namespace kscout::toy {

namespace {

constexpr Axis kAxes[] = {{"behaviour", "1", "what goes wrong", kBehaviourWords},
                          {"variant", "1", "a number"}};
constexpr ConfigSpace kSpace{"toy", Op::gemm, kAxes};

void plain_gemm(const GemmProblem& p, const GemmBuffers& buffers) {
  const auto *a = static_cast<const float*>(buffers.a), *b = static_cast<const float*>(buffers.b);
  auto* c = static_cast<float*>(buffers.c);
  const MatrixView va = view_a(p), vb = view_b(p), vc = view_c(p);
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      float sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l) sum += a[va.at(0, i, l)] * b[vb.at(0, l, j)];
      c[vc.at(0, i, j)] = sum;
    }
  }
}

/// The compiler may not see through it.
void write_to(volatile char* where) { *where = 1; }

class ToyLaunch : public Launch {
 public:
  ToyLaunch(const GemmProblem& problem, Behaviour behaviour, double& now_us)
      : problem_(problem), behaviour_(behaviour), now_us_(now_us) {}
  std::size_t workspace_bytes() const noexcept override { return 100; }

  void run(const Buffers& given, void* workspace, Stream) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
    ++calls_;
    now_us_ += behaviour_ == Behaviour::slow ? kSlowUs : kGoodUs;
    const auto c_bytes = static_cast<std::size_t>(operand_elements(problem_).c) * sizeof(float);
    switch (behaviour_) {
      case Behaviour::crash:
        std::raise(SIGSEGV);
        break;
      case Behaviour::crash_later:
        if (calls_ == 2) std::raise(SIGSEGV);
        break;
      case Behaviour::leave:
        std::_Exit(3);
      case Behaviour::hang:
        if (const char* const file = std::getenv(kHangsVariable)) std::ofstream{file};
        for (;;) pause();
      case Behaviour::lazy:
        return;
      case Behaviour::fail_to_run:
        fail(Errc::device_failure, "the toy gave up");
      case Behaviour::writes_a:
        write_to(static_cast<char*>(const_cast<void*>(buffers.a)));
        break;
      case Behaviour::before_workspace:
        write_to(static_cast<char*>(workspace) - 4);
        break;
      case Behaviour::past_end:
        write_to(static_cast<char*>(buffers.c) + c_bytes + 8);
        break;
      case Behaviour::chatter:
        std::printf("{\"row\": 0}\n");
        std::fflush(stdout);
        break;
      default:
        break;
    }
    plain_gemm(problem_, buffers);
    if (behaviour_ == Behaviour::wrong) static_cast<float*>(buffers.c)[c_bytes / sizeof(float) / 2] += 0.5f;
  }

 private:
  GemmProblem problem_;
  Behaviour behaviour_;
  int calls_ = 0;
  double& now_us_;
};

class ToyBackend : public MeasuredBackend {
 public:
  std::string_view name() const noexcept override { return "toy"; }
  std::string_view provider() const noexcept override { return "toy"; }
  Family family(const Signature&, std::string_view) override {
    fail(Errc::unsupported, "the toy's configs are those of its plans");
  }
  const Device& device() override { return device_; }
  Instruments& instruments() override { return clock_; }
  std::string refusal(ProblemRef, const KernelConfig& config) override {
    return config["behaviour"] == static_cast<std::int32_t>(Behaviour::refuse) ? "the toy refuses" : "";
  }
  std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig& config) override {
    if (const std::string text = refusal(problem, config); !text.empty()) fail(Errc::unsupported, "{}", text);
    const auto behaviour = static_cast<Behaviour>(config["behaviour"]);
    if (behaviour == Behaviour::crash_in_prepare) std::raise(SIGSEGV);
    return std::make_unique<ToyLaunch>(problem.as<GemmProblem>(), behaviour, clock_.now_us);
  }

  std::vector<std::string> prepare_ahead(ProblemRef, std::span<const KernelConfig> configs, double) override {
    std::vector<std::string> left_out;
    for (const KernelConfig& config : configs) {
      const bool compiles = config["behaviour"] == static_cast<std::int32_t>(Behaviour::compile);
      left_out.emplace_back(compiles ? "compiling took too long" : "");
    }
    return left_out;
  }

 private:
  Device device_;
  StandInInstruments clock_;
};

}  // namespace

const ConfigSpace& space(std::string_view provider, Op) {
  if (provider != "toy") fail(Errc::invalid_argument, "unknown provider '{}'", provider);
  return kSpace;
}

Backend& backend(std::string_view) {
  static ToyBackend toy;
  return toy;
}

KernelConfig config(Behaviour behaviour, std::int32_t variant) {
  KernelConfig out(kSpace);
  out.set("behaviour", static_cast<std::int32_t>(behaviour));
  out.set("variant", variant);
  return out;
}

SweepPlan plan(const std::vector<GemmProblem>& problems, const std::vector<KernelConfig>& configs,
               const Protocol& protocol) {
  SweepPlan out;
  out.provider = out.backend = out.rules = "toy";
  out.device.name = "toy";
  out.protocol = protocol;
  out.problems.assign(problems.begin(), problems.end());
  out.configs = configs;
  std::vector<std::uint32_t> all;
  for (std::uint32_t c = 0; c < configs.size(); ++c) all.push_back(c);
  out.candidates.assign(problems.size(), all);
  return out;
}

SweepPlan quick_plan(int problems, int configs) {
  std::vector<GemmProblem> sizes;
  for (int p = 0; p < problems; ++p) sizes.push_back(make_gemm(2 + p, 3, 4));
  std::vector<KernelConfig> good;
  for (int c = 0; c < configs; ++c) good.push_back(config(Behaviour::good, c));
  return plan(sizes, good, {.warmup = 0, .contenders = 3, .rounds = 2, .rounds_budget_us = 500});
}

}  // namespace kscout::toy
