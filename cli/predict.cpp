#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/selector.h>

#include "core/fail.h"
#include "explain.h"
#include "op/problem_sets.h"
#include "options.h"
#include "select/model.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct PredictOptions {
  ProblemOptions problem;
  FamilyOptions family;
  std::string file, model, data;
  std::vector<std::string> configs;  ///< from --config: configs to explain
  bool explain = false;
  int threads = 0;
  std::int64_t calls = 0;
  Limits limits;
  std::string classes;
  std::size_t top = 5;
  By by = By::best;
  Format format = Format::text;
};

/// The requested problem.
Problem asked_problem(const PredictOptions& options) {
  return options.problem.any_problem(usual_dtype(options.model, options.family.device));
}

Selector asked_selector(const PredictOptions& options, const Problem& problem) {
  const FamilyRequest request = options.family.request(signature_of(problem));
  return selector_for(options.model, request.signature,
                      {.provider = request.provider,
                       .device = request.device,
                       .rules = request.rules,
                       .threads = options.threads,
                       .calls = options.calls,
                       .limits = options.limits,
                       .classes = options.classes},
                      options.family.device != "auto");
}

/// Collects the choices of all problems, and the reasons for problems without one.
class Predictions {
 public:
  void add(const Problem& problem, const std::vector<Choice>& choices) {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const Choice& choice = choices[i];
      rows_.push_back({text(print(problem)), number(static_cast<std::int64_t>(i + 1)),
                       text(Selector::name(problem, choice)), number(choice.time_us, 4),
                       number(choice.tflops, 4), number(choice.gb_s, 4), number(100 * choice.margin, 3),
                       number(100 * choice.confidence, 3), number(static_cast<double>(choice.setup_us), 4),
                       text(word(choice.source)), text("")});
    }
  }
  void add_uncovered(const Problem& problem, std::string_view reason) {
    const Cell none = number(Choice::unknown);
    rows_.push_back({text(print(problem)), none, text(""), none, none, none, none, none, none, text("none"),
                     text(reason)});
    ++uncovered_;
  }
  std::size_t uncovered() const noexcept { return uncovered_; }

  /// Prints the column `setup_us` for --calls, and the column `reason` for people only when it has content,
  /// for programs whenever it may have.
  void print_as(Format format, bool list, bool with_setup) {
    std::vector<std::string> columns = {"problem",  "rank",   "config",         "time_us",
                                        "tflops",   "gb_s",   "margin_percent", "confidence_percent",
                                        "setup_us", "source", "reason"};
    const bool with_reason = uncovered_ > 0 || (list && format != Format::text);
    constexpr std::ptrdiff_t kSetup = 8;
    if (!with_reason) columns.pop_back();
    if (!with_setup) columns.erase(columns.begin() + kSetup);
    Table table(std::move(columns));
    for (auto& cells : rows_) {
      if (!with_reason) cells.pop_back();
      if (!with_setup) cells.erase(cells.begin() + kSetup);
      table.add_row(std::move(cells));
    }
    table.print(format);
  }

 private:
  std::vector<std::vector<Cell>> rows_;
  std::size_t uncovered_ = 0;
};

void explain_problem(const PredictOptions& options, ReadMeasuredRows read) {
  if (!options.file.empty())
    fail(Errc::invalid_argument, "--explain takes one problem; leave --problems out");
  if (options.calls > 0)
    fail(Errc::invalid_argument, "--explain explains choices without their set-up; leave --calls out");
  if (options.limits.any())
    fail(Errc::invalid_argument,
         "--explain explains choices without limits; leave --workspace-limit, --deterministic and --policy "
         "batch-invariant out");
  if (options.format == Format::csv) fail(Errc::invalid_argument, "--explain prints text or json, no csv");
  if (!options.data.empty() && !read) throw NeedsLab{};
  ExplainRequest request{.problem = asked_problem(options),
                         .asked = {},
                         .top = options.top,
                         .by = options.by,
                         .threads = options.threads};
  for (const auto& name : options.configs) request.asked.push_back(named_config(name, request.problem));
  if (!options.data.empty()) {
    request.measured_rows = read(options.data, request.problem);
    request.has_measured = true;
  }
  const Selector selector = asked_selector(options, request.problem);
  print_explanation(selector, options.family.request(signature_of(request.problem)), request, options.format);
}

/// The model that answers a problem, for stderr.
std::string model_line(const Selector& selector, const Problem& problem) {
  const auto path = selector.model_path(problem);
  return "model: " +
         (path.empty() ? "none found; analytic costs of " + selector.device().name : path.string()) + "\n";
}

