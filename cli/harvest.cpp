// `kscout harvest`: lists the algorithms of cuBLASLt on this machine's GPU and writes them as rule sets.
#include <memory>

#include <CLI/CLI.hpp>

#include "backend/cuda/cuda_backend.h"
#include "core/fail.h"
#include "options.h"
#include "outputs.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct HarvestVerb {
  std::vector<std::string> problems;
  DType dtype = DType::fp32;
  std::string layout, out;
  HarvestOptions how;
  Format format = Format::text;

  /// The requested layout, or the empty list.
  std::vector<Layout> layouts() const {
    return layout.empty() ? std::vector<Layout>{} : std::vector{parse<Layout>(layout)};
  }
};

void harvest_verb(const HarvestVerb& options) {
  if (options.out.empty()) fail(Errc::invalid_argument, "where to? give --out FILE.toml");
  const std::vector<Harvest> found =
      harvest(problems_of(options.problems, options.dtype, options.layouts()), options.how);
  write_out(options.out, rule_set_text(found));
  Table table({"dtype", "layout", "epilogue", "problems", "suggested", "widened", "refused"});
  const auto count = [](std::size_t value) { return number(static_cast<std::int64_t>(value)); };
  for (const Harvest& one : found) {
    table.add_row({text(word(one.signature.dtype_a)), text(word(one.signature.layout)),
                   text(word(one.signature.epilogue)), count(one.problems), count(one.suggested.size()),
                   count(one.widened.size()), count(one.refused)});
  }
  table.print(options.format);
}

}  // namespace

void setup_harvest(CLI::App& verb) {
  const auto options = std::make_shared<HarvestVerb>();
  reads_file(verb.add_option("--problems", options->problems,
                             "problem sets or files whose algorithms the library lists"),
             problem_file)
      ->required();
  add_word_option(verb, "--dtype", options->dtype,
                  "element type of sets, and of a file's problems without one");
  verb.add_option("--layout", options->layout,
                  "storage of A, B, C (default: rcr for sets, the written layout for files)");
  add_out_option(verb, "--out", options->out, "file for the rule sets; use it as --rules FILE.toml");
  verb.add_option("--suggestions", options->how.suggestions,
                  "number of algorithms to request from the library's heuristic for each problem")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  verb.add_option("--widen", options->how.widen,
                  "max algorithms in addition to the suggested ones, per signature")
      ->capture_default_str();
  add_format_option(verb, options->format);
  verb.footer(
      "Writes two rule sets of provider cublaslt: harvested holds the algorithms that the heuristic named,\n"
      "widened also similar ones that the library supports. Needs an NVIDIA GPU.\n"
      "\n"
      "Example:\n"
      "  kscout harvest --problems llm --dtype bf16 --out h200.toml\n"
      "\n"
      "exit status: 0 done, 2 wrong arguments, 3 no GPU or types that the library lacks, 4 file failure");
  verb.callback([options] { harvest_verb(*options); });
}

}  // namespace kscout::cli
