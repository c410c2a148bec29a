// `kscout audit`: runs a library's own suggestions and reports those that compute wrong results.
#include "sweep/audit.h"

#include <memory>
#include <numeric>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <kscout/backend.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "core/json_fields.h"
#include "options.h"
#include "outputs.h"
#include "sweep/isolated_timer.h"
#include "sweep/sweep.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct AuditVerb {
  std::string backend = "cuda", errata, reproduce;
  std::vector<std::string> problems;
  DType dtype = DType::bf16;
  std::vector<Layout> layouts;
  AuditOptions how;
  double timeout_s = 10;
  Format format = Format::text;
};

/// Runs configs in a worker process: one that does not end, or breaks the device, costs itself only.
std::vector<Outcome> measure(const AuditVerb& options, Backend& backend, const Problem& problem,
                             std::span<const KernelConfig> configs) {
  SweepPlan plan;
  plan.provider = std::string(configs.front().space->provider);
  plan.backend = options.backend;
  plan.op = problem.op();
  plan.device = backend.device();
  plan.protocol.contenders = 0;
  if (plan.device.kind == DeviceKind::gpu) plan.protocol.slack_us = 0;
  plan.problems = {problem};
  plan.configs.assign(configs.begin(), configs.end());
  plan.candidates.resize(1);
  plan.candidates[0].resize(configs.size());
  std::iota(plan.candidates[0].begin(), plan.candidates[0].end(), 0U);
  IsolatedTimer timer(plan, {.worker = default_worker(), .item_limit_s = options.timeout_s});
  std::vector<Outcome> outcomes;
  for (std::uint32_t i = 0; i < configs.size(); ++i) outcomes.push_back(timer.coarse(i));
  return outcomes;
}

/// Both programs for the example of each row, as a Markdown page.
std::string reproductions(const std::vector<AuditRow>& rows) {
  std::string text;
  for (const AuditRow& row : rows) {
    const WrongSuggestion& one = *row.example;
    const Reproduction programs = reproduction(one);
    text += fmt::format("## {} ({})\n\n`{}`, suggestion {}: {}\n\n```cpp\n{}```\n\n",
                        row.rule.empty() ? "no rule" : row.rule, row.since, print(one.problem), one.place,
                        one.reason, programs.cpp);
    text += programs.pytorch.empty() ? "PyTorch has no such call.\n\n"
                                     : fmt::format("```python\n{}```\n\n", programs.pytorch);
  }
  return text;
}

Table table_of(const std::vector<AuditRow>& rows, const Device& device) {
  Table table({"rule", "since", "device", "wrong", "problems", "first", "example", "config", "reason"});
  const auto count = [](std::size_t value) { return number(static_cast<std::int64_t>(value)); };
  for (const AuditRow& row : rows) {
    table.add_row({text(row.rule.empty() ? "none" : row.rule), text(row.since), text(device.name),
                   count(row.wrong), count(row.problems), count(row.first_place),
                   text(print(row.example->problem)),
                   text(config_name(signature_of(row.example->problem), row.example->config)),
                   text(row.example->reason)});
  }
  return table;
}

void audit_verb(const AuditVerb& options) {
  if (options.problems.empty())
    fail(Errc::invalid_argument, "--problems is required: on which problems shall the library be audited?");
  const std::vector<Problem> problems = any_problems_of(options.problems, options.dtype, options.layouts);
  if (problems.empty()) fail(Errc::invalid_argument, "--problems: there is no problem in it");
  Backend& library = backend(options.backend);
  Audit audit(library, options.how);
  for (const Problem& problem : problems) {
    audit.add(problem, [&](const Problem& of, std::span<const KernelConfig> configs) {
      return measure(options, library, of, configs);
    });
  }
  const std::vector<AuditRow> rows = audit.rows();
  if (!options.errata.empty()) write_out(options.errata, audit.errata_toml());
  if (!options.reproduce.empty()) write_out(options.reproduce, reproductions(rows));
  table_of(rows, library.device()).print(options.format);
  std::set<std::string> libraries;
  for (const Problem& problem : problems) libraries.insert(audit.library(problem.op()));
  std::FILE* const out = options.format == Format::text ? stdout : stderr;
  fmt::print(out,
             "\n{} on {}: {} problems, {} without a suggestion; {} suggestions run, {} refused, {} wrong\n",
             fmt::join(libraries, ", "), library.device().name, audit.problems(), audit.not_taken(),
             audit.runs(), audit.refused(), audit.wrong().size());
  for (const auto& [rule, count] : audit.right_but_refused())
    fmt::print(out, "right although rule {} refuses them: {}\n", rule, count);
  if (!audit.wrong().empty()) throw CheckFailed();
}

}  // namespace

void setup_audit(CLI::App& verb) {
  const auto options = std::make_shared<AuditVerb>();
  verb.add_option("--backend", options->backend, "the backend whose library is audited")
      ->capture_default_str();
  reads_file(verb.add_option("--problems", options->problems, "problem sets or files"), problem_file);
  add_word_option(verb, "--dtype", options->dtype,
                  "element type of sets, and of a file's problems without one");
  add_layouts_option(verb, options->layouts);
  verb.add_option("--suggestions", options->how.suggestions, "suggestions to run for each problem")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  verb.add_option("--timeout", options->timeout_s,
                  "seconds after which a kernel counts as one that never ends")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  add_out_option(verb, "--errata", options->errata,
                 "write rules (TOML) for the wrong suggestions that no rule refuses");
  add_out_option(verb, "--reproduce", options->reproduce,
                 "write programs (C++, PyTorch) that show one wrong suggestion per rule");
  add_format_option(verb, options->format);
  verb.footer(
      "Runs what the installed library itself would run (cuBLASLt, cuDNN), also what rules refuse, and\n"
      "verifies each result against float64.\n"
      "\n"
      "Columns: rule = the rule that refuses the wrong suggestions, none = no rule does; first = problems\n"
      "whose first suggestion is wrong.\n"
      "\n"
      "Examples:\n"
      "  kscout audit --problems llm --dtype bf16 --errata found.toml\n"
      "  kscout audit --problems shapes.txt --suggestions 1 --reproduce wrong.md\n"
      "\n"
      "exit status: 0 all are right, 1 some are wrong, 2 wrong arguments, 3 no GPU or no library with "
      "suggestions,\n"
      "4 file failure");
  verb.callback([options] { audit_verb(*options); });
}

}  // namespace kscout::cli
