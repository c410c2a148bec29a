#include "evaluate/reference_problems.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include <kscout/provider.h>
#include <kscout/selector.h>

#include "core/hash.h"
#include "dataset/operations.h"
#include "evaluate/baselines.h"
#include "family/listed.h"
#include "provider/joint.h"
#include "select/model.h"

namespace kscout {

namespace {

/// The fastest configs that are recorded besides the model's choice and the library's first suggestion.
constexpr std::size_t kFastest = 4;

/// Nothing when the choice was not measured, or less precisely than the fastest config.
std::vector<ReferenceProblem> reference_of(const CompactTable& table, const Problem& problem,
                                           std::vector<FinalRow> rows, const KernelConfig& choice) {
  const auto oracle = oracle_of(rows);
  if (!oracle) return {};
  std::erase_if(rows, [](const FinalRow& row) { return row.measured.status != Status::ok; });
  std::ranges::stable_sort(rows, {}, [](const FinalRow& row) { return row.measured.time_us; });
  ReferenceProblem reference{problem, oracle->measured.cache, {}, rows.size()};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const KernelConfig& config = table.configs[rows[i].config];
    const bool chosen = config == choice;
    if (chosen && measured_less_precisely(rows[i].measured, oracle->measured)) return {};
    if (chosen) reference.chosen = reference.times.size();
    if (chosen || i < kFastest || is_first_suggestion(config))
      reference.times.push_back({config, rows[i].measured.time_us});
  }
  if (reference.chosen >= reference.times.size()) return {};
  reference.problem.set_weight(1);
  return {reference};
}

/// Positions of the problems that are tried, in the order of a hash.
std::vector<std::uint32_t> drawn(const CompactTable& table) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> order;
  for (std::uint32_t i = 0; i < table.problems.size(); ++i)
    order.emplace_back(text_hash(print(table.problems[i])), i);
  std::ranges::sort(order);
  order.resize(std::min(order.size(), kTriedProblems));
  std::vector<std::uint32_t> positions;
  for (const auto& [hash, position] : order) positions.push_back(position);
  return positions;
}

/// The library's list, as the rows of a problem tell it.
std::vector<KernelConfig> list_of(const CompactTable& table, const Problem& problem,
                                  std::span<const FinalRow> rows) {
  std::map<double, KernelConfig> by_place;
  for (const FinalRow& row : rows) {
    const KernelConfig config = member_config(table.configs[row.config]);
    const double place =
        provider(config.space->provider).traits(signature_of(problem), config, table.device).listed;
    const auto named = listed_config(config, 0);
    if (place >= 1 && named) by_place.emplace(place, *named);
  }
  std::vector<KernelConfig> list;
  for (const auto& [place, config] : by_place) list.push_back(config);
  return list;
}

}  // namespace

CompactTable tried_problems(const CompactTable& table) {
  std::unordered_set<Problem> wanted;
  for (const std::uint32_t i : drawn(table)) wanted.insert(table.problems[i]);
  return table.of_problems([&](const Problem& problem) { return wanted.contains(problem); });
}

std::vector<ReferenceProblem> reference_problems(const std::filesystem::path& model,
                                                 std::span<const CompactTable> tables) {
  std::vector<ReferenceProblem> found;
  const Device device = model_device(model);
  const Model loaded = Model::load(model);
  if (loaded.data().any_cpu) return found;
  std::vector<KernelConfig> list;  // of the problem at hand
  const Family& family = loaded.data().families.front();
  const Selector selector =
      Selector::load(model, {.provider = family.provider,
                             .device = device,
                             .rules = family.rules,
                             .devices = DevicePolicy::exact,
                             .suggestions = [&](ProblemRef, std::size_t) { return list; }});
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const CompactTable& table = tables[t];
    if (table.device.name != device.name) continue;
    const std::size_t until = kReferenceProblems * (t + 1) / tables.size();
    for (const std::uint32_t i : drawn(table)) {
      if (found.size() >= until) break;
      const Problem& problem = table.problems[i];
      const auto rows = table.final_rows(i);
      list = list_of(table, problem, rows);
      Choice choice;
      if (!loaded.family(signature_of(problem)) || selector.try_select(problem, choice) != SelectStatus::ok)
        continue;
      for (ReferenceProblem& one : reference_of(table, problem, rows, choice.config))
        found.push_back(std::move(one));
    }
  }
  return found;
}

std::size_t record_reference_times(const std::filesystem::path& model, std::span<const CompactTable> tables) {
  const auto references = reference_problems(model, tables);
  if (!references.empty()) write_reference_times(model, references);
  return references.size();
}

}  // namespace kscout
