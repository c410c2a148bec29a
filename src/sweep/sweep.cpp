#include "sweep/sweep.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <memory>
#include <set>

#include <poll.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/files.h"
#include "measure/timing.h"
#include "op/operation.h"
#include "sweep/journal.h"
#include "sweep/messages.h"
#include "sweep/queue.h"
#include "sweep/worker_process.h"

namespace kscout {

namespace {

constexpr double kOperandSecondsPerGb = 10;  // added to the item limit for the first config of a problem
constexpr double kSyncEveryS = 5;            // the journal is synced to the disk at least this often
constexpr int kMaxStartFailures = 2;

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

double operand_gb(const Problem& problem) {
  constexpr double kMaxBytes = 8;
  double elements = 0;
  for (const Tensor& tensor : operation(problem.op()).operands(problem))
    elements += static_cast<double>(tensor.elements());
  return elements * kMaxBytes / 1e9;
}

/// One worker and its current work.
struct WorkerSlot {
  char letter = 'a';
  std::vector<int> cpus;
  std::unique_ptr<WorkerProcess> worker;
  bool ready = false;
  std::optional<std::uint32_t> problem;
  std::optional<Batch> batch;
  std::size_t answered = 0;  ///< configs of the batch that have a reply
  std::size_t given = 0;     ///< configs that this worker process received
  std::int64_t deadline_ns = 0;
  bool opens_problem = false;  ///< the next reply includes making the operands
};

class Sweep {
 public:
  Sweep(const SweepPlan& plan, const SweepOptions& options)
      : plan_(plan),
        options_(options),
        hash_(write_manifest(options.folder, plan)),
        limits_{plan.problems.size(), plan.configs.size(), plan.protocol.cache},
        journal_(options.folder / journal_name(options.shard, options.shards), hash_, limits_),
        order_(measuring_order(plan, options.shard, options.shards)),
        begin_ns_(now_ns()),
        synced_ns_(begin_ns_) {
    load();
  }

  SweepReport run() {
    make_lanes();
    for (WorkerSlot& slot : slots_) advance(slot);
    report_.ended = "done";
    while (std::ranges::any_of(slots_, [](const WorkerSlot& slot) { return slot.batch.has_value(); })) {
      if (options_.stop && options_.stop->load()) {
        report_.ended = "interrupted";
        break;
      }
      if (elapsed_s() >= options_.budget_s) {
        report_.ended = "budget";
        if (!options_.whole_problems) break;
        queue_->close();
      }
      wait_and_handle();
    }
    for (WorkerSlot& slot : slots_) slot.worker.reset();
    report_.load = load_watch_.seen();  // after the workers' end, which adds their CPU time to this process's
    journal_.end(report_.ended);
    journal_.flush(true);
    finish_report();
    return report_;
  }

 private:
  double elapsed_s() const { return seconds(now_ns() - begin_ns_); }

  /// Loads the rows of every journal in the folder: rows of other shards need not be measured again.
  void load() {
    JournalContents all = merge_journals(options_.folder, hash_, limits_);
    const std::set<std::uint32_t> mine(order_.begin(), order_.end());
    std::erase_if(all.rows, [&](const JournalRow& row) { return !mine.contains(row.key.problem); });
    for (const auto& row : all.rows) {
      count(row.key, row.measured, row.reason < 0 ? "" : all.reasons[static_cast<std::size_t>(row.reason)]);
      if (row.key.pass == 1) work_done_ += share_of(row.key.problem);
    }
    report_.progress.rows = report_.progress.failed = 0;  // count this session only
    queue_.emplace(plan_, order_, all.rows, all.crashes);
    for (const auto problem : order_) work_total_ += estimate_seconds(plan_, problem);
    work_at_start_ = work_done_;
  }

  double share_of(std::uint32_t problem) const {
    return estimate_seconds(plan_, problem) / static_cast<double>(plan_.candidates[problem].size());
  }

