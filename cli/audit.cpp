// `kscout audit`: runs a library's own suggestions and reports those that compute wrong results.
#include "sweep/audit.h"

#include <filesystem>
#include <memory>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <kscout/backend.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "core/names.h"
#include "op/problem_sets.h"
#include "options.h"
#include "outputs.h"
#include "sweep_with_progress.h"
#include "table.h"
#include "verbs.h"
#include "work_folder.h"

namespace kscout::cli {

namespace {

namespace fs = std::filesystem;

struct AuditVerb {
  std::string backend = "cuda", errata, reproduce, out;
  std::vector<std::string> problems;
  DType dtype = DType::bf16;
  std::vector<Layout> layouts;
  AuditOptions how;
  double timeout_s = 10;
  Format format = Format::text;
};

bool is_audit_entry(const fs::directory_entry& entry) {
  return find_word(entry.path().filename().string(), EnumWords<Op>::words).has_value();
}

/// Runs the plans in worker processes: a kernel that does not end, or breaks the device, costs itself only.
void measure(const AuditVerb& options, const std::vector<SweepPlan>& plans, Audit& audit) {
  WorkFolder folder(options.out, "--out", "audit", is_audit_entry);
  for (const SweepPlan& plan : plans) {
    const fs::path of_op = folder.path / word(plan.op);
    fs::create_directories(of_op);
    const SweepReport report = sweep_with_progress(
        plan, {.folder = of_op, .worker = default_worker(), .item_limit_s = options.timeout_s}, "audit");
    if (report.ended == "interrupted") {
      folder.clear();
      end_by_signal();
    }
    audit.add(read_state(of_op));
  }
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
  const std::vector<Problem> problems =
      merge_equal(any_problems_of(options.problems, options.dtype, options.layouts));
  if (problems.empty()) fail(Errc::invalid_argument, "--problems: there is no problem in it");
  Backend& library = backend(options.backend);
  Audit audit(library, options.how);
  measure(options, audit.plans(problems), audit);
  const std::vector<AuditRow> rows = audit.rows();
  if (!options.errata.empty())
    write_out(options.errata, errata_toml(audit.errata(), library.device().name,
                                          fmt::format("kscout audit, {} problems", audit.problems())));
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
  verb.add_option("--out", options->out,
                  "folder that keeps every result at once; the same command continues it")
      ->default_str("a temporary one");
  auto* const errata =
      add_out_option(verb, "--errata", options->errata,
                     "write rules (TOML) for the wrong suggestions: the condition that they share, with its "
                     "numbers of wrong and right runs");
  verb.add_flag("--with-known", options->how.with_known,
                "--errata: also for what rules of this release refuse already; without it, only for the rest")
      ->needs(errata);
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
