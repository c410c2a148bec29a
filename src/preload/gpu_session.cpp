#include "preload/gpu_session.h"

#include <cstring>
#include <exception>
#include <utility>

#include <kscout/version.h>

#include "backend/cuda/cuda_backend.h"

namespace kscout::preload {

thread_local TimedOriginal<Contest<EventTimer>, EventTimer> GpuSession::timed_original_;

GpuSession::GpuSession(kscout_find find, const ServeSettings& settings, std::string off)
    : settings_(settings), find_(find) {
  if (off.empty()) off = cuda_missing();
  driver_ = Driver::found_by(find);
  if (off.empty() && !driver_.is_complete()) off = "the GPU's driver lacks functions; CUDA 12 has them";
  if (off.empty() && settings.refine && !driver_.has_events())
    off = "the GPU's driver has no events to time with";
  if (!off.empty()) turn_off(off);
}

GpuSession::~GpuSession() = default;

void GpuSession::turn_off(const std::string& why) noexcept {
  std::call_once(turned_off_, [&] {
    why.copy(off_reason_.data(), off_reason_.size() - 1);
    off_.store(true, std::memory_order_release);
  });
}

void GpuSession::in_child() noexcept {
  // Threads of the parent may have held any lock.
  if (!off_) std::strcpy(off_reason_.data(), "a forked process has no GPU");
  off_ = true;
}

const char* GpuSession::off_reason() const noexcept { return is_off() ? off_reason_.data() : ""; }

bool GpuSession::is_on_its_gpu() noexcept {
  void* context = nullptr;
  if (driver_.current(&context) != 0 || !context) return false;
  void* first = nullptr;
  return context_.compare_exchange_strong(first, context) || first == context;
}

bool GpuSession::use_context() noexcept { return driver_.set_current && driver_.set_current(context_) == 0; }

bool GpuSession::open() {
  const std::scoped_lock lock(opening_);
  if (std::exchange(was_opened_, true)) return !off_;
  int device = 0;
  void* primary = nullptr;
  if (driver_.device(&device) != 0 || driver_.retain(&primary, device) != 0 || primary != context_) {
    turn_off("the program's context is not the primary one of its GPU");
    return false;
  }
  try {
    use_cuda_device(device);
    gpu_ = &backend("cuda");
    gpu_->device();  // throws where the module does not work
    workspaces_ = std::make_unique<StreamWorkspaces>(driver_, gpu_->memory());
    opened_workspaces_.store(workspaces_.get(), std::memory_order_release);
    if (!are_timings_disabled())
      timings_ = DecisionTable(DecisionDb(settings_.db)
                                   .read(DecisionOrigin{device_identity(gpu_->device()), "", KSCOUT_VERSION,
                                                        std::string(gpu_->name())}),
                               "", {});
  } catch (const std::exception& error) {
    turn_off(error.what());
  }
  return !off_;
}

bool GpuSession::give_back() noexcept {
  StreamWorkspaces* const workspaces = opened_workspaces_.load(std::memory_order_acquire);
  void* context = nullptr;
  if (off_ || !workspaces || driver_.current(&context) != 0 || context != context_) return false;
  // A thread that allocates while it captures a graph has to be in this mode, and may release nothing.
  if (CaptureAside(driver_).before() == CaptureAside::kRelaxed) return false;
  return workspaces->give_back();
}

std::uint64_t GpuSession::given_back() const noexcept {
  const StreamWorkspaces* const workspaces = opened_workspaces_.load(std::memory_order_acquire);
  return workspaces ? workspaces->given_back() : 0;
}

void* GpuSession::workspace_of(const Operands& operands, std::size_t bytes, StreamWorkspaces::Hold& hold,
                               Outcome& why) {
  if (operands.workspace && operands.workspace_bytes >= bytes &&
      is_aligned(operands.workspace, kWorkspaceAlignment))
    return operands.workspace;
  workspaces_->tidy(operands.stream);
  const bool capturing = driver_.captures(operands.stream);
  const CaptureAside aside(driver_);
  hold = workspaces_->hold();
  void* const memory = workspaces_->take(operands.stream, bytes, capturing);
  if (!memory) {
    why = capturing ? Outcome::capture : Outcome::memory;
  } else if (!capturing && (bytes <= kSmallReserve || operands.stream)) {
    workspaces_->reserve(bytes);
  }
  return memory;
}

void GpuSession::exchange_capture_mode() noexcept {
  static thread_local int mode = CaptureAside::kRelaxed;
  driver_.exchange_capture_mode(&mode);
}

void GpuSession::after_original(int status) noexcept {
  const auto [contest, turn, span, stream] = std::exchange(timed_original_, {});
  if (!contest) return exchange_capture_mode();
  if (turn.timed) add(*contest, turn, span, timer_.stop(span, stream) && status == 0);
}

void GpuSession::add(Contest<EventTimer>& contest, const Turn& turn, const EventTimer::Span& span,
                     bool is_recorded) noexcept {
  const std::scoped_lock lock(contesting_);
  contest.add(turn, span, is_recorded, timer_);
}

}  // namespace kscout::preload
