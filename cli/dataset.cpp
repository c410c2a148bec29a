#include "dataset/dataset.h"

#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "core/links.h"
#include "core/parquet_checksum.h"
#include "dataset/columns.h"
#include "dataset/operations.h"
#include "dataset/reduce.h"
#include "dataset/stream.h"
#include "options.h"
#include "outputs.h"
#include "sweep/journal.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

namespace fs = std::filesystem;
constexpr std::size_t kShownBest = 20;  ///< rows of the best-config table in text

struct DatasetArguments {
  std::vector<std::string> files;
  std::string out, held_out_out, device;
  Format format = Format::text;
  Keep keep = Keep::error;
  std::int64_t rows = 10;
  double held_out = 0.25;
  SplitBy by = SplitBy::sizes;
  bool without_derived = false;
  Reduction reduction;
  std::uint64_t seed = 1;
  bool mixed_devices = false;
};

DatasetOptions reading(const DatasetArguments& options) {
  DatasetOptions how;
  if (!options.device.empty()) how.device = device_named(options.device);
  return how;
}

DatasetOptions writing(const DatasetArguments& options) {
  DatasetOptions how = reading(options);
  how.derived = !options.without_derived;
  return how;
}

/// Reads a dataset file, or a sweep's folder.
MeasurementTable read_any(const std::string& path, const DatasetArguments& options) {
  if (!fs::is_directory(path)) return read_dataset(path, reading(options));
  std::size_t unfinished = 0;
  MeasurementTable table = read_sweep(path, provider_space, &unfinished);
  if (unfinished > 0)
    fmt::print(
        stderr,
        "note: {}: left out {} unfinished problem{}; the command that made the sweep continues with {}\n",
        path, unfinished, unfinished == 1 ? "" : "s", unfinished == 1 ? "it" : "them");
  return table;
}

/// Name of a config under the signature of most of a report's rows.
std::string config_name(const MeasurementTable& table, std::uint32_t config, ProblemRef problem) {
  return provider(table.configs[config].space->provider).print(signature_of(problem), table.configs[config]);
}

Json description_json(const MeasurementTable& table, const Description& d) {
  Json by_status = Json::object();
  for (std::size_t s = 0; s < d.rows_by_status.size(); ++s) {
    by_status[std::string(EnumWords<Status>::words[s])] = d.rows_by_status[s];
  }
  Json best = Json::array();
  for (const BestShare& b : d.best) {
    best.push_back(
        {{"config", config_text(table.configs[b.config])}, {"problems", b.problems}, {"share", b.share}});
  }
  return {{"device", table.device.name},
          {"provider", table.configs.empty() ? "" : std::string(table.configs.front().space->provider)},
          {"rows", d.rows},
          {"rows_by_status", by_status},
          {"second_pass_rows", d.second_pass},
          {"noisy_rows", d.noisy},
          {"median_spread", std::isnan(d.median_spread) ? Json() : Json(d.median_spread)},
          {"problems", d.problems},
          {"sizes", d.sizes},
          {"problems_without_ok_row", d.problems_without_oracle},
          {"configs", d.configs},
          {"configs_per_problem", d.configs_per_problem},
          {"configs_best_somewhere", d.best.size()},
          {"largest_best_share", d.best.empty() ? Json() : Json(d.best.front().share)},
          {"best", best},
          {"metadata", table.metadata}};
}

