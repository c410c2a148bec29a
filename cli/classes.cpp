/// \file
/// Implements `kscout classes`: measures which configs of a weight give equal bits whatever M is.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/backend.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "core/names.h"
#include "options.h"
#include "outputs.h"
#include "progress_line.h"
#include "search/measure_classes.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct ClassesOptions {
  std::vector<std::string> weights, problems, configs;
  std::vector<Layout> layouts;
  std::optional<DType> dtype;
  std::string backend, model, file;
  std::vector<std::int64_t> rows = usual_class_rows();
  CandidateLimits candidates;
  std::int64_t every = ClassesRequest().every;
  double seconds = ClassesRequest().seconds;
  bool recheck = false;
  Format format = Format::text;

  Backend& device() const {
    if (!backend.empty()) return kscout::backend(backend);
    return kscout::backend(find_word("cuda", backend_names()) ? "cuda" : "cpu");
  }
  std::filesystem::path stored_in() const { return class_file(file); }
};

/// The weights of the problems, each once, in their order.
std::vector<Problem> weights_of(const ClassesOptions& options, const Device& device) {
  const DType dtype = options.dtype.value_or(usual_dtype(device));
  std::vector<Problem> problems;
  for (const std::string& text : options.weights) problems.push_back(parse_any_problem(text));
  for (const Problem& one : any_problems_of(options.problems, dtype, options.layouts))
    problems.push_back(one);
  if (problems.empty())
    fail(Errc::invalid_argument,
         "classes of which weights? give one GEMM of each (gemm:1x4096x4096), or --problems");
  std::vector<Problem> weights;
  for (const Problem& problem : problems) {
    const Problem weight = without_m(problem);
    if (std::ranges::find(weights, weight) == weights.end()) weights.push_back(weight);
  }
  return weights;
}

Selector selector_of(const ClassesOptions& options, Backend& backend, const Signature& signature) {
  return selector_for(options.model, signature,
                      {.provider = std::string(backend.provider_for(signature.op)),
                       .device = backend.device(),
                       .backend = std::string(backend.name()),
                       .absence = [&backend](const Signature& of, const KernelConfig& config) {
                         return backend.absence(of, config);
                       }});
}

/// Speed of the class, relative to the fastest timed config of any class at each M: geometric mean.
double share_of_fastest(const ClassMeasurement& measured) {
  double logs = 0;
  int timed = 0;
  for (std::size_t at = 0; at < measured.m.size(); ++at) {
    double any_us = std::numeric_limits<double>::infinity(), own_us = any_us;
    for (const ClassedConfig& one : measured.configs) {
      if (std::isnan(one.time_us[at])) continue;
      any_us = std::min(any_us, one.time_us[at]);
      if (one.classes[at] == measured.chosen) own_us = std::min(own_us, one.time_us[at]);
    }
    if (std::isinf(own_us)) continue;
    logs += std::log(any_us / own_us);
    ++timed;
  }
  return timed > 0 ? std::exp(logs / timed) : Choice::unknown;
}

/// What a file said of the weight on the device before: "new", "same" bits, or "changed" ones.
std::string before(const std::vector<StoredClass>& known, const StoredClass& now) {
  for (const StoredClass& one : known) {
    if (one.weight == now.weight && one.device == now.device)
      return RowBits::parse(one.bits).agrees(RowBits::parse(now.bits)) ? "same" : "changed";
  }
  return "new";
}

void measure(const ClassesOptions& options) {
  Backend& backend = options.device();
  const auto known = read_classes(options.stored_in());
  Table table({"weight", "configs", "classes", "members", "speed_percent", "bits", "before"});
  std::optional<ProgressLine> progress("classes");
  for (const Problem& weight : weights_of(options, backend.device())) {
    const Selector selector = selector_of(options, backend, signature_of(weight));
    auto configs = class_candidates(selector, backend, weight, options.rows, options.candidates);
    for (const std::string& name : options.configs) {
      const KernelConfig config = named_config(name, weight);
      if (std::ranges::find(configs, config) == configs.end()) configs.push_back(config);
    }
    const ClassMeasurement measured =
        measure_classes(backend, weight, configs,
                        {.m = options.rows,
                         .every = options.every,
                         .seconds = options.seconds,
                         .progress = [&](const std::string& text) { (*progress)(text); }});
    const StoredClass& stored = measured.stored;
    store_classes(options.stored_in(), std::span(&stored, 1));  // at once: the next weight may take minutes
    constexpr std::size_t kShown = 8;
    table.add_row({text(stored.weight), number(static_cast<std::int64_t>(configs.size())),
                   number(stored.classes), number(static_cast<std::int64_t>(stored.members.size())),
                   number(100 * share_of_fastest(measured), 4), text(stored.bits.substr(0, kShown)),
                   text(before(known, stored))});
  }
  progress.reset();  // erases the line
  table.print(options.format);
  if (options.format == Format::text) fmt::print("stored in {}\n", options.stored_in().string());
}

