/// \file
/// Implements `kscout db`: lists and edits the decisions that applications found by timing, in their shared
/// file.
#include <chrono>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/provider.h>
#include <kscout/version.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "core/owners.h"
#include "measured.h"
#include "options.h"
#include "outputs.h"
#include "select/decision_db.h"
#include "sweep/plan.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct DbOptions {
  std::string file, device = "auto", driver, in, out;
  ReadBests read = nullptr;
  double older_than_days = 0;
  bool timings = false, verdicts = false;
  Format format = Format::text;

  DecisionDb db() const {
    std::error_code ignored;
    if (std::filesystem::is_directory(file, ignored))
      fail(Errc::invalid_argument, "--db {}: is a folder; name a file", file);
    if (!file.empty()) return DecisionDb(file);
    const std::filesystem::path own = default_decision_db();
    if (own.empty())
      fail(Errc::invalid_argument, "{}: set HOME, or name a file with --db", no_user_folder("XDG_DATA_HOME"));
    refuse_if_others_write(own);
    return DecisionDb(own);
  }
  DecisionOrigin origin() const { return {device_identity(device_named(device)), driver, KSCOUT_VERSION}; }
};

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

template <class Record>
void print_rows(const std::vector<Record>& rows, Format format) {
  std::vector<std::string> columns;
  for_each_field<Record>([&](const auto& field) { columns.emplace_back(field.name); });
  Table table(std::move(columns));
  for (const Record& one : rows) table.add_row(field_cells(one));
  table.print(format);
}

void list(const DbOptions& options) {
  if (options.timings) return print_rows(options.db().timings(), options.format);
  if (options.verdicts) return print_rows(options.db().verdicts(), options.format);
  std::vector<std::string> columns;
  for_each_field<StoredDecision>([&](const auto& field) { columns.emplace_back(field.name); });
  columns.emplace_back("holds");
  Table table(std::move(columns));
  const DecisionOrigin here = options.origin();
  for (const StoredDecision& one : options.db().read()) {
    auto cells = field_cells(one);
    cells.push_back(flag(one.holds(here)));
    table.add_row(std::move(cells));
  }
  table.print(options.format);
}

void export_decisions(const DbOptions& options) {
  auto json = Json::array();
  for (const StoredDecision& one : options.db().read()) json.push_back(record_json(one));
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  options.out.empty() ? fmt::print("{}", text) : write_out(options.out, text);
}

/// Rejects a decision that no application could use, while a person still reads the message.
void check(const StoredDecision& one) {
  const Problem problem = parse_any_problem(one.problem);
  parse_config_name(one.config);
  if (print(problem) != one.problem) {
    fail(Errc::corrupt_data, "problem '{}' is written '{}'", one.problem, print(problem));
  }
  if (!(one.time_us > 0)) fail(Errc::corrupt_data, "{}: time_us is {}", one.problem, one.time_us);
}

bool holds_measurements(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) || path.ends_with(".parquet") || path.ends_with(".csv");
}

/// The fastest measured config of each problem, in the form of an application's decision.
std::vector<StoredDecision> measured_decisions(const DbOptions& options) {
  if (!options.read) throw NeedsLab{};
  const MeasuredBests measured = options.read(options.in);
  const auto fact = [&](const char* name) {
    const auto found = measured.metadata.find(name);
    return found == measured.metadata.end() ? std::string() : found->second;
  };
  std::string backend = fact("backend"), version = fact("kscout_version");
  if (measured.device.kind == DeviceKind::gpu && options.driver.empty()) {
    fail(Errc::invalid_argument, "{}: under which driver was '{}' measured? give --driver", options.in,
         measured.device.name);
  }
  if (backend.starts_with(kLibraryPrefix)) backend.clear();  // decisions store a library's name, not its path
  if (version.empty()) version = KSCOUT_VERSION;
  std::vector<StoredDecision> decisions;
  for (const MeasuredBest& best : measured.best) {
    Problem problem = best.problem;
    problem.set_weight(1);
    decisions.push_back({.problem = print(problem),
                         .config = config_name(signature_of(problem), best.config),
                         .device = device_identity(measured.device),
                         .driver = options.driver,
                         .version = version,
                         .backend = backend,
                         .time_us = best.time_us,
                         .next_us = best.next_us,
                         .timed = static_cast<std::int64_t>(best.timed),
                         .at = seconds_now()});
  }
  return decisions;
}

