#include "sweep/guided.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_set>

#include <kscout/selector.h>

#include "core/fail.h"
#include "core/hash.h"
#include "family/rules.h"
#include "select/model.h"

namespace kscout {

namespace {

constexpr std::size_t kFewByModel = 8, kFewByCost = 6, kFewDrawn = 4;

/// How far two problems are apart: by the logs of their sizes as products.
double distance(ProblemRef a, ProblemRef b) {
  const ImplicitGemm x = product_of(a), y = product_of(b);
  const auto apart = [](std::int64_t i, std::int64_t j) {
    return std::abs(std::log2(static_cast<double>(std::max<std::int64_t>(i, 1)) /
                              static_cast<double>(std::max<std::int64_t>(j, 1))));
  };
  return apart(x.m, y.m) + apart(x.n, y.n) + apart(x.k, y.k) + apart(x.groups, y.groups);
}

using Configs = std::unordered_set<KernelConfig>;

void add_best(Configs& kept, const Selector& selector, ProblemRef problem, std::size_t top) {
  for (const Choice& choice : selector.rank(problem, top)) kept.insert(choice.config);
}

void add_of_similar(Configs& kept, const GuidedBy& by, ProblemRef problem) {
  const Signature signature = signature_of(problem);
  std::vector<std::pair<double, const Winner*>> similar;
  for (const Winner& one : by.winners) {
    if (signature_of(one.problem) == signature) similar.emplace_back(distance(problem, one.problem), &one);
  }
  std::ranges::stable_sort(similar, {}, &std::pair<double, const Winner*>::first);
  if (similar.size() > by.of_similar) similar.resize(by.of_similar);
  for (const auto& [far, winner] : similar) kept.insert(winner->config);
}

}  // namespace

GuidedBy few_above(double us, Op op, DType dtype, const std::string& provider, const Device& device) {
  const auto model =
      find_model_or_any_cpu(op, dtype, device, [&](std::string_view of) { return of == provider; });
  return {.above_us = us,
          .model = model ? model->string() : std::string(),
          .top = kFewByModel,
          .analytic = kFewByCost,
          .drawn = kFewDrawn,
          .with_default = true,
          .also = {}};
}

Narrow guided_by(const GuidedBy& by, const PlanRequest& request, const Device& device) {
  const SelectorRequest of{.provider = request.provider, .device = device, .rules = request.rules};
  std::optional<Selector> model, analytic;
  if (!by.model.empty()) {
    if (const std::string theirs = model_provider(by.model); theirs != request.provider)
      fail(Errc::invalid_argument, "--model {}: its configs are of provider {}, the sweep is of {}", by.model,
           theirs, request.provider);
    model = Selector::load(by.model, of);
  }
  if (by.analytic > 0) analytic = Selector::analytic(of);
  return [=, seed = request.seed](ProblemRef problem, const Family& family,
                                  std::vector<std::uint8_t>& measured) {
    if (!(expected_call_us(problem, device) > by.above_us) ||
        std::ranges::count(measured, 0) == std::ssize(measured))
      return;
    Configs kept(by.always.begin(), by.always.end());
    if (model) add_best(kept, *model, problem, by.top);
    if (analytic) add_best(kept, *analytic, problem, by.analytic);
    add_of_similar(kept, by, problem);
    if (by.with_default) kept.insert(family.configs[family.default_config]);
    std::vector<KernelConfig> configs;
    for (std::size_t i = 0; i < family.configs.size(); ++i) configs.push_back(family.configs[i]);
    const auto also = by.also.empty()
                          ? std::vector<bool>(configs.size())
                          : holding_configs({"--also", by.also}, configs, family.device, family.signature);
    std::size_t drawn = 0;
    for (const std::uint32_t i :
         seeded_order(configs.size(), mix_hash(seed, std::hash<Problem>()(problem.value())))) {
      if (measured[i] == 0 || also[i] || kept.contains(configs[i])) continue;
      if (drawn++ >= by.drawn) measured[i] = 0;
    }
  };
}

}  // namespace kscout
