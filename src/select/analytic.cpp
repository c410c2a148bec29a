#include "select/analytic.h"

#include <array>
#include <cmath>
#include <utility>

#include "select/switches.h"

namespace kscout {

FamilySource families_by_rules(SelectorRequest request) {
  return [request = std::move(request)](const Signature& signature) {
    const std::string_view described_by =
        request.provider.empty() ? default_provider(signature.op, request.device) : request.provider;
    check_runs_on(provider(described_by), signature.op, request.device);
    return enumerate({.provider = std::string(described_by),
                      .signature = signature,
                      .device = request.device,
                      .rules = request.rules,
                      .filter = {}});
  };
}

Analytic::Analytic(FamilySource make, std::vector<NamedConfig> disabled, ThreadLimit limit, bool costs)
    : make_(std::move(make)), disabled_(std::move(disabled)), limit_(std::move(limit)), costs_(costs) {}

Analytic::~Analytic() {
  for (const Entry* entry = first_; entry;) delete std::exchange(entry, entry->next);
}

const Analytic::Entry* Analytic::find(const Signature& signature) const noexcept {
  for (const Entry* entry = first_.load(std::memory_order_acquire); entry; entry = entry->next) {
    if (entry->signature == signature) return entry;
  }
  return nullptr;
}

const Analytic::Entry& Analytic::entry(const Signature& signature) const {
  if (const Entry* const known = find(signature)) return *known;
  const std::lock_guard lock(adding_);
  if (const Entry* const known = find(signature)) return *known;
  auto entry = std::make_unique<Entry>();
  entry->signature = signature;
  try {
    entry->family = make_(signature);
    const Family& family = entry->family;
    entry->costs =
        analytic_schema(signature.op, family.provider)
            .few_rows(family.device, family.configs, family.traits, std::array<std::uint8_t, 1>{1});
    entry->compiled.emplace(family);
    entry->allowed = allowed_configs(entry->family, disabled_, limit_);
  } catch (const Error& error) {
    entry->error.emplace(error);
  }
  entry->next = first_.load(std::memory_order_relaxed);
  first_.store(entry.get(), std::memory_order_release);
  return *entry.release();
}

std::size_t Analytic::rank(const Entry& entry, ProblemRef problem, std::span<Ranked> best,
                           SelectScratch& scratch, ChoiceSource& source) const {
  const CompiledFamily& family = *entry.compiled;
  constexpr double kUntold = std::numeric_limits<double>::max();  // a cost above all known costs
  const auto able = family.able(problem, entry.allowed, scratch);
  scratch.scores.resize(able.size());
  expr::FewRows::Scratch& values = scratch.forest.features;
  if (!entry.costs->set_problem(problem, values)) {
    const Schema& schema = analytic_schema(problem.op(), entry.family.provider);
    std::vector<double> all(entry.family.configs.size());
    schema.evaluate(problem, entry.family.device, entry.family.configs, entry.family.traits, all);  // throws
  }
  entry.costs->evaluate(0, able, std::span(scratch.scores).first(able.size()), values);
  source = ChoiceSource::fallback;
  for (std::size_t i = 0; i < able.size(); ++i) {
    double& score = scratch.scores[i];
    const double us = score;
    if (costs_ && std::isfinite(us)) {  // a device fact of 0, such as a clock of 0 MHz, gives no finite time
      source = ChoiceSource::analytic;
      score = -us;
    } else {
      score = able[i] == family.family().default_config ? -kUntold / 2 : -kUntold;
    }
  }
  const std::size_t count = keep_best(able, std::span(scratch.scores).first(able.size()), best);
  for (Ranked& ranked : best.first(count)) {
    if (ranked.score <= -kUntold / 2) break;
    ranked.time_us = -ranked.score;
    ranked.tflops = flop_count(problem) / ranked.time_us * 1e-6;
  }
  return count;
}

}  // namespace kscout