std::vector<StoredDecision> exported_decisions(const DbOptions& options) {
  std::vector<StoredDecision> decisions;
  try {
    for (Json json : Json::parse(read_file(options.in))) {
      if (json.is_object()) json.emplace("backend", "");  // files from versions of `export` without them
      if (json.is_object()) json.emplace("limits", "");
      decisions.push_back(record_from_json<StoredDecision>(json, options.in));
      check(decisions.back());
    }
  } catch (const Json::exception& error) {
    fail(Errc::corrupt_data, "{}: {}", options.in, reason_of(error));
  }
  return decisions;
}

void import_decisions(const DbOptions& options) {
  const bool measured = holds_measurements(options.in);
  if (!measured && !options.driver.empty())
    fail(Errc::invalid_argument, "--driver {}: decisions that export wrote name their driver",
         options.driver);
  const auto decisions = measured ? measured_decisions(options) : exported_decisions(options);
  options.db().put(decisions);
  fmt::print("{} decisions\n", decisions.size());
}

void prune(const DbOptions& options) {
  const bool by_age = options.older_than_days > 0;
  const auto age_s = static_cast<std::int64_t>(options.older_than_days * 86400);
  const std::size_t removed = options.db().prune(options.origin(), by_age ? seconds_now() - age_s : 0);
  fmt::print("{} removed\n", removed);
}

CLI::App* add_action(CLI::App& verb, const std::shared_ptr<DbOptions>& options, const char* name,
                     const char* help, void (*run)(const DbOptions&)) {
  CLI::App* const action = verb.add_subcommand(name, help);
  reads_file(action->add_option("--db", options->file,
                                "the file (default: decisions.sqlite beside the user's models)"));
  action->callback([options, run] { run(*options); });
  return action;
}

}  // namespace

void setup_db(CLI::App& verb, ReadBests read) {
  const auto options = std::make_shared<DbOptions>();
  options->read = read;
  verb.require_subcommand(1);
  const auto add_origin = [&](CLI::App* action) {
    action->add_option("--device", options->device, "the current device: a preset's name, or auto")
        ->capture_default_str();
    action->add_option("--driver", options->driver, "the current driver; empty for cpu");
  };
  CLI::App* const listing =
      add_action(verb, options, "list", "decisions; holds: made on this device by this version", list);
  add_origin(listing);
  CLI::Option* const timings = listing->add_flag("--timings", options->timings,
                                                 "every config that was timed, in place of the decisions");
  listing
      ->add_flag("--verdicts", options->verdicts,
                 "what the guard of kscout exec found about the program's library, in place of the decisions")
      ->excludes(timings);
  add_format_option(*listing, options->format);
  CLI::App* const exporting = add_action(verb, options, "export", "all decisions as JSON", export_decisions);
  add_out_option(*exporting, "--out", options->out, "file to write (default: stdout)");
  CLI::App* const importing =
      add_action(verb, options, "import", "adds decisions that export wrote, or the best of measurements",
                 import_decisions);
  importing
      ->add_option("file", options->in,
                   "JSON of export; or a dataset (.parquet) or the folder of a sweep: the fastest config "
                   "of each problem")
      ->required();
  importing->add_option("--driver", options->driver, "driver under which a GPU was measured");
  CLI::App* const pruning = add_action(
      verb, options, "prune",
      "removes decisions of other versions of the library, or of other drivers of this device", prune);
  add_origin(pruning);
  pruning
      ->add_option("--older-than", options->older_than_days,
                   "also removes decisions older than this many days")
      ->check(CLI::Range(0.0, 1e6));
  verb.footer(
      "Applications write decisions when DispatchPolicy::db names a file (first-use refinement, exhaustive\n"
      "searches; docs/selecting.md), and read them with it, KSCOUT_DB or SelectorRequest::db.\n\n"
      "Examples\n"
      "  kscout db list\n"
      "  kscout db list --timings --format csv\n"
      "  kscout db export --out decisions.json\n"
      "  kscout db import runs/here\n"
      "  kscout db prune --older-than 90\n\n"
      "exit status: 0 done, 2 wrong arguments, 4 file failure");
}

}  // namespace kscout::cli
