#include <functional>
#include <limits>
#include <mutex>
#include <unordered_map>

#include <kscout/dispatcher.h>

#include "core/fail.h"
#include "dispatch/aligned_bytes.h"

namespace kscout {

namespace {

void check_buffers(const GemmProblem& problem, const GemmBuffers& buffers) {
  if (buffers.beta != 0 && !problem.accumulate) {
    fail(Errc::invalid_argument, "beta={} reads C, but {} does not accumulate; set accumulate=1",
         buffers.beta, print(problem));
  }
}

}  // namespace

struct Dispatcher::Impl {
  struct Entry {
    Solution solution;
    std::unique_ptr<Launch> launch;  ///< null until a run or a workspace query
  };
  /// Why a config is passed over; empty takes it.
  using Objection = std::function<std::string(const KernelConfig&)>;

  Impl(Selector s, Backend& b) : selector(std::move(s)), backend(b) {}

  /// The best ranked config without objection; throws unsupported with the first one's when all have some.
  Choice choose(const GemmProblem& problem, const Objection& objection) const {
    const Choice first = selector.select(problem);
    const std::string why = objection(first.config);
    if (why.empty()) return first;
    for (Choice& next : selector.rank(problem, std::numeric_limits<std::size_t>::max())) {
      if (next.config != first.config && objection(next.config).empty()) return next;
    }
    fail(Errc::unsupported, "no config of the family can run {} here; the first choice {} is refused: {}",
         print(problem), Selector::name(problem, first), why);
  }

  Entry& entry(const GemmProblem& problem) {
    if (const auto found = entries.find(problem); found != entries.end()) return found->second;
    check(problem);
    const Choice choice =
        choose(problem, [&](const KernelConfig& config) { return backend.refusal(problem, config); });
    if (entries.size() >= kReadyLaunches) entries.clear();
    return entries.emplace(problem, Entry{{choice, &backend}, nullptr}).first->second;
  }

  /// The entry with its launch. A kernel may refuse only now: the next one is tried.
  Entry& ready(const GemmProblem& problem) {
    Entry& one = entry(problem);
    if (one.launch) return one;
    one.solution.choice = choose(problem, [&](const KernelConfig& config) {
      std::string why = backend.refusal(problem, config);
      if (!why.empty()) return why;
      try {
        one.launch = backend.prepare(problem, config);
      } catch (const Error& error) {
        if (error.code() != Errc::unsupported) throw;
        why = error.what();
      }
      return why;
    });
    return one;
  }

  void run(Launch& launch, const GemmProblem& problem, const GemmBuffers& buffers, const RunOn& on) {
    const std::size_t wanted = launch.workspace_bytes();
    if (!on.workspace) return launch.run(buffers, workspace.at_least(wanted), on.stream);
    if (on.workspace_bytes < wanted) {
      fail(Errc::invalid_argument, "{}: a workspace of {} bytes, {} are needed (ask workspace_bytes)",
           print(problem), on.workspace_bytes, wanted);
    }
    launch.run(buffers, on.workspace, on.stream);
  }

  Selector selector;
  Backend& backend;
  std::mutex mutex;  ///< guards what follows, and makes launches run one after the other
  std::unordered_map<GemmProblem, Entry> entries;
  AlignedBytes workspace;
};

Dispatcher::Dispatcher(Selector selector, Backend& backend)
    : impl_(std::make_unique<Impl>(std::move(selector), backend)) {}
Dispatcher::~Dispatcher() = default;
Dispatcher::Dispatcher(Dispatcher&&) noexcept = default;
Dispatcher& Dispatcher::operator=(Dispatcher&&) noexcept = default;

Solution Dispatcher::get_solution(const GemmProblem& problem) {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->entry(problem).solution;
}

std::size_t Dispatcher::workspace_bytes(const GemmProblem& problem) {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->ready(problem).launch->workspace_bytes();
}

Solution Dispatcher::run(const GemmProblem& problem, const GemmBuffers& buffers, const RunOn& on) {
  check_buffers(problem, buffers);
  const std::scoped_lock lock(impl_->mutex);
  Impl::Entry& ready = impl_->ready(problem);
  impl_->run(*ready.launch, problem, buffers, on);
  return ready.solution;
}

void Dispatcher::run_explicit(const GemmProblem& problem, const KernelConfig& config,
                              const GemmBuffers& buffers, const RunOn& on) {
  check_buffers(problem, buffers);
  const auto launch = impl_->backend.prepare(problem, config);
  const std::scoped_lock lock(impl_->mutex);
  impl_->run(*launch, problem, buffers, on);
}

const Selector& Dispatcher::selector() const noexcept { return impl_->selector; }

}  // namespace kscout
