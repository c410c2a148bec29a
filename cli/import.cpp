#include "import/import.h"

#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/fail.h"
#include "core/names.h"
#include "dataset/dataset.h"
#include "options.h"
#include "outputs.h"
#include "provider/ck_tile/import/ck_model.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct ImportOptions {
  std::string file, from, op, dtype, layout, device, problem, kernels, schema, out;
  std::size_t show = 5;
};

/// The words of --from: the formats of measurements, then the folder of models.
constexpr auto kSources = [] {
  constexpr auto kFormats = EnumWords<ImportFormat>::words;
  std::array<std::string_view, kFormats.size() + 1> words;
  std::ranges::copy(kFormats, words.begin());
  words.back() = "ck-model";
  return words;
}();

void print_skipped(const std::vector<Skipped>& skipped, std::size_t count, const std::string& file,
                   std::size_t show) {
  for (std::size_t i = 0; i < std::min(show, skipped.size()); ++i)
    fmt::print(stderr, "{}:{}: skipped: {}\n", file, skipped[i].line, skipped[i].reason);
  if (count > show) fmt::print(stderr, "... and {} more (--show-skipped N)\n", count - show);
}

/// Refuses the options of the other kind of import.
void refuse(const std::string& from,
            std::initializer_list<std::pair<std::string_view, const std::string&>> options) {
  for (const auto& [flag, value] : options) {
    if (!value.empty()) fail(Errc::invalid_argument, "--from {} takes no {}; leave it out", from, flag);
  }
}

/// A model of a folder of models and a list of kernels.
void import_model(const ImportOptions& options) {
  refuse(options.from, {{"--op", options.op},
                        {"--dtype", options.dtype},
                        {"--layout", options.layout},
                        {"--problem", options.problem}});
  if (options.kernels.empty())
    fail(Errc::invalid_argument,
         "--from ck-model: among which kernels shall the model choose? give --kernels LIST, their names");
  CkModelRequest request{.folder = options.file, .kernels = options.kernels, .schema = options.schema};
  if (!options.device.empty()) request.device = device_named(options.device);
  const CkModel made = import_ck_model(request);
  if (options.out == "-" || std::filesystem::path(options.out).extension() == ".ksf") {
    write_out(options.out, made.model.bytes());
  } else {
    write_new_folder(options.out, {{"model.ksf", made.model.bytes()}});
  }
  std::size_t kernels = 0;
  for (const Family& family : made.model.data().families) kernels += family.configs.size();
  fmt::print(stderr, "{}: {} kernels, schema {}, target {}; {} named again, {} skipped\n", options.out,
             kernels, made.model.data().schema->name(), word(made.model.default_target()), made.repeated,
             made.skipped.size());
  print_skipped(made.skipped, made.skipped.size(), options.kernels, options.show);
}

void import_verb(const ImportOptions& options) {
  if (options.from == kSources.back()) return import_model(options);
  refuse(options.from, {{"--kernels", options.kernels}, {"--schema", options.schema}});
  if (options.device.empty())
    fail(Errc::invalid_argument, "which device was measured? give --device, e.g. gfx950");
  ImportRequest request{.from = parse<ImportFormat>(options.from),
                        .op = options.op.empty() ? Op::gemm : parse<Op>(options.op),
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
  print_skipped(imported.skipped, imported.skipped_count, options.file, options.show);
}

}  // namespace

void setup_import(CLI::App& verb) {
  const auto options = std::make_shared<ImportOptions>();
  reads_file(verb.add_option("file", options->file, "file of another tool; ck-model: a folder of models"))
      ->required();
  CLI::Option* const from =
      verb.add_option("--from", options->from, fmt::format("{}", fmt::join(kSources, "|")))->required();
  offer_words(from, kSources);
  check_text(from, [](const std::string& text) { index_of_word("format", text, kSources); });
  check_words<Op>(verb.add_option("--op", options->op, "gemm|conv_fwd|conv_bwd_data|conv_bwd_weight (gemm)"));
  check_words<DType>(verb.add_option(
      "--dtype", options->dtype,
      "element type where the file names none (default fp16); miopen-find-db: the only type to read"));
  check_words<Layout>(verb.add_option(
      "--layout", options->layout,
      "layout where the file names none (default rcr, nhwgc); miopen-find-db: the only layout to read"));
  verb.add_option("--device", options->device,
                  "preset of the device that was measured, e.g. gfx950; ck-model: instead of the one whose "
                  "facts the folder states");
  verb.add_option("--problem", options->problem, "ck-profiler: the problem of lines before any problem line");
  reads_file(verb.add_option("--kernels", options->kernels,
                             "ck-model: the kernels to choose among: names, one a line; their JSON export; a "
                             "table (.csv, .parquet) with a column of names"));
  verb.add_option("--schema", options->schema,
                  "ck-model: schema of the folder's features, or FILE.toml with it (default: the published "
                  "one of exactly these names)");
  add_out_option(verb, "--out", options->out,
                 "dataset to write (.parquet or .csv); ck-model: a new model folder, or a .ksf file")
      ->required();
  verb.add_option("--show-skipped", options->show, "number of skipped places to list")->capture_default_str();
  verb.footer(
      "Formats: docs/formats/import.md. What cannot be read is skipped, counted and named by line. If a "
      "kernel\n"
      "was measured twice on a problem, the fastest row is kept.\n"
      "ck-model makes a model that chooses of models of CK Tile's trainer, which only score "
      "(docs/ck_tile.md).\n"
      "\n"
      "examples\n"
      "  kscout import conv.csv --from ck-csv --op conv_fwd --dtype bf16 --device gfx950 --out conv.parquet\n"
      "  kscout import batch_001.log --from ck-log --device gfx950 --out gemm.parquet\n"
      "  kscout import gfx90a68.HIP.fdb.txt --from miopen-find-db --op conv_fwd --dtype fp16 --device gfx90a "
      "--out f.parquet\n"
      "  kscout import models/grouped_conv_forward_bf16_gfx950 --from ck-model --kernels kernels.txt --out "
      "conv.ksf\n"
      "\n"
      "exit status: 0 done, 2 wrong arguments, 4 the file cannot be read as that");
  verb.callback([options] { import_verb(*options); });
}

}  // namespace kscout::cli
