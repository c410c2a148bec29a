/// \file
/// Implements libkscout_preload_core.so: counts calls and problems, serves products, and reports all of it
/// when the process ends.
///
/// Settings: KSCOUT_PRELOAD_SERVE and KSCOUT_PRELOAD_GUARD (0 or empty: off), KSCOUT_PRELOAD_RECORD (a file),
/// KSCOUT_PRELOAD_REPORT (a file, or - for stderr), and those of ServeSettings.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include <pthread.h>
#include <unistd.h>

#include "measure/timing.h"
#include "preload/apart.h"
#include "preload/call_timer.h"
#include "preload/calls.h"
#include "preload/conv.h"
#include "preload/cpu.h"
#include "preload/find_object.h"
#include "preload/gpu.h"
#include "preload/gpu_session.h"
#include "preload/guard.h"
#include "preload/packs.h"
#include "preload/read_calls.h"
#include "preload/read_plan.h"
#include "preload/record.h"
#include "preload/report.h"
#include "preload/result_checker.h"
#include "preload/say.h"

namespace kscout::preload {

namespace {

/// A file by its absolute path, as programs change their folder; empty when the setting is.
std::string file_setting(const char* name) {
  const char* const value = std::getenv(name);
  if (!value || !*value) return {};
  std::error_code error;
  const auto file = std::filesystem::absolute(value, error);
  return error ? value : file.string();
}

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value && *value && std::string_view(value) != "0";
}

/// The state of one process. Never destroyed: calls may come until the very end.
class Core {
 public:
  explicit Core(kscout_find find)
      : record_(file_setting("KSCOUT_PRELOAD_RECORD")), owner_(getpid()), find_(find), timer_(find) {
    const char* const report = std::getenv("KSCOUT_PRELOAD_REPORT");
    report_ = report && std::string_view(report) == "-" ? report : file_setting("KSCOUT_PRELOAD_REPORT");
    counts_problems_ = !report_.empty() || !file_setting("KSCOUT_PRELOAD_RECORD").empty();
    std::string wrong;
    const auto settings = ServeSettings::from_environment(wrong);
    const bool serves = is_set("KSCOUT_PRELOAD_SERVE"), guards = is_set("KSCOUT_PRELOAD_GUARD");
    if (!wrong.empty() && (serves || guards))
      kscout_say("%s; nothing is served%s", wrong.c_str(), guards ? ", and no verdict is stored" : "");
    if (guards) guard_ = std::make_unique<Guard>(find, wrong.empty() ? settings.db : std::filesystem::path());
    if (wrong.empty() && settings.check_results > 0)
      checker_ = std::make_unique<ResultChecker>(find, settings.check_results);
    if (!serves) return;
    session_ = std::make_unique<GpuSession>(find, settings, wrong);
    gpu_ = std::make_unique<GpuServer>(*session_, guard_.get());
    if (settings.convolutions) convs_ = std::make_unique<ConvServer>(*session_);
    if (wrong.empty()) cpu_ = std::make_unique<CpuServer>(settings);
  }

