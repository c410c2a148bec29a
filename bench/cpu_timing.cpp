#include "cpu_timing.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>
#include <random>

#include <fmt/format.h>

#include <kscout/family.h>

#include "op/operation.h"

namespace kscout::bench {

namespace {

/// Not minstd_rand: its sequences of two seeds are multiples of each other, so that sums of products of two
/// operands grow with their length, and with them the rounding errors that a comparison must allow.
void fill(float* data, std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (std::int64_t i = 0; i < count; ++i) data[i] = static_cast<float>(random()) * 0x1p-31F - 1;
}

OfOperands<std::int64_t> sizes_of_operands(const Problem& problem) {
  if (problem.op() == Op::gemm) {
    const OperandElements sizes = operand_elements(problem.gemm());
    return {sizes.a, sizes.b, sizes.c};
  }
  if (!problem.is<ConvProblem>()) {
    const OperandList all = operation(problem.kind()).operands(problem);
    return {all[0].elements(), all[1].elements(), all.result().elements()};
  }
  const ConvElements sizes = operand_elements(problem.conv());
  return by_operand(problem.op(), sizes.in, sizes.wei, sizes.out);
}

std::size_t bytes_of(std::int64_t elements) { return sizeof(float) * static_cast<std::size_t>(elements); }

}  // namespace

Pages::Pages(std::size_t bytes) : data(std::aligned_alloc(4096, (bytes / 4096 + 1) * 4096), std::free) {
  if (!data) throw std::bad_alloc();
}

CpuTimer::CpuTimer(const Problem& problem)
    : problem_(problem),
      sizes_(sizes_of_operands(problem)),
      a_(bytes_of(sizes_.a)),
      b_(bytes_of(sizes_.b)),
      c_(bytes_of(sizes_.c)),
      workspace_(std::make_shared<Pages>(0)),
      packed_(std::make_shared<Pages>(0)) {
  fill(a_.floats(), sizes_.a, 1);
  fill(b_.floats(), sizes_.b, 2);
  fill(c_.floats(), sizes_.c, 3);
}

std::function<void()> CpuTimer::timed_call(Launch& launch, const GemmBuffers& buffers,
                                           std::shared_ptr<Pages> workspace, std::shared_ptr<Pages> packed) {
  if (launch.packed_bytes() == 0) {
    return
        [&launch, buffers, workspace = std::move(workspace)] { launch.run(buffers, workspace->data.get()); };
  }
  return [&launch, buffers, workspace = std::move(workspace), packed = std::move(packed)] {
    GemmBuffers with_filter = buffers;
    with_filter.packed_b = packed->data.get();
    launch.run(with_filter, workspace->data.get());
  };
}

double CpuTimer::last_setup_us() const {
  Launch& launch = *launches_.back();
  double fastest = 0;
  for (int i = 0; i < 3 && launch.packed_bytes() > 0; ++i) {
    const double us = mean_us([&] { launch.pack(b(), packed_->data.get()); }, 1);
    fastest = i == 0 ? us : std::min(fastest, us);
  }
  return fastest;
}

Candidate* CpuTimer::add(const KernelConfig& config, const std::string& name, bool extra) {
  if (!backend("cpu").refusal(problem_, config).empty()) return nullptr;
  launches_.push_back(backend("cpu").prepare(problem_, config));
  Launch& launch = *launches_.back();
  if (launch.workspace_bytes() > workspace_bytes_) {
    workspace_bytes_ = launch.workspace_bytes();
    *workspace_ =
        Pages(workspace_bytes_);  // earlier candidates share the Pages, so they use the larger memory
    fill(workspace_->floats(), static_cast<std::int64_t>(workspace_bytes_ / sizeof(float)), 4);
  }
  if (launch.packed_bytes() > packed_bytes_) *packed_ = Pages(packed_bytes_ = launch.packed_bytes());
  const GemmBuffers buffers{.a = a(), .b = b(), .c = c()};
  Candidate& added =
      match_.add({.name = name, .extra = extra, .call = timed_call(launch, buffers, workspace_, packed_)});
  if (launch.packed_bytes() > 0)
    added.prepare = [&launch, filter = b(), packed = packed_] { launch.pack(filter, packed->data.get()); };
  return &added;
}

void CpuTimer::add_rule_set(const std::string& rules, const std::string& filter) {
  const Family family = enumerate({.provider = "native",
                                   .signature = signature_of(problem_),
                                   .device = backend("cpu").device(),
                                   .rules = rules,
                                   .filter = filter});
  std::vector<std::uint8_t> applicable(family.configs.size());
  applicable_configs(family, problem_, applicable);
  for (std::size_t i = 0; i < family.configs.size(); ++i) {
    if (applicable[i]) add(family.configs[i], family.name(i));
  }
}

void CpuTimer::run_on_poisoned(const Candidate& candidate) const {
  std::fill_n(c(), sizes_.c, std::numeric_limits<float>::quiet_NaN());
  if (candidate.prepare) candidate.prepare();
  candidate.call();
}

std::string short_name(const std::string& name) { return name.substr(name.find("__") + 2); }

double gflops(const Problem& problem, double time_us) { return flop_count(problem) / time_us * 1e-3; }

std::string ratio_text(double value) { return std::isnan(value) ? "-" : fmt::format("{:.3f}", value); }

std::string load_text(double others) {
  return others > kLoaded ? fmt::format("  LOAD {:.1f} CPUs", others) : "";
}

}  // namespace kscout::bench