void print_description(const MeasurementTable& table, const Description& d) {
  fmt::print(
      "device    {}\nproblems  {} ({} sizes, {} without an ok row)\nconfigs   {} ({:.1f} measured per "
      "problem)\n",
      table.device.name, d.problems, d.sizes, d.problems_without_oracle, d.configs, d.configs_per_problem);
  fmt::print("rows      {}:", d.rows);
  for (std::size_t s = 0; s < d.rows_by_status.size(); ++s) {
    if (d.rows_by_status[s]) fmt::print(" {} {}", d.rows_by_status[s], EnumWords<Status>::words[s]);
  }
  fmt::print("; {} of the second pass, {} noisy; median spread {:.2g}\n", d.second_pass, d.noisy,
             d.median_spread);
  for (const auto& [key, value] : table.metadata) fmt::print("{:<9} {}\n", key, value);
  if (d.best.empty()) return;
  fmt::print("\n{} of {} configs are the fastest of some problem; the most frequent one of {:.1f} %\n\n",
             d.best.size(), d.configs, 100 * d.best.front().share);
  std::string axes;
  for (const Axis& axis : table.configs.front().space->axes)
    axes += (axes.empty() ? "" : ",") + std::string(axis.name);
  Table shown({"problems", "percent", axes});
  for (std::size_t i = 0; i < std::min(d.best.size(), kShownBest); ++i) {
    const BestShare& b = d.best[i];
    shown.add_row({number(static_cast<std::int64_t>(b.problems)), number(100 * b.share, 3),
                   text(config_text(table.configs[b.config]))});
  }
  shown.print(Format::text);
  if (d.best.size() > kShownBest)
    fmt::print("... and {} more (all with --format json)\n", d.best.size() - kShownBest);
}

bool is_parquet_file(const std::string& file) {
  return fs::is_regular_file(file) && fs::path(file).extension() != ".csv";
}

/// Describes row by row where the file is in order.
DescribedFile described(const std::string& file, const DatasetArguments& options) {
  if (is_parquet_file(file)) {
    if (auto known = describe_file(file, reading(options))) return *std::move(known);
  }
  DescribedFile whole{read_any(file, options), {}};
  whole.description = describe(whole.table);
  return whole;
}

