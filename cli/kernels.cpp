#include <algorithm>
#include <ctime>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <kscout/family.h>
#include <kscout/provider.h>
#include <kscout/version.h>

#include "backend/library/library_backend.h"
#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "family/family_file.h"
#include "kernel_sets.h"
#include "options.h"
#include "outputs.h"
#include "provider/ck_tile/ck_tile.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct KernelsOptions {
  FamilyOptions family;
  std::string filter_file;
  std::string why, problem;
  std::string export_json;
  const CLI::Option* provider = nullptr;
  std::string backend;
  std::string covers, trait_config, builder_configs;
  TraitMode trait_mode = TraitMode::strict;
  std::size_t show_missing = 20;
  LibraryOptions libraries;
  bool list = false, count = false, by_signature = false, refusals = false, rule_sets = false,
       list_libraries = false;
  Format format = Format::text;
};

/// Reads a formula from a file; lines that begin with # are comments.
std::string read_filter(const std::string& path) {
  std::istringstream lines(read_plain_text(path));
  std::string formula, line;
  while (std::getline(lines, line)) {
    const std::size_t first = line.find_first_not_of(" \t");
    // Empty lines keep the positions in error messages right.
    if (first != std::string::npos && line[first] == '#') line.clear();
    formula += line + '\n';
  }
  return formula;
}

FamilyRequest request_of(const KernelsOptions& options) {
  FamilyRequest request = options.family.request(options.family.signature());
  check_formula(request.provider, request.signature.op, "--filter", request.filter);
  if (options.filter_file.empty()) return request;
  const std::string filter = read_filter(options.filter_file);
  check_formula(request.provider, request.signature.op, "--filter-file " + options.filter_file, filter);
  request.filter = request.filter.empty() ? filter : fmt::format("({}) and ({})", request.filter, filter);
  return request;
}

Json axis_json(const Axis& axis, std::int32_t value) {
  if (value == KernelConfig::unknown) return nullptr;
  if (axis.words.empty()) return value;
  return axis_value_text(axis, value);
}

Cell axis_cell(const Axis& axis, std::int32_t value) {
  if (value == KernelConfig::unknown) return number(Traits::unknown);
  return axis.words.empty() ? number(static_cast<std::int64_t>(value)) : text(axis_value_text(axis, value));
}

/// Axes on which the configs differ; other axes would be constant columns.
std::vector<std::size_t> varying_axes(const ConfigTable& configs) {
  std::vector<std::size_t> varying;
  for (std::size_t axis = 0; axis < configs.space().axes.size(); ++axis) {
    const auto column = configs.column(axis);
    if (std::ranges::any_of(column, [&](std::int32_t value) { return value != column[0]; }))
      varying.push_back(axis);
  }
  return varying;
}

