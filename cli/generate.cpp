// `kscout generate`: writes sources of kernel libraries.
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "backend/library/seal.h"
#include "compiler_options.h"
#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "family/declared.h"
#include "family/family_file.h"
#include "generate/build.h"
#include "generate/project.h"
#include "generate/template.h"
#include "kernel_sets.h"
#include "options.h"
#include "outputs.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct GenerateOptions {
  FamilyOptions family;
  std::string out, name, regenerate, seal, library, own_family;
  bool from_template = false;
  CompilerOptions compiler;
  std::string builder_configs, trait_config;
  TraitMode trait_mode = TraitMode::strict;
  std::size_t max_kernels = GenerateRequest::kMaxKernels;
  bool all = false, build = false, check = false;
  Format format = Format::text;
};

std::int64_t as_number(std::size_t count) { return static_cast<std::int64_t>(count); }

/// The request of an earlier run, read from its index of sources.
GenerateRequest regenerate_request(const GenerateOptions& options) {
  const std::filesystem::path folder = options.regenerate;
  const auto json = Json::parse(read_file(folder / "sources.json"), nullptr, false);
  const Project made = read_project(folder);  // reports what is wrong with any other file
  if (options.family.device != "auto" && options.family.device != made.device) {
    fail(
        Errc::invalid_argument,
        "--device {}: {} is of {}, which --regenerate keeps; leave --device out, or generate with --out into "
        "another folder",
        options.family.device, folder.string(), made.device);
  }
  try {
    GenerateRequest request{.family = options.family.request({}),
                            .signatures = {},
                            .out = folder,
                            .name = json.at("name").get<std::string>()};
    request.family.provider = json.at("provider").get<std::string>();
    request.family.device = find_device(json.at("device").get<std::string>());
    request.family.filter = json.value("filter", "");
    for (const auto& one : json.at("signatures")) {
      FamilyOptions of;
      of.op = parse<Op>(one.at("op").get<std::string>());
      of.dtype = parse<DType>(one.at("dtype").get<std::string>());
      of.layout = one.at("layout").get<std::string>();
      of.epilogue = parse<Epilogue>(one.value("epilogue", std::string(word(Epilogue::none))));
      request.signatures.push_back(of.signature());
    }
    return request;
  } catch (const Json::exception& error) {
    fail(Errc::corrupt_data, "{}: {}", (folder / "sources.json").string(), reason_of(error));
  }
}

/// The configs of a builder list, of the requested signature unless all are requested.
std::vector<SignatureConfigs> of_builder(const SetRequest& set, const GenerateOptions& options) {
  std::vector<SignatureConfigs> all = listed_by_builder(set);
  if (options.all) return all;
  const Signature wanted = options.family.signature();
  std::erase_if(all, [&](const SignatureConfigs& one) { return one.signature != wanted; });
  if (all.empty()) {
    fail(Errc::unsupported,
         "{} has no list '{}' of {} {} {}; give --op, --dtype and --layout of one, or --all",
         set.builder_configs, set.family.rules, word(wanted.op), word(wanted.dtype_a), word(wanted.layout));
  }
  return all;
}

GenerateRequest request_of(const GenerateOptions& options) {
  if (!options.regenerate.empty()) {
    GenerateRequest request = regenerate_request(options);
    request.max_kernels = options.max_kernels;
    return request;
  }
  if (options.out.empty()) fail(Errc::invalid_argument, "where to? give --out FOLDER");
  GenerateRequest request{
      .family = options.family.request({}), .signatures = {}, .out = options.out, .name = options.name};
  request.max_kernels = options.max_kernels;
  emitter_of(request.family.provider);  // throws when there is none
  if (!options.trait_config.empty()) {
    const std::string& file = options.trait_config;
    request.configs = trait_configs(read_plain_text(file), file, request.family, options.trait_mode);
    request.family.rules = std::filesystem::path(file).filename().string();
    return request;
  }
  if (const SetRequest set{request.family, options.builder_configs}; set.is_builder_list()) {
    request.configs = of_builder(set, options);
    return request;
  }
  if (!options.builder_configs.empty())
    fail(Errc::invalid_argument,
         "--builder-configs: its lists are --rules profiler and --rules tests; give one");
  request.signatures =
      options.all ? family_signatures(request.family.provider) : std::vector{options.family.signature()};
  check_rules(request.family.provider, request.signatures.front().op, request.family.rules);
  check_formula(request.family.provider, request.signatures.front().op, "--filter", request.family.filter);
  return request;
}

