#include "options.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include <CLI/CLI.hpp>

#include <kscout/backend.h>
#include <kscout/device.h>
#include <kscout/provider.h>

#include "core/device_facts.h"
#include "core/fail.h"
#include "core/field_text.h"
#include "core/log.h"
#include "core/names.h"
#include "core/owners.h"
#include "core/problem_text.h"
#include "family/family_file.h"
#include "op/given_fields.h"
#include "op/problem_sets.h"
#include "outputs.h"
#include "select/model.h"

namespace kscout::cli {

void add_format_option(CLI::App& verb, Format& format, bool csv) {
  const std::string help = csv ? "output: text|json|csv" : "output: text|json";
  const auto set = [&format, csv](const std::string& text) {
    const auto asked = parse<Format>(text);
    if (asked == Format::csv && !csv)
      fail(Errc::invalid_argument, "--format csv: this verb prints text or json");
    format = asked;
  };
  offer_words(add_text_option(verb, "--format", help, std::string(word(format)), set),
              std::span(EnumWords<Format>::words).first(csv ? 3 : 2));
}

CLI::Option* add_text_option(CLI::App& verb, const std::string& flags, const std::string& help,
                             const std::string& shown_default, std::function<void(const std::string&)> set) {
  CLI::Option* option = verb.add_option_function<std::string>(flags, std::move(set), help);
  if (!shown_default.empty()) option->default_str(shown_default);
  return option;
}

std::function<std::string(const std::string&)> above_zero() {
  return [](const std::string& text) {
    return std::strtod(text.c_str(), nullptr) <= 0 ? fmt::format("{} is not a number above 0", text) : "";
  };
}

std::function<std::string(const std::string&)> not_negative() {
  return [](const std::string& text) {
    char* end = nullptr;
    const bool wrong = std::strtod(text.c_str(), &end) < 0 || end == text.c_str();
    return wrong ? fmt::format("{} is not a number of at least 0", text) : "";
  };
}

CLI::Option* check_text(CLI::Option* option, std::function<void(const std::string&)> check) {
  return option->check([check = std::move(check)](const std::string& text) {
    check(text);
    return std::string();
  });
}

CLI::Option* ProblemOptions::add_flag(CLI::App& verb, const std::string& name, const std::string& help) {
  std::string flag = "--" + name;
  std::ranges::replace(flag, '_', '-');
  return add_text_option(verb, flag, help, "",
                         [this, name](const std::string& text) { set_fields.emplace_back(name, text); })
      ->trigger_on_parse();  // so that a repeated flag arrives twice, and is refused with both values
}

void ProblemOptions::add_to(CLI::App& verb) {
  std::string forms;
  std::vector<std::pair<std::string, std::string>> flags;  // name, help; operations share the flag of a name
  for (const Operation* const one : operations()) {
    forms += fmt::format("{}{}", forms.empty() ? "" : " or ", one->syntax(one->ops.front()));
    const bool first = one == operations().front();
    const auto add = [&](std::string_view name, std::string_view meaning) {
      const std::string help = first ? std::string(meaning) : fmt::format("{}: {}", one->noun, meaning);
      const auto known = std::ranges::find(flags, name, &std::pair<std::string, std::string>::first);
      if (known == flags.end()) {
        flags.emplace_back(name, help);
      } else if (known->second != meaning) {
        known->second += "; " + help;
      }
    };
    for (const ProblemField& field : one->space.fields) {
      if (field.role != FieldRole::derived) add(field.name, field.help);
    }
    for (const GeneralName& general : one->general_names) add(general.name, general.help);
  }
  verb.add_option("problem", problem_text, "one-line form " + forms);
  check_words<Op>(
      add_flag(verb, "op", fmt::format("operation: {} (gemm)", fmt::join(EnumWords<Op>::words, "|"))));
  check_words<DType>(add_flag(verb, "dtype", "element type of all operands (fp32)"));
  for (const auto& [name, help] : flags) {
    if (name != "op") add_flag(verb, name, help);
  }
}

bool ProblemOptions::given() const { return !problem_text.empty() || !set_fields.empty(); }

void ProblemOptions::refuse_beside_list(const std::string& file) const {
  if (file.empty() || !given()) return;
  fail(Errc::invalid_argument, "{}: --problems {} states the problems and their fields; leave one out",
       problem_text.empty() ? written({set_fields.front().first, set_fields.front().second, GivenAs::flag})
                            : problem_text,
       file);
}

void ProblemOptions::check_sizes_given() const {
  const auto has = [&](std::string_view name) {
    return std::ranges::find(set_fields, name, &std::pair<std::string, std::string>::first) !=
           set_fields.end();
  };
  const auto stated = std::ranges::find(set_fields, "op", &std::pair<std::string, std::string>::first);
  const Op op = stated == set_fields.end() ? Op::gemm : parse<Op>(stated->second);
  std::vector<std::string> needed, missing;
  for (const std::string_view name : operation(op).needed_flags) {
    needed.push_back(fmt::format("--{}", name));
    if (!has(name)) missing.push_back(needed.back());
  }
  if (missing.empty()) return;
  fail(Errc::invalid_argument,
       "which problem? give {}, or --op {} and at least {} (missing: {}); operations: {}",
       operation(op).syntax(op), word(op), fmt::join(needed, ", "), fmt::join(missing, ", "),
       fmt::join(EnumWords<Op>::words, ", "));
}

Problem ProblemOptions::any_problem(DType usual) const {
  std::vector<GivenField> given;
  if (problem_text.empty()) {
    check_sizes_given();
  } else {
    given = fields_of_line(problem_text);
  }
  for (const auto& [name, text] : set_fields) given.push_back({name, text, GivenAs::flag});
  return problem_of(given, usual);
}

void FamilyOptions::add_to(CLI::App& verb, bool with_signature) {
  add_provider_option(verb, provider, "provider of the kernels");
  verb.add_option("--rules", rules, "rule set")->capture_default_str();
  verb.add_option("--filter", filter,
                  "keep configs for which this formula holds, e.g. \"c.mr >= 6 and c.kind == 'tiled'\"");
  verb.add_option("--device", device, "a preset's name, or auto for this machine")->capture_default_str();
  if (!with_signature) return;
  add_word_option(verb, "--op", op, "operation");
  std::string words;
  for (const auto one : EnumWords<DType>::words) words += (words.empty() ? "" : "|") + std::string(one);
  add_text_option(verb, "--dtype", "element type: " + words, "fp32 on a CPU, bf16 on a GPU",
                  [this](const std::string& text) { dtype = parse<DType>(text); });
  words.clear();
  for (const auto one : EnumWords<Layout>::words) words += (words.empty() ? "" : "|") + std::string(one);
  check_words<Layout>(verb.add_option(
      "--layout", layout, "storage of A, B, C (rcr), or of the images of a convolution (nhwgc): " + words));
  add_word_option(verb, "--epilogue", epilogue, "what is applied to C of a GEMM");
}

Signature FamilyOptions::signature() const {
  const Operation& of = operation(op);
  const Layout chosen = layout.empty() ? of.layouts.front() : parse<Layout>(layout);
  if (std::ranges::find(of.layouts, chosen) == of.layouts.end())
    fail(Errc::invalid_argument, "--layout {}: is no layout of op '{}'", layout, word(op));
  if (epilogue != Epilogue::none && op != Op::gemm)
    fail(Errc::invalid_argument, "--epilogue {}: is of GEMMs; leave it out of {}", word(epilogue), word(op));
  Signature made = signature_of(of.make(op, dtype ? *dtype : usual_dtype(device_named(device)), chosen));
  made.epilogue = epilogue;
  return made;
}

FamilyRequest FamilyOptions::request(const Signature& signature) const {
  const Device for_device = device_named(device);
  return {provider.empty() ? std::string(default_provider(signature.op, for_device)) : provider, signature,
          for_device, rules, filter};
}

CLI::Option* add_provider_option(CLI::App& verb, std::string& provider, const std::string& help) {
  return verb.add_option("--provider", provider, help)->default_str("by the operation and the device");
}

Device device_named(const std::string& name) {
  try {
    return find_device(name);
  } catch (const Error& error) {
    if (error.code() != Errc::not_found || name == "gpu") throw;  // "gpu" is right where there is one
    fail(Errc::invalid_argument, "{}", error.what());
  }
}

void check_formula(const std::string& provider, Op op, const std::string& flag, const std::string& formula) {
  if (formula.empty()) return;
  const FamilyFile& file = family_file(provider, op);
  expr::Program::compile({{flag, formula}}, family_scope(*file.space, file.formulas, false));
}

CLI::Option* add_epilogues_option(CLI::App& verb, const std::string& flag, std::vector<Epilogue>& epilogues,
                                  const std::string& help) {
  CLI::Option* const option = verb.add_option_function<std::vector<std::string>>(
      flag,
      [&epilogues](const std::vector<std::string>& words) {
        for (const std::string& one : words) epilogues.push_back(parse<Epilogue>(one));
      },
      fmt::format("{}: {}", help, fmt::join(EnumWords<Epilogue>::words, "|")));
  return check_words<Epilogue>(option->delimiter(','));
}

CLI::Option* add_layouts_option(CLI::App& verb, std::vector<Layout>& layouts, const std::string& mode) {
  CLI::Option* const option = verb.add_option_function<std::vector<std::string>>(
      "--layout",
      [&layouts](const std::vector<std::string>& words) {
        for (const std::string& one : words) layouts.push_back(parse<Layout>(one));
      },
      mode +
          "layouts of each problem, comma-separated: rcr|rrr|crr|ccr of GEMMs (rcr), nhwgc|ngchw of 2-D and "
          "ndhwgc|ngcdhw of 3-D convolutions (as stated); convolutions without such a layout are left out");
  return check_words<Layout>(option->delimiter(','));
}

DType usual_dtype(const Device& device) { return device.kind == DeviceKind::gpu ? DType::bf16 : DType::fp32; }

DType usual_dtype(const std::string& model, const std::string& device) {
  if (model.empty() || device != "auto") return usual_dtype(device_named(device));
  return Model::load(model).data().families.front().signature.dtype_a;
}

CLI::Option* add_threads_option(CLI::App& verb, int& threads) {
  return verb
      .add_option("--threads", threads,
                  "max threads of one kernel on the CPU; configs that need more do not apply (default: "
                  "KSCOUT_THREADS, else the fewest of OMP_NUM_THREADS, the CPUs that the process may use and "
                  "its CPU quota)")
      ->check(CLI::Range(1, 1 << 20));
}

CLI::Option* add_calls_option(CLI::App& verb, std::int64_t& calls) {
  return verb
      .add_option("--calls", calls,
                  "expected number of calls: the choice has the lowest time plus set-up (plan, compilation, "
                  "packed filter) over the calls (default: set-up is not charged)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 53));
}

namespace {

constexpr std::string_view kPolicies[] = {"best", "batch-invariant"};

}  // namespace

void add_limits_options(CLI::App& verb, Limits& limits) {
  verb.add_option(
          "--workspace-limit", limits.workspace_bytes,
          "max bytes of workspace; configs that need more, or of which that is not known, are left out")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
  verb.add_flag("--deterministic", limits.deterministic,
                "only configs that compute equal bits from equal operands in every run");
  add_policy_option(
      verb, [&limits](const std::string& text) { limits.batch_invariant = is_batch_invariant(text); });
}

void add_policy_option(CLI::App& verb, std::function<void(const std::string&)> set) {
  offer_words(
      add_text_option(verb, "--policy",
                      "batch-invariant: keeps to the measured class of a weight, so that a row has equal "
                      "bits whatever M is (kscout classes): best|batch-invariant",
                      "best", std::move(set)),
      kPolicies);
}

CLI::Option* add_classes_option(CLI::App& verb, std::string& file) {
  return reads_file(verb.add_option("--classes", file, "--policy batch-invariant: file of kscout classes")
                        ->default_str("KSCOUT_CLASSES, else classes.json beside the user's models"));
}

void check_classes_option(const Limits& limits, const std::string& file) {
  if (!file.empty() && !limits.batch_invariant)
    fail(Errc::invalid_argument, "--classes {}: has an effect with --policy batch-invariant only", file);
}

bool is_batch_invariant(const std::string& policy) { return index_of_word("policy", policy, kPolicies) == 1; }

KernelConfig named_config(const std::string& name, ProblemRef problem) {
  NamedConfig named = parse_kernel_to_run(name);
  const Signature wanted = signature_of(problem);
  named.signature.accumulate = wanted.accumulate;  // every kernel can read C
  if (named.signature != wanted) {
    fail(Errc::invalid_argument,
         "--config {} computes {} {}; the problem {} needs a kernel of its own types and layout", name,
         word(named.signature.dtype_a), word(named.signature.layout), print(problem));
  }
  return named.config;
}

void LibraryOptions::add_to(CLI::App& verb) {
  reads_file(verb.add_option(
      "--library", indexes,
      "index file of a kernel library, in addition to those of KSCOUT_LIBRARY_PATH; repeatable"));
}

Registry LibraryOptions::registry() const {
  Registry registry = Registry::here();
  for (const auto& index : indexes) registry.add_library(index);
  return registry;
}

void CkBuildFlags::add_to(CLI::App& verb) {
  auto* const build =
      verb.add_option("--ck-build", folder,
                      "drive the benchmark_* executables of a build of CK Tile instead: its folder; --jobs N "
                      "builds the missing ones with ninja first");
  verb.add_option("--device", device, "--ck-build: preset of the device on which they run, e.g. gfx950")
      ->needs(build);
  verb.add_flag("--verify", verify, "--ck-build: have the executables check their results")->needs(build);
}

std::string problem_file(const std::string& source) {
  if (operation_of_set(source)) return {};
  std::error_code ignored;
  const bool file =
      std::filesystem::exists(source, ignored) || source.find_first_of("./") != std::string::npos;
  return file ? source : std::string();
}

std::vector<Problem> all_problems_of(const std::vector<std::string>& sources, DType dtype,
                                     const std::vector<Layout>& layouts) {
  std::vector<Problem> problems;
  const auto add = [&](const std::vector<Problem>& more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  for (const std::string& source : sources) {
    if (problem_file(source).empty()) {
      add(any_problems_of({source}, dtype, layouts));
      continue;
    }
    for (const auto& [of, own] : by_operation(read_any_problems(source, dtype))) {
      std::vector<Layout> known;
      for (const Layout layout : layouts) {
        if (std::ranges::find(of->layouts, layout) != of->layouts.end()) known.push_back(layout);
      }
      add(of->laid_out(own, known.empty() ? layouts : known));  // none: the error says which it has
    }
  }
  return problems;
}

std::vector<Problem> any_problems_of(const std::vector<std::string>& sources, DType dtype,
                                     const std::vector<Layout>& layouts) {
  std::vector<Problem> problems;
  const auto add = [&](const std::vector<Problem>& more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  for (const std::string& source : sources) {
    if (problem_file(source).empty()) {
      // An unknown name is an error of the first operation, which names the nearest of its sets.
      const Operation* const of = operation_of_set(source);
      add((of ? *of : *operations().front()).named_set(source, dtype, layouts));
    } else {
      const std::string text = read_problem_text(source);
      add(operation_of_text(text).listed(text, source, dtype, layouts));
    }
  }
  return problems;
}

void check_rules(const std::string& provider, Op op, const std::string& rules) {
  find_rules(provider, op, rules);
}

void warn_of_model_path() {
  if (user_model_folder().empty())
    fmt::print(stderr, "kscout: warning: {}: no models of yours are found; set HOME\n",
               no_user_folder("XDG_DATA_HOME"));
  const std::string path = environment("KSCOUT_MODEL_PATH");
  for (const std::string_view folder : split(path, ':')) {
    std::error_code ignored;
    if (folder.empty() || std::filesystem::is_directory(folder, ignored)) continue;
    fmt::print(stderr,
               "kscout: warning: KSCOUT_MODEL_PATH: there is no folder '{}'; no model is found there\n",
               folder);
  }
}

void warn_of_absent_device(const Device& trained, std::vector<std::string> here) {
  if (std::ranges::find(here, trained.name) != here.end()) return;
  std::ranges::sort(here);  // several backends may use one device
  here.erase(std::unique(here.begin(), here.end()), here.end());
  fmt::print(stderr,
             "kscout: warning: foreign_device: the model was trained on '{}' and its choices are for that "
             "device; this machine has {}\n",
             trained.name, here.empty() ? "no GPU" : fmt::format("'{}'", fmt::join(here, "', '")));
}

namespace {

/// Names of this machine's devices of the kind.
std::vector<std::string> devices_here(DeviceKind kind) {
  if (kind != DeviceKind::gpu) return {detect_cpu().name};
  std::vector<std::string> names;
  for (const Device& gpu : detect_amd_gpus()) names.push_back(gpu.name);
  try {
    names.push_back(backend("cuda").device().name);
  } catch (const Error&) {  // no NVIDIA GPU, or no CUDA module
  }
  return names;
}

}  // namespace

Selector selector_for(const std::string& model, const Signature& signature, SelectorRequest request,
                      bool device_given) {
  if (device_given) check_runs_on(provider(request.provider), signature.op, request.device);
  check_rules(request.provider, signature.op, request.rules);
  if (model.empty()) warn_of_model_path();
  const bool for_its_own = !model.empty() && !device_given, limited = request.threads > 0;
  if (for_its_own) request.device = model_device(model);
  request.suggestions = suggestions_here(request.device);
  if (for_its_own && !limited && request.calls == 0 && !request.limits.any() && !request.suggestions) {
    Selector selector = Selector::load(model);
    warn_of_absent_device(selector.device(), devices_here(selector.device().kind));
    return selector;
  }
  if (limited && request.device.kind == DeviceKind::gpu)
    fail(Errc::invalid_argument, "--threads {}: kernels on {} take no threads of the CPU; leave it out",
         request.threads, request.device.name);
  // The user named the model, so its device is not checked.
  if (!model.empty()) request.devices = DevicePolicy::any;
  Selector selector = model.empty() ? Selector::find(signature.op, signature.dtype_a, request)
                                    : Selector::load(model, request);
  if (for_its_own) warn_of_absent_device(request.device, devices_here(request.device.kind));
  for (const std::string& warning : selector.warnings()) fmt::print(stderr, "kscout: warning: {}\n", warning);
  return selector;
}

}  // namespace kscout::cli
