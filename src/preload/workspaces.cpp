#include "preload/workspaces.h"

#include <algorithm>
#include <type_traits>

#include <kscout/error.h>

namespace kscout::preload {

Driver Driver::found_by(kscout_find find) noexcept {
  Driver driver;
  const auto set = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find("libcuda", name));
  };
  set(driver.device, "cuCtxGetDevice");
  set(driver.retain, "cuDevicePrimaryCtxRetain");
  set(driver.current, "cuCtxGetCurrent");
  set(driver.set_current, "cuCtxSetCurrent");
  set(driver.is_capturing, "cuStreamIsCapturing");
  set(driver.capture_info, "cuStreamGetCaptureInfo_v2");
  set(driver.stream_id, "cuStreamGetId");
  set(driver.memory, "cuMemGetInfo_v2");
  set(driver.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  set(driver.event_create, "cuEventCreate");
  set(driver.event_record, "cuEventRecord");
  set(driver.event_query, "cuEventQuery");
  set(driver.event_elapsed, "cuEventElapsedTime");
  set(driver.allocate, "cuMemAlloc_v2");
  set(driver.release, "cuMemFree_v2");
  set(driver.to_gpu, "cuMemcpyHtoDAsync_v2");
  set(driver.to_host, "cuMemcpyDtoHAsync_v2");
  set(driver.wait, "cuStreamSynchronize");
  return driver;
}

bool Driver::is_complete() const noexcept {
  return device && retain && current && is_capturing && capture_info && stream_id && memory &&
         exchange_capture_mode;
}

bool StreamWorkspaces::place_of(void* stream, bool capturing, Place& place) const noexcept {
  unsigned long long number = 0;
  if (!capturing) {
    if (driver_.stream_id(stream, &number) != 0) return false;
    place = {0, number};
    return true;
  }
  // The driver ends a capture when it is asked for the id of its stream.
  int status = 0;
  std::uint64_t capture = 0;
  if (driver_.capture_info(stream, &status, &capture, nullptr, nullptr, nullptr) != 0 || status == 0)
    return false;
  place = {capture + 1, reinterpret_cast<std::uintptr_t>(stream)};  // captures are counted from 0
  return true;
}

StreamWorkspaces::Piece StreamWorkspaces::allocate(std::size_t bytes) noexcept {
  constexpr std::size_t kShareThatStaysFree = 10;
  constexpr int kRefusals = 63;
  if (refusals_left_ > 0 && bytes >= refused_bytes_) {
    --refusals_left_;
    return {};
  }
  refused_bytes_ = bytes;
  refusals_left_ = kRefusals;
  std::size_t free = 0, total = 0;
  if (driver_.memory(&free, &total) != 0 || free < bytes || free - bytes < total / kShareThatStaysFree)
    return {};
  try {
    const Piece piece{memory_.allocate(bytes), bytes};
    refusals_left_ = 0;
    return piece;
  } catch (const Error&) {
    return {};
  }
}

void* StreamWorkspaces::take(void* stream, std::size_t bytes, bool capturing) {
  Place place;
  if (!place_of(stream, capturing, place)) return nullptr;
  const std::scoped_lock lock(mutex_);
  Piece& piece = pieces_[place];
  if (piece.bytes >= bytes) return piece.memory;
  if (capturing) {
    // What the capture holds already stays its own.
    if (piece.memory || spare_.bytes < bytes) return nullptr;
    std::swap(piece, spare_);
    return piece.memory;
  }
  replaced_.reserve(replaced_.size() + 1);
  const Piece larger = allocate(bytes);
  if (!larger.memory) return nullptr;
  if (piece.memory) {  // another thread may be about to use it
    replaced_.push_back(piece);
    has_replaced_.store(true, std::memory_order_release);
  }
  piece = larger;
  return piece.memory;
}

void StreamWorkspaces::reserve(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (spare_.bytes >= bytes) return;
  const Piece larger = allocate(bytes);
  if (!larger.memory) return;
  release(spare_);
  spare_ = larger;
}

bool StreamWorkspaces::is_memory_scarce() const noexcept {
  constexpr std::size_t kScarce = 32;  // this part of the GPU's memory, or less
  std::size_t free = 0, total = 0;
  return driver_.memory(&free, &total) == 0 && free < total / kScarce;
}

bool StreamWorkspaces::release(Piece& piece) noexcept {
  if (!piece.memory) return false;
  memory_.release(piece.memory);  // waits for the work that uses it
  piece = {};
  return true;
}

bool StreamWorkspaces::release_replaced() noexcept {
  const bool any = !replaced_.empty();
  for (Piece& piece : replaced_) release(piece);
  replaced_.clear();
  has_replaced_ = false;
  return any;
}

bool StreamWorkspaces::give_back() noexcept {
  const std::scoped_lock lock(holding_, mutex_);
  const CaptureAside aside(driver_);
  bool any = release_replaced();
  for (auto& [place, piece] : pieces_) {
    if (place.first == 0) any = release(piece) || any;
  }
  any = release(spare_) || any;
  if (any) given_back_.fetch_add(1, std::memory_order_relaxed);
  return any;
}

void StreamWorkspaces::tidy(void* stream) noexcept {
  constexpr unsigned kCallsPerCheck = 64;
  const bool checks_memory =
      calls_.fetch_add(1, std::memory_order_relaxed) % kCallsPerCheck == kCallsPerCheck - 1;
  if (!checks_memory && !has_replaced_.load(std::memory_order_acquire)) return;
  if (driver_.captures(stream)) return;
  if (checks_memory && is_memory_scarce()) {
    give_back();
    return;
  }
  if (!has_replaced_) return;
  const std::scoped_lock lock(holding_, mutex_);
  const CaptureAside aside(driver_);
  release_replaced();
}

}  // namespace kscout::preload