void describe_verb(const DatasetArguments& options) {
  const auto [table, d] = described(options.files.front(), options);
  if (options.format == Format::json) {
    fmt::print("{}\n", description_json(table, d).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print_description(table, d);
  }
}

void columns_verb(const DatasetArguments& options) {
  const MeasurementTable measured = read_any(options.files.front(), options);
  if (measured.configs.empty())
    fail(Errc::invalid_argument, "{}: no rows, so its columns are unknown; name a dataset with rows",
         options.files.front());
  Table table({"column", "type", "unit", "meaning"});
  for (const ColumnSpec& column : dataset_columns(*measured.configs.front().space)) {
    table.add_row({text(column.name), text(word(column.type)), text(column.unit == "1" ? "" : column.unit),
                   text(column.help)});
  }
  table.print(options.format);
}

/// Whether a file is Parquet without a checksum of its bytes, written by an older version or another program.
bool has_no_checksums(const std::string& file) {
  return !file.ends_with(".csv") && fs::is_regular_file(file) && !check_parquet_checksum(file);
}

void check_verb(const DatasetArguments& options) {
  bool failed = false;
  Table table({"file", "severity", "finding"});
  for (const auto& file : options.files) {
    try {
      if (has_no_checksums(file))
        table.add_row(
            {text(file), text("note"),
             text("has no checksums, so damage may go unnoticed; kscout dataset merge writes them")});
      for (const Finding& finding : find_anomalies(read_any(file, options))) {
        table.add_row({text(file), text(finding.error ? "error" : "note"), text(finding.what)});
        failed = failed || finding.error;
      }
    } catch (const Error& error) {
      if (error.code() != Errc::corrupt_data) throw;
      table.add_row({text(file), text("error"), text(error.what())});
      failed = true;
    }
  }
  if (table.size() || options.format != Format::text) table.print(options.format);
  if (failed) throw CheckFailed{};
  fmt::print(stderr, "{} dataset{} checked: no error\n", options.files.size(),
             options.files.size() == 1 ? "" : "s");
}

void report_written(const std::string& file, std::size_t rows, std::size_t problems, std::size_t configs) {
  fmt::print(stderr, "{}: {} rows, {} problems, {} configs\n", file, rows, problems, configs);
}

void write_table(const std::string& file, const DatasetArguments& options, const MeasurementTable& table) {
  const DatasetOptions how = writing(options);
  file == "-" ? write_out(file, dataset_csv(table, how)) : write_dataset(file, table, how);
  std::vector<char> problems(table.problems.size()), configs(table.configs.size());  // 1: has rows
  for (const MeasurementTable::Row& row : table.rows) problems[row.problem] = configs[row.config] = 1;
  report_written(file, table.rows.size(), static_cast<std::size_t>(std::ranges::count(problems, 1)),
                 static_cast<std::size_t>(std::ranges::count(configs, 1)));
}

void split_verb(const DatasetArguments& options) {
  const TableParts parts =
      split_table(read_any(options.files.front(), options), options.held_out, options.seed, options.by);
  if (parts.training.rows.empty() || parts.held_out.rows.empty()) {
    fail(Errc::invalid_argument, "{}: too few groups to hold out a share of {}; change --held-out or --seed",
         options.files.front(), options.held_out);
  }
  write_table(options.out, options, parts.training);
  write_table(options.held_out_out, options, parts.held_out);
}

void report_unmeasured(const DatasetArguments& options, std::size_t kernels) {
  if (kernels > 0)
    fmt::print(stderr, "note: no row is of {} kernels of rule set {}\n", kernels, options.reduction.rules);
}

/// Whether rows can be merged one by one. Journals and CSV have no order, and what went into a pipe or a
/// descriptor cannot be taken back when a file turns out to have none.
bool may_stream(const DatasetArguments& options) {
  const fs::path out = options.out;
  const bool takes_back = options.out != "-" && (is_absent(out) || fs::is_regular_file(out)) &&
                          !named_descriptor(resolve_links(out));
  return takes_back && out.extension() != ".csv" && std::ranges::all_of(options.files, is_parquet_file);
}

void merge_verb(const DatasetArguments& options) {
  if (may_stream(options)) {
    const auto merged =
        merge_files(options.files, options.out, {options.keep, options.mixed_devices, options.reduction},
                    writing(options));
    if (merged) {
      report_unmeasured(options, merged->unmeasured);
      report_written(options.out, merged->rows, merged->problems, merged->configs);
      return;
    }
  }
  std::vector<MeasurementTable> tables;
  for (const auto& file : options.files) tables.push_back(read_any(file, options));
  RuleSetRows reduced = reduce(merge(tables, options.keep, options.mixed_devices), options.reduction);
  report_unmeasured(options, reduced.unmeasured);
  write_table(options.out, options, reduced.table);
}

std::vector<std::string> row_columns(const ConfigSpace& space) {
  std::vector<std::string> names;
  for (const ColumnSpec& spec : dataset_columns(space)) names.push_back(spec.name);
  return names;
}

/// The dataset's own columns for the first `limit` rows.
Table rows_table(const MeasurementTable& table, std::size_t limit) {
  MeasurementTable first = table;
  first.rows.resize(std::min(limit, table.rows.size()));
  const ConfigSpace& space = *table.configs.front().space;
  const auto specs = dataset_columns(space);
  const Block block = make_block(first, provider(space.provider), space);
  Table shown(row_columns(space));
  for (std::size_t row = 0; row < block.rows; ++row) {
    std::vector<Cell> cells;
    for (std::size_t c = 0; c < specs.size(); ++c) {
      const ColumnValues& values = block.columns[c];
      if (specs[c].type == ColumnType::text) {
        const std::int32_t word = values.index[row];
        cells.push_back(word < 0 ? number(Measurement::unknown)
                                 : text(values.words[static_cast<std::size_t>(word)]));
      } else if (specs[c].type == ColumnType::float64) {
        cells.push_back(number(values.number[row]));
      } else if (specs[c].type == ColumnType::boolean) {
        cells.push_back(flag(values.whole[row] != 0));
      } else {
        cells.push_back(values.whole[row] == ColumnValues::null_whole ? number(Measurement::unknown)
                                                                      : number(values.whole[row]));
      }
    }
    shown.add_row(std::move(cells));
  }
  return shown;
}

/// The columns that people read.
Table short_table(const MeasurementTable& table, std::size_t limit) {
  Table shown({"problem", "config", "status", "pass", "time_us", "tflops", "spread", "repeats", "noisy"});
  for (std::size_t r = 0; r < std::min(limit, table.rows.size()); ++r) {
    const auto& row = table.rows[r];
    const Problem& problem = table.problems[row.problem];
    const Measurement& m = row.measured;
    shown.add_row({text(print(problem)), text(config_name(table, row.config, problem)), text(word(m.status)),
                   number(std::int64_t{m.pass}), number(m.time_us, 5), number(tflops_of(problem, m), 4),
                   number(m.spread, 3), number(std::int64_t{m.repeats}), flag(m.noisy)});
  }
  return shown;
}

void head_verb(const DatasetArguments& options) {
  const MeasurementTable table = read_any(options.files.front(), options);
  const auto rows = static_cast<std::size_t>(options.rows);
  (options.format == Format::text ? short_table(table, rows) : rows_table(table, rows)).print(options.format);
}

void export_verb(const DatasetArguments& options) {
  const MeasurementTable table = read_any(options.files.front(), options);
  const bool to_stdout = options.out.empty() || options.out == "-";
  if (!to_stdout && fs::path(options.out).extension() != ".json")
    return write_table(options.out, options, table);
  const bool json = to_stdout ? options.format == Format::json : fs::path(options.out).extension() == ".json";
  const std::string bytes = json ? rows_table(table, table.rows.size()).to_string(Format::json)
                                 : dataset_csv(table, reading(options));
  if (options.out.empty()) {
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  } else {
    write_out(options.out, bytes);
  }
}

void diff_verb(const DatasetArguments& options) {
  const MeasurementTable a = read_any(options.files[0], options), b = read_any(options.files[1], options);
  const Comparison c = compare(a, b);
  const auto shown = std::min(c.differences.size(), static_cast<std::size_t>(options.rows));
  Table table({"problem", "config", "pass", "status_a", "status_b", "time_us_a", "time_us_b", "ratio"});
  const auto status = [](const auto& m) { return m ? text(word(m->status)) : text("absent"); };
  const auto time = [](const auto& m) { return number(m ? m->time_us : Measurement::unknown, 5); };
  for (std::size_t i = 0; i < shown; ++i) {
    const Difference& d = c.differences[i];
    table.add_row({text(print(d.problem)), text(config_text(d.config)), number(std::int64_t{d.pass}),
                   status(d.a), status(d.b), time(d.a), time(d.b), number(d.ratio(), 4)});
  }
  if (options.format == Format::text) {
    fmt::print("rows only in the first {}, only in the second {}, in both {}; status differs in {}\n",
               c.only_a, c.only_b, c.both, c.status_changed);
    fmt::print("time of the second over the first: P10 {:.3f}, P50 {:.3f}, P90 {:.3f}\n\n", c.ratio_p10,
               c.ratio_p50, c.ratio_p90);
  }
  if (shown || options.format != Format::text) table.print(options.format);
}

CLI::App* add_part(CLI::App& verb, const std::shared_ptr<DatasetArguments>& options, const char* name,
                   const char* help, void (*work)(const DatasetArguments&)) {
  CLI::App* const part = verb.add_subcommand(name, help);
  part->add_option("--device", options->device,
                   "facts for files that carry none, such as CSV: a preset's name, or auto for this machine");
  part->callback([options, work] { work(*options); });
  return part;
}

/// Adds the options that leave rows or digits out of the written file.
void add_reduction_options(CLI::App& part, DatasetArguments& options) {
  part.add_option("--rules", options.reduction.rules,
                  "keep only configs of this rule set: a name, or FILE.toml[:SET]; the file's metadata then "
                  "name it");
  part.add_flag("--final", options.reduction.final_rows,
                "keep only the final row of a config that was measured in two passes");
  part.add_flag("--timed", options.reduction.timed,
                "keep only rows with a time: status ok or raced (pruned early)");
  part.add_option(
          "--pruned-early-one-in", options.reduction.pruned_early_one_in,
          "keep one in N of the rows pruned early (status raced), chosen by a hash of problem and config")
      ->check(above_zero(), "POSITIVE");
  part.add_option(
          "--digits", options.reduction.digits,
          "round times to N digits, one less for rows pruned early (status raced); spread and error to 2")
      ->check(CLI::Range(2, 17));
  part.add_option("--pruned-early-digits", options.reduction.pruned_early_digits,
                  "reduce rows pruned early (status raced) to the number of samples and the time, rounded to "
                  "N digits; drop spread and error")
      ->check(CLI::Range(1, 17));
  part.add_flag("--without-derived", options.without_derived,
                "leave out tflops and gb_s, which follow from other columns and take half of a Parquet file");
}

}  // namespace

