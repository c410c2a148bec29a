// `kscout sweep`: measures configs on problems.
#include "sweep/sweep.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "backend/callables/callable_backend.h"
#include "backend/library/found_libraries.h"
#include "backend/library/library_backend.h"
#include "compiler_options.h"
#include "core/device_facts.h"
#include "core/fail.h"
#include "measure/measured_backend.h"
#include "measure/timing.h"
#include "op/problem_sets.h"
#include "options.h"
#include "provider/joint.h"
#include "sweep/guided.h"
#include "sweep/journal.h"
#include "sweep/plan.h"
#include "sweep_report.h"
#include "sweep_with_progress.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

namespace fs = std::filesystem;

constexpr double kCpuMaxGflop = 2;  // measured quickly on a CPU of a few cores

struct SweepVerb {
  PlanRequest plan{.provider = "", .max_gflop = -1};
  Protocol protocol;
  std::optional<int> compile_budget_s;
  SweepOptions sweep;
  std::vector<std::string> problems;
  std::vector<Layout> layouts;
  DType dtype = DType::fp32;
  std::string out, status, shard = "1/1", worker;
  int workers = 0;  ///< 0: one per GPU, or 1 on a CPU
  std::optional<std::size_t> batch;
  bool dry_run = false;
  CkBuildFlags ck_build;
  std::string library;
  bool compile = false;
  CompilerOptions compiler;
  std::string kernels;  ///< folder of compiled kernels
  std::string remeasure;
  GuidedBy guided;
  std::optional<double> few_above_ms;
  bool seed_given = false, rounds_given = false;
  Format format = Format::text;
};

// ----------------------------------------------------------------------------------- what to measure

/// At most one worker per CPU: two on one would disturb each other's times.
void check_cpu_workers(int workers) {
  const auto cpus = static_cast<int>(allowed_cpus().size());
  if (workers > cpus)
    fail(Errc::invalid_argument, "--workers {}: this process may use {} CPU{}, and each worker needs one",
         workers, cpus, cpus == 1 ? "" : "s");
}

/// The device that each worker measures on: its share of the CPUs, where `whole` is this machine's CPU.
Device device_of_worker(const Device& whole, int workers) {
  if (workers <= 1 || whole.kind != DeviceKind::cpu || whole.name != detect_cpu().name) return whole;
  check_cpu_workers(workers);
  return detect_cpu_part(share_cpus(allowed_cpus(), workers).front());
}

/// Plans the sweep for the device of a worker. Counts the configs that only all CPUs together could run.
SweepPlan plan_for_workers(const std::vector<Problem>& problems, const PlanRequest& request,
                           const Device& whole, const SweepVerb& options) {
  const int workers = options.sweep.workers;
  const Device device = device_of_worker(whole, workers);
  SweepPlan plan = make_plan(problems, request, device, options.protocol);
  if (device.name == whole.name) return plan;
  const std::unordered_set<KernelConfig> planned(plan.configs.begin(), plan.configs.end());
  const SweepPlan all = make_plan(problems, request, whole, options.protocol);
  const auto missing = static_cast<std::size_t>(std::ranges::count_if(
      all.configs, [&](const KernelConfig& config) { return !planned.contains(config); }));
  fmt::print(stderr, "kscout sweep: {} workers: each is device {}, not {}\n", workers, device.name,
             whole.name);
  if (missing > 0)
    plan.left_out[fmt::format(
        "configs of {} that {} cannot run (--workers 1 into another folder measures them)", whole.name,
        device.name)] = missing;
  return plan;
}

/// Plans all kernels of a library; rules and filters do not apply.
SweepPlan plan_of_library(const SweepVerb& options, const std::vector<Problem>& problems) {
  if (!options.plan.filter.empty())
    fail(Errc::invalid_argument, "--filter: a library is measured whole; leave it out, or --max-configs");
  LibraryBackend library(read_library_index(options.library));
  PlanRequest request = library_request(library);
  request.max_configs = options.plan.max_configs;
  request.max_problems = options.plan.max_problems;
  request.max_gflop = std::max(options.plan.max_gflop, 0.0);
  request.seed = options.plan.seed;
  return plan_for_workers(merge_equal(problems), request, library.device(), options);
}