  void make_lanes() {
    const auto shares = share_cpus(allowed_cpus(), options_.workers);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      WorkerSlot slot;
      slot.letter = static_cast<char>('a' + i);
      slot.cpus = shares[i];
      slots_.push_back(std::move(slot));
    }
  }

  /// Gives a slot its next batch, of its problem or of a new one; the slot stays idle when no work is left.
  void advance(WorkerSlot& slot) {
    slot.batch.reset();
    for (;;) {
      if (!slot.problem) {
        slot.problem = queue_->take_problem();
        if (!slot.problem) {
          slot.worker.reset();
          return;
        }
        slot.opens_problem = true;
      }
      record_crashed_twice(slot);
      slot.batch = queue_->next_batch(*slot.problem, options_.batch);
      if (slot.batch) break;
      queue_->finished(*slot.problem);
      slot.problem.reset();
    }
    slot.answered = 0;
    journal_.intent(slot.letter, slot.batch->problem, slot.batch->pass, slot.batch->configs);
    journal_.flush();
    if (slot.worker && slot.ready && has_had_its_share(slot)) {
      slot.worker.reset();
      slot.opens_problem = true;
    }
    if (slot.worker && slot.ready) assign(slot);
    if (!slot.worker) start(slot);
  }

  /// Whether the next batch would exceed the configs that one process may measure.
  bool has_had_its_share(const WorkerSlot& slot) const {
    return options_.batch > 0 && slot.given > 0 && slot.given + slot.batch->configs.size() > options_.batch;
  }

  void start(WorkerSlot& slot) {
    slot.given = 0;
    slot.worker = std::make_unique<WorkerProcess>(
        options_.worker,
        std::vector<std::string>{"--sweep", options_.folder.string(), "--cpus", print_ranges(slot.cpus),
                                 "--device", std::to_string(slot.letter - 'a'), "--parent",
                                 std::to_string(getpid()), "--compile-budget",
                                 std::to_string(options_.compile_budget_s)},
        options_.folder / "worker.log");
    slot.ready = false;
    slot.deadline_ns = now_ns() + static_cast<std::int64_t>(kStartLimitS * 1e9);
  }

  void assign(WorkerSlot& slot) {
    slot.given += slot.batch->configs.size();
    slot.worker->send(encode(Assignment{slot.batch->problem, slot.batch->pass, slot.batch->configs,
                                        queue_->best_us(slot.batch->problem)}));
    set_deadline(slot);
  }

  void set_deadline(WorkerSlot& slot) {
    double limit_s = options_.item_limit_s;
    // The worker reports all contenders together, so their limits add up.
    if (slot.batch->pass == 2) limit_s *= static_cast<double>(slot.batch->configs.size());
    if (slot.opens_problem) limit_s += kOperandSecondsPerGb * operand_gb(plan_.problems[slot.batch->problem]);
    if (slot.answered == 0) limit_s += options_.compile_budget_s;
    slot.deadline_ns = now_ns() + static_cast<std::int64_t>(limit_s * 1e9);
  }

  void wait_and_handle() {
    std::vector<pollfd> fds;
    std::vector<WorkerSlot*> waiting;
    std::int64_t until = now_ns() + 250'000'000;  // budget and stop are checked this often
    for (WorkerSlot& slot : slots_) {
      if (!slot.worker || !slot.batch) continue;
      fds.push_back({slot.worker->fd(), POLLIN, 0});
      waiting.push_back(&slot);
      until = std::min(until, slot.deadline_ns);
    }
    if (std::isfinite(options_.budget_s) && elapsed_s() < options_.budget_s) {
      until = std::min(until, begin_ns_ + static_cast<std::int64_t>(options_.budget_s * 1e9));
    }
    const auto wait_ms =
        static_cast<int>(std::clamp<std::int64_t>((until - now_ns()) / 1'000'000 + 1, 0, 1000));
    if (poll(fds.data(), fds.size(), wait_ms) < 0 && errno != EINTR) {
      fail(Errc::device_failure, "cannot wait for workers: errno {}", errno);
    }
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (fds[i].revents != 0) {
        listen(*waiting[i]);
      } else if (now_ns() > waiting[i]->deadline_ns) {
        timed_out(*waiting[i]);
      }
    }
  }