  template <class Call>
  kscout_answer product(kscout_entry entry, const Call& call) noexcept {
    const int error = errno;
    ProductCall product;
    Library library;
    Record::Place place;
    {
      const Lock lock(*this);
      if (finished_) return kscout_pass;
      ++calls_[entry];
      library = library_of(entry);
      const Unread why = read(call, library, product);
      if (why != Unread::none) {
        ++unread_[static_cast<std::size_t>(why)];
        return kscout_pass;
      }
      ++products_;
      place = count(product.problem);
      if constexpr (std::is_same_v<Call, kscout_gemm_call>) {
        if (const auto given = workspaces_.find(call.handle); given != workspaces_.end())
          std::tie(product.operands.workspace, product.operands.workspace_bytes) = given->second;
      }
    }
    const bool checks = checker_ && checker_->is_due(product);
    Watch watch{.on_gpu = timer_.start(place, product.operands.stream)};
    kscout_answer answer = gpu_ ? serve(call, library, product) : kscout_pass;
    if (answer != kscout_served && guard_ && guard_->computes(entry, call, product)) {
      if (answer == kscout_pass_watched) session_->after_original(0);
      answer = kscout_served;
    }
    watch.gpu = answer == kscout_pass_watched;
    watch.checks = checks && answer != kscout_served;
    if (watch.checks) checked = product;
    if (checks && answer == kscout_served) checker_->check(product);
    errno = error;
    return answered(answer, watch);
  }
  kscout_answer gemm(kscout_entry entry, const kscout_gemm_call* call) noexcept {
    return product(entry, *call);
  }
  kscout_answer matmul(const kscout_matmul_call* call) noexcept {
    return product(kscout_cublasLtMatmul, *call);
  }
  kscout_answer blas(kscout_entry entry, const kscout_blas_call* given) noexcept {
    const kscout_blas_call& call = *given;
    const int error = errno;
    ProductKey product;
    Watch watch;
    const Unread why = read(call, product);
    if (counts_problems_) {
      const Lock lock(*this);
      if (finished_) return kscout_pass;
      ++calls_[entry];
      if (why == Unread::none) {
        ++products_;
        watch.on_cpu = count(product.problem);
      } else {
        ++unread_[static_cast<std::size_t>(why)];
      }
    }
    if (why != Unread::none) return kscout_pass;
    if (watch.on_cpu) watch.begin_ns = now_ns();
    kscout_answer answer = kscout_pass;
    if (cpu_) {
      const Outcome outcome = cpu_->serve(call, product);
      if (outcome == Outcome::served) answer = kscout_served;
      watch.cpu = outcome == Outcome::timed;
    }
    errno = error;
    return answered(answer, watch);
  }
  kscout_answer plan(void* handle, void* plan, void* pack) noexcept {
    const int error = errno;
    PlanStart start;
    {
      const Lock lock(*this);
      if (finished_) return kscout_pass;
      ++calls_[kscout_cudnnBackendExecute];
      if (!counts_problems_ && !guard_ && !convs_) return kscout_pass;
      try {
        start = begin_plan(plan);
      } catch (...) {  // no memory: the call matters more
      }
    }
    void* stream = nullptr;
    const bool has_stream = cudnn_.get_stream && cudnn_.get_stream(handle, &stream) == 0;
    Watch watch{.on_gpu = has_stream ? timer_.start(start.place, stream) : CallTimer::Call()};
    kscout_answer answer = kscout_pass;
    if (start.decision && has_stream) {
      const Outcome outcome =
          convs_->serve(*start.decision, operands_of(*start.call, packs_.find(pack), stream));
      if (outcome == Outcome::served) answer = kscout_served;
      watch.gpu = GpuSession::watches(outcome);
    }
    errno = error;
    return answered(answer, watch);
  }
  void attribute(void* descriptor, int attribute, std::int64_t count, const void* values) noexcept {
    if (convs_) packs_.set(descriptor, attribute, count, values);
  }
  void forget_descriptor(void* descriptor) noexcept {
    if (convs_) packs_.forget(descriptor);
    const Lock lock(*this);
    plans_.erase(descriptor);
  }
  void after_original(int status) noexcept {
    const int error = errno;
    const Watch watch = std::exchange(watching, {});
    if (watch.cpu) cpu_->after_original();
    if (watch.gpu) session_->after_original(status);
    stop(watch, status == 0);
    if (watch.checks && status == 0) checker_->check(checked);
    errno = error;
  }
  int give_back() noexcept { return session_ && session_->give_back(); }
  void other(kscout_entry entry) noexcept {
    const Lock lock(*this);
    if (!finished_) ++calls_[entry];
  }
  void workspace(kscout_entry entry, void* handle, void* memory, std::size_t bytes) noexcept {
    const Lock lock(*this);
    if (!finished_) ++calls_[entry];
    try {
      if (entry == kscout_cublasDestroy_v2) {
        workspaces_.erase(handle);
      } else {
        workspaces_[handle] = {memory, bytes};
      }
    } catch (...) {  // no memory: products use workspaces of ours
    }
  }