/// Plans the contenders of an earlier sweep, with its protocol and its backend or library.
SweepPlan plan_of_contenders(const SweepVerb& options, const SweepState& before) {
  std::optional<LibraryBackend> library;
  if (!options.library.empty()) library.emplace(read_library_index(options.library));
  if (library && library_request(*library).rules != before.plan.rules) {
    fail(Errc::invalid_argument,
         "--remeasure {}: it measured {}, and {} is {}: sweep the new build separately", options.remeasure,
         before.plan.rules, options.library, library_request(*library).rules);
  }
  Backend& backend = library ? *library : kscout::backend(options.plan.backend);
  SweepPlan plan = remeasure_contenders(before, device_of_worker(backend.device(), options.sweep.workers));
  if (options.seed_given) plan.seed = options.plan.seed;
  if (options.rounds_given) plan.protocol.rounds = options.protocol.rounds;
  if (!library) plan.provenance.merge(backend.versions());
  return plan;
}

/// The problems of --problems. Without --max-gflop, sets have a default limit on a CPU. The problems of a
/// file are the user's own and have none.
std::vector<Problem> problems_to_sweep(const SweepVerb& options, const Device& device,
                                       LeftOutCounts& left_out) {
  const bool limited = options.plan.max_gflop < 0 && device.kind == DeviceKind::cpu;
  std::vector<Problem> problems;
  for (const std::string& source : options.problems) {
    auto some = all_problems_of({source}, options.dtype, options.layouts);
    if (limited && problem_file(source).empty())
      leave_out_larger(
          some, kCpuMaxGflop,
          fmt::format("problems of sets above {} GFLOP, the default on a CPU (--max-gflop 0: no limit)",
                      kCpuMaxGflop),
          left_out);
    problems.insert(problems.end(), some.begin(), some.end());
  }
  return problems;
}

/// Throws unsupported when none of the planned kernels of a joint family's member is here.
void check_members(const SweepPlan& plan, Backend& backend) {
  std::map<std::int32_t, std::string> missing;  // by the value of axis `by`; empty: some kernel is here
  for (std::size_t p = 0; p < plan.problems.size(); ++p) {
    const Signature signature = signature_of(plan.problems[p]);
    for (const std::uint32_t candidate : plan.candidates[p]) {
      const KernelConfig& config = plan.configs[candidate];
      const auto known = missing.find(config[0]);
      if (known != missing.end() && known->second.empty()) continue;
      missing[config[0]] = backend.absence(signature, config);
    }
  }
  for (const auto& [by, why] : missing) {
    if (!why.empty()) fail(Errc::unsupported, "provider {}: {}", plan.provider, why);
  }
}

/// Plans the sweep of problems of one op.
SweepPlan plan_of(const SweepVerb& options, const std::vector<Problem>& problems, PlanRequest request,
                  Backend& backend) {
  const Op op = problems.front().op();
  if (request.provider.empty()) request.provider = backend.provider_for(op);
  request.max_gflop = std::max(request.max_gflop, 0.0);
  check_formula(request.provider, op, "--filter", request.filter);
  check_formula(request.provider, op, "--also", options.guided.also);
  GuidedBy by = options.guided;
  if (options.few_above_ms) {
    by = few_above(1e3 * *options.few_above_ms, op, signature_of(problems.front()).dtype_a, request.provider,
                   backend.device());
    if (!options.guided.model.empty()) by.model = options.guided.model;
  }
  if (options.few_above_ms || !by.model.empty()) request.narrow = guided_by(by, request, backend.device());
  SweepPlan plan = plan_for_workers(merge_equal(problems), request, backend.device(), options);
  plan.provenance.merge(backend.versions());
  name_suggestions(plan, backend);
  if (joint_provider(plan.provider)) {
    check_members(plan, backend);
    plan.provenance.merge(FoundLibraries::of(backend.name()).versions());
  }
  return plan;
}

