// `kscout features`: lists the schemas and their features, and prints the feature row of one (problem,
// config).
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/hash.h"
#include "feature_matrix.h"
#include "features/schema_text.h"
#include "options.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct FeaturesOptions {
  std::string schema, config, device = "auto", format = "text";
  ProblemOptions problem;
  MatrixRequest matrix;
};

/// Format has no markdown, because only this verb writes pages.
Format table_format(const FeaturesOptions& options) {
  if (options.format == "markdown") {
    fail(Errc::invalid_argument, "--format markdown: the catalogue only; a row is text, json or csv");
  }
  return parse<Format>(options.format);
}

void list_schemas(Format format) {
  Table table({"schema", "features", "op", "provider", "hash", "summary"});
  for (const std::string& name : Schema::names()) {
    const Schema& schema = Schema::find(name);
    const SchemaData& data = schema.data();
    table.add_row({text(name), number(static_cast<std::int64_t>(schema.size())), text(word(data.op)),
                   text(data.provider.empty() ? "any" : data.provider), text(hash_digits(schema.hash())),
                   text(data.summary)});
  }
  table.print(format);
}

void print_catalogue(const Schema& schema, Format format) {
  Table table({"index", "feature", "unit", "categorical", "meaning", "formula"});
  for (std::size_t i = 0; i < schema.size(); ++i) {
    const Feature& feature = schema.features()[i];
    table.add_row({number(static_cast<std::int64_t>(i)), text(feature.id), text(feature.unit),
                   flag(feature.categorical), text(feature.meaning), text(feature.formula)});
  }
  table.print(format);
}

/// Without a named schema, uses the one that models are trained with.
void print_row(const FeaturesOptions& options) {
  const Problem problem = options.problem.any_problem();
  const Op op = problem.op();
  const Device device = device_named(options.device);
  const Schema schema =
      Schema::named(options.schema.empty() ? default_schema(op, default_provider(op, device), device.kind)
                                           : options.schema)
          .for_op(op);
  std::vector<double> row(schema.size());
  if (options.config.empty()) {
    schema.evaluate_problem(problem, device, row);
  } else {
    // The row that models are trained on and asked with: pipeline mem counts as padded.
    const KernelConfig config = parse_kernel_to_run(options.config).config;
    const Traits traits = provider(config.space->provider).traits(signature_of(problem), config, device);
    schema.evaluate(problem, device, config, traits, row);
  }
  Table table({"feature", "value", "unit", "meaning"});
  for (std::size_t i = 0; i < schema.size(); ++i) {
    const Feature& feature = schema.features()[i];
    table.add_row({text(feature.id), number(row[i]), text(feature.unit), text(feature.meaning)});
  }
  table.print(table_format(options));
}

/// Hands a dataset to `write`.
void run_matrix(FeaturesOptions& options, WriteMatrix write) {
  if (options.matrix.out.empty())
    fail(Errc::invalid_argument, "--data: name the file to write with --out, such as --out features.parquet");
  if (options.problem.given() || !options.config.empty())
    fail(Errc::invalid_argument, "--data: the rows are those of the dataset; leave problem and --config out");
  if (!write) throw NeedsLab{};
  options.matrix.schema = options.schema;
  write(options.matrix);
}

void run(FeaturesOptions& options, WriteMatrix write) {
  if (!options.matrix.data.empty()) return run_matrix(options, write);
  if (options.problem.given()) return print_row(options);
  if (!options.config.empty()) {
    fail(Errc::invalid_argument,
         "--config needs a problem: give gemm:MxNxK or conv_fwd:NxCxHxW:KxYxX, or their sizes as options");
  }
  if (options.format == "markdown") {
    const std::string page =
        options.schema.empty() ? catalogue_markdown() : schema_markdown(Schema::named(options.schema));
    fmt::print("{}", page);
    return;
  }
  const Format format = table_format(options);
  if (options.schema.empty()) return list_schemas(format);
  print_catalogue(Schema::named(options.schema), format);
}

}  // namespace

void setup_features(CLI::App& verb, WriteMatrix write) {
  auto options = std::make_shared<FeaturesOptions>();
  options->problem.add_to(verb);
  verb.add_option("--schema", options->schema,
                  "its features: a schema, or FILE.toml with one of your own; without a problem and a "
                  "schema, the schemas are listed");
  verb.add_option("--config", options->config, "a kernel's name: the row of (problem, config)");
  verb.add_option("--device", options->device, "a preset's name, or auto for this machine")
      ->capture_default_str();
  MatrixRequest& matrix = options->matrix;
  auto* const data = verb.add_option(
      "--data", matrix.data, "datasets: write the matrix that kscout train --exclude none reads from them");
  verb.add_option("--out", matrix.out, "--data: Parquet file to write")->needs(data);
  verb.add_option("--folds", matrix.folds, "--data: folds of cross-validation, column fold")
      ->capture_default_str()
      ->check(CLI::Range(2, 100))
      ->needs(data);
  add_word_option(verb, "--fold-by", matrix.fold_by, "--data: what no two folds share")->needs(data);
  for (const char* const other : {"--device", "--config"}) data->excludes(verb.get_option(other));
  add_text_option(verb, "--format", "output: text|json|csv, and markdown for the catalogue", options->format,
                  [options](const std::string& text) {
                    constexpr std::string_view kFormats[] = {"text", "json", "csv", "markdown"};
                    options->format = kFormats[parse_word("format", text, kFormats)];
                  });
  verb.footer(
      "Example: kscout features gemm:16x4096x4096 --config "
      "native_gemm_fp32_rcr__avx2_tiled_6x16_packab_b144x256x4096_n_s1_t1x2\n"
      "         kscout features --data sweep.parquet --out features.parquet\n"
      "Without --config, what depends on a config is left out (-).");
  verb.callback([options, write] { run(*options, write); });
}

void setup_features(CLI::App& verb) { setup_features(verb, nullptr); }

}  // namespace kscout::cli
