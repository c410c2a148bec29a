#pragma once
/// \file
/// Gives each stream a workspace, and captures one that was reserved before.
///
///     StreamWorkspaces workspaces(driver, gpu.memory());
///     void* const memory = workspaces.take(stream, bytes, /*capturing=*/false);   // null: none is left
///
/// Work on one stream is ordered, so its calls share a workspace. A captured graph may run at any later time:
/// its workspace is never used for anything else. A workspace is taken only while a tenth of the GPU's memory
/// stays free.
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include <kscout/backend.h>

#include "preload/calls.h"

namespace kscout::preload {

/// Functions of the GPU's driver, which the program has loaded; null where it lacks one. All return 0 on
/// success.
struct Driver {
  int (*device)(int* device) = nullptr;
  int (*retain)(void** context, int device) = nullptr;
  int (*current)(void** context) = nullptr;
  int (*is_capturing)(void* stream, int* status) = nullptr;
  int (*capture_info)(void* stream, int* status, std::uint64_t* id, void*, void*, void*) = nullptr;
  int (*stream_id)(void* stream, unsigned long long* id) = nullptr;
  int (*memory)(std::size_t* free, std::size_t* total) = nullptr;
  int (*exchange_capture_mode)(int* mode) = nullptr;
  int (*event_create)(void** event, unsigned flags) = nullptr;
  int (*event_record)(void* event, void* stream) = nullptr;
  int (*event_query)(void* event) = nullptr;
  int (*event_elapsed)(float* ms, void* begin, void* end) = nullptr;

  static Driver found_by(kscout_find find) noexcept;
  bool is_complete() const noexcept;
  bool has_events() const noexcept { return event_create && event_record && event_query && event_elapsed; }
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

  /// At least `bytes` for calls on this stream, until the next take(); null where there are none. While the
  /// stream captures, allocates nothing. Throws std::bad_alloc.
  void* take(void* stream, std::size_t bytes, bool capturing);
  /// Reserves memory for the next capture that needs `bytes`. Call it outside of captures.
  void reserve(std::size_t bytes);

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

  const Driver& driver_;
  Memory& memory_;
  std::mutex mutex_;
  std::map<Place, Piece> pieces_;
  Piece spare_;
};

}  // namespace kscout::preload