/// One plan per op, in the order of first appearance.
std::vector<SweepPlan> plans_of(const SweepVerb& options) {
  if (options.problems.empty())
    fail(Errc::invalid_argument, "which problems? give --problems SET or FILE (sets: kscout problems)");
  if (!options.library.empty())
    return {plan_of_library(options, any_problems_of(options.problems, options.dtype, options.layouts))};
  Backend& backend = kscout::backend(options.plan.backend);
  PlanRequest request = options.plan;
  const auto problems = problems_to_sweep(options, backend.device(), request.left_out);
  if (problems.empty())
    fail(Errc::not_found, "no problem is left to measure{}{}",
         request.left_out.empty() ? "" : "; left out: ", left_out_text(request.left_out));
  std::vector<std::vector<Problem>> by_op;
  for (const Problem& problem : problems) {
    const auto same = [&](const auto& some) { return some.front().op() == problem.op(); };
    const auto known = std::ranges::find_if(by_op, same);
    if (known == by_op.end()) {
      by_op.push_back({problem});
    } else {
      known->push_back(problem);
    }
  }
  std::vector<SweepPlan> plans;
  for (const auto& some : by_op) {
    plans.push_back(plan_of(options, some, request, backend));
    request.left_out.clear();  // stated once
  }
  return plans;
}

/// Compiles the kernels that --provider, --rules and --filter name into the library to be measured.
void compile_library(SweepVerb& options) {
  if (options.problems.empty() || options.out.empty())
    fail(Errc::invalid_argument, "--compile: needs --problems SET or FILE, and --out DIR");
  FamilyRequest rules{.provider = options.plan.provider.empty() ? "ck_tile" : options.plan.provider,
                      .signature = {},
                      .device = {},
                      .rules = options.plan.rules,
                      .filter = std::exchange(options.plan.filter, {})};
  const fs::path folder = options.kernels.empty() ? options.out + ".kernels" : options.kernels;
  const auto problems = any_problems_of(options.problems, options.dtype, options.layouts);
  options.library = compile_rules_here(std::move(rules), problems, options.compiler, folder).string();
}

/// One worker per GPU: two on one would disturb each other's times, too.
int workers_of(const SweepVerb& options) {
  const std::string where =
      options.library.empty() ? options.plan.backend : read_library_index(options.library).backend;
  const bool callables = where.starts_with(kCallablesPrefix);  // of one process
  if (callables && options.workers > 1)
    fail(Errc::invalid_argument, "--workers {}: callables run in one process; leave it out", options.workers);
  if (callables || options.dry_run) return std::max(options.workers, 1);
  MeasuredBackend* const measured = measured_backend(where);
  if (!measured) return std::max(options.workers, 1);
  const int gpus = measured->devices();
  if (options.workers > gpus)
    fail(Errc::invalid_argument, "--workers {}: {} GPU{} here, and each worker needs one", options.workers,
         gpus, gpus == 1 ? " is" : "s are");
  return options.workers > 0 ? options.workers : gpus;
}

void read_shard(const std::string& text, SweepOptions& sweep) {
  int used = 0;
  if (std::sscanf(text.c_str(), "%d/%d%n", &sweep.shard, &sweep.shards, &used) != 2 ||
      text.size() != static_cast<std::size_t>(used) || sweep.shard < 1 || sweep.shard > sweep.shards) {
    fail(Errc::invalid_argument, "--shard {}: write i/n with i from 1 to n, e.g. 2/4", text);
  }
}

