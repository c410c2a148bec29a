#include "import/import.h"

#include <chrono>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "dataset/dataset.h"
#include "options.h"
#include "outputs.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct ImportOptions {
  std::string file, from, op = "gemm", dtype, layout, device, problem, out;
  std::size_t show = 5;
};

void import_verb(const ImportOptions& options) {
  ImportRequest request{.from = parse<ImportFormat>(options.from),
                        .op = parse<Op>(options.op),
                        .device = device_named(options.device)};
  if (!options.dtype.empty()) {
    request.dtype = parse<DType>(options.dtype);
    request.only_dtype = request.dtype;
  }
  if (!options.layout.empty()) request.layout = parse<Layout>(options.layout);
  if (!options.problem.empty()) request.problem = parse_any_problem(options.problem);
  const Imported imported = import_file(options.file, request);
  options.out == "-" ? write_out(options.out, dataset_csv(imported.table))
                     : write_dataset(options.out, imported.table);
  fmt::print(stderr, "{}: {} rows, {} problems, {} kernels; {} measured again, {} skipped\n", options.out,
             imported.table.rows.size(), imported.table.problems.size(), imported.table.configs.size(),
             imported.repeated, imported.skipped_count);
  for (std::size_t i = 0; i < std::min(options.show, imported.skipped.size()); ++i) {
    fmt::print(stderr, "{}:{}: skipped: {}\n", options.file, imported.skipped[i].line,
               imported.skipped[i].reason);
  }
  if (imported.skipped_count > options.show)
    fmt::print(stderr, "... and {} more (--show-skipped N)\n", imported.skipped_count - options.show);
}

}  // namespace

void setup_import(CLI::App& verb) {
  const auto options = std::make_shared<ImportOptions>();
  reads_file(verb.add_option("file", options->file, "file of another tool"))->required();
  check_words<ImportFormat>(
      verb.add_option("--from", options->from, "ck-csv|ck-log|ck-json|ck-profiler|parquet|miopen-find-db")
          ->required());
  check_words<Op>(verb.add_option("--op", options->op, "gemm|conv_fwd|conv_bwd_data|conv_bwd_weight")
                      ->capture_default_str());
  check_words<DType>(verb.add_option(
      "--dtype", options->dtype,
      "element type where the file names none (default fp16); miopen-find-db: the only type to read"));
  check_words<Layout>(verb.add_option(
      "--layout", options->layout,
      "layout where the file names none (default rcr, nhwgc); miopen-find-db: the only layout to read"));
  verb.add_option("--device", options->device, "preset of the device that was measured, e.g. gfx950")
      ->required();
  verb.add_option("--problem", options->problem, "ck-profiler: the problem of lines before any problem line");
  add_out_option(verb, "--out", options->out, "dataset to write (.parquet or .csv)")->required();
  verb.add_option("--show-skipped", options->show, "number of skipped places to list")->capture_default_str();
  verb.footer(
      "Formats: docs/formats/import.md. What cannot be read is skipped, counted and named by line. If a "
      "kernel\n"
      "was measured twice on a problem, the fastest row is kept.\n"
      "\n"
      "examples\n"
      "  kscout import conv.csv --from ck-csv --op conv_fwd --dtype bf16 --device gfx950 --out conv.parquet\n"
      "  kscout import batch_001.log --from ck-log --device gfx950 --out gemm.parquet\n"
      "  kscout import gfx90a68.HIP.fdb.txt --from miopen-find-db --op conv_fwd --dtype fp16 --device gfx90a "
      "--out f.parquet\n"
      "\n"
      "exit status: 0 done, 2 wrong arguments, 4 the file cannot be read as that");
  verb.callback([options] { import_verb(*options); });
}

}  // namespace kscout::cli
