// `kscout harvest`: lists the engine configs of cuDNN on this machine's GPU and writes them as rule sets.
#include "backend/cuda/harvest.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "backend/cuda/cuda_backend.h"
#include "core/fail.h"
#include "core/files.h"
#include "options.h"
#include "outputs.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct HarvestVerb {
  std::vector<std::string> problems;
  DType dtype = DType::fp32;
  std::string layout, out, gpu, describe;
  HarvestOptions how;
  Format format = Format::text;

  /// The requested layout, or the empty list.
  std::vector<Layout> layouts() const {
    return layout.empty() ? std::vector<Layout>{} : std::vector{parse<Layout>(layout)};
  }
};

Cell count(std::size_t value) { return number(static_cast<std::int64_t>(value)); }

void harvest_libraries(const HarvestVerb& options, const std::vector<Problem>& problems) {
  HarvestOptions how = options.how;
  if (problems.front().op() == Op::gemm)
    fail(Errc::invalid_argument,
         "these problems are GEMMs: a harvest is of convolutions; kscout sweep asks cuBLASLt for its "
         "algorithms "
         "of each problem");
  if (!options.gpu.empty()) how.gpu = read_file(options.gpu);
  const std::vector<Harvest> found = harvest(problems, how);
  write_out(options.out, rule_set_text(found));
  Table table({"op", "dtype", "layout", "epilogue", "problems", "suggested", "widened", "refused", "barred",
               "unnamed"});
  for (const Harvest& one : found) {
    table.add_row({text(word(one.signature.op)), text(word(one.signature.dtype_a)),
                   text(word(one.signature.layout)), text(word(one.signature.epilogue)), count(one.problems),
                   count(one.suggested.size()), count(one.widened.size()), count(one.refused),
                   count(one.barred), count(one.unnamed)});
  }
  table.print(options.format);
}

void harvest_verb(const HarvestVerb& options) {
  if (!options.describe.empty()) {
    write_out(options.describe, describe_cudnn_gpu());
    if (options.problems.empty()) return;
  }
  if (options.problems.empty())
    fail(Errc::invalid_argument, "--problems is required: which problems shall the library be asked about?");
  if (options.out.empty()) fail(Errc::invalid_argument, "where to? give --out FILE.toml");
  const std::vector<Problem> problems = any_problems_of(options.problems, options.dtype, options.layouts());
  if (problems.empty()) fail(Errc::invalid_argument, "--problems: there is no problem in it");
  harvest_libraries(options, problems);
}

}  // namespace

void setup_harvest(CLI::App& verb) {
  const auto options = std::make_shared<HarvestVerb>();
  reads_file(verb.add_option("--problems", options->problems,
                             "problem sets or files of convolutions, of one direction, for which the library "
                             "lists its engine configs"),
             problem_file);
  add_word_option(verb, "--dtype", options->dtype,
                  "element type of sets, and of a file's problems without one");
  verb.add_option("--layout", options->layout,
                  "storage of the tensors (default: nhwgc for sets, the written layout for files)");
  add_out_option(verb, "--out", options->out, "file for the rule sets; use it as --rules FILE.toml");
  verb.add_option("--widen", options->how.widen,
                  "max engine configs in addition to the listed ones, per signature")
      ->capture_default_str();
  verb.add_flag("--deterministic", options->how.deterministic,
                "leave out configs that may give other bits in each run");
  reads_file(verb.add_option("--gpu", options->gpu,
                             "ask for the GPU that this file describes; no GPU is needed then"));
  add_out_option(verb, "--describe", options->describe,
                 "write a description of this machine's GPU for --gpu");
  add_format_option(verb, options->format);
  verb.footer(
      "Writes two rule sets of provider cudnn: harvested holds what the library's heuristics list, widened\n"
      "also kernels that engines compile at run time. Needs an NVIDIA GPU, or cuDNN and --gpu.\n"
      "\n"
      "Columns: refused = not supported, barred = excluded by numerical notes or the workspace limit,\n"
      "unnamed = with knobs that no axis holds.\n"
      "\n"
      "Examples:\n"
      "  kscout problems conv_networks --op conv_fwd --dtype bf16 > shapes.txt\n"
      "  kscout harvest --problems shapes.txt --out conv_fwd.toml\n"
      "\n"
      "exit status: 0 done, 2 wrong arguments, 3 no GPU or types that the library lacks, 4 file failure");
  verb.callback([options] { harvest_verb(*options); });
}

}  // namespace kscout::cli