void print_dry_run(const std::vector<SweepPlan>& plans, const SweepVerb& options) {
  std::vector<std::string> columns = {"problems", "configs", "measurements", "estimate_s"};
  if (plans.size() > 1) columns.insert(columns.begin(), "op");
  if (options.format != Format::text) columns.emplace_back("plan_left_out");
  Table table(std::move(columns));
  LeftOutCounts all_left_out;
  for (const SweepPlan& plan : plans) {
    double work_s = 0;
    std::size_t pairs = 0;
    const auto order = measuring_order(plan, options.sweep.shard, options.sweep.shards);
    for (const auto problem : order) {
      work_s += estimate_seconds(plan, problem);
      pairs += plan.candidates[problem].size();
    }
    std::vector<Cell> cells = {number(static_cast<std::int64_t>(order.size())),
                               number(static_cast<std::int64_t>(plan.configs.size())),
                               number(static_cast<std::int64_t>(pairs)),
                               number(work_s / options.sweep.workers, 3)};
    if (plans.size() > 1) cells.insert(cells.begin(), text(word(plan.op)));
    if (options.format != Format::text) cells.push_back(text(left_out_text(plan.left_out)));
    for (const auto& [what, count] : plan.left_out) all_left_out[what] += count;
    table.add_row(std::move(cells));
  }
  table.print(options.format);
  if (options.format == Format::text && !all_left_out.empty())
    fmt::print("left out: {}\n", left_out_text(all_left_out));
}

// ----------------------------------------------------------------------------------- several operations

/// A sweep in a folder of its own. With several operations, each has a folder named by its op below --out.
struct Part {
  std::string op;  ///< empty: the only one
  fs::path folder;
};

/// The parts of a folder that a sweep wrote; the folder itself where it holds one operation or none.
std::vector<Part> parts_in(const fs::path& folder) {
  if (fs::exists(folder / kManifestName)) return {{"", folder}};
  std::vector<Part> parts;
  for (const std::string_view op : EnumWords<Op>::words) {
    if (fs::exists(folder / op / kManifestName)) parts.push_back({std::string(op), folder / op});
  }
  return parts.empty() ? std::vector<Part>{{"", folder}} : parts;
}

/// The folders of the plans. Throws invalid_argument where --out holds one operation and gets several, or the
/// other way round.
std::vector<Part> parts_for(const std::vector<SweepPlan>& plans, const fs::path& out) {
  const auto there = parts_in(out);
  if (plans.size() == 1) {
    if (there.front().op.empty()) return {{"", out}};
    fail(Errc::invalid_argument,
         "--out {}: holds a sweep of several operations, and --problems are of {} only; name another folder, "
         "or {}",
         out.string(), word(plans.front().op), (out / word(plans.front().op)).string());
  }
  if (fs::exists(out / kManifestName))
    fail(Errc::invalid_argument,
         "--out {}: holds a sweep of one operation, and --problems are of {}; name another folder",
         out.string(), plans.size());
  std::vector<Part> parts;
  for (const SweepPlan& plan : plans) parts.push_back({std::string(word(plan.op)), out / word(plan.op)});
  return parts;
}

/// Estimated seconds of what a folder lacks.
double seconds_left(const SweepPlan& plan, const fs::path& folder) {
  double work_s = 0;
  for (std::size_t problem = 0; problem < plan.problems.size(); ++problem)
    work_s += estimate_seconds(plan, problem);
  if (!fs::exists(folder / kManifestName)) return work_s;
  const SweepStatus status = sweep_status(folder);
  return work_s * (1 - static_cast<double>(status.problems_done) /
                           static_cast<double>(std::max<std::size_t>(status.problems, 1)));
}

void print_parts(const std::vector<Part>& parts, const std::vector<SweepReport>& reports, Format format) {
  const auto report = [&](std::size_t i) { return i < reports.size() ? &reports[i] : nullptr; };
  if (parts.size() == 1 && parts.front().op.empty())
    return print_status(sweep_status(parts.front().folder), report(0), format);
  Json all = Json::object();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const SweepStatus status = sweep_status(parts[i].folder);
    if (format == Format::json) {
      all[parts[i].op] = status_json(status, report(i));
      continue;
    }
    fmt::print("{}{} in {}\n\n", i > 0 ? "\n" : "", parts[i].op, parts[i].folder.string());
    print_status(status, report(i), format);
  }
  if (format == Format::json) print_json(all);
}