  void listen(WorkerSlot& slot) {
    std::vector<std::string> lines;
    const bool alive = slot.worker->receive(lines);
    bool batch_done = false;
    for (const auto& line : lines) batch_done = handle(slot, decode_reply(line)) || batch_done;
    journal_.flush();
    if (now_ns() - synced_ns_ > static_cast<std::int64_t>(kSyncEveryS * 1e9)) {
      journal_.flush(true);
      synced_ns_ = now_ns();
    }
    if (!alive) {
      worker_crashed(slot);
    } else if (batch_done) {
      advance(slot);
    }
    if (options_.progress) options_.progress(progress());
  }

  /// Returns true when the batch is done.
  bool handle(WorkerSlot& slot, const Reply& reply) {
    switch (reply.kind) {
      case Reply::Kind::ready:
        slot.ready = true;
        start_failures_ = 0;
        assign(slot);
        return false;
      case Reply::Kind::failed:
        throw Error(reply.code, reply.outcome.reason);
      case Reply::Kind::done:
        add_spent(reply.spent);
        if (std::isfinite(reply.clock_mhz)) journal_.clock(slot.letter, reply.clock_mhz);
        return true;
      case Reply::Kind::row:
        break;
    }
    const Batch& batch = *slot.batch;
    if (slot.answered >= batch.configs.size() || batch.configs[slot.answered] != reply.index) {
      fail(Errc::device_failure, "a worker replied for config {} out of order", reply.index);
    }
    record(slot, {batch.problem, reply.index, batch.pass}, reply.outcome);
    ++slot.answered;
    slot.opens_problem = false;
    set_deadline(slot);
    return false;
  }

  void record(WorkerSlot& slot, const SweepKey& key, const Outcome& outcome) {
    journal_.row(slot.letter, key.config, outcome.measured, outcome.reason);
    queue_->answered(key, outcome.measured);
    count(key, outcome.measured, outcome.reason);
    if (key.pass == 1) work_done_ += share_of(key.problem);
  }

  void count(const SweepKey& key, const Measurement& measured, const std::string& reason) {
    ++report_.progress.rows;
    const Status status = measured.status;
    if (status == Status::wrong || status == Status::crashed || status == Status::timeout)
      ++report_.progress.failed;
    if (key.pass == 1) {
      ++report_.by_status[static_cast<std::size_t>(status)];
    } else {
      ++report_.contender_rows;
    }
    if (!reason.empty()) ++report_.reasons[general_reason(status, reason)];
  }

  /// Writes the rows of keys during which workers crashed twice; the intent before each row announces its
  /// problem.
  void record_crashed_twice(WorkerSlot& slot) {
    for (const SweepKey& key : queue_->crashed_twice(*slot.problem)) {
      journal_.intent(slot.letter, key.problem, key.pass, {key.config});
      Outcome outcome{
          {.status = Status::crashed, .cache = plan_.protocol.cache, .pass = key.pass},
          last_death_.contains(key) ? last_death_[key] : "its worker, or the machine, ended twice"};
      record(slot, key, outcome);
    }
  }

  /// Handles a worker that closed its end: the config that it measured caused the crash.
  void worker_crashed(WorkerSlot& slot) {
    const std::string how = slot.worker->end();
    slot.worker.reset();
    if (!slot.ready) {
      if (++start_failures_ >= kMaxStartFailures) {
        fail(Errc::device_failure, "the worker {} ended before it was ready: {}; see {}",
             options_.worker.string(), how, (options_.folder / "worker.log").string());
      }
      start(slot);
      return;
    }
    const Batch& batch = *slot.batch;
    if (slot.answered < batch.configs.size()) {
      const SweepKey key{batch.problem, batch.configs[slot.answered], batch.pass};
      if (batch.pass == 2 && batch.configs.size() > 1) {
        queue_->split_contenders(batch.problem);
      } else {
        journal_.crash(slot.letter, key.config);
        queue_->worker_crashed(key);
        last_death_[key] = how;
      }
    }
    slot.opens_problem = true;
    advance(slot);
  }