void setup_dataset(CLI::App& verb) {
  const auto options = std::make_shared<DatasetArguments>();
  verb.require_subcommand(1);
  const auto one_file = [&](CLI::App* part) {
    reads_file(part->add_option("file", options->files, "dataset (.parquet, .csv) or folder of a sweep"))
        ->required()
        ->expected(1);
  };

  CLI::App* part = add_part(verb, options, "describe", "show what a dataset holds, and its fastest configs",
                            describe_verb);
  one_file(part);
  add_format_option(*part, options->format, /*csv=*/false);

  part =
      add_part(verb, options, "columns", "explain the columns of a file: type, unit, meaning", columns_verb);
  one_file(part);
  add_format_option(*part, options->format);

  part =
      add_part(verb, options, "check",
               "look for damage and for rows that cannot be trusted; exit 1 when there are any", check_verb);
  part->add_option("files", options->files, "datasets")->required();
  add_format_option(*part, options->format);

  part = add_part(verb, options, "merge", "merge several files of one device and provider", merge_verb);
  reads_file(part->add_option("files", options->files, "datasets"))->required();
  add_out_option(*part, "--out", options->out, "file to write: .parquet, .csv")->required();
  add_word_option(*part, "--keep", options->keep,
                  "which row to keep when a (problem, config, pass) was measured twice");
  part->add_flag(
      "--mixed-devices", options->mixed_devices,
      "accept files whose devices differ by more than the drift of a clock; the merged dataset takes its "
      "facts from the first file");
  add_reduction_options(*part, *options);

  part = add_part(verb, options, "import", "convert a sweep's folder or CSV to a dataset", merge_verb);
  reads_file(part->add_option("source", options->files, "folder of a sweep, or CSV with our column names"))
      ->required();
  add_out_option(*part, "--out", options->out, "file to write: .parquet, .csv")->required();
  add_reduction_options(*part, *options);

  part = add_part(verb, options, "split", "split into training and held-out problems, which share no group",
                  split_verb);
  one_file(part);
  add_out_option(*part, "--out", options->out, "file for the training problems")->required();
  add_out_option(*part, "--held-out-out", options->held_out_out, "file for the held-out problems")
      ->required();
  part->add_option("--held-out", options->held_out, "share of the groups that is held out")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 0.99));
  part->add_option("--seed", options->seed, "of the split")->capture_default_str();
  add_word_option(
      *part, "--by", options->by,
      "what a group has in common: every size; the shape of its weights; or every size but the number of "
      "images (of a GEMM: n, k)");

  part = add_part(verb, options, "diff", "compare two datasets", diff_verb);
  part->add_option("files", options->files, "two datasets")->required()->expected(2);
  part->add_option("--rows", options->rows, "differences to show")
      ->capture_default_str()
      ->check(not_negative(), "NONNEGATIVE");
  add_format_option(*part, options->format);

  part = add_part(verb, options, "head", "its first rows", head_verb);
  one_file(part);
  part->add_option("--rows", options->rows, "how many")
      ->capture_default_str()
      ->check(not_negative(), "NONNEGATIVE");
  add_format_option(*part, options->format);

  part = add_part(verb, options, "export", "print all rows as CSV or JSON", export_verb);
  one_file(part);
  add_out_option(*part, "--out", options->out,
                 "file to write: .csv, .json or .parquet (default: CSV or JSON on stdout)");
  add_format_option(*part, options->format);

  verb.footer(
      "examples\n"
      "  kscout dataset import out/sweep --out data/gemm_fp32_zen3-2c.parquet\n"
      "  kscout dataset describe data/gemm_fp32_zen3-2c.parquet\n"
      "  kscout dataset merge a.parquet b.parquet --keep last --out c.parquet\n"
      "  kscout dataset merge sweep again* --keep mean --final --rules pruned --timed "
      "--pruned-early-one-in 10 "
      "\\\n"
      "      --digits 4 --without-derived --out train.parquet\n\n"
      "exit status: 0 done, 1 check found errors, 2 wrong arguments, 4 file failure");
}

}  // namespace kscout::cli
