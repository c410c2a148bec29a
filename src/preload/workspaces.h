#pragma once
/// \file
/// Gives each stream a workspace, and captures one that was reserved before.
///
///     StreamWorkspaces workspaces(driver, gpu.memory());
///     workspaces.tidy(stream);
///     const auto hold = workspaces.hold();
///     void* const memory = workspaces.take(stream, bytes, /*capturing=*/false);   // null: none is left
///     launch.run(buffers, memory, stream);
///
/// Work on one stream is ordered, so its calls share a workspace. A captured graph may run at any later time:
/// its workspace is never used for anything else.
///
/// A workspace is taken only while a tenth of the GPU's memory stays free, and given back on need:
/// give_back() when an allocation of the program fails, tidy() when little memory is left. cudaMalloc is the
/// only allocation that is watched. PyTorch and most programs use it, and one trampoline in the preloaded
/// library suffices. Other ones (pools, PyTorch's expandable segments) get their functions from the driver by
/// name, where no library can be put before them. They grow in small steps, which tidy() notices.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include <kscout/backend.h>

#include "preload/calls.h"

namespace kscout::preload {

/// Functions of the GPU's driver, which the program has loaded; null where it lacks one. All return 0 on
/// success.
struct Driver {
  int (*device)(int* device) = nullptr;
  int (*retain)(void** context, int device) = nullptr;
  int (*current)(void** context) = nullptr;
  int (*set_current)(void* context) = nullptr;
  int (*is_capturing)(void* stream, int* status) = nullptr;
  int (*capture_info)(void* stream, int* status, std::uint64_t* id, void*, void*, void*) = nullptr;
  int (*stream_id)(void* stream, unsigned long long* id) = nullptr;
  int (*memory)(std::size_t* free, std::size_t* total) = nullptr;
  int (*exchange_capture_mode)(int* mode) = nullptr;
  int (*event_create)(void** event, unsigned flags) = nullptr;
  int (*event_record)(void* event, void* stream) = nullptr;
  int (*event_query)(void* event) = nullptr;
  int (*event_elapsed)(float* ms, void* begin, void* end) = nullptr;
  int (*allocate)(std::uint64_t* address, std::size_t bytes) = nullptr;
  int (*release)(std::uint64_t address) = nullptr;
  int (*to_gpu)(std::uint64_t to, const void* from, std::size_t bytes, void* stream) = nullptr;
  int (*to_host)(void* to, std::uint64_t from, std::size_t bytes, void* stream) = nullptr;
  int (*wait)(void* stream) = nullptr;

  static Driver found_by(kscout_find find) noexcept;
  bool is_complete() const noexcept;
  bool has_events() const noexcept { return event_create && event_record && event_query && event_elapsed; }
  bool has_copies() const noexcept { return allocate && release && to_gpu && to_host && wait; }
  /// Also true where the driver cannot say.
  bool captures(void* stream) const noexcept {
    int status = 0;
    return is_capturing(stream, &status) != 0 || status != 0;
  }
};

/// Allows this thread to allocate while another one captures a graph.
class CaptureAside {
 public:
  explicit CaptureAside(const Driver& driver) noexcept : driver_(driver) {
    driver_.exchange_capture_mode(&mode_);
  }
  ~CaptureAside() { driver_.exchange_capture_mode(&mode_); }
  int before() const noexcept { return mode_; }  ///< the thread's mode
  CaptureAside(const CaptureAside&) = delete;
  CaptureAside& operator=(const CaptureAside&) = delete;

  static constexpr int kRelaxed = 2;  ///< CU_STREAM_CAPTURE_MODE_RELAXED

 private:
  const Driver& driver_;
  int mode_ = kRelaxed;
};

class StreamWorkspaces {
 public:
  StreamWorkspaces(const Driver& driver, Memory& memory) : driver_(driver), memory_(memory) {}

  using Hold = std::shared_lock<std::shared_mutex>;
  /// Nothing is released while one exists: it lasts from take() until the work is enqueued.
  Hold hold() { return Hold(holding_); }
  /// At least `bytes` for calls on this stream, until the next take(); null where there are none. While the
  /// stream captures, allocates nothing. Throws std::bad_alloc.
  void* take(void* stream, std::size_t bytes, bool capturing);
  /// Reserves memory for the next capture that needs `bytes`. Call it outside of captures.
  void reserve(std::size_t bytes);

  /// Releases all memory but that of captures; waits for the GPU. Returns whether there was any.
  bool give_back() noexcept;
  /// Releases memory that larger pieces have replaced, and all where little of the GPU's memory is free. Call
  /// it before calls on this stream; it does nothing while the stream captures.
  void tidy(void* stream) noexcept;
  /// How often give_back() released memory.
  std::uint64_t given_back() const noexcept { return given_back_.load(std::memory_order_relaxed); }

 private:
  struct Piece {
    void* memory = nullptr;
    std::size_t bytes = 0;
  };
  /// The number of a capture plus 1, and the address of a stream; or 0, and the number of a stream.
  using Place = std::pair<std::uint64_t, std::uint64_t>;

  bool place_of(void* stream, bool capturing, Place& place) const noexcept;
  /// Null when too little memory is left.
  Piece allocate(std::size_t bytes) noexcept;
  bool is_memory_scarce() const noexcept;
  /// Both return whether there was any; the second one needs holding_.
  bool release(Piece& piece) noexcept;
  bool release_replaced() noexcept;

  const Driver& driver_;
  Memory& memory_;
  std::mutex mutex_;
  std::map<Place, Piece> pieces_;
  Piece spare_;
  std::vector<Piece> replaced_;
  /// The last request that found too little memory, and how many as large ones are refused without a check.
  std::size_t refused_bytes_ = 0;
  int refusals_left_ = 0;
  std::atomic<bool> has_replaced_ = false;
  std::atomic<unsigned> calls_ = 0;
  std::atomic<std::uint64_t> given_back_ = 0;
  std::shared_mutex holding_;  ///< locked before mutex_
};

}  // namespace kscout::preload
