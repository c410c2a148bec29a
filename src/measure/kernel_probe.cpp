#include "measure/kernel_probe.h"

#include <kscout/error.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "instruments/freivalds.h"

namespace kscout {

namespace {

constexpr double kAlpha = 0.75;      // exact in every floating type
constexpr double kShare = 1.0 / 24;  // of the memory, for the operands of one variant
constexpr std::int64_t kGap = 16;    // elements: rows keep the alignment that vector loads want

}  // namespace

std::vector<KernelProbe::Variant> KernelProbe::variants(const Problem& problem) {
  const Operation& of = operation(problem.kind());
  std::vector<Variant> all;
  all.push_back({"with operands aligned to their elements only", problem, {.unaligned = true}});
  if (const Problem gaps = of.with_gaps(problem, kGap); gaps != problem)
    all.push_back({"with leading dimensions 16 elements larger than packed", gaps, {}});
  // An alpha that is no integer has no exact result in integers.
  if (of.has_alpha && round_off(signature_of(problem).dtype_c) > 0)
    all.push_back({"with alpha 0.75", problem, {.alpha = kAlpha}});
  return all;
}

std::string KernelProbe::fault_of(Variant& variant, Backend& backend, const KernelConfig& config,
                                  std::uint64_t seed) {
  try {
    const auto launch = backend.prepare(variant.problem, config);
    if (!variant.reference) {
      variant.operands = std::make_unique<GemmOperands>(device_);
      variant.operands->make(variant.problem, seed, variant.changes);
      variant.reference = make_reference(variant.problem, *variant.operands);
    }
    GemmOperands& operands = *variant.operands;
    operands.reset_c();
    workspace_.resize_workspace(launch->workspace_bytes());
    workspace_.poison();
    device_.time_us(*launch, operands.buffers(), workspace_.data(), 1);
    if (std::string text = operands.damage(); !text.empty()) {
      operands.repair();
      return text;
    }
    if (const std::string text = workspace_.damage(); !text.empty())
      return "the workspace was written " + text;
    const Verification found = variant.reference->check(operands.result());
    return found.error <= 1 ? "" : found.where;
  } catch (const Error& error) {
    if (error.code() == Errc::unsupported) return {};
    throw;
  }
}

std::string KernelProbe::fault(Backend& backend, const KernelConfig& config, const Problem& problem,
                               std::uint64_t seed) {
  const ImplicitGemm product = product_of(problem);
  if (product.m * product.n * product.k * product.groups == 0) return {};
  if (min_bytes(problem) > kShare * device_.memory_bytes()) return {};
  const auto [known, is_new] = faults_.try_emplace(config_name(signature_of(problem), config));
  if (!is_new) return known->second;
  if (variants_.empty() || !(problem == problem_)) {
    problem_ = problem;
    variants_ = variants(problem);
  }
  for (Variant& variant : variants_) {
    std::string text = fault_of(variant, backend, config, seed);
    if (text.empty()) continue;
    known->second = fmt::format("{}: {}", variant.text, text);
    break;
  }
  return known->second;
}

}  // namespace kscout