  /// Also called in signal handlers and in children of vfork(): does nothing where this thread holds the lock
  /// or the process shares its parent's memory; waits at most three seconds for another thread.
  void finish() noexcept {
    constexpr int kTries = 3000, kWaitUs = 1000;
    if (holding || getpid() != owner_) return;
    for (int i = 0; !mutex_.try_lock(); ++i) {
      if (i == kTries) return;
      usleep(kWaitUs);
    }
    if (forked_) forget();
    if (!std::exchange(finished_, true)) {
      if (convs_) convs_->finish();
      record_.write();
      try {
        run_apart([&] {
          if (guard_) guard_->store();
          report();
        });
      } catch (...) {  // no memory for a stack
        report();
      }
    }
    mutex_.unlock();
  }

  /// A signal handler may fork while its thread holds the lock: the child's copy of that thread then goes on
  /// holding it, and forgets the parent's counts when it locks next.
  void before_fork() noexcept {
    if (!holding) mutex_.lock();
  }
  void in_parent() noexcept {
    if (!holding) mutex_.unlock();
  }
  void in_child() noexcept {
    timer_.in_child();
    if (session_) session_->in_child();
    if (gpu_) gpu_->in_child();
    if (convs_) convs_->in_child();
    if (guard_) guard_->in_child();
    if (checker_) checker_->in_child();
    if (cpu_) cpu_->in_child();
    owner_ = getpid();
    forked_ = true;
    if (!holding) mutex_.unlock();
  }

 private:
  static thread_local bool holding;

  /// Who watches the original that this thread is about to call, and which times end with the call.
  struct Watch {
    bool gpu = false, cpu = false, checks = false;
    CallTimer::Call on_gpu = {};
    Record::Place on_cpu = {};
    std::int64_t begin_ns = 0;
  };
  static thread_local Watch watching;
  static thread_local ProductCall checked;  ///< where Watch::checks is set

  class Lock {
   public:
    explicit Lock(Core& core) noexcept : core_(core) {
      core_.mutex_.lock();
      holding = true;
      if (core_.forked_) core_.forget();
    }
    ~Lock() {
      holding = false;
      core_.mutex_.unlock();
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Core& core_;
  };

  /// Counts a problem for the record and the report; the place of a call that is to be timed. The lock is
  /// held.
  Record::Place count(ProblemRef problem) noexcept try {
    if (!counts_problems_) return {};
    timer_.collect([&](const Record::Place& place, double us) { record_.add_time(place, us); });
    return record_.count(problem);
  } catch (...) {  // no memory: the call matters more
    return {};
  }
  /// What is known when a plan is executed.
  struct PlanStart {
    Record::Place place = {};
    const PlanCall* call = nullptr;            ///< until the plan is destroyed
    ConvServer::Decision* decision = nullptr;  ///< null: the plan is executed
  };
  PlanStart begin_plan(void* plan) {
    const auto [found, is_new] = plans_.try_emplace(plan);
    auto& [why, call, is_wrong, use] = found->second;
    if (is_new) {
      if (!cudnn_.get) cudnn_ = Cudnn::found_by(find_);
      why = read_plan(cudnn_, plan, call);
      is_wrong = guard_ && why == Unread::none && guard_->knows_wrong(call.problem, call.config);
    }
    if (is_wrong) ++wrong_convolutions_;
    if (why != Unread::none) {
      ++unread_[static_cast<std::size_t>(why)];
      return {};
    }
    ++convolutions_;
    return {count(call.problem), &call, convs_ ? convs_->recall(use, call) : nullptr};
  }

  void stop(const Watch& watch, bool done) noexcept {
    if (!watch.on_gpu.place && !watch.on_cpu) return;
    const double us = static_cast<double>(now_ns() - watch.begin_ns) / 1e3;
    const Lock lock(*this);
    timer_.stop(watch.on_gpu, done);
    try {
      if (watch.on_cpu) record_.add_time(watch.on_cpu, us);
    } catch (...) {  // no memory: the time is lost
    }
  }
  kscout_answer answered(kscout_answer answer, const Watch& watch) noexcept {
    if (answer == kscout_served) {
      stop(watch, true);
      return answer;
    }
    if (!watch.gpu && !watch.cpu && !watch.checks && !watch.on_gpu.place && !watch.on_cpu) return kscout_pass;
    watching = watch;
    return kscout_pass_watched;
  }

