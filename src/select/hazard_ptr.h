#pragma once
/// \file
/// Holds a value that may be replaced while threads read it. Readers take no lock and wait for nobody. They
/// allocate only when more of them read at once than ever before.
///
///     HazardPtr<FallbackChain, SelectScratch> chain(std::make_unique<FallbackChain>(...));
///     {
///       const auto reader = chain.read();        // the value stays until the reader goes
///       use(*reader, reader.scratch());          // memory that no other reader uses at the same time
///     }
///     chain.replace(std::make_unique<FallbackChain>(...));  // returns when nobody reads the old one; frees it
///
/// Method: hazard pointers (M. Michael, IEEE TPDS 2004). Each reader holds a slot that names the value it
/// reads; replace() waits until no slot names the old value. In a forked child, the slots of the parent's
/// other threads stay taken, but nobody waits for them.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/fork_mutex.h"

namespace kscout {

template <class T, class Scratch>
class HazardPtr {
  struct alignas(64) Slot {
    std::atomic<const T*> reads;               ///< null: the slot is free
    std::atomic<std::uint32_t> generation{0};  ///< fork_generation() of its last reader
    Scratch scratch = {};
    Slot* next = nullptr;
  };

 public:
  class Reader {
   public:
    explicit Reader(const HazardPtr& from) : value_(from.value_.load()), slot_(from.take_slot(value_)) {
      // A value that is still current when a slot names it will not be freed.
      for (const T* now = nullptr; (now = from.value_.load()) != value_; value_ = now) slot_->reads = now;
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() { slot_->reads.store(nullptr, std::memory_order_release); }
    const T& operator*() const noexcept { return *value_; }
    const T* operator->() const noexcept { return value_; }
    Scratch& scratch() const noexcept { return slot_->scratch; }

   private:
    const T* value_;
    Slot* slot_;
  };

  explicit HazardPtr(std::unique_ptr<const T> value) : value_(value.release()) {}
  HazardPtr(const HazardPtr&) = delete;
  HazardPtr& operator=(const HazardPtr&) = delete;
  ~HazardPtr() {
    delete value_.load();
    for (Slot* slot = first_.load(); slot;) delete std::exchange(slot, slot->next);
  }

  /// Throws bad_alloc when no slot is free and there is no memory for another.
  Reader read() const { return Reader(*this); }

  /// Returns when the old value is freed. A thread must not call it while it reads the value.
  void replace(std::unique_ptr<const T> value) {
    const std::lock_guard lock(replacing_);
    const std::unique_ptr<const T> old(value_.exchange(value.release()));
    const std::uint32_t generation = fork_generation();
    for (const Slot* slot = first_.load(); slot; slot = slot->next) {
      while (slot->reads.load() == old.get() && slot->generation.load() == generation)
        std::this_thread::yield();
    }
  }

 private:
  Slot* take_slot(const T* to_read) const {
    const std::uint32_t generation = fork_generation();
    for (Slot* slot = first_.load(); slot; slot = slot->next) {
      const T* nothing = nullptr;
      if (slot->reads.load(std::memory_order_relaxed)) continue;
      slot->generation.store(generation);  // before the slot is taken: a thread that takes the slot meanwhile
                                           // writes the same number
      if (slot->reads.compare_exchange_strong(nothing, to_read)) return slot;
    }
    auto* const slot = new Slot{.reads = to_read, .generation = generation};  // freed by the destructor
    slot->next = first_.load();
    while (!first_.compare_exchange_weak(slot->next, slot)) {
    }
    return slot;
  }

  std::atomic<const T*> value_;
  mutable std::atomic<Slot*> first_ = nullptr;  ///< a list that grows only at its front
  std::mutex replacing_;
};

}  // namespace kscout
