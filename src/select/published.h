#pragma once
/// \file
/// A value that may be replaced while threads read it: readers take no lock, wait for nobody, and allocate
/// only when more of them read at once than ever before.
///
///     Published<Chain, AskScratch> chain(std::make_unique<Chain>(...));
///     {
///       const auto reader = chain.read();        // the value stays until the reader goes
///       use(*reader, reader.scratch());          // memory that no other reader has meanwhile
///     }
///     chain.replace(std::make_unique<Chain>(...));  // returns when nobody reads the old one; frees it
///
/// Method: hazard pointers (M. Michael, IEEE TPDS 2004). Each reader sits on a seat where it writes which
/// value it reads; who replaces the value waits until no seat names the old one. In a forked child the seats
/// of the parent's other threads stay taken, and nobody waits for them.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/fork_mutex.h"

namespace kscout {

template <class T, class Scratch>
class Published {
  struct alignas(64) Seat {
    std::atomic<const T*> reads;               ///< null: the seat is free
    std::atomic<std::uint32_t> generation{0};  ///< fork_generation() of its last reader
    Scratch scratch = {};
    Seat* next = nullptr;
  };

 public:
  class Reader {
   public:
    explicit Reader(const Published& from) : value_(from.value_.load()), seat_(from.take_seat(value_)) {
      // Nobody frees a value that was still current when a seat named it.
      for (const T* now = nullptr; (now = from.value_.load()) != value_; value_ = now) seat_->reads = now;
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() { seat_->reads.store(nullptr, std::memory_order_release); }
    const T& operator*() const noexcept { return *value_; }
    const T* operator->() const noexcept { return value_; }
    Scratch& scratch() const noexcept { return seat_->scratch; }

   private:
    const T* value_;
    Seat* seat_;
  };

  explicit Published(std::unique_ptr<const T> value) : value_(value.release()) {}
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;
  ~Published() {
    delete value_.load();
    for (Seat* seat = first_.load(); seat;) delete std::exchange(seat, seat->next);
  }

  /// Throws bad_alloc when there is no seat free and no memory for another.
  Reader read() const { return Reader(*this); }

  /// Returns when the old value is freed: a thread must not call it while it reads.
  void replace(std::unique_ptr<const T> value) {
    const std::lock_guard lock(replacing_);
    const std::unique_ptr<const T> old(value_.exchange(value.release()));
    const std::uint32_t generation = fork_generation();
    for (const Seat* seat = first_.load(); seat; seat = seat->next) {
      while (seat->reads.load() == old.get() && seat->generation.load() == generation)
        std::this_thread::yield();
    }
  }

 private:
  Seat* take_seat(const T* to_read) const {
    const std::uint32_t generation = fork_generation();
    for (Seat* seat = first_.load(); seat; seat = seat->next) {
      const T* nothing = nullptr;
      if (seat->reads.load(std::memory_order_relaxed)) continue;
      seat->generation.store(generation);  // before the seat is taken: who takes it meanwhile writes the same
      if (seat->reads.compare_exchange_strong(nothing, to_read)) return seat;
    }
    auto* const seat = new Seat{.reads = to_read, .generation = generation};  // lives as long as this
    seat->next = first_.load();
    while (!first_.compare_exchange_weak(seat->next, seat)) {
    }
    return seat;
  }

  std::atomic<const T*> value_;
  mutable std::atomic<Seat*> first_ = nullptr;  ///< a list that only grows in front
  std::mutex replacing_;
};

}  // namespace kscout
