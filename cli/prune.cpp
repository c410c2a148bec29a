// `kscout prune`: finds the fewest configs of a dataset that keep a given efficiency, and writes them as a
// rule set.
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/family.h>

#include "core/fail.h"
#include "core/indexing.h"
#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "evaluate/baselines.h"
#include "family/family_file.h"
#include "family/rules.h"
#include "options.h"
#include "outputs.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct PruneOptions {
  std::string data, out, filter, name = "pruned", extends = "tiny";
  double keep = 99, keep_each = 0;  ///< percent
  Format format = Format::text;
};

std::vector<KernelConfig> configs_of(const Family& family) {
  std::vector<KernelConfig> out;
  for (std::size_t i = 0; i < family.configs.size(); ++i) out.push_back(family.configs[i]);
  return out;
}

/// The rows of one signature whose configs satisfy the formula (none: all configs).
MeasurementTable candidates_of(const MeasurementTable& table, const Signature& signature,
                               const std::string& filter) {
  MeasurementTable part =
      table_of_problems(table, [&](const Problem& p) { return signature_of(p) == signature; });
  if (filter.empty()) return part;
  const std::vector<bool> admitted =
      holding_configs({"--filter", filter}, part.configs, part.device, signature);
  std::erase_if(part.rows, [&](const auto& row) { return !admitted[row.config]; });
  return part;
}

void prune_verb(const PruneOptions& options) {
  if (options.out.empty()) fail(Errc::invalid_argument, "where to? give --out FILE.toml");
  const MeasurementTable table = read_dataset(options.data);
  if (table.configs.empty()) fail(Errc::invalid_argument, "{} holds no configs", options.data);
  const ConfigSpace& space = *table.configs.front().space;

  ExplicitRuleSet set{
      .name = options.name,
      .help = fmt::format("the fewest (greedily) that keep {:g} % of the best of {}", options.keep,
                          std::filesystem::path(options.data).filename().string()),
      .extends = options.extends == "none" ? "" : options.extends,
      .blocks = {}};
  Table report(
      {"dtype", "layout", "epilogue", "problems", "configs", "given", "kept", "mean", "of_calls", "worst"});
  for (const Signature& signature : signatures_of(table.problems)) {
    PruneRequest request{.keep = options.keep / 100, .keep_each = options.keep_each / 100};
    if (!set.extends.empty()) {
      request.given = configs_of(enumerate({.provider = std::string(space.provider),
                                            .signature = signature,
                                            .device = table.device,
                                            .rules = set.extends,
                                            .filter = {}}));
    }
    const PrunedConfigs pruned = prune(candidates_of(table, signature, options.filter), request);
    const auto count = [](std::size_t value) { return number(static_cast<std::int64_t>(value)); };
    report.add_row({text(word(signature.dtype_a)), text(word(signature.layout)),
                    text(word(signature.epilogue)), count(pruned.problems), count(pruned.candidates),
                    count(request.given.size()), count(pruned.configs.size()), number(100 * pruned.mean, 4),
                    number(100 * pruned.mean_of_calls, 4), number(100 * pruned.least, 4)});
    set.blocks.push_back({signature, pruned.configs});
  }
  write_out(options.out, rule_sets_text(space.provider, space.op, {set}));
  report.print(options.format);
}

}  // namespace

void setup_prune(CLI::App& verb) {
  const auto options = std::make_shared<PruneOptions>();
  reads_file(verb.add_option("--data", options->data, "dataset of measurements"))->required();
  add_out_option(verb, "--out", options->out, "file for the rule set; use it as --rules FILE.toml");
  const CLI::Range percent(0.0, 100.0);
  verb.add_option("--keep", options->keep,
                  "min mean share of the best speed, over problems and over their calls, %")
      ->check(percent)
      ->capture_default_str();
  verb.add_option("--keep-each", options->keep_each, "min share of the best speed on every problem, %")
      ->check(percent)
      ->capture_default_str();
  verb.add_option("--filter", options->filter, "choose among configs for which this formula holds");
  verb.add_option("--name", options->name, "name of the rule set")->capture_default_str();
  verb.add_option("--extends", options->extends,
                  "a rule set whose configs are always available (so that every problem has one), or none")
      ->capture_default_str();
  add_format_option(verb, options->format);
  verb.footer(
      "Chooses greedily, per signature. The table shows how many configs are kept, and the share of the\n"
      "best measured speed that they reach.\n\n"
      "Example:\n  kscout prune --data pilot.parquet --keep 99.5 --out pruned.toml\n\n"
      "exit status: 0 done, 2 wrong arguments, 4 file failure");
  verb.callback([options] { prune_verb(*options); });
}

}  // namespace kscout::cli