  template <class Call>
  kscout_answer serve(const Call& call, const Library& library, const ProductCall& product) noexcept {
    const GpuServer::Known known = gpu_->recall(product);
    Outcome outcome = known.outcome != Outcome::served ? known.outcome : product.outcome;
    if (outcome == Outcome::served && has_refused_scales(call, library, product)) outcome = Outcome::scales;
    if (outcome != Outcome::served) {
      gpu_->pass(outcome);
      return kscout_pass;
    }
    outcome = gpu_->serve(product, known);
    if (outcome == Outcome::served) return kscout_served;
    return GpuSession::watches(outcome) ? kscout_pass_watched : kscout_pass;
  }

  /// The counts of the parent process.
  void forget() noexcept {
    timer_.forget();
    record_.forget();
    calls_ = {};
    unread_ = {};
    products_ = convolutions_ = wrong_convolutions_ = 0;
    finished_ = false;
    forked_ = false;
  }

  const Library& library_of(kscout_entry entry) noexcept {
    const auto set = [&](auto& function, const char* library, const char* name) {
      if (!function)
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find_(library, name));
    };
    if (entry == kscout_cublasLtMatmul) {
      set(library_.get_operation, "libcublasLt", "cublasLtMatmulDescGetAttribute");
      set(library_.get_matrix, "libcublasLt", "cublasLtMatrixLayoutGetAttribute");
    } else {
      set(library_.get_math_mode, "libcublas", "cublasGetMathMode");
      set(library_.get_pointer_mode, "libcublas", "cublasGetPointerMode_v2");
      set(library_.get_stream, "libcublas", "cublasGetStream_v2");
      set(library_.get_sm_count, "libcublas", "cublasGetSmCountTarget");
    }
    return library_;
  }

  void report() const noexcept {
    Report report(owner_);
    if (report_.empty() || !report.add_calls(calls_)) return;
    if (products_ || !convolutions_) report.add_problems(products_, "products", record_.problems(Op::gemm));
    if (convolutions_) report.add_problems(convolutions_, "convolutions", record_.problems(Op::conv_fwd));
    report.add_unread(unread_);
    if (session_ && report.any_of_gpu()) {
      report.add(*session_);
      if (products_ || !convolutions_) report.add(*gpu_);
      if (convolutions_ && convs_) report.add_convolutions(convs_->tally());
    }
    if (guard_ && report.any_of_gpu()) report.add(guard_->counts(), wrong_convolutions_);
    if (checker_ && report.any_of_gpu()) report.add(checker_->counts());
    if (cpu_ && report.any_of_cpu()) report.add(*cpu_);
    report.write(report_);
  }

