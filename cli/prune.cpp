// `kscout kernels --prune`: the fewest configs of a dataset that lose little, as a rule set. Needs Arrow, so
// only kscout-lab has it.
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/family.h>

#include "core/fail.h"
#include "core/files.h"
#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "evaluate/baselines.h"
#include "family/rule_set_text.h"
#include "family/rules.h"
#include "options.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

/// The signatures of a table's problems, in the order in which they come.
std::vector<Signature> signatures_of(const MeasurementTable& table) {
  std::vector<Signature> out;
  for (const Problem& problem : table.problems) {
    const Signature signature = signature_of(problem);
    if (std::ranges::find(out, signature) == out.end()) out.push_back(signature);
  }
  return out;
}

std::vector<KernelConfig> configs_of(const Family& family) {
  std::vector<KernelConfig> out;
  for (std::size_t i = 0; i < family.configs.size(); ++i) out.push_back(family.configs[i]);
  return out;
}

/// The rows of one signature, and of configs for which the formula holds (none: all).
MeasurementTable candidates_of(const MeasurementTable& table, const Signature& signature,
                               const std::string& filter) {
  MeasurementTable part =
      table_of_problems(table, [&](const Problem& p) { return signature_of(p) == signature; });
  if (filter.empty()) return part;
  const std::vector<bool> admitted = holding_configs(filter, part.configs, part.device, signature);
  std::erase_if(part.rows, [&](const auto& row) { return !admitted[row.config]; });
  return part;
}

void run_prune(const PruneOptions& options, const std::string& out, Format format) {
  if (out.empty()) fail(Errc::invalid_argument, "where to? give --out FILE.toml");
  const MeasurementTable table = read_dataset(options.data);
  if (table.configs.empty()) fail(Errc::invalid_argument, "{} holds no configs", options.data);
  const ConfigSpace& space = *table.configs.front().space;

  ListedRuleSet set{
      .name = options.name,
      .help = fmt::format("the fewest (greedily) that keep {:g} % of the best of {}", options.keep,
                          std::filesystem::path(options.data).filename().string()),
      .extends = options.extends == "none" ? "" : options.extends,
      .blocks = {}};
  Table report(
      {"dtype", "layout", "epilogue", "problems", "configs", "given", "kept", "mean", "of_calls", "worst"});
  for (const Signature& signature : signatures_of(table)) {
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
  write_file_atomically(out, rule_sets_text(space.provider, space.op, {set}));
  report.print(format);
}

}  // namespace

void setup_kernels_prune(CLI::App& verb) {
  struct Options {
    PruneOptions prune;
    std::string out;
    Format format = Format::text;
  };
  const auto options = std::make_shared<Options>();
  options->prune.add_to(verb)->required();
  verb.add_option("--filter", options->prune.filter, "keep only configs for which this formula holds");
  verb.add_option("--out", options->out, "file of the rule set");
  add_format_option(verb, options->format);
  verb.callback([options] { run_prune(options->prune, options->out, options->format); });
}

}  // namespace kscout::cli