/// Sweeps part after part; each gets the share of the budget that its work has of what is left.
std::vector<SweepReport> measure(const std::vector<SweepPlan>& plans, const std::vector<Part>& parts,
                                 SweepVerb& options) {
  options.sweep.batch = options.batch.value_or(options.library.empty() ? 0 : kLibraryBatch);
  options.sweep.worker = options.worker.empty() ? default_worker() : fs::path(options.worker);
  std::vector<double> left_s;
  for (std::size_t i = 0; i < plans.size(); ++i) left_s.push_back(seconds_left(plans[i], parts[i].folder));
  const std::int64_t begin = now_ns();
  std::vector<SweepReport> reports;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    SweepOptions sweep = options.sweep;
    sweep.folder = parts[i].folder;
    if (plans.size() > 1) {
      fs::create_directories(sweep.folder);
      fmt::print(stderr, "kscout sweep: {}\n", parts[i].op);
    }
    if (plans.size() > 1 && std::isfinite(sweep.budget_s)) {
      const double all_s =
          std::accumulate(left_s.begin() + static_cast<std::ptrdiff_t>(i), left_s.end(), 0.0);
      const double rest_s = options.sweep.budget_s - 1e-9 * static_cast<double>(now_ns() - begin);
      sweep.budget_s = std::max(1e-3, all_s > 0 ? rest_s * left_s[i] / all_s : rest_s);
    }
    reports.push_back(sweep_with_progress(plans[i], sweep, "sweep"));
    if (const std::string busy = busy_text(reports.back().load);
        plans[i].device.kind == DeviceKind::cpu && !busy.empty())
      fmt::print(
          stderr,
          "kscout sweep: warning: the times are of a busy machine: {}, then measure again into another "
          "--out\n",
          busy);
    if (reports.back().ended == "interrupted") break;
  }
  return reports;
}

void check_compile_budget(SweepVerb& options, const std::vector<SweepPlan>& plans) {
  if (!options.compile_budget_s) return;
  const auto compiled = [](const SweepPlan& plan) {
    MeasuredBackend* const measured = measured_backend(plan.backend);
    return measured && measured->prepares_ahead(plan.provider);
  };
  if (!options.library.empty() || std::ranges::none_of(plans, compiled))
    fail(Errc::invalid_argument, "--compile-budget: configs of {} are not compiled at run time; leave it out",
         plans.front().provider);
  options.sweep.compile_budget_s = *options.compile_budget_s;
}

void run(SweepVerb& options) {
  if (!options.ck_build.folder.empty()) throw NeedsLab{};
  if (!options.status.empty()) return print_parts(parts_in(options.status), {}, options.format);
  read_shard(options.shard, options.sweep);
  options.compiler.refuse_unless(options.compile, "--compile; --jobs also with --ck-build");
  if (options.compile) compile_library(options);
  std::optional<SweepState> before;
  if (!options.remeasure.empty()) {
    before = read_state(options.remeasure);
    options.plan.backend = before->plan.backend;
    if (options.plan.backend.starts_with(kLibraryPrefix))
      options.library = options.plan.backend.substr(kLibraryPrefix.size());
  }
  options.sweep.workers = std::max(options.workers, 1);
  const std::vector<SweepPlan> plans =
      before ? std::vector{plan_of_contenders(options, *before)} : plans_of(options);
  check_compile_budget(options, plans);
  options.sweep.workers = workers_of(options);
  if (options.dry_run) return print_dry_run(plans, options);
  if (options.out.empty())
    fail(Errc::invalid_argument, "where to? give --out DIR (a folder, made if absent)");

  const std::vector<Part> parts = parts_for(plans, options.out);
  const std::vector<SweepReport> reports = measure(plans, parts, options);
  const std::vector<Part> begun(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(reports.size()));
  print_parts(begun, reports, options.format);
  const auto ended = [&](std::string_view how) {
    return std::ranges::find(reports, how, &SweepReport::ended) != reports.end();
  };
  if (ended("budget") || ended("interrupted")) {
    fmt::print(stderr, "kscout sweep: ended by {}; the same command continues\n",
               ended("interrupted") ? "a signal" : "its budget");
  }
  std::fflush(stdout);
  if (ended("interrupted")) end_by_signal();
  for (const Part& part : begun) {
    if (sweep_status(part.folder).defects() > 0) throw CheckFailed{};
  }
}

}  // namespace

