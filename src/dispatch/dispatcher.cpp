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
  struct Ready {
    Choice choice;
    std::unique_ptr<Launch> launch;
  };

  Impl(Selector s, Backend& b) : selector(std::move(s)), backend(b) {}

  /// The best ranked config that the backend accepts.
  Choice acceptable_choice(const GemmProblem& problem) {
    Choice first = selector.select(problem);
    const std::string refusal = backend.refusal(problem, first.config);
    if (refusal.empty()) return first;
    for (Choice& next : selector.rank(problem, std::numeric_limits<std::size_t>::max())) {
      if (backend.refusal(problem, next.config).empty()) return std::move(next);
    }
    fail(Errc::unsupported, "no config of the family can run {} here; the first choice {} is refused: {}",
         print(problem), Selector::name(problem, first), refusal);
  }

  Ready& ready(const GemmProblem& problem) {
    if (const auto found = launches.find(problem); found != launches.end()) return found->second;
    check(problem);
    Choice choice = acceptable_choice(problem);
    auto launch = backend.prepare(problem, choice.config);
    if (launches.size() >= kReadyLaunches) launches.clear();
    return launches.emplace(problem, Ready{std::move(choice), std::move(launch)}).first->second;
  }

  void run(Launch& launch, const GemmBuffers& buffers) {
    launch.run(buffers, workspace.at_least(launch.workspace_bytes()));
  }

  Selector selector;
  Backend& backend;
  std::mutex mutex;  ///< guards what follows, and makes launches run one after the other
  std::unordered_map<GemmProblem, Ready> launches;
  AlignedBytes workspace;
};

Dispatcher::Dispatcher(Selector selector, Backend& backend)
    : impl_(std::make_unique<Impl>(std::move(selector), backend)) {}
Dispatcher::~Dispatcher() = default;
Dispatcher::Dispatcher(Dispatcher&&) noexcept = default;
Dispatcher& Dispatcher::operator=(Dispatcher&&) noexcept = default;

Choice Dispatcher::choose(const GemmProblem& problem) {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->ready(problem).choice;
}

Choice Dispatcher::run(const GemmProblem& problem, const GemmBuffers& buffers) {
  check_buffers(problem, buffers);
  const std::scoped_lock lock(impl_->mutex);
  Impl::Ready& ready = impl_->ready(problem);
  impl_->run(*ready.launch, buffers);
  return ready.choice;
}

void Dispatcher::run_explicit(const GemmProblem& problem, const KernelConfig& config,
                              const GemmBuffers& buffers) {
  check_buffers(problem, buffers);
  const auto launch = impl_->backend.prepare(problem, config);
  const std::scoped_lock lock(impl_->mutex);
  impl_->run(*launch, buffers);
}

const Selector& Dispatcher::selector() const noexcept { return impl_->selector; }

}  // namespace kscout