void recheck(const ClassesOptions& options) {
  Backend& backend = options.device();
  const auto known = read_classes(options.stored_in());
  std::set<std::string> asked;
  if (!options.weights.empty() || !options.problems.empty()) {
    for (const Problem& weight : weights_of(options, backend.device())) asked.insert(print(weight));
  }
  Table table({"weight", "members", "runs", "changed"});
  bool changed = false;
  std::size_t checked = 0;
  for (const StoredClass& one : known) {
    if (one.backend != backend.name() || (!asked.empty() && !asked.contains(one.weight))) continue;
    const Recheck result = recheck_class(backend, one);
    for (const std::string& run : result.changed)
      fmt::print(stderr, "kscout: {}: other bits than stored: {}\n", one.weight, run);
    table.add_row({text(one.weight), number(static_cast<std::int64_t>(one.members.size())),
                   number(static_cast<std::int64_t>(result.runs)),
                   number(static_cast<std::int64_t>(result.changed.size()))});
    changed = changed || !result.changed.empty();
    ++checked;
  }
  if (checked == 0)
    fail(Errc::not_found, "{} has no classes of {} to check again; measure them without --recheck",
         options.stored_in().string(), backend.name());
  table.print(options.format);
  if (changed) throw CheckFailed();
}

}  // namespace

void setup_classes(CLI::App& verb) {
  const auto options = std::make_shared<ClassesOptions>();
  verb.add_option("weight", options->weights, "one GEMM of each weight, of any M: gemm:1x4096x4096:bf16");
  reads_file(verb.add_option("--problems", options->problems,
                             "problem sets or files: their weights, whatever M they have"),
             problem_file);
  add_layouts_option(verb, options->layouts);
  verb.add_option("--backend", options->backend, "cuda or cpu")
      ->default_str("cuda where there is an NVIDIA GPU, else cpu");
  verb.add_option("--model", options->model,
                  "model folder or .ksf file that proposes configs (default: the first on the search path)");
  auto* const rows = verb.add_option("--rows", options->rows, "M to time, ascending and comma-separated")
                         ->delimiter(',')
                         ->allow_extra_args(false)
                         ->default_str("1, 2, 3, 4, 6, 8, 12, ... 3072, 4096");
  verb.add_option("--every", options->every,
                  "run the fastest configs of the class at every M up to this one, and at some above it")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  verb.add_option("--top", options->candidates.top, "configs of the ranking to compare, for each M")
      ->capture_default_str();
  verb.add_option("--of-split", options->candidates.of_split,
                  "configs to compare of each kind and number of split-K slices in the ranking, for each M")
      ->capture_default_str();
  verb.add_option("--suggestions", options->candidates.suggestions,
                  "algorithms to compare that the library suggests, for each M")
      ->capture_default_str();
  verb.add_option("--config", options->configs, "also compare this config; repeatable");
  verb.add_option("--seconds", options->seconds, "time for the rounds of one M")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 3600.0));
  verb.add_option("--classes", options->file, "file of classes; those of other weights stay")
      ->default_str("KSCOUT_CLASSES, else classes.json beside the user's models");
  verb.add_flag("--recheck", options->recheck,
                "run what is stored again and compare the bits; measures no times, writes nothing")
      ->excludes(rows);
  add_format_option(verb, options->format);
  verb.callback([options] { options->recheck ? recheck(*options) : measure(*options); });
  verb.footer(
      "Runs configs on equal rows at many M and groups them by the bits of their results. Policy\n"
      "batch-invariant (predict, run, exec) keeps to the stored class of a weight "
      "(docs/batch_invariant.md).\n"
      "Kernels run in this process.\n"
      "\n"
      "Columns: classes = groups of equal bits; members = configs of the chosen one; speed_percent = its\n"
      "speed, relative to the fastest at each M of all classes that cover every M; bits = start of the "
      "rows'\n"
      "digest; before = whether the file had the weight, with the same bits.\n"
      "\n"
      "Examples:\n"
      "  kscout classes gemm:1x4096x4096:bf16 --backend cuda\n"
      "  kscout classes --problems shapes.csv --rows 1,8,64,512\n"
      "  kscout classes --recheck\n"
      "\n"
      "exit status: 0 done, 1 bits changed (--recheck), 2 wrong arguments, 3 unsupported here or measured "
      "with\n"
      "another release, 4 file or device failure");
}

}  // namespace kscout::cli