  std::mutex mutex_;
  Record record_;
  std::string report_;
  pid_t owner_;
  kscout_find find_;
  Library library_;
  std::array<std::uint64_t, kscout_entries> calls_{};
  std::array<std::uint64_t, kUnreadWords.size()> unread_{};
  std::uint64_t products_ = 0, convolutions_ = 0, wrong_convolutions_ = 0;
  Cudnn cudnn_;
  struct Plan {
    Unread why = Unread::none;
    PlanCall call = {};
    bool is_wrong = false;
    ConvServer::Use use = {};
  };
  std::unordered_map<void*, Plan> plans_;  ///< of cuDNN that were executed and not destroyed
  CallTimer timer_;
  bool counts_problems_ = false;  ///< a record or a report needs them
  bool finished_ = false;
  std::atomic<bool> forked_ = false;  ///< the counts are those of the parent
  /// Of handles of cuBLAS, given by the program.
  std::unordered_map<void*, std::pair<void*, std::size_t>> workspaces_;
  std::unique_ptr<Guard> guard_;            ///< null: the library's results are not examined
  std::unique_ptr<ResultChecker> checker_;  ///< null: none is checked
  Packs packs_;
  // Null: such calls are not served.
  std::unique_ptr<GpuSession> session_;
  std::unique_ptr<GpuServer> gpu_;
  std::unique_ptr<ConvServer> convs_;
  std::unique_ptr<CpuServer> cpu_;
};

thread_local bool Core::holding = false;
thread_local Core::Watch Core::watching;
thread_local ProductCall Core::checked;

Core* core = nullptr;

/// What the code in the core gave to pthread_atfork().
struct ForkHandlers {
  void (*before)();
  void (*in_parent)();
  void (*in_child)();
};
std::array<ForkHandlers, 4> fork_handlers{};
std::atomic<std::size_t> fork_handler_count = 0;

void before_fork() noexcept {
  core->before_fork();
  for (std::size_t i = fork_handler_count; i-- > 0;) fork_handlers[i].before();
}
void in_parent() noexcept {
  for (std::size_t i = 0; i < fork_handler_count; ++i) fork_handlers[i].in_parent();
  core->in_parent();
}
void in_child() noexcept {
  for (std::size_t i = 0; i < fork_handler_count; ++i) fork_handlers[i].in_child();
  core->in_child();
}

/// Holds a cancellation of the thread back: it would unwind code that throws nothing.
class NotCancelled {
 public:
  NotCancelled() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NotCancelled() { pthread_setcancelstate(before_, nullptr); }
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int before_ = 0;
};

/// A member function of the core, for C.
template <auto function, class... Arguments>
auto call(Arguments... arguments) noexcept {
  using Answer = decltype((core->*function)(arguments...));
  if (ConvServer::is_this_thread_ours()) return Answer();  // what libraries do for us
  const NotCancelled guard;
  return (core->*function)(arguments...);
}

constexpr kscout_core kFunctions = {
    .gemm = call<&Core::gemm, kscout_entry, const kscout_gemm_call*>,
    .matmul = call<&Core::matmul, const kscout_matmul_call*>,
    .blas = call<&Core::blas, kscout_entry, const kscout_blas_call*>,
    .plan = call<&Core::plan, void*, void*, void*>,
    .attribute = call<&Core::attribute, void*, int, std::int64_t, const void*>,
    .forget_descriptor = call<&Core::forget_descriptor, void*>,
    .after_original = call<&Core::after_original, int>,
    .other = call<&Core::other, kscout_entry>,
    .give_back = call<&Core::give_back>,
    .workspace = call<&Core::workspace, kscout_entry, void*, void*, std::size_t>,
    .finish = call<&Core::finish>,
    .before_fork = before_fork,
    .in_parent = in_parent,
    .in_child = in_child,
};

}  // namespace

}  // namespace kscout::preload

// Of the core and what is linked into it, not of the process.
#pragma GCC visibility push(hidden)
// NOLINTBEGIN: names of others
/// Registers no destructor: at the program's end, threads may still be inside of the core.
extern "C" int __cxa_atexit(void (*)(void*), void*, void*) noexcept { return 0; }

#ifdef DLFO_EH_SEGMENT_TYPE
/// glibc 2.34, on which the core shall run, does not have it.
extern "C" int _dl_find_object(void* address, dl_find_object* result) noexcept {
  return kscout_find_object(address, result);
}
#endif
// NOLINTEND
#pragma GCC visibility pop

/// Registers none here: the system would not call handlers for a fork that began before the core was opened;
/// the preloaded library calls them for each fork.
extern "C" int pthread_atfork(void (*before)(), void (*in_parent)(), void (*in_child)()) noexcept {
  using namespace kscout::preload;
  const std::size_t count = fork_handler_count;
  if (count == fork_handlers.size()) return ENOMEM;
  fork_handlers[count] = {before, in_parent, in_child};
  fork_handler_count = count + 1;
  return 0;
}

extern "C" const kscout_core* kscout_preload_core(kscout_find find) {
  using namespace kscout::preload;
  try {
    core = new Core(find);
    return &kFunctions;
  } catch (...) {
    return nullptr;
  }
}
