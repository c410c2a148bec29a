#include "sweep/worker.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/names.h"
#include "core/numbers.h"
#include "measure/measured_backend.h"
#include "measure/timing.h"
#include "sweep/messages.h"

namespace kscout {

namespace {

// Exit codes.
constexpr int kWrongArguments = 2, kFailed = 4, kDeviceLost = 5;

struct Arguments {
  std::string folder, cpus;
  int device = 0;
  pid_t parent = 0;
  int compile_seconds = 0;
};

constexpr std::string_view kFlags[] = {"--sweep", "--cpus", "--device", "--parent", "--compile-budget"};

int parse_count(std::string_view flag, std::string_view text) {
  const auto value = number_in<int>(text);
  if (!value || *value < 0) fail(Errc::invalid_argument, "{} {}: must be a whole number from 0", flag, text);
  return *value;
}

Arguments parse_arguments(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = kFlags[index_of_word("flag", argv[i], kFlags)];
    if (i + 1 == argc) fail(Errc::invalid_argument, "{} needs a value", flag);
    const char* const value = argv[i + 1];
    if (flag == "--sweep") out.folder = value;
    if (flag == "--cpus") out.cpus = value;
    if (flag == "--device") out.device = parse_count(flag, value);
    if (flag == "--parent") out.parent = parse_count(flag, value);
    if (flag == "--compile-budget") out.compile_seconds = parse_count(flag, value);
  }
  if (out.folder.empty())
    fail(Errc::invalid_argument, "this program is started by kscout sweep; it needs --sweep DIR");
  return out;
}

/// The worker's input and output. Redirects the prints of kernels to standard error.
class MessageChannel {
 public:
  MessageChannel() : out_(dup(STDOUT_FILENO)) { dup2(STDERR_FILENO, STDOUT_FILENO); }

  bool read_line(std::string& line) {
    for (;;) {
      const std::size_t end = buffer_.find('\n');
      if (end != std::string::npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return true;
      }
      char chunk[4096];
      const ssize_t got = read(STDIN_FILENO, chunk, sizeof chunk);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      buffer_.append(chunk, static_cast<std::size_t>(got));
    }
  }

  void say(const Reply& reply) {
    const std::string line = encode(reply) + '\n';
    for (std::size_t at = 0; at < line.size();) {
      const ssize_t wrote = write(out_, line.data() + at, line.size() - at);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) std::_Exit(0);  // the sweep has ended
      at += static_cast<std::size_t>(wrote);
    }
  }

 private:
  int out_;
  std::string buffer_;
};

/// Makes this process end with its parent, and makes it the first to be killed when memory runs out.
void tie_to_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (parent != 0 && getppid() != parent) std::_Exit(0);
  std::ofstream("/proc/self/oom_score_adj") << 1000;
}

TimeSpent minus(const TimeSpent& a, const TimeSpent& b) {
  return {a.kernels - b.kernels, a.flushes - b.flushes, a.verify - b.verify, a.operands - b.operands};
}

class Worker {
 public:
  Worker(const SweepPlan& plan, Backend& backend, int compile_seconds, MessageChannel& talk)
      : plan_(plan),
        backend_(backend),
        compile_seconds_(compile_seconds),
        bench_(plan.protocol, plan.seed, instruments_of(backend), true),
        talk_(talk) {}

  void work(const Assignment& assignment) {
    const TimeSpent before = bench_.spent();
    if (std::string reason = open(assignment.problem); !reason.empty()) {
      for (const auto config : assignment.configs) {
        Outcome outcome{
            {.status = Status::unsupported, .cache = plan_.protocol.cache, .pass = assignment.pass}, reason};
        talk_.say({.kind = Reply::Kind::row, .index = config, .outcome = std::move(outcome)});
      }
    } else if (assignment.pass == 1) {
      coarse(assignment);
    } else {
      contenders(assignment);
    }
    Reply done;
    done.kind = Reply::Kind::done;
    done.index = assignment.problem;
    done.spent = minus(bench_.spent(), before);
    done.clock_mhz = instruments_of(backend_).clock_mhz();
    talk_.say(done);
  }

