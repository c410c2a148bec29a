// kscout search: the best of many configs by a model, while few of them are evaluated.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/provider.h>
#include <kscout/selector.h>

#include "core/fail.h"
#include "options.h"
#include "search/model_objective.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct SearchVerb {
  std::string problem, model, rules = "full", filter, device;
  SearchRequest request{.strategy = SearchStrategy::guided, .budget = 64, .top = 5, .prior = {}};
  std::uint64_t seed = 42;
  bool no_prior = false;
  Format format = Format::text;
};

std::string model_for(const SearchVerb& options, const Problem& problem) {
  if (!options.model.empty()) return options.model;
  const Device device = find_device(options.device.empty() ? "auto" : options.device);
  const DType dtype = signature_of(problem).dtype_a;
  const auto found = find_model(problem.op(), dtype, device);
  if (!found) {
    fail(Errc::not_found, "no model '{}' to search by; give --model FOLDER or --device of a shipped model",
         model_folder_name(problem.op(), dtype, device));
  }
  return found->string();
}

void search(const SearchVerb& options) {
  const Problem problem = parse_any_problem(options.problem);
  check(problem);
  const std::string path = model_for(options, problem);
  const Model model = Model::load(path);
  const Signature signature = signature_of(problem);
  const Family family =
      enumerate({.provider = std::string(model.provider()),
                 .signature = signature,
                 .device = options.device.empty() ? model.device() : find_device(options.device),
                 .rules = options.rules,
                 .filter = options.filter});
  const SearchSpace space(servable_configs(family, problem));
  const std::vector<double> prior =
      options.no_prior ? std::vector<double>() : analytic_prior(model, problem, space.configs());
  SearchRequest request = options.request;
  request.prior = prior;
  const SearchResult found =
      Searcher(options.seed).search(space, model_objective(model, problem, space), request);

  std::vector<double> scores;
  for (const FoundConfig& one : found.best) scores.push_back(one.score);
  const std::vector<double> tflops = model.predicted_tflops(problem, scores);
  const Family* const known = model.family(signature);
  Table table({"rank", "config", "tflops", "time_us", "evaluation", "trained"});
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const KernelConfig config = space.configs()[found.best[i].config];
    bool trained = false;
    for (std::size_t c = 0; known && c < known->configs.size() && !trained; ++c)
      trained = known->configs[c] == config;
    table.add_row({number(static_cast<std::int64_t>(i + 1)), text(config_name(signature, config)),
                   number(tflops[i], 4), number(time_us_of(problem, tflops[i]), 4),
                   number(static_cast<std::int64_t>(found.best[i].evaluation)), flag(trained)});
  }
  table.print(options.format);
  fmt::print(stderr, "{} evaluations; {} legal configs of rule set '{}'; model: {}\n", found.evaluations,
             space.size(), options.rules, path);
}

}  // namespace

void setup_search(CLI::App& verb) {
  const auto options = std::make_shared<SearchVerb>();
  verb.add_option("problem", options->problem,
                  "one-line form, e.g. conv_fwd:8x64x56x56:128x3x3:bf16:nhwgc:pad=1")
      ->required();
  verb.add_option("--model", options->model,
                  "model folder or .ksf file; otherwise looked for as `predict` does");
  verb.add_option("--rules", options->rules, "rule set to search in, or FILE.toml[:SET] with one of your own")
      ->capture_default_str();
  verb.add_option("--filter", options->filter, "only configs for which this formula holds");
  verb.add_option("--device", options->device, "a preset's name or auto; without it, the model's own device");
  add_word_option(verb, "--strategy", options->request.strategy, "how to choose what is evaluated next");
  verb.add_option("--budget", options->request.budget, "configs that may be evaluated")
      ->capture_default_str();
  verb.add_option("--top", options->request.top, "how many are shown")->capture_default_str();
  verb.add_option("--seed", options->seed, "of all random choices; equal seeds give equal results")
      ->capture_default_str();
  verb.add_flag("--no-prior", options->no_prior, "begin without the model's analytic costs");
  add_format_option(verb, options->format);
  verb.footer(
      "evaluation: the config was the so-manieth that the model was asked about; trained: it is among the "
      "configs\nthat the model was trained on\n\n"
      "examples\n"
      "  kscout search conv_fwd:32x128x28x28:128x3x3:bf16:nhwgc:pad=1 --device gfx950\n"
      "  kscout search conv_fwd:32x128x28x28:128x3x3:bf16:nhwgc:pad=1 --device gfx950 --rules space.toml "
      "--budget 1000\n\n"
      "exit status: 0 done, 2 wrong arguments, 3 no config can take the problem, 4 no model, or a file "
      "failure");
  verb.callback([options] { search(*options); });
}

}  // namespace kscout::cli