void print_generated(const GenerateReport& report, const GenerateOptions& options) {
  if (options.format != Format::text) {
    Table table({"kernels", "configs", "left_out", "written", "unchanged", "removed"});
    table.add_row({number(as_number(report.compiled())), number(as_number(report.kernels.size())),
                   number(as_number(report.left_out.size())), number(as_number(report.written)),
                   number(as_number(report.unchanged)), number(as_number(report.removed))});
    table.print(options.format);
    return;
  }
  fmt::print("{} kernels; files: {} written, {} unchanged, {} removed\n", report.compiled(), report.written,
             report.unchanged, report.removed);
  if (report.compiled() != report.kernels.size()) fmt::print("they run {} configs\n", report.kernels.size());
  if (!report.left_out.empty()) fmt::print("{} left out (sources.json says why)\n", report.left_out.size());
}

/// What --build or --check will do.
BuildRequest build_request(const GenerateOptions& options, const GenerateRequest& of) {
  BuildRequest request = options.compiler.request(of.family.provider, of.family.device, options.check);
  request.project = of.out;
  return request;
}

/// Prints one row per kernel when checking, and the failures and warnings when building; exit code 1 when a
/// kernel failed.
void build(const GenerateOptions& options, const BuildRequest& request) {
  const BuildResult result = build_project(request);
  Table table({"kernel", "result", "message"});
  std::size_t failed = 0;
  for (const BuiltKernel& one : result.kernels) {
    failed += !one.ok;
    if (options.check || !one.ok || !one.message.empty())
      table.add_row({text(one.name), text(one.ok ? "pass" : "fail"), text(one.message)});
  }
  if (table.size() != 0 || options.format != Format::text) table.print(options.format);
  fmt::print(stderr, "{} of {} kernels {}; {:.0f} s with {} at once{}\n", result.kernels.size() - failed,
             result.kernels.size(), options.check ? "compile" : "are in the library", result.seconds,
             request.jobs,
             result.library.empty()
                 ? ""
                 : fmt::format("; {:.1f} MB",
                               1e-6 * static_cast<double>(std::filesystem::file_size(result.library))));
  if (!result.index.empty()) fmt::print("{}\n", result.index.string());
  if (failed != 0) throw CheckFailed();
}

std::filesystem::path seal(const GenerateOptions& options) {
  const bool is_folder = std::filesystem::is_directory(options.seal);
  if (options.library.empty()) {
    if (is_folder) {
      fail(Errc::invalid_argument, "--seal {}: a folder needs --library, the shared object built from it",
           options.seal);
    }
    return seal_library(options.seal, options.name, options.family.device, options.own_family);
  }
  if (!options.own_family.empty())
    fail(Errc::invalid_argument, "--own-family {}: the configs of a generated project are known",
         options.own_family);
  if (!is_folder && !is_absent(options.seal)) {
    fail(Errc::invalid_argument,
         "--library {}: only with the folder of a generated project, and --seal {} is a file",
         options.library, options.seal);
  }
  if (!options.name.empty() || options.family.device != "auto")
    fail(Errc::invalid_argument, "--name and --device: {} states both", options.seal);
  return write_library_index(options.seal, options.library, read_project(options.seal).kernels);
}

void run(const GenerateOptions& options) {
  options.compiler.refuse_unless(options.build || options.check, "--build or --check, which compile");
  if (!options.seal.empty()) {
    fmt::print("{}\n", seal(options).string());
    return;
  }
  if (options.from_template) {
    const std::string name = options.name.empty() ? "mine" : options.name;
    for (const auto& file : write_template(options.out, name, options.family.op))
      fmt::print("{}\n", file.string());
    fmt::print(
        "\nThen:\n  cc -O3 -shared -fPIC -I {0} {0}/{1}.c -o {0}/{1}.so\n  kscout generate --seal {0}/{1}.so "
        "--own-family {0}/{1}{2}\n",
        options.out, name, kFamilySuffix);
    return;
  }
  const GenerateRequest request = request_of(options);
  std::optional<BuildRequest> to_build;  // what is missing is reported before any file is written
  if (options.build || options.check) to_build = build_request(options, request);
  print_generated(generate_project(request), options);
  if (to_build) build(options, *to_build);
}

}  // namespace