 private:
  /// Makes the operands of a problem. Returns why the problem cannot be measured here; empty when it can.
  /// Both passes of a problem follow each other, so the operands are made once.
  std::string open(std::uint32_t problem) {
    if (opened_ == static_cast<std::int64_t>(problem)) return {};
    opened_ = -1;
    const Problem& opened = plan_.problems.at(problem);
    try {
      auto* const measured = dynamic_cast<MeasuredBackend*>(&backend_);
      auto reference = measured ? measured->open_problem(opened, plan_.seed) : nullptr;
      reference ? bench_.open(opened, std::move(reference)) : bench_.open(opened);
    } catch (const Error& error) {
      return error.what();
    }
    opened_ = problem;
    return {};
  }

  Candidate candidate(std::uint32_t config) const { return {&backend_, plan_.configs.at(config)}; }

  void coarse(const Assignment& assignment) {
    double best_us = assignment.best_us;
    const auto left_out = prepare_ahead(assignment);
    for (std::size_t i = 0; i < left_out.size(); ++i) {
      const auto config = assignment.configs[i];
      if (!left_out[i].empty()) {
        say_row(config, {{.status = Status::left_out, .cache = plan_.protocol.cache}, left_out[i]});
        continue;
      }
      Outcome outcome = bench_.coarse(candidate(config), best_us);
      if (outcome.measured.status == Status::ok) best_us = std::min(best_us, outcome.measured.time_us);
      say_row(config, std::move(outcome));
    }
  }

  std::vector<std::string> prepare_ahead(const Assignment& assignment) {
    std::vector<KernelConfig> configs;
    for (const auto config : assignment.configs) configs.push_back(plan_.configs.at(config));
    return backend_.prepare_ahead(plan_.problems.at(assignment.problem), configs, compile_seconds_);
  }

  void contenders(const Assignment& assignment) {
    prepare_ahead(assignment);  // a sweep with --remeasure begins here
    std::vector<Candidate> candidates;
    for (const auto config : assignment.configs) candidates.push_back(candidate(config));
    bench_.contenders(
        candidates, [&](std::size_t i, const Outcome& outcome) { say_row(assignment.configs[i], outcome); });
  }

  /// Sends one config's outcome. If a kernel broke the device for this process, exits before sending: the
  /// sweep then records a crash and starts another worker.
  void say_row(std::uint32_t config, Outcome outcome) {
    if (outcome.measured.status == Status::crashed && !instruments_of(backend_).usable()) {
      std::fprintf(stderr, "kscout-worker: %s\n", outcome.reason.c_str());
      std::_Exit(kDeviceLost);
    }
    talk_.say({.kind = Reply::Kind::row, .index = config, .outcome = std::move(outcome)});
  }

  const SweepPlan& plan_;
  Backend& backend_;
  int compile_seconds_;
  ProblemBench bench_;
  MessageChannel& talk_;
  std::int64_t opened_ = -1;
};

}  // namespace

int run_worker(int argc, char** argv, const WorkerParts& parts) {
  Arguments arguments;
  try {
    arguments = parse_arguments(argc, argv);
  } catch (const Error& error) {
    fmt::print(stderr, "kscout-worker: {}\n", error.what());
    return kWrongArguments;
  }
  MessageChannel talk;
  try {
    tie_to_parent(arguments.parent);
    // Sets the CPUs before any thread exists: the threads of a backend inherit them.
    if (!arguments.cpus.empty()) use_only(parse_ranges(arguments.cpus, kMaxCpus));
    const SweepPlan plan = read_manifest(arguments.folder, parts.space);
    Backend& backend = parts.backend(plan.backend, arguments.device);
    Worker worker(plan, backend, arguments.compile_seconds, talk);
    talk.say({.kind = Reply::Kind::ready});
    for (std::string line; talk.read_line(line);) worker.work(decode_assignment(line));
    return 0;
  } catch (const Error& error) {
    talk.say({.kind = Reply::Kind::failed, .outcome = {{}, error.what()}, .code = error.code()});
  } catch (const std::exception& error) {
    talk.say({.kind = Reply::Kind::failed, .outcome = {{}, error.what()}});
  }
  return kFailed;
}

}  // namespace kscout
