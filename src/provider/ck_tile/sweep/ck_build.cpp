#include "provider/ck_tile/sweep/ck_build.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "core/process.h"
#include "core/split.h"
#include "family/family_file.h"
#include "sweep/journal.h"
#include "sweep/plan.h"

namespace kscout {

namespace {

namespace fs = std::filesystem;
constexpr const char* kRuns = "runs.jsonl";
constexpr const char* kBuildLog = "build.log";
/// Beginnings of the reasons of rows that no program measured.
constexpr std::string_view kAbsent = "the build has no ", kNotBuilt = "not built: ";
constexpr std::string_view kPrefix = "benchmark_";

std::string stem_of(const CkBuild& build) {
  return fmt::format("gemm_universal_{}_{}_", word(build.dtype), word(build.layout));
}

CkKernel kernel_of(const CkBuild& build, const std::string& name) {
  try {
    return {name, build.folder / "bin" / (std::string(kPrefix) + name), parse_kernel_to_run(name)};
  } catch (const Error& error) {
    fail(Errc::corrupt_data, "{}: kernel '{}' cannot be read: {}", build.folder.string(), name, error.what());
  }
}

std::vector<std::string> listed_names(const fs::path& list) {
  std::vector<std::string> names;
  const std::string text = read_plain_text(list);
  for (std::string_view line : split(text, '\n')) {
    line = line.substr(0, line.find_first_of(" \t\r,|"));
    if (line.starts_with(kPrefix)) line.remove_prefix(kPrefix.size());
    if (!line.empty() && line.front() != '#') names.emplace_back(line);
  }
  return names;
}

/// Results that earlier calls recorded, by kernel and sizes.
using RunKey = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>;

/// Reads runs.jsonl. Cuts off an incomplete last line, such as a killed process leaves.
std::map<RunKey, CkResult> read_runs(const fs::path& file) {
  std::map<RunKey, CkResult> runs;
  if (is_absent(file)) return runs;
  const std::string text = read_plain_text(file);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) {
      fs::resize_file(file, begin);
      break;
    }
    const Json line = Json::parse(text.substr(begin, end - begin), nullptr, /*allow_exceptions=*/false);
    begin = end + 1;
    try {
      const auto& time = line.at("time_us");
      const RunKey key(line.at("kernel").get<std::string>(), line.at("m").get<std::int64_t>(),
                       line.at("n").get<std::int64_t>(), line.at("k").get<std::int64_t>());
      runs[key] = {parse<Status>(line.at("status").get<std::string>()),
                   time.is_null() ? Measurement::unknown : time.get<double>(),
                   line.at("reason").get<std::string>()};
    } catch (const std::exception& error) {
      fail(Errc::corrupt_data, "{}: line {} is damaged ({}); remove it to measure it again", file.string(),
           number + 1, error.what());
    }
  }
  return runs;
}

