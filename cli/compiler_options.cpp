#include "compiler_options.h"

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <kscout/backend.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/split.h"
#include "generate/named_kernels.h"
#include "generate/project.h"
#include "options.h"

namespace kscout::cli {

namespace {

/// Whether a program can be started: a path, or a name in a folder of PATH.
bool is_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0;
  const std::string path = environment("PATH");
  return std::ranges::any_of(split(path, ':'), [&](std::string_view folder) {
    return access((std::filesystem::path(folder) / name).c_str(), X_OK) == 0;
  });
}

/// Compiler flags besides the emitter's: include paths of the templates, and the architecture for HIP.
std::vector<std::string> flags_for(const CompilerOptions& options, const std::string& provider,
                                   const Device& device, const std::string& compiler, bool check) {
  std::vector<std::string> flags;
  if (provider == "cutlass") {
    if (check) fail(Errc::unsupported, "--check asks a compiler that nvcc is not; use --build");
    flags.push_back("-I" + find_cutlass(options.cutlass_root).string());
    return flags;
  }
  const bool hip = options.compiler.empty() || compiler.find("clang") != std::string::npos ||
                   compiler.find("hipcc") != std::string::npos;
  if (hip) flags = {"-x", "hip", "--offload-arch=" + device.arch};
  if (hip && check)
    flags.push_back("-nogpulib");  // nothing is linked, so the device's libraries need not be installed
  if (options.ck_root.empty()) return flags;
  const std::filesystem::path include = std::filesystem::path(options.ck_root) / "include";
  if (!std::filesystem::is_directory(include)) {
    fail(Errc::not_found, "--ck-root {}: there is no folder '{}'; name a checkout of Composable Kernel",
         options.ck_root, include.string());
  }
  flags.push_back("-I" + include.string());
  return flags;
}

}  // namespace

void CompilerOptions::add_to(CLI::App& verb) {
  verb.add_option("--compiler", compiler, "compiler of kernels (hipcc, nvcc; generate --check: clang++)");
  verb.add_option("--ck-root", ck_root, "a checkout of Composable Kernel");
  verb.add_option("--cutlass-root", cutlass_root,
                  "where CUTLASS is: a checkout, a folder with the wheel nvidia-cutlass")
      ->default_str("CUTLASS_PATH, else the active Python environment");
  verb.add_option("--jobs", jobs, "number of parallel compilers (0: one per core)")->capture_default_str();
}

void CompilerOptions::refuse_unless(bool compiles, std::string_view when) const {
  if (compiles) return;
  const std::pair<const char*, bool> given[] = {{"--compiler", !compiler.empty()},
                                                {"--ck-root", !ck_root.empty()},
                                                {"--cutlass-root", !cutlass_root.empty()},
                                                {"--jobs", jobs > 0}};
  for (const auto& [name, is_given] : given) {
    if (is_given) fail(Errc::invalid_argument, "{}: only with {}", name, when);
  }
}

BuildRequest CompilerOptions::request(const std::string& provider, const Device& device, bool check) const {
  BuildRequest request{.project = {}, .compiler = compiler, .flags = {}, .jobs = jobs, .check_only = check};
  if (request.compiler.empty())
    request.compiler = check ? "clang++" : std::string(emitter_of(provider).compiler);
  if (request.jobs == 0) request.jobs = std::max(1u, std::thread::hardware_concurrency());
  request.flags = flags_for(*this, provider, device, request.compiler, check);
  if (!is_program(request.compiler))
    fail(Errc::not_found, "{}: there is no such compiler; install it, or name another with --compiler",
         request.compiler);
  return request;
}

std::filesystem::path compile_here(std::vector<NamedConfig>& kernels, const CompilerOptions& options,
                                   const std::string& folder) {
  if (kernels.empty()) fail(Errc::invalid_argument, "no kernels to compile");
  const std::string provider(kernels.front().config.space->provider);
  CompileRequest request{
      .kernels = {}, .device = backend(emitter_of(provider).backend).device(), .folder = folder};
  request.build = options.request(provider, request.device, false);
  for (NamedConfig& named : kernels) {
    const NamedConfig whole = completed(named, request.device);
    if (whole != named)
      fmt::print(stderr, "kscout: {} leaves axes open: compiled as {}\n",
                 config_name(named.signature, named.config), config_name(whole.signature, whole.config));
    named = whole;
    if (std::ranges::find(request.kernels, named) == request.kernels.end()) request.kernels.push_back(named);
  }
  const std::filesystem::path index = compile_kernels(request);
  fmt::print(stderr, "kscout: compiled: {}\n", index.string());
  return index;
}

std::filesystem::path compile_rules_here(FamilyRequest rules, const std::vector<Problem>& problems,
                                         const CompilerOptions& options,
                                         const std::filesystem::path& folder) {
  constexpr std::size_t kShown = 10;
  if (problems.empty()) fail(Errc::invalid_argument, "no problems to compile kernels for");
  std::vector<Signature> signatures;
  for (const Problem& problem : problems) {
    const Signature signature = signature_of(problem);
    if (std::ranges::find(signatures, signature) == signatures.end()) signatures.push_back(signature);
  }
  for (const Signature& signature : signatures) {
    if (signature.op != signatures.front().op)
      fail(Errc::invalid_argument, "kernels of {} and of {}: compile those of one operation at a time",
           word(signatures.front().op), word(signature.op));
  }
  const std::string backend_name(emitter_of(rules.provider).backend);
  check_rules(rules.provider, signatures.front().op, rules.rules);
  check_formula(rules.provider, signatures.front().op, "--filter", rules.filter);
  rules.device = backend(backend_name).device();
  BuildRequest build = options.request(rules.provider, rules.device, false);
  build.project = folder;
  const BuildResult built = compile_rule_set(rules, signatures, "compiled", build);
  std::size_t failed = 0;
  for (const BuiltKernel& one : built.kernels) {
    if (one.ok) continue;
    if (++failed <= kShown) fmt::print(stderr, "{}: {}\n", one.name, one.message);
  }
  fmt::print(stderr, "kscout: compiled: {} of {} kernels: {}\n", built.kernels.size() - failed,
             built.kernels.size(), built.index.string());
  return built.index;
}

}  // namespace kscout::cli