void setup_generate(CLI::App& verb) {
  const auto options = std::make_shared<GenerateOptions>();
  options->family.provider = "ck_tile";
  options->family.add_to(verb);
  verb.get_option("--provider")->default_str(options->family.provider);
  auto* out = verb.add_option("--out", options->out, "folder of the project");
  auto* all = verb.add_flag("--all", options->all,
                            "generate for every op, layout and type that the families support");
  all->excludes("--epilogue");
  auto* builder = verb.add_option("--builder-configs", options->builder_configs,
                                  "a folder of CK Builder's lists, for --rules profiler and tests");
  auto* traits =
      reads_file(verb.add_option("--trait-config", options->trait_config,
                                 "instead of a rule set: a trait file of CK's instance builder (JSON)"));
  add_word_option(verb, "--trait-mode", options->trait_mode, "where --trait-config lists compv4")
      ->needs(traits);
  builder->excludes(traits)->excludes("--filter");
  for (const char* stated : {"--rules", "--op", "--dtype", "--layout", "--epilogue", "--all"})
    traits->excludes(verb.get_option(stated));
  verb.add_option("--max-kernels", options->max_kernels, "refuse to generate more kernels")
      ->capture_default_str();
  verb.add_option("--name", options->name, "of the library")->default_str("the provider's");
  auto* regenerate =
      verb.add_option("--regenerate", options->regenerate, "generate an existing folder again, with --rules");
  auto* seal =
      verb.add_option("--seal", options->seal,
                      "write the index of a kernel library: a shared object, or the folder of a generated "
                      "project with --library");
  verb.add_option("--own-family", options->own_family,
                  "with --seal: the file that declares the axes of the library's kernels; its rule set "
                  "default is listed")
      ->needs(seal);
  auto* const from_template =
      verb.add_flag("--template", options->from_template,
                    "write a kernel library of your own to begin from: a source and the family "
                    "that declares its axes (--op gemm or conv_fwd, --name mine)");
  from_template->needs(out)
      ->excludes(seal)
      ->excludes(regenerate)
      ->excludes(all)
      ->excludes(builder)
      ->excludes(traits);
  verb.add_option("--library", options->library, "with --seal FOLDER: the shared object")->needs(seal);
  seal->excludes(out)->excludes(regenerate)->excludes(all)->excludes(builder)->excludes(traits);
  for (const char* of_sources :
       {"--provider", "--rules", "--filter", "--op", "--dtype", "--layout", "--epilogue"})
    seal->excludes(verb.get_option(of_sources));
  regenerate->excludes(out)->excludes(all)->excludes(builder)->excludes(traits);
  for (const char* of_sources :
       {"--provider", "--filter", "--op", "--dtype", "--layout", "--epilogue", "--name"})
    regenerate->excludes(verb.get_option(of_sources));
  auto* build_flag = verb.add_flag("--build", options->build,
                                   "also compile and link; failed kernels are listed and left out");
  verb.add_flag("--check", options->check, "compile each source without code generation and report it")
      ->excludes(build_flag);
  options->compiler.add_to(verb);
  add_format_option(verb, options->format);
  verb.footer(
      "examples\n"
      "  kscout generate --op conv_fwd --dtype bf16 --rules tiny --device gfx942 --out kernels\n"
      "  kscout generate --all --rules full-tests --device gfx950 --out kernels --build --ck-root ck --jobs "
      "16\n"
      "  kscout generate --op conv_fwd --dtype bf16 --rules tiny --device gfx942 --out kernels --check "
      "--ck-root ck\n"
      "  kscout generate --trait-config forward_bf16.json --device gfx950 --out kernels\n"
      "  kscout generate --rules profiler --builder-configs configs --all --device gfx942 --out kernels\n"
      "  kscout generate --provider cutlass --dtype bf16 --rules tiny --device h200 --out kernels --build\n"
      "  kscout generate --template --op gemm --name mine --out mine\n\n"
      "exit status: 0 done, 1 a kernel does not compile, 2 wrong arguments, 3 nothing to generate, 4 file "
      "failure");
  verb.callback([options] { run(*options); });
}

}  // namespace kscout::cli
