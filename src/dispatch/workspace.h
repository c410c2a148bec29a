#pragma once
/// \file
/// Workspaces that the dispatcher owns: grown and reused, never shrunk.
#include <cstddef>
#include <unordered_map>

#include <kscout/backend.h>

namespace kscout {

/// Bytes of one kind of memory, given back when they go.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { grow(nullptr, 0); }

  /// At least `bytes` of unspecified contents; earlier pointers may become invalid. Throws device_failure.
  void* at_least(Memory& memory, std::size_t bytes) {
    if (bytes > size_) grow(&memory, bytes);
    return bytes_;
  }

 private:
  void grow(Memory* memory, std::size_t bytes) {
    if (bytes_) memory_->release(bytes_);
    bytes_ = nullptr;
    size_ = 0;
    memory_ = memory;
    if (!memory) return;
    bytes_ = memory->allocate(bytes);
    size_ = bytes;
  }

  Memory* memory_ = nullptr;
  void* bytes_ = nullptr;
  std::size_t size_ = 0;
};

/// One workspace per kind of memory.
class Workspaces {
 public:
  void* at_least(Memory& memory, std::size_t bytes) { return by_memory_[&memory].at_least(memory, bytes); }

 private:
  std::unordered_map<Memory*, Workspace> by_memory_;
};

}  // namespace kscout