void predict(const PredictOptions& options) {
  check_classes_option(options.limits, options.classes);
  if (!options.configs.empty() || !options.data.empty()) {
    fail(Errc::invalid_argument, "--config and --data belong to --explain");
  }
  options.problem.refuse_beside_list(options.file);
  if (!options.problem.given() && options.file.empty()) {
    fail(Errc::invalid_argument,
         "give one problem (gemm:MxNxK or --m --n --k, conv_fwd:NxCxHxW:KxYxX or --op conv_fwd --c ...) or a "
         "list with --problems FILE");
  }
  const auto problems =
      options.file.empty()
          ? std::vector{asked_problem(options)}
          : read_any_problems(options.file, usual_dtype(options.model, options.family.device));
  Predictions predictions;
  // A model that is found covers one op and type. Where a named one has no answer, the provider of one
  // operation stands in.
  std::map<std::pair<Op, DType>, Selector> selectors;
  const auto selector_of = [&](const Problem& problem) -> const Selector& {
    const Signature signature = signature_of(problem);
    const auto key = options.model.empty() ? std::pair(signature.op, signature.dtype_a)
                                           : std::pair(problem.kind(), DType());
    if (const auto known = selectors.find(key); known != selectors.end()) return known->second;
    return selectors.emplace(key, asked_selector(options, problem)).first->second;
  };
  std::set<std::string> models;
  for (const Problem& problem : problems) {
    try {
      const Selector& selector = selector_of(problem);
      models.insert(model_line(selector, problem));
      predictions.add(problem, selector.rank(problem, options.top, options.by));
    } catch (const Error& error) {
      if (options.file.empty() || error.code() != Errc::unsupported) throw;
      predictions.add_uncovered(problem, error.what());  // the other problems of the list keep their rows
    }
  }
  predictions.print_as(options.format, !options.file.empty(), options.calls > 0);
  if (options.format == Format::text) fmt::print(stderr, "{}", fmt::join(models, ""));
  if (predictions.uncovered() > 0) {
    fail(Errc::unsupported, "{} of {} problems have no config (column reason)", predictions.uncovered(),
         problems.size());
  }
}

}  // namespace

void setup_predict(CLI::App& verb, ReadMeasuredRows read) {
  auto options = std::make_shared<PredictOptions>();
  options->problem.add_to(verb);
  verb.add_option(
      "--problems", options->file,
      "file of problems: lines gemm:MxNxK[:dtype][:layout]..., conv_fwd:NxCxHxW:KxYxX... and of other "
      "operations, in any order, or CSV of one operation");
  verb.add_option(
      "--model", options->model,
      "model folder or .ksf file; otherwise KSCOUT_MODEL_PATH, the user's tuned models, the shipped ones");
  add_provider_option(verb, options->family.provider, "provider of the kernels when there is no model");
  verb.add_option("--rules", options->family.rules, "rule set when there is no model")->capture_default_str();
  verb.add_option("--device", options->family.device, "a preset's name, or auto for this machine")
      ->capture_default_str();
  add_threads_option(verb, options->threads);
  add_calls_option(verb, options->calls);
  add_limits_options(verb, options->limits);
  add_classes_option(verb, options->classes);
  verb.add_option("--top", options->top, "number of configs to show for each problem")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  add_word_option(verb, "--by", options->by, "quantity to rank by; best = the model's own target");
  verb.add_flag("--explain", options->explain,
                "explain the choice: the features that decided between the first two configs, the rules that "
                "exclude configs");
  verb.add_option("--config", options->configs, "with --explain: why this config was not chosen; repeatable");
  verb.add_option("--data", options->data, "with --explain: a dataset, whose measurements are shown, too");
  add_format_option(verb, options->format);
  verb.footer(
      "source: db, model, analytic (roofline and tile costs, no measurement), default (nothing known) or\n"
      "forced (KSCOUT_FORCE);\n"
      "margin_percent: how much longer the next config should take;\n"
      "confidence_percent: probability that the first config is within 3 % of the best, where the model can "
      "tell;\n"
      "setup_us (with --calls): time that a config needs once before its runs\n\n"
      "examples\n"
      "  kscout predict gemm:16x4096x4096 --top 3\n"
      "  kscout predict gemm:16x4096x4096 --threads 1\n"
      "  kscout predict gemm:16x4096x4096 --device h200\n"
      "  kscout predict conv_fwd:8x256x28x28:128x3x3:bf16:nhwgc:pad=1 --device gfx950\n"
      "  kscout predict --op conv_fwd --dtype bf16 --n 8 --c 256 --h 28 --w 28 --k 128 --y 3 --x 3 --pad 1 "
      "--device gfx950\n"
      "  kscout predict --problems shapes.csv --top 1 --format csv\n"
      "  kscout predict gemm:16x4096x4096 --explain --config NAME --data measured.parquet\n\n"
      "exit status: 0 done, 2 wrong arguments, 3 no config can take a problem (of --problems: its row says "
      "why),\n"
      "4 file failure");
  verb.callback([options, read] { options->explain ? explain_problem(*options, read) : predict(*options); });
}

}  // namespace kscout::cli