  void timed_out(WorkerSlot& slot) {
    if (!slot.ready)
      fail(Errc::device_failure, "the worker {} is not ready after {} s", options_.worker.string(),
           kStartLimitS);
    slot.worker->end();
    slot.worker.reset();
    const Batch& batch = *slot.batch;
    if (batch.pass == 2 && batch.configs.size() > 1) {
      queue_->split_contenders(batch.problem);
    } else if (slot.answered < batch.configs.size()) {
      const SweepKey key{batch.problem, batch.configs[slot.answered], batch.pass};
      record(slot, key,
             {{.status = Status::timeout, .cache = plan_.protocol.cache, .pass = key.pass},
              fmt::format("no answer within {} s", options_.item_limit_s)});
    }
    slot.opens_problem = true;
    advance(slot);
    if (options_.progress) options_.progress(progress());
  }

  void add_spent(const TimeSpent& more) {
    report_.spent.kernels += more.kernels;
    report_.spent.flushes += more.flushes;
    report_.spent.verify += more.verify;
    report_.spent.operands += more.operands;
  }

  SweepProgress progress() const {
    SweepProgress out = report_.progress;
    out.problems = order_.size();
    out.problems_done = queue_->problems_done();
    out.share_done = work_total_ > 0 ? std::min(1.0, work_done_ / work_total_) : 1;
    out.elapsed_s = elapsed_s();
    const double done_now = work_done_ - work_at_start_;
    if (out.rows >= 20 && done_now > 0) out.left_s = out.elapsed_s * (work_total_ - work_done_) / done_now;
    return out;
  }

  void finish_report() {
    report_.progress = progress();
    const double elapsed = elapsed_s();
    report_.rows_per_s = elapsed > 0 ? static_cast<double>(report_.progress.rows) / elapsed : 0;
    const double useful = seconds(report_.spent.kernels + report_.spent.flushes + report_.spent.verify);
    const double worked = elapsed * options_.workers;
    report_.overhead = worked > 0 ? 1 - useful / worked : 0;
  }

  const SweepPlan& plan_;
  const SweepOptions& options_;
  std::string hash_;
  JournalLimits limits_;
  JournalWriter journal_;
  std::vector<std::uint32_t> order_;
  std::optional<WorkQueue> queue_;
  std::vector<WorkerSlot> slots_;
  std::map<SweepKey, std::string> last_death_;
  SweepReport report_;
  std::int64_t begin_ns_, synced_ns_;
  LoadWatch load_watch_;
  int start_failures_ = 0;
  double work_total_ = 0, work_done_ = 0, work_at_start_ = 0;
};

void check_options(const SweepOptions& options) {
  if (options.workers < 1 || options.workers > 26)
    fail(Errc::invalid_argument, "{} workers: 1 to 26 can work", options.workers);
  if (options.shards < 1 || options.shard < 1 || options.shard > options.shards) {
    fail(Errc::invalid_argument, "shard {}/{}: shards count from 1", options.shard, options.shards);
  }
  if (!(options.item_limit_s > 0))
    fail(Errc::invalid_argument, "a time limit of {} s: must be above 0", options.item_limit_s);
}

}  // namespace

SweepReport run_sweep(const SweepPlan& plan, const SweepOptions& options) {
  check_options(options);
  return Sweep(plan, options).run();
}

std::filesystem::path default_worker() {
  const auto here = program_file().parent_path();
  for (const auto& place : {here / "kscout-worker", here.parent_path() / "libexec/kscout/kscout-worker",
                            here.parent_path() / "kscout-worker"}) {
    if (std::filesystem::exists(place)) return place;
  }
  fail(Errc::not_found, "no kscout-worker beside {}; build it, or name it with --worker", here.string());
}

}  // namespace kscout
