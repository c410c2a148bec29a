// Times the fastest configs of backend `cpu` on operands that begin on cache lines, as in sweeps, and on
// operands that begin a few bytes after a page: 16 for NumPy's large arrays. `choice` is what the config that
// is the fastest on cache lines reaches of the fastest at the offset: how much a choice that knew the
// addresses would gain.
//
//     alignment [--offset 16] [--rules default] [--csv FILE] [problems...]
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <kscout/backend.h>
#include <kscout/family.h>

#include "backend/cpu/cpu_backend.h"
#include "bench_program.h"
#include "cpu_timing.h"
#include "op/operands.h"
#include "op/operation.h"

namespace kscout::bench {
namespace {

constexpr std::size_t kFinalists = 8;

struct Options {
  std::size_t offset = 16;
  std::string rules = "default", csv;
  std::vector<std::string> problems = {
      "gemm:1x1024x1024:fp32:rrr",
      "gemm:4x1024x1024:fp32:rrr",
      "gemm:8x2048x512:fp32:rrr",
      "gemm:4x4096x4096:fp32:rrr",
      "gemm:1x1024x1024:fp32:rcr",
      "gemm:4x1024x1024:fp32:rcr",
      "gemm:16x1024x1024:fp32:rcr",
      "gemm:8x11008x4096:fp32:rcr",
      "gemm:1024x1x1024:fp32:ccr",
      "gemm:1024x4x1024:fp32:ccr",
      "gemm:4096x4x4096:fp32:ccr",
      "gemm:1024x4x1024:fp32:rrr",
      "conv_fwd:1x128x56x56:128x3x3:g=128:pad=1",
      "conv_fwd:8x32x112x112:32x3x3:g=32:pad=1",
      "conv_fwd:32x512x14x14:512x3x3:g=512:pad=1",
      "conv_fwd:1x240x28x28:240x5x5:g=240:pad=2",
      "conv_bwd_data:1x128x56x56:128x3x3:g=128:pad=1",
  };
};

/// The configs of a rule set on one problem. Operands lie in the same memory for both beginnings, so that
/// physical pages make no difference; huge pages, as for NumPy's large arrays.
class Timer {
 public:
  Timer(const Problem& problem, const Options& options) : problem_(problem) {
    const OperandList operands = operation(problem.kind()).operands(problem);
    for (std::size_t at = 0; at < std::size(memory_); ++at) {
      const auto floats = static_cast<std::size_t>(operands[at].elements());
      memory_[at].resize(floats * sizeof(float) + options.offset);
      auto* const data = reinterpret_cast<float*>(memory_[at].data());
      for (std::size_t i = 0; i < floats + options.offset / sizeof(float); ++i)
        data[i] = static_cast<float>(i % 1021) / 1021;
    }
    const Family family = enumerate({.provider = "native",
                                     .signature = signature_of(problem),
                                     .device = backend("cpu").device(),
                                     .rules = options.rules,
                                     .filter = {}});
    std::vector<std::uint8_t> applicable(family.configs.size());
    applicable_configs(family, problem, applicable);
    for (std::size_t i = 0; i < family.configs.size(); ++i) {
      if (!applicable[i] || !backend("cpu").refusal(problem, family.configs[i]).empty()) continue;
      launches_.push_back(backend("cpu").prepare(problem, family.configs[i]));
      if (launches_.back()->packed_bytes() > 0)
        fail(Errc::invalid_argument, "{}: leave out prepacked=1", print(problem));
      add(launches_.size() - 1, family.name(i), 0);
    }
    std::size_t workspace = 0;
    for (const auto& launch : launches_) workspace = std::max(workspace, launch->workspace_bytes());
    workspace_.resize(workspace);
  }

  /// Times the fastest configs on both beginnings, in the same rounds.
  void run(std::size_t offset) {
    match_.coarse();
    std::vector<std::size_t> order(launches_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return match_.candidates()[i].coarse_us; });
    order.resize(std::min(order.size(), kFinalists));
    for (const std::size_t i : order) add(i, match_.candidates()[i].name, offset);
    match_.interleaved(kFinalists);
  }

  const SideBySide& match() const { return match_; }
  /// Of the same config on operands that begin `offset` bytes after a page.
  double time_at_offset(const std::string& name) const {
    for (const Candidate& one : match_.candidates()) {
      if (one.extra && one.name == name) return one.time_us;
    }
    return kUnknown;
  }
  double fastest_at_offset() const {
    double fastest = std::numeric_limits<double>::infinity();
    for (const Candidate& one : match_.candidates()) {
      if (one.extra) fastest = std::min(fastest, one.time_us);
    }
    return fastest;
  }

 private:
  void add(std::size_t launch, const std::string& name, std::size_t offset) {
    const auto at = [&](std::size_t i) { return memory_[i].data() + offset; };
    const GemmBuffers buffers{.a = at(0), .b = at(1), .c = at(2)};
    match_.add({.name = name, .extra = offset > 0, .call = [this, launch, buffers] {
                  launches_[launch]->run(buffers, workspace_.data());
                }});
  }

  Problem problem_;
  GuardedBuffer memory_[3] = {GuardedBuffer(0), GuardedBuffer(1), GuardedBuffer(2)};
  GuardedBuffer workspace_;
  std::vector<std::unique_ptr<Launch>> launches_;
  SideBySide match_;
};

int run(const Options& options) {
  fmt::print("{}\n{:44} {:>10} {:>10} {:>6} {:>6}  config\n", backend("cpu").device().model, "problem",
             "lines us", "offset us", "ratio", "choice");
  std::ofstream csv = open_csv(options.csv, "problem,config,lines_us,offset_us,fastest_at_offset_us");
  std::vector<double> gemms, convolutions, choices;
  for (const std::string& text : options.problems) {
    const Problem problem = parse_any_problem(text);
    Timer timer(problem, options);
    timer.run(options.offset);
    const Candidate& best = *timer.match().best(false);
    const double at_offset = timer.time_at_offset(best.name);
    (problem.op() == Op::gemm ? gemms : convolutions).push_back(at_offset / best.time_us);
    choices.push_back(timer.fastest_at_offset() / at_offset);
    fmt::print("{:44} {:10.1f} {:10.1f} {:6.3f} {:6.3f}  {}\n", text, best.time_us, at_offset,
               at_offset / best.time_us, choices.back(), short_name(best.name));
    std::fflush(stdout);
    if (csv.is_open())
      csv << fmt::format("{},{},{},{},{}\n", text, best.name, best.time_us, at_offset,
                         timer.fastest_at_offset());
  }
  if (!gemms.empty()) fmt::print("RESULT alignment.gemm_slower {:.3f} x\n", geomean(gemms));
  if (!convolutions.empty()) fmt::print("RESULT alignment.conv_slower {:.3f} x\n", geomean(convolutions));
  fmt::print("RESULT alignment.choice_at_offset {:.3f}\n", geomean(choices));
  return 0;
}

}  // namespace
}  // namespace kscout::bench

int main(int argc, char** argv) {
  using namespace kscout;
  bench::Options options;
  CLI::App app("CPU kernels on operands that begin on cache lines and elsewhere");
  app.add_option("--offset", options.offset, "bytes; a multiple of 4")->capture_default_str();
  app.add_option("--rules", options.rules, "rule set")->capture_default_str();
  app.add_option("--csv", options.csv, "write every time");
  app.add_option("problems", options.problems, "instead of the built-in list");
  return bench::run_bench("alignment", app, argc, argv, [&] { return bench::run(options); });
}
