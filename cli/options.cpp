#include "options.h"

#include <CLI/CLI.hpp>

#include <kscout/conv_problem.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "family/family_file.h"
#include "problems/problem_sets.h"

namespace kscout::cli {

void add_format_option(CLI::App& verb, Format& format, bool csv) {
  const std::string help = csv ? "output: text|json|csv" : "output: text|json";
  add_text_option(verb, "--format", help, std::string(word(format)), [&format, csv](const std::string& text) {
    const auto asked = parse<Format>(text);
    if (asked == Format::csv && !csv)
      fail(Errc::invalid_argument, "--format csv: this verb prints text or json");
    format = asked;
  });
}

CLI::Option* add_text_option(CLI::App& verb, const std::string& flags, const std::string& help,
                             const std::string& shown_default, std::function<void(const std::string&)> set) {
  CLI::Option* option = verb.add_option_function<std::string>(flags, std::move(set), help);
  if (!shown_default.empty()) option->default_str(shown_default);
  return option;
}

void ProblemOptions::add_to(CLI::App& verb) {
  verb.add_option("problem", one_line, "one-line form gemm:MxNxK[:dtype][:layout][:name=value...]");
  verb.add_option("--dtype", dtype, "element type of A, B and C (fp32)");
  for_each_field<GemmProblem>([&](const auto& field) {
    const std::string name(field.name);
    std::string flag = "--" + name;
    std::ranges::replace(flag, '_', '-');
    add_text_option(verb, flag, std::string(field.help), "",
                    [this, name](const std::string& text) { set_fields.emplace_back(name, text); });
  });
}

bool ProblemOptions::given() const { return !one_line.empty() || !set_fields.empty(); }

GemmProblem ProblemOptions::problem() const {
  GemmProblem problem = one_line.empty() ? make_gemm(-1, -1, -1) : parse_problem(one_line);
  if (!dtype.empty()) {
    const GemmProblem typed = make_gemm(0, 0, 0, parse<DType>(dtype));
    problem.dtype_a = typed.dtype_a;
    problem.dtype_b = typed.dtype_b;
    problem.dtype_c = typed.dtype_c;
    problem.dtype_acc = typed.dtype_acc;
  }
  for (const auto& [name, text] : set_fields) set_field(problem, name, text);
  if (one_line.empty() && (problem.m == -1 || problem.n == -1 || problem.k == -1)) {
    fail(Errc::invalid_argument, "which problem? give gemm:MxNxK or all of --m, --n, --k");
  }
  check(problem);
  return problem;
}

void FamilyOptions::add_to(CLI::App& verb, bool with_signature) {
  verb.add_option("--provider", provider, "who describes the kernels")->capture_default_str();
  verb.add_option("--rules", rules, "rule set")->capture_default_str();
  verb.add_option("--filter", filter,
                  "keep configs for which this formula holds, e.g. \"c.mr >= 6 and c.kind == 'tiled'\"");
  verb.add_option("--device", device, "a preset's name, or auto for this machine")->capture_default_str();
  if (!with_signature) return;
  add_word_option(verb, "--op", op, "operation");
  add_word_option(verb, "--dtype", dtype, "element type");
  std::string words;
  for (const auto one : EnumWords<Layout>::words) words += (words.empty() ? "" : "|") + std::string(one);
  verb.add_option("--layout", layout,
                  "storage of A, B, C (rcr), or of the images of a convolution (nhwgc): " + words);
}

Signature FamilyOptions::signature() const {
  const Layout usual = is_conv(op) ? Layout::nhwgc : Layout::rcr;
  const Layout chosen = layout.empty() ? usual : parse<Layout>(layout);
  if (is_gemm_layout(chosen) == is_conv(op))
    fail(Errc::invalid_argument, "--layout {}: is no layout of op '{}'", layout, word(op));
  return is_conv(op) ? signature_of(make_conv(op, dtype, chosen))
                     : signature_of(make_gemm(0, 0, 0, dtype, chosen));
}

FamilyRequest FamilyOptions::request(const Signature& signature) const {
  return {provider, signature, find_device(device), rules, filter};
}

KernelConfig named_config(const std::string& name, const GemmProblem& problem) {
  NamedConfig named = parse_config_name(name);
  named.signature.accumulate = problem.accumulate;  // every kernel reads C when asked to
  if (named.signature != signature_of(problem)) {
    fail(Errc::invalid_argument,
         "--config {} computes {} {}; the problem {} needs a kernel of its own types and layout", name,
         word(named.signature.dtype_a), word(named.signature.layout), print(problem));
  }
  return named.config;
}

void LibraryOptions::add_to(CLI::App& verb) {
  verb.add_option("--library", indexes,
                  "index file of a kernel library, beside those of KSCOUT_LIBRARY_PATH; repeat for more");
}

Registry LibraryOptions::registry() const {
  Registry registry = Registry::here();
  for (const auto& index : indexes) registry.add_library(index);
  return registry;
}

CLI::Option* PruneOptions::add_to(CLI::App& verb) {
  auto* const prune = verb.add_option(
      "--prune", data,
      "a dataset: write the fewest of its configs that keep --keep percent of the best speed to --out, as a "
      "rule set per signature");
  const CLI::Range percent(0.0, 100.0);
  verb.add_option("--keep", keep,
                  "--prune: least mean share of the best, over problems and over their calls, %")
      ->check(percent)
      ->capture_default_str()
      ->needs(prune);
  verb.add_option("--keep-each", keep_each, "--prune: least share of the best on every problem, %")
      ->check(percent)
      ->capture_default_str()
      ->needs(prune);
  verb.add_option("--name", name, "--prune: name of the rule set")->capture_default_str()->needs(prune);
  verb.add_option(
          "--extends", extends,
          "--prune: a rule set whose configs are there anyway (so that every problem has one), or none")
      ->capture_default_str()
      ->needs(prune);
  return prune;
}

std::vector<GemmProblem> problems_of(const std::vector<std::string>& sources, DType dtype,
                                     const std::vector<Layout>& layouts) {
  std::vector<GemmProblem> problems;
  for (const std::string& source : sources) {
    ProblemSetRequest request{.set = source, .dtype = dtype, .layouts = layouts};
    if (std::filesystem::is_regular_file(source) || source.find_first_of("./") != std::string::npos) {
      request.set = "file";
      request.file = source;
    }
    const auto more = make_problem_set(request);
    problems.insert(problems.end(), more.begin(), more.end());
  }
  return problems;
}

void check_rules(const std::string& provider, Op op, const std::string& rules) {
  find_rules(provider, op, rules);
}

Selector selector_for(const std::string& model, const Signature& signature, SelectorRequest request,
                      bool device_given) {
  check_rules(request.provider, signature.op, request.rules);
  if (!model.empty() && !device_given) return Selector::load(model);
  if (!model.empty()) request.devices = DevicePolicy::any;  // named by a person: their decision
  Selector selector = model.empty() ? Selector::find(signature.op, signature.dtype_a, request)
                                    : Selector::load(model, request);
  for (const std::string& warning : selector.warnings()) fmt::print(stderr, "kscout: warning: {}\n", warning);
  return selector;
}

}  // namespace kscout::cli