void setup_sweep(CLI::App& verb) {
  auto options = std::make_shared<SweepVerb>();
  verb.add_option("--problems", options->problems,
                  "a problem set (kscout problems) or a file of problems; repeatable");
  add_word_option(verb, "--dtype", options->dtype, "element type, for sets");
  add_layouts_option(verb, options->layouts);
  verb.add_option("--out", options->out,
                  "folder of the sweep, with several operations one folder for each in it; a second run with "
                  "the same arguments continues it");
  CLI::Option* const remeasure =
      verb.add_option("--remeasure", options->remeasure,
                      "measure the contenders of the sweep in this folder again, with its protocol except "
                      "--rounds and --seed (default: its seed + 1; give several such sweeps different "
                      "seeds); then: kscout dataset merge --keep mean");
  verb.add_option("--backend", options->plan.backend,
                  "backend that runs the kernels: cpu or cuda (hip: --library)")
      ->capture_default_str();
  verb.add_option("--provider", options->plan.provider, "provider of the kernels")
      ->default_str("the backend's");
  verb.add_option("--rules", options->plan.rules, "rule set, or FILE.toml[:SET]")->capture_default_str();
  verb.add_option("--filter", options->plan.filter, "keep configs for which this formula holds");
  verb.add_option("--max-configs", options->plan.max_configs,
                  "max configs per problem, evenly spaced in the family; 0 = all")
      ->capture_default_str();
  auto* const model = verb.add_option("--model", options->guided.model,
                                      "measure only what this model expects to be fast: for a model of more "
                                      "problems, or a table of the best configs");
  verb.add_option("--top", options->guided.top, "--model: configs per problem, the fastest by the model")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000))
      ->needs(model);
  verb.add_option("--also", options->guided.also,
                  "--model: configs for which this formula holds are measured besides")
      ->needs(model);
  verb.add_option(
          "--few-above", options->few_above_ms,
          "of problems whose calls are expected to take longer, in ms, measure a few configs only: the "
          "fastest by the device's model (or --model) and by the analytic cost, and some drawn ones")
      ->check(not_negative(), "NONNEGATIVE");
  verb.add_option("--max-problems", options->plan.max_problems, "max problems, drawn by the seed; 0 = all")
      ->capture_default_str();
  verb.add_option("--max-gflop", options->plan.max_gflop,
                  "leave problems of more operations out, in 10^9; 0 = none")
      ->default_str("2 for sets on a CPU, else 0")
      ->check(not_negative(), "NONNEGATIVE");
  verb.add_option("--seed", options->plan.seed, "seed of operands and of the order of problems and configs")
      ->capture_default_str();

  Protocol& protocol = options->protocol;
  add_word_option(verb, "--cache", protocol.cache, "caches before each run");
  verb.add_option("--warmup", protocol.warmup, "untimed calls per config, besides the verified one")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  verb.add_option("--repeat", protocol.repeat,
                  "samples per config, and no second pass; 0 = one, and a second pass")
      ->capture_default_str()
      ->check(CLI::Range(0, 100000));
  verb.add_option("--contenders", protocol.contenders,
                  "max configs in the rounds of the second pass; 0 = no second pass")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  verb.add_option("--rounds", protocol.rounds, "interleaved samples of each contender")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));

  SweepOptions& sweep = options->sweep;
  verb.add_option("--budget", sweep.budget_s, "seconds after which to stop; the same command continues")
      ->default_str("none")
      ->check(above_zero(), "POSITIVE");
  verb.add_option("--timeout", sweep.item_limit_s, "seconds that one config may take")
      ->capture_default_str()
      ->check(above_zero(), "POSITIVE");
  verb.add_option("--compile-budget", options->compile_budget_s,
                  "seconds for building the kernels of one problem, for configs that cuDNN compiles at run "
                  "time; what is not built by then is left out")
      ->default_str(std::to_string(sweep.compile_budget_s))
      ->check(CLI::Range(0, 3600));
  verb.add_option(
          "--workers", options->workers,
          "processes that measure, each on a GPU of its own, or on its share of the CPUs: that share is "
          "then the device (4 CPUs and 2 workers: a device of 2 cores)")
      ->default_str("1, or one per GPU")
      ->check(CLI::Range(1, 26));
  verb.add_option("--batch", options->batch,
                  "configs that one process measures before a new one takes its place; 0 = no limit")
      ->default_str("20 for a library, else 0");
  verb.add_option("--shard", options->shard,
                  "measure part i of n of the problems, e.g. 2/4; one folder may hold all parts")
      ->capture_default_str();
  options->ck_build.add_to(verb);
  verb.add_option("--library", options->library,
                  "measure the kernels of a library, by its index file, instead of a backend's own")
      ->excludes(model);
  auto* const compile =
      verb.add_flag("--compile", options->compile,
                    "generate and compile the kernels of --provider (ck_tile, cutlass), --rules and --filter "
                    "for this machine's GPU, then measure them; kernels that do not compile are listed")
          ->excludes("--library")
          ->excludes("--backend");
  verb.add_option("--kernels", options->kernels, "--compile: folder of the kernels' sources and library")
      ->default_str("that of --out with .kernels")
      ->needs(compile);
  options->compiler.add_to(verb);
  for (const char* const name : {"--problems", "--dtype", "--layout", "--backend", "--provider", "--rules",
                                 "--filter", "--max-configs", "--max-problems", "--max-gflop", "--cache",
                                 "--warmup", "--repeat", "--contenders", "--library", "--compile", "--model"})
    remeasure->excludes(verb.get_option(name));
  verb.add_flag("--dry-run", options->dry_run, "print what would be measured and an estimate of the time")
      ->excludes(compile);
  verb.add_option("--status", options->status, "print what a sweep's folder holds, and exit");
  verb.add_option("--worker", options->worker)->group("");  // hidden; tests pass their own worker
  add_format_option(verb, options->format);
  verb.footer(
      "Measures every config of a family on every problem in two passes: each is verified and timed once; "
      "then the fastest\n"
      "are timed in rounds of random order, and changes of the machine's speed are corrected. Rows\n"
      "are kept at once in DIR/journal.log; kscout dataset turns the folder into Parquet.\n"
      "\n"
      "examples\n"
      "  kscout sweep --problems llm --layout rcr,rrr --rules default --out sweep --budget 600\n"
      "  kscout sweep --problems my_shapes.csv --rules tiny --out sweep --dry-run\n"
      "  kscout sweep --backend cuda --problems llm --dtype bf16 --cache cold --rules h200.toml --out sweep\n"
      "  kscout sweep --remeasure sweep --seed 5 --out sweep2\n"
      "  kscout sweep --library ck.kscout-library.json --problems convs.csv --cache cold --out sweep\n"
      "  kscout sweep --compile --ck-root ck --rules tiny --problems convs.csv --cache cold --out sweep\n"
      "  kscout sweep --status sweep\n"
      "\n"
      "exit status: 0 done or out of budget, 1 done but some rows are wrong, crashed or timeout, 2 wrong "
      "arguments,\n"
      "3 the backend is not on this machine, 4 file or worker failure, 130 / 143 ended by Ctrl-C / "
      "termination");
  verb.callback([options, &verb] {
    for (const CLI::Option* one : verb.get_options()) {
      const std::string name = one->get_name();
      if (!options->status.empty() && one->count() > 0 && name != "--status" && name != "--format")
        fail(Errc::invalid_argument, "{}: --status only reads what is there; leave it out", name);
    }
    options->seed_given = verb.count("--seed") > 0;
    options->rounds_given = verb.count("--rounds") > 0;
    run(*options);
  });
}

}  // namespace kscout::cli