std::string run_line(const CkKernel& kernel, const ImplicitGemm& p, const CkResult& result) {
  const Json line = {{"kernel", kernel.name},
                     {"m", p.m},
                     {"n", p.n},
                     {"k", p.k},
                     {"status", word(result.status)},
                     {"time_us", std::isfinite(result.time_us) ? Json(result.time_us) : Json(nullptr)},
                     {"reason", result.reason}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool says_verification_failed(std::string_view output) {
  std::string text(output);
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (std::size_t at = 0; (at = text.find("verif", at)) != std::string::npos; ++at) {
    const std::string_view line = std::string_view(text).substr(at, text.find('\n', at) - at);
    if (line.find("fail") != line.npos || line.find("incorrect") != line.npos ||
        line.find("mismatch") != line.npos)
      return true;
  }
  return false;
}

CkResult run_kernel(const CkKernel& kernel, const Problem& problem, const CkSweepOptions& options) {
  if (is_absent(kernel.program))
    return {Status::unsupported, Measurement::unknown,
            kernel.not_built.empty() ? std::string(kAbsent) + kernel.program.filename().string()
                                     : std::string(kNotBuilt) + kernel.not_built};
  const ImplicitGemm p = product_of(problem);
  const ProgramResult ran =
      run_program({kernel.program.string(), fmt::format("-m={}", p.m), fmt::format("-n={}", p.n),
                   fmt::format("-k={}", p.k), fmt::format("-warmup={}", options.warmup),
                   fmt::format("-repeat={}", options.repeat),
                   fmt::format("-verify={}", options.verify ? 1 : 0), "-json_output=true"},
                  options.limit_s);
  if (ran.timed_out)
    return {Status::timeout, Measurement::unknown, fmt::format("did not end in {} s", options.limit_s)};
  if (ran.signal != 0) return {Status::crashed, Measurement::unknown, ran.ending()};
  if (says_verification_failed(ran.output))
    return {Status::wrong, Measurement::unknown, "its own verification failed"};
  if (ran.exit_code != 0) return {Status::unsupported, Measurement::unknown, ran.ending()};
  return read_ck_output(ran.output, problem);
}

/// Whether a recorded row still stands: not that of a program that was missing and is there now.
bool stands(const CkResult& recorded, const CkKernel& kernel) {
  const bool unbuilt = recorded.reason.starts_with(kAbsent) || recorded.reason.starts_with(kNotBuilt);
  return !unbuilt || is_absent(kernel.program);
}

/// The targets of a build folder, from lines "name: rule".
std::set<std::string> targets_in(const fs::path& folder, const fs::path& log) {
  const ProgramResult listed = run_logged({"ninja", "-C", folder.string(), "-t", "targets", "all"}, log);
  const std::string text = read_plain_text(log);
  if (!listed.ended_well())
    fail(Errc::not_found, "--ck-build {}: ninja cannot read its targets ({}): {}", folder.string(),
         listed.ending(), text.substr(0, text.find('\n')));
  std::set<std::string> targets;
  for (const std::string_view line : split(text, '\n')) targets.emplace(line.substr(0, line.find(':')));
  return targets;
}

/// The first line with "error" of the failed step that names the target, else the step's first line; empty
/// where no step of it failed.
std::string first_error(std::string_view log, std::string_view target) {
  const auto names = [&](std::string_view line) {
    const std::size_t at = line.find(target);
    const std::size_t end = at + target.size();
    return at != line.npos &&
           (end == line.size() ||
            (std::isalnum(static_cast<unsigned char>(line[end])) == 0 && line[end] != '_'));
  };
  bool inside = false, command = false;
  std::string first;
  for (const std::string_view line : split(log, '\n')) {
    if (line.starts_with("FAILED:")) {
      if (!first.empty()) return first;
      inside = command = names(line);
    } else if (line.starts_with("[") || line.starts_with("ninja: ")) {
      inside = false;
    } else if (inside && std::exchange(command, false)) {  // the command comes first
      continue;
    } else if (inside && line.find("error") != line.npos) {
      return std::string(line);
    } else if (inside && first.empty()) {
      first = line;
    }
  }
  return first;
}

bool fits(const CkKernel& kernel, const Problem& problem) {
  Signature asked = signature_of(problem);
  asked.accumulate = kernel.named.signature.accumulate;
  return kernel.named.signature == asked;
}

}  // namespace

std::vector<CkKernel> find_ck_kernels(const CkBuild& build) {
  const fs::path list = build.folder / "tile_engine" / "ops" / "gemm" / "gemm_universal" / word(build.dtype) /
                        word(build.layout) / "gemm_universal_kernel_list.txt";
  std::vector<std::string> names;
  if (!is_absent(list)) {
    names = listed_names(list);
  } else {
    const std::string prefix = std::string(kPrefix) + stem_of(build);
    std::error_code absent;
    for (const auto& entry : fs::directory_iterator(build.folder / "bin", absent)) {
      const std::string name = entry.path().filename().string();
      const bool runs = (entry.status(absent).permissions() & fs::perms::owner_exec) != fs::perms::none;
      if (runs && name.starts_with(prefix)) names.push_back(name.substr(kPrefix.size()));
    }
    std::ranges::sort(names);
  }
  if (names.empty()) {
    fail(Errc::not_found, "{}: no kernels of {} {}: neither {} nor bin/{}{}*", build.folder.string(),
         word(build.dtype), word(build.layout), list.string(), kPrefix, stem_of(build));
  }
  std::vector<CkKernel> kernels;
  for (const std::string& name : names) kernels.push_back(kernel_of(build, name));
  return kernels;
}

CkResult read_ck_output(std::string_view output, ProblemRef problem) {
  const std::size_t first = output.find('{'), last = output.rfind('}');
  const Json json = first < last && last != output.npos ? Json::parse(output.substr(first, last - first + 1),
                                                                      nullptr, /*allow_exceptions=*/false)
                                                        : Json(Json::value_t::discarded);
  if (json.is_discarded() || !json.is_object())
    return {Status::unsupported, Measurement::unknown, "it printed no JSON"};
  try {
    const Json about = json.value("problem", Json::object());
    const ImplicitGemm p = product_of(problem);
    const std::pair<const char*, std::int64_t> sizes[] = {{"m", p.m}, {"n", p.n}, {"k", p.k}};
    for (const auto& [name, asked] : sizes) {
      if (about.value(name, asked) != asked)
        return {Status::unsupported, Measurement::unknown, fmt::format("it answered for another {}", name)};
    }
    const Json& perf = json.at("perf_result");
    const double ms = perf.at("latency(ms)"), tflops = perf.at("tflops(TFlops)");
    if (!(ms > 0) || !(tflops > 0))
      return {Status::unsupported, Measurement::unknown,
              fmt::format("{} ms and {} TFLOPS are no result", ms, tflops)};
    return {Status::ok, 1000 * ms, ""};
  } catch (const Json::exception&) {
    return {Status::unsupported, Measurement::unknown,
            "its JSON has no perf_result with latency(ms) and tflops(TFlops)"};
  }
}

std::size_t build_ck_kernels(const fs::path& folder, std::vector<CkKernel>& kernels, unsigned jobs,
                             const fs::path& log) {
  if (is_absent(folder / "build.ninja"))
    fail(Errc::not_found,
         "--ck-build {}: there is no build.ninja to build with: configure CK with cmake -G Ninja",
         folder.string());
  const std::set<std::string> targets = targets_in(folder, log);
  if (jobs == 0) jobs = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::string> command = {"ninja", "-C", folder.string(), "-k", "0", "-j", std::to_string(jobs)};
  std::vector<CkKernel*> asked;
  for (CkKernel& kernel : kernels) {
    if (!is_absent(kernel.program)) continue;
    const std::string target = std::string(kPrefix) + kernel.name;
    if (!targets.contains(target)) {
      kernel.not_built = fmt::format("the build has no target {}", target);
      continue;
    }
    command.push_back(target);
    asked.push_back(&kernel);
  }
  if (asked.empty()) return 0;
  const ProgramResult ended = run_logged(command, log);
  const std::string text = read_plain_text(log);
  std::size_t built = 0;
  for (CkKernel* const kernel : asked) {
    if (!is_absent(kernel->program)) {
      ++built;
      continue;
    }
    const std::string error = first_error(text, std::string(kPrefix) + kernel->name);
    kernel->not_built = !error.empty()       ? error
                        : ended.ended_well() ? fmt::format("ninja made no {}", kernel->program.string())
                                             : fmt::format("ninja: {}", ended.ending());
    kernel->not_built += fmt::format(" (ninja's output: {})", log.string());
  }
  return built;
}

CkSweepReport sweep_ck_build(std::vector<CkKernel> kernels, const std::vector<Problem>& problems,
                             const CkSweepOptions& options) {
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) fail(Errc::device_failure, "{}: cannot be made ({})", options.out.string(), error.message());
  const fs::path file = options.out / kRuns;
  if (is_absent(file)) check_new_sweep_folder(options.out, [](const auto&) { return false; });
  const auto known = read_runs(file);
  std::ofstream log(file, std::ios::app);

  CkSweepReport report;
  if (options.jobs)
    report.built = build_ck_kernels(options.build, kernels, *options.jobs, options.out / kBuildLog);
  report.table.device = options.device;
  report.table.metadata = {{"rules", std::string(kMeasuredRules)},
                           {"measured_by", "CK Tile benchmark executables"},
                           {"protocol.warmup", std::to_string(options.warmup)},
                           {"protocol.repeat", std::to_string(options.repeat)}};
  // Names that run as one config share a row, the fastest (pipeline mem pads whatever its flags say).
  std::unordered_map<KernelConfig, std::uint32_t> index;
  for (const CkKernel& kernel : kernels) {
    const auto next = static_cast<std::uint32_t>(report.table.configs.size());
    if (index.emplace(kernel.named.config, next).second) report.table.configs.push_back(kernel.named.config);
  }
  std::size_t done = 0, all = 0;
  for (const Problem& problem : problems) {
    const auto count = static_cast<std::size_t>(
        std::ranges::count_if(kernels, [&](const CkKernel& k) { return fits(k, problem); }));
    all += count;
    report.problems_without_kernel += count == 0;
  }
  for (const Problem& problem : problems) {
    const auto p = static_cast<std::uint32_t>(report.table.problems.size());
    report.table.problems.push_back(problem);
    const ImplicitGemm sizes = product_of(problem);
    std::map<std::uint32_t, Measurement> rows;
    for (const CkKernel& kernel : kernels) {
      if (!fits(kernel, problem)) continue;
      const auto found = known.find({kernel.name, sizes.m, sizes.n, sizes.k});
      const bool kept = found != known.end() && stands(found->second, kernel);
      const CkResult result = kept ? found->second : run_kernel(kernel, problem, options);
      if (kept) {
        ++report.kept;
      } else {
        ++report.ran;
        log << run_line(kernel, sizes, result) << std::flush;
        if (!log) fail(Errc::device_failure, "{}: cannot be written; is the disk full?", file.string());
      }
      if (result.status != Status::ok)
        report.failures.push_back(
            fmt::format("{} on {}: {}: {}", kernel.name, print(problem), word(result.status), result.reason));
      const Measurement measured{
          .status = result.status, .time_us = result.time_us, .repeats = options.repeat};
      const auto [row, is_new] = rows.emplace(index.at(kernel.named.config), measured);
      if (!is_new && measured.status == Status::ok && !(row->second.time_us <= measured.time_us))
        row->second = measured;
      if (options.progress) options.progress(++done, all);
    }
    for (const auto& [config, measured] : rows) report.table.rows.push_back({p, config, measured});
  }
  return report;
}

}  // namespace kscout