/// A formula on one line.
std::string single_line(std::string_view formula) {
  std::string line;
  for (const char c : formula) {
    const bool space = c == ' ' || c == '\n' || c == '\t';
    if (!space || (!line.empty() && line.back() != ' ')) line += space ? ' ' : c;
  }
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

/// states_of_sources() of a request's family.
std::vector<std::string> states_of(const FamilyRequest& asked, const ConfigTable& configs) {
  const RuleSource source = find_rules(asked.provider, asked.signature.op, asked.rules);
  FamilyRequest request = asked;
  request.rules = source.set;
  return states_of_sources(*source.file, request, configs);
}

/// Prints the axes that differ for people, and all axes for programs. `states`: of the configs' sources; may
/// be empty.
void print_list(const Family& family, const std::vector<std::string>& states, Format format) {
  const ConfigSpace& space = family.configs.space();
  std::vector<std::size_t> axes = varying_axes(family.configs);
  if (format != Format::text) {
    axes.clear();
    for (std::size_t axis = 0; axis < space.axes.size(); ++axis) axes.push_back(axis);
  }
  std::vector<std::string> columns;
  for (const std::size_t axis : axes) columns.emplace_back(space.axes[axis].name);
  columns.insert(format == Format::text ? columns.end() : columns.begin(), "config");
  if (!states.empty()) columns.emplace_back("source");
  Table table(columns);
  for (std::size_t i = 0; i < family.configs.size(); ++i) {
    const KernelConfig config = family.configs[i];
    std::vector<Cell> cells;
    for (const std::size_t axis : axes) cells.push_back(axis_cell(space.axes[axis], config[axis]));
    cells.insert(format == Format::text ? cells.end() : cells.begin(), text(family.name(i)));
    if (!states.empty()) cells.push_back(text(states[i]));
    table.add_row(std::move(cells));
  }
  table.print(format);
}

void print_count(const Family& family, const EnumerationReport& report, Format format) {
  if (format == Format::text) {
    fmt::print("{}\n", family.configs.size());
    return;
  }
  Table table({"rules", "configs", "candidates"});
  table.add_row({text(family.rules), number(static_cast<std::int64_t>(family.configs.size())),
                 number(static_cast<std::int64_t>(report.candidates))});
  table.print(format);
}

/// Prints how many candidates each rule was the first to reject, with the rule's reason.
void print_refusals(const FamilyRequest& request, const EnumerationReport& report, std::size_t admitted,
                    Format format) {
  const RuleSource source = find_rules(request.provider, request.signature.op, request.rules);
  const std::vector<Rule>& rules = source.file->rules;
  Table table({"rule", "kind", "refused", "because"});
  const auto add = [&](std::string_view rule, std::string_view kind, std::size_t count,
                       std::string_view because) {
    table.add_row({text(rule), text(kind), number(static_cast<std::int64_t>(count)), text(because)});
  };
  for (const auto& refusal : report.refused) {
    const auto rule = std::ranges::find(rules, refusal.rule, &Rule::name);
    if (rule != rules.end()) {
      add(rule->name, word(rule->kind), refusal.configs, rule->because);
    } else {
      add(refusal.rule, "", refusal.configs,
          refusal.rule == "filter" ? request.filter : "an earlier block has it");
    }
  }
  table.print(format);
  if (format == Format::text) fmt::print("\n{} of {} candidates are in\n", admitted, report.candidates);
}

void print_rule_sets(const KernelsOptions& options) {
  FamilyRequest request = request_of(options);
  Table table({"rules", "configs", "help"});
  const RuleSource source = find_rules(request.provider, request.signature.op, request.rules);
  for (const RuleSet& set : source.file->rule_sets) {
    request.rules = set.name;
    const std::size_t configs = enumerate_configs(*source.file, request, nullptr).size();
    table.add_row({text(set.name), number(static_cast<std::int64_t>(configs)), text(set.help)});
  }
  table.print(options.format);
}

/// Warns on stderr when a convolution's name has the spelling of older tools.
void print_spelling(const std::string& name, const NamedConfig& named) {
  if (!is_ck_tile_conv_name(name)) return;
  CkSpelling spelling{};
  parse_ck_tile_conv(name, &spelling);
  if (spelling == CkSpelling::full) return;
  fmt::print(stderr, "kscout: '{}' is of spelling '{}', which leaves axes unknown; it reads as {}\n", name,
             word(spelling), config_name(named.signature, named.config));
}

/// Prints the verdict on a config for one problem; exit code 1 when a rule refuses it.
void print_verdict(const KernelsOptions& options, const NamedConfig& named) {
  const Problem problem = parse_any_problem(options.problem);
  const Verdict verdict = rule_verdict(problem, named.config, options.family.request(named.signature).device);
  if (options.format == Format::text) {
    fmt::print("{}{}{}{}{}\n", word(verdict.status), verdict.rule.empty() ? "" : " by rule " + verdict.rule,
               verdict.since.empty() ? "" : ", wrong results since " + verdict.since,
               verdict.because.empty() ? "" : ": ", verdict.because);
  } else {
    Table table({"verdict", "rule", "since", "because"});
    table.add_row(
        {text(word(verdict.status)), text(verdict.rule), text(verdict.since), text(verdict.because)});
    table.print(options.format);
  }
  if (verdict.status == VerdictStatus::refused) throw CheckFailed();
}

/// Checks one config; exit code 1 when a rule excludes it.
void print_why(const KernelsOptions& options) {
  const NamedConfig named = parse_config_name(options.why);
  print_spelling(options.why, named);
  if (!options.problem.empty()) return print_verdict(options, named);
  FamilyRequest request = request_of(options);
  if (options.provider->count() == 0) request.provider = std::string(named.config.space->provider);
  request.signature = named.signature;
  const std::vector<Rule> refusing = why_not(request, named.config);
  if (options.format == Format::text) {
    if (refusing.empty())
      fmt::print("in: no rule of '{}' refuses it on '{}'\n", request.rules, request.device.name);
    for (const Rule& rule : refusing) {
      fmt::print("out: {} ({}): {}\n", rule.name, word(rule.kind), rule.because);
      if (!rule.admits.empty()) fmt::print("     admits: {}\n", single_line(rule.admits));
    }
    ConfigTable one(*named.config.space);
    one.push_back(named.config);
    for (const std::string& state : states_of(request, one)) fmt::print("source: {}\n", state);
  } else {
    Table table({"rule", "kind", "because", "admits"});
    for (const Rule& rule : refusing) {
      table.add_row({text(rule.name), text(word(rule.kind)), text(rule.because), text(rule.admits)});
    }
    table.print(options.format);
  }
  if (!refusing.empty()) throw CheckFailed();
}

Json export_of(const Family& family, const FamilyRequest& request, const EnumerationReport& report) {
  const ConfigSpace& space = family.configs.space();
  Json out;
  auto& metadata = out["metadata"];
  metadata["kscout_version"] = KSCOUT_VERSION;
  metadata["created"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  metadata["provider"] = family.provider;
  for_each_field<Signature>([&](const auto& field) {
    const auto value = family.signature.*field.member;
    if constexpr (WordEnum<std::remove_cvref_t<decltype(value)>>) {
      metadata["signature"][std::string(field.name)] = word(value);
    } else {
      metadata["signature"][std::string(field.name)] = value;
    }
  });
  metadata["device"] = family.device.name;
  metadata["arch"] = family.device.arch;
  metadata["rules"] = family.rules;
  metadata["filter"] = request.filter;
  metadata["count"] = family.configs.size();
  metadata["candidates"] = report.candidates;
  metadata["default_config"] = family.name(family.default_config);
  const std::vector<std::string> states = states_of(request, family.configs);
  out["kernels"] = Json::array();
  for (std::size_t i = 0; i < family.configs.size(); ++i) {
    Json kernel{{"name", family.name(i)}};
    if (!states.empty()) kernel["source"] = states[i];
    const KernelConfig config = family.configs[i];
    for (std::size_t axis = 0; axis < space.axes.size(); ++axis) {
      kernel[std::string(space.axes[axis].name)] = axis_json(space.axes[axis], config[axis]);
    }
    out["kernels"].push_back(std::move(kernel));
  }
  return out;
}

/// Prints the known kernel libraries, one a row.
void print_libraries(const KernelsOptions& options) {
  Table table({"library", "provider", "device", "configs", "file"});
  const Registry registry = options.libraries.registry();
  for (const auto& backend : registry.backends()) {
    const auto* const library = dynamic_cast<const LibraryBackend*>(backend.get());
    if (!library) continue;
    table.add_row({text(library->name()), text(library->provider()), text(backend->device().name),
                   number(static_cast<std::int64_t>(library->index().configs.size())),
                   text(library->index().library.string())});
  }
  table.print(options.format);
}

/// The configs of a library for the signature, in place of a rule set's.
Family library_family(const KernelsOptions& options) {
  const Registry registry = options.libraries.registry();
  return registry.backend(options.backend).family(options.family.signature(), options.family.rules);
}

void run_kernels(const KernelsOptions& options) {
  if (options.list_libraries) return print_libraries(options);
  if (!options.libraries.indexes.empty() && options.backend.empty()) {
    fail(Errc::invalid_argument,
         "--library {}: --libraries lists it, --backend NAME its kernels; give one of them",
         options.libraries.indexes.front());
  }
  if (!options.backend.empty()) {
    const Family family = library_family(options);
    if (options.count)
      return print_count(family, {.refused = {}, .candidates = family.configs.size()}, options.format);
    return print_list(family, {}, options.format);
  }
  if (options.rule_sets) return print_rule_sets(options);
  if (!options.why.empty()) return print_why(options);
  const FamilyRequest request = request_of(options);
  const SetRequest set{request, options.builder_configs};
  const bool covers_list = options.covers == "profiler" || options.covers == "tests";
  if (!options.builder_configs.empty() && !set.is_builder_list() && !covers_list)
    fail(Errc::invalid_argument,
         "--builder-configs: its lists are --rules profiler and --rules tests; give one");
  const ListOptions list{options.count, options.export_json, options.format};
  if (options.by_signature) return print_signature_counts(set, options.format);
  if (!options.covers.empty())
    return print_coverage(set, options.covers, options.show_missing, options.format);
  if (!options.trait_config.empty())
    return print_trait_configs(request, options.trait_config, options.trait_mode, list);
  if (set.is_builder_list()) return print_builder_list(set, list);
  EnumerationReport report;
  if (options.refusals) {
    const RuleSource source = find_rules(request.provider, request.signature.op, request.rules);
    FamilyRequest of_set = request;
    of_set.rules = source.set;
    const std::size_t admitted = enumerate_configs(*source.file, of_set, &report).size();
    return print_refusals(request, report, admitted, options.format);
  }
  const Family family = enumerate(request, &report);
  if (!options.export_json.empty()) {
    write_out(options.export_json,
              export_of(family, request, report).dump(1, ' ', false, Json::error_handler_t::replace) + '\n');
    fmt::print(stderr, "{} kernels written to {}\n", family.configs.size(), options.export_json);
    if (!options.list && !options.count) return;
  }
  if (options.count) {
    print_count(family, report, options.format);
  } else {
    print_list(family, states_of(request, family.configs), options.format);
  }
}

/// Makes `kernels --NAME`, a flag of earlier versions, an error that names the verb to use now.
void add_former_flag(CLI::App& verb, const std::string& name) {
  const auto refuse = [name](const std::vector<std::string>& /*values*/) {
    fail(Errc::invalid_argument, "kernels --{0}: use the verb {0} (kscout {0} --help)", name);
  };
  verb.add_option_function<std::vector<std::string>>("--" + name, refuse)->expected(0, -1)->group("");
}

}  // namespace

void setup_kernels(CLI::App& verb) {
  const auto options = std::make_shared<KernelsOptions>();
  options->family.add_to(verb);
  options->provider = verb.get_option("--provider");
  reads_file(verb.add_option("--filter-file", options->filter_file,
                             "a file with such a formula; with both options, both formulas must hold"));
  auto* list = verb.add_flag("--list", options->list, "print the configs, one a line (the default)");
  auto* count = verb.add_flag("--count", options->count, "print the number of configs");
  auto* why = verb.add_option("--why", options->why,
                              "name the rules that exclude this config, given by its kernel name; of its own "
                              "provider unless --provider is given");
  verb.add_option("--problem", options->problem,
                  "with --why: say whether the config may compute this problem (allowed, refused or "
                  "unknown), whatever the rule set")
      ->needs(why);
  auto* refusals = verb.add_flag("--refusals", options->refusals,
                                 "print how many candidates each rule was the first to reject");
  auto* by_signature =
      verb.add_flag("--by-signature", options->by_signature,
                    "print the size of the rule set for every op, layout and type that it supports");
  auto* covers = verb.add_option("--covers", options->covers,
                                 "check whether the rule set holds all configs of this one, or of a file of "
                                 "kernel names, over all signatures; exit 1 if not");
  verb.add_option("--show-missing", options->show_missing, "with --covers: number of missing configs to show")
      ->capture_default_str()
      ->needs(covers);
  verb.add_option("--builder-configs", options->builder_configs,
                  "a folder of CK Builder's lists: rule sets profiler and tests are translated from it");
  auto* traits =
      reads_file(verb.add_option("--trait-config", options->trait_config,
                                 "instead of a rule set: a trait file of CK's instance builder (JSON)"));
  add_word_option(verb, "--trait-mode", options->trait_mode, "where --trait-config lists compv4")
      ->needs(traits);
  auto* sets = verb.add_flag("--rule-sets", options->rule_sets, "print the rule sets and their sizes");
  auto* file = add_out_option(verb, "--export-json", options->export_json,
                              "write the configs with metadata to this file");
  options->libraries.add_to(verb);
  auto* libraries = verb.add_flag("--libraries", options->list_libraries, "print the known kernel libraries");
  auto* backend = verb.add_option("--backend", options->backend,
                                  "print what this backend can execute: cpu or a kernel library's name");
  add_former_flag(verb, "prune");
  for (CLI::Option* alone : {why, refusals, sets, file, by_signature, covers})
    libraries->excludes(alone), backend->excludes(alone);
  libraries->excludes(list)->excludes(count)->excludes(backend);
  count->excludes(list);
  for (CLI::Option* alone : {why, refusals, sets, by_signature, covers})
    alone->excludes(list)->excludes(count)->excludes(file);
  why->excludes(refusals)->excludes(sets);
  refusals->excludes(sets);
  for (CLI::Option* one : {why, refusals, sets}) one->excludes(by_signature)->excludes(covers);
  covers->excludes(by_signature);
  for (CLI::Option* one : {why, refusals, sets, by_signature, covers, libraries, backend})
    traits->excludes(one);
  add_format_option(verb, options->format);
  verb.footer(
      "examples\n"
      "  kscout kernels --rules tiny\n"
      "  kscout kernels --provider ck_tile --device gfx942 --dtype bf16 --count \\\n"
      "    --filter \"c.tile_n >= 128 and c.pipeline == 'compv4'\"\n"
      "  kscout kernels --provider ck_tile --device gfx950 --dtype fp8 --refusals\n"
      "  kscout kernels --provider ck_tile --device gfx942 --op conv_fwd --rules full --by-signature\n"
      "  kscout kernels --provider ck_tile --device gfx942 --op conv_fwd --rules full --covers full-tests\n"
      "  kscout kernels --device h200 --problem gemm:12x8x4616:bf16 \\\n"
      "    --why cublaslt_gemm_bf16_rcr_v130100__a66_64x64x64_st0_s9_acc_w0_o0_any_c1x1\n"
      "  kscout kernels --library kernels/toy.kscout-library.json --backend toy --layout rrr\n\n"
      "exit status: 0 done (--why: it is in), 1 --why: it is out, --covers: some are missing, 2 wrong "
      "arguments,\n"
      "3 no config is left, 4 file failure");
  verb.callback([options] { run_kernels(*options); });
}

}  // namespace kscout::cli
