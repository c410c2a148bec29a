#pragma once
/// \file
/// Keeps objects that one thread uses at a time for the next one that needs any.
///
///     Shelf<Launch> launches;
///     std::unique_ptr<Launch> one = launches.take();     // null: make one
///     ...
///     launches.give(std::move(one));
///
/// Takes no lock, so a forked child can use it at once; it lacks what threads of its parent had taken.
/// Threads look first where they left theirs, and so do not share lines of the CPU's cache.
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

#include "core/thread_number.h"

namespace kscout::preload {

template <class T>
class Shelf {
 public:
  Shelf() = default;
  Shelf(const Shelf&) = delete;
  Shelf& operator=(const Shelf&) = delete;
  ~Shelf() {
    while (take()) continue;
  }

  std::unique_ptr<T> take() noexcept {
    for (std::size_t i = 0, first = thread_number(); i < kPlaces; ++i) {
      std::atomic<T*>& place = places_[(first + i) % kPlaces].one;
      if (!place.load(std::memory_order_relaxed)) continue;
      if (T* const one = place.exchange(nullptr, std::memory_order_acquire)) return std::unique_ptr<T>(one);
    }
    return nullptr;
  }
  /// Destroys it where the shelf is full.
  void give(std::unique_ptr<T> one) noexcept {
    for (std::size_t i = 0, first = thread_number(); one && i < kPlaces; ++i) {
      T* none = nullptr;
      if (places_[(first + i) % kPlaces].one.compare_exchange_strong(none, one.get(),
                                                                     std::memory_order_release))
        static_cast<void>(one.release());
    }
  }

 private:
  static constexpr std::size_t kPlaces = 16, kLineBytes = 64;
  struct alignas(kLineBytes) Place {
    std::atomic<T*> one = nullptr;
  };
  std::array<Place, kPlaces> places_;
};

}  // namespace kscout::preload
