// Reads the sources of `kscout problems` other than one set or one list.
#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/fail.h"
#include "core/files.h"
#include "logs/call_log.h"
#include "op/gemm/tunableop.h"
#include "options.h"
#include "problems.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

/// Reports what was read of a foreign file.
template <class Foreign>
void print_lines(const std::string& source, const Foreign& file) {
  fmt::print(stderr, "{}: {} lines, {} problems; left out: {}\n", source, file.lines, file.problems.size(),
             skipped_lines_text(file.left_out));
}

/// The problems of all logs, whose weights are the calls: the GEMMs first.
ProblemsByOperation problems_of_logs(const std::vector<std::string>& files) {
  CallLog all;
  for (const std::string& file : files) {
    const CallLog log = read_call_log_file(file);
    fmt::print(stderr, "{}: {}\n", file, log.summary());
    for (const Problem& problem : log.problems) all.add(problem, problem.weight());
  }
  std::ranges::stable_sort(all.problems, {}, &Problem::kind);
  return by_operation(all.problems);
}

}  // namespace

std::vector<Problem> problems_of_source(const Operation& of, const std::string& source, DType dtype) {
  return operation_of_set(source) == &of ? of.named_set(source, dtype, {})
                                         : of.listed(read_problem_text(source), source, dtype, /*wanted=*/{});
}

void check_op(const Operation& of, std::optional<Op> op) {
  if (!op || (of.ops.size() > 1 && std::ranges::find(of.ops, *op) != of.ops.end())) return;
  if (of.ops.size() > 1) fail(Errc::invalid_argument, "--op {}: is no direction of a {}", word(*op), of.noun);
  fail(Errc::invalid_argument, "--op {}: the problems are {}; leave it out", word(*op), of.plural);
}

std::optional<ProblemList> ProblemSources::list(const ProblemSetRequest& request,
                                                ReadEfficiencies read) const {
  const Operation& convs = operation(Op::conv_fwd);
  if (!top_up_.empty()) {
    if (!read) throw NeedsLab{};
    if (request.op)
      fail(Errc::invalid_argument, "--op {}: --top-up keeps the directions of its file; leave it out",
           word(*request.op));
    TopUpRequest wanted = wanted_;
    wanted.below = below_percent_ / 100;
    if (request.count != 0) wanted.count = request.count;
    return ProblemList{"--top-up",
                       top_up_,
                       {{&convs, records_of(top_up(read(top_up_), wanted))}},
                       /*complete=*/true};
  }
  if (!miopen_.empty()) {
    check_op(convs, request.op);
    const MiopenProblems log =
        miopen_problems(read_plain_text(miopen_),
                        {.op = request.op.value_or(Op::conv_fwd),
                         .dtype = dtype_->count() != 0 ? std::optional(request.dtype) : std::nullopt,
                         .count = request.count == 0 ? 300 : request.count,
                         .seed = request.seed_of(Op::conv_fwd)});
    print_lines(miopen_, log);
    return ProblemList{"--from-miopen", miopen_, by_operation(records_of(log.problems)), /*complete=*/true};
  }
  if (!merge_.empty()) {
    std::vector<Problem> problems;
    for (const std::string& source : merge_) {
      const auto more = problems_of_source(convs, source, request.dtype);
      problems.insert(problems.end(), more.begin(), more.end());
    }
    return ProblemList{"--merge", merge_.front(), by_operation(problems)};
  }
  if (!tunableop_.empty()) {
    const TunableOpFile file = read_tunableop(read_problem_text(tunableop_), tunableop_);
    print_lines(tunableop_, file);
    return ProblemList{"--from-tunableop", tunableop_, by_operation(records_of(file.problems))};
  }
  if (logs_.empty()) return std::nullopt;
  return ProblemList{"--from-log", fmt::format("{}", fmt::join(logs_, " ")), problems_of_logs(logs_)};
}

void ProblemSources::add_to(CLI::App& verb, ProblemSetRequest& request, CLI::Option* set, CLI::Option* file,
                            CLI::Option* dtype) {
  dtype_ = dtype;
  check_words<Op>(add_text_option(verb, "--op", "convolutions: direction that replaces the set's", "",
                                  [&request](const std::string& text) { request.op = parse<Op>(text); }));
  auto* const packing = verb.add_option(
      "--packing", request.packing,
      "convolutions: filters that are packed 'once' for many calls (inference) or 'per_call' (training), or "
      "each problem in 'both' forms, with half of the calls each; default: the set's");
  check_words<Packing>(packing);
  auto* const miopen = verb.add_option(
      "--from-miopen", miopen_,
      "convolutions of a log with MIOpenDriver's command lines, long or short flags, in direction --op "
      "(conv_fwd): at most two of a kind, 300 or --count in all; what is left out is counted by reason");
  auto* const tunableop = verb.add_option(
      "--from-tunableop", tunableop_,
      "GEMMs of a file of PyTorch's TunableOp, untuned or tuned; what is left out is counted by reason");
  auto* const logs = verb.add_option(
      "--from-log", logs_,
      "what applications ran, with the number of calls as weights: a record of kscout exec, a trace of "
      "PyTorch's profiler (record_shapes), logs of KSCOUT_LOG, cuBLASLt, hipBLASLt, cuDNN, oneDNN, MIOpen, "
      "TunableOp; also several files, .gz too");
  auto* const merge = verb.add_option("--merge", merge_,
                                      "join sets or files of convolutions, equal problems once; with "
                                      "--count, that many, each kind in proportion");
  auto* const top_up = verb.add_option(
      "--top-up", top_up_,
      "oof_predictions.parquet of a model: more problems of the kinds that it chose badly for");
  verb.add_option("--below", below_percent_, "--top-up: of kinds with a mean efficiency below this, %")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0))
      ->needs(top_up);
  verb.add_option("--also", wanted_.also, "--top-up: of these kinds too, e.g. n=2,grouped")->needs(top_up);
  verb.add_option("--density", wanted_.density, "--top-up: 2 for a finer grid")
      ->capture_default_str()
      ->check(CLI::Range(1, 2))
      ->needs(top_up);
  for (CLI::Option* const one : {miopen, merge, top_up, tunableop, logs}) one->excludes(set)->excludes(file);
  tunableop->excludes(miopen)->excludes(merge)->excludes(top_up);
  for (CLI::Option* const one : {miopen, merge, top_up, tunableop, dtype}) logs->excludes(one);
  miopen->excludes(merge)->excludes(top_up);
  merge->excludes(top_up);
  packing->excludes(miopen)->excludes(top_up);
}

}  // namespace kscout::cli
