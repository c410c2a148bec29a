#include "train/families.h"

#include <map>
#include <ranges>
#include <unordered_map>
#include <unordered_set>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/indexing.h"
#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "dataset/reduce.h"
#include "evaluate/baselines.h"
#include "family/family_file.h"
#include "family/rules.h"

namespace kscout {

namespace {

Signature with_epilogue(Signature signature, Epilogue epilogue) {
  signature.epilogue = epilogue;
  return signature;
}

/// The problems of all tables, one table after another.
auto problems_of(std::span<const CompactTable> tables) {
  return tables | std::views::transform(&CompactTable::problems) | std::views::join;
}

/// Removes the applicability rules that refuse a measured run.
void drop_refuted_rules(Family& family, std::span<const CompactTable> tables) {
  std::unordered_map<KernelConfig, std::size_t> positions;
  for (std::size_t i = 0; i < family.configs.size(); ++i) positions.emplace(family.configs[i], i);
  std::vector<std::uint8_t> admitted(family.configs.size());
  ApplicabilityRules::Scratch scratch;
  const auto refuses_a_run = [&](const Rule& rule) {
    const ApplicabilityRules alone(std::span(&rule, 1), family.configs, family.traits, family.device);
    for (const CompactTable& table : tables) {
      for (std::size_t p = 0; p < table.problems.size(); ++p) {
        if (signature_of(table.problems[p]) != family.signature) continue;
        admitted.assign(admitted.size(), 1);
        alone.evaluate(table.problems[p], admitted, scratch);
        bool refused = false;
        table.for_each_row(p, [&](std::uint32_t config, const Measurement& measured, std::uint32_t) {
          refused =
              refused || (measured.status == Status::ok && !admitted[positions.at(table.configs[config])]);
        });
        if (refused) return true;
      }
    }
    return false;
  };
  std::erase_if(family.applicability, refuses_a_run);
}

/// Families without a rule set: for each signature that has a problem, the configs of the tables.
std::vector<Family> measured_configs(std::span<const CompactTable> tables) {
  std::vector<Family> families;
  const CompactTable& first = tables.front();
  ConfigTable configs(*first.configs.front().space);
  std::unordered_set<KernelConfig> known;
  for (const CompactTable& table : tables) {
    for (const KernelConfig& config : table.configs) {
      if (known.insert(config).second) configs.push_back(config);
    }
  }
  const KernelConfig usual = best_static(first);
  for (const Signature& signature : signatures_of(problems_of(tables))) {
    Family family = family_of_configs(signature, first.device, configs);
    for (std::size_t i = 0; i < configs.size(); ++i) {
      if (configs[i] == usual) family.default_config = i;
    }
    drop_refuted_rules(family, tables);
    families.push_back(std::move(family));
  }
  return families;
}

using Metadata = std::map<std::string, std::string>;

std::string known_of(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : found->second;
}

/// The rule set of all measurements. With several rule sets, or a rule set from a file that may be absent
/// here: kMeasuredRules.
std::string rules_of(const Metadata& metadata) {
  const std::string rules = known_of(metadata, "rules");
  if (rules.empty()) return "default";
  const bool one = split_list(rules).size() == 1 && rules.find(".toml") == std::string::npos;
  return one ? rules : std::string(kMeasuredRules);
}

/// A filter that admits every config that one of the sweeps measured; empty: no filter.
std::string filter_of(const Metadata& metadata) {
  const std::string filters = known_of(metadata, "filter");
  std::string any;
  for (const std::string_view filter : split_list(filters)) {
    if (filter.empty()) return "";
    any += fmt::format("{}({})", any.empty() ? "" : " or ", filter);
  }
  return any;
}

}  // namespace

std::vector<Family> families_of(std::span<const CompactTable> tables, std::string rules, TrainFor devices,
                                std::span<const Epilogue> epilogues) {
  if (tables.empty()) fail(Errc::invalid_argument, "nothing to train on: no dataset given");
  const CompactTable& first = tables.front();
  if (first.configs.empty()) fail(Errc::invalid_argument, "the dataset has no configs");
  const Metadata metadata = merge_metadata(heads_of(tables));
  if (rules.empty()) rules = rules_of(metadata);
  const bool any = devices == TrainFor::any_cpu;
  if (any && (rules == kMeasuredRules || rules.find(".toml") != std::string::npos)) {
    fail(Errc::invalid_argument,
         "a model for any CPU chooses among the configs of one rule set of the program, but the datasets are "
         "of "
         "'{}'; name the rule set with --rules",
         known_of(metadata, "rules"));
  }
  if (rules == kMeasuredRules) {
    if (!epilogues.empty())
      fail(Errc::invalid_argument, "configs for epilogues: name a rule set that has them");
    return measured_configs(tables);
  }
  // A filter may mention the instruction set, so it holds for the measured devices only.
  const std::string filter = any ? std::string() : filter_of(metadata);
  const auto family_of = [&](const Signature& signature) {
    return enumerate({.provider = std::string(first.configs.front().space->provider),
                      .signature = signature,
                      .device = any ? any_cpu() : first.device,
                      .rules = rules,
                      .filter = filter});
  };
  const auto measured = signatures_of(problems_of(tables));
  std::vector<Family> families;
  for (const Signature& signature : measured) families.push_back(family_of(signature));
  for (const Signature& signature : measured) {
    for (const Epilogue epilogue : epilogues) {
      const Signature other = with_epilogue(signature, epilogue);
      if (signature.epilogue != Epilogue::none || std::ranges::find(measured, other) != measured.end())
        continue;
      families.push_back(family_of(other));
    }
  }
  return families;
}

std::vector<Family> measured_families(std::vector<Family> families, const TrainingSet& set) {
  std::erase_if(families, [&](const Family& family) {
    return std::ranges::none_of(set.problems, [&](const Problem& p) {
      const Signature measured = signature_of(p);
      return measured == family.signature || measured == with_epilogue(family.signature, Epilogue::none);
    });
  });
  if (families.empty()) fail(Errc::invalid_argument, "no family has the signature of a measured problem");
  return families;
}

}  // namespace kscout
