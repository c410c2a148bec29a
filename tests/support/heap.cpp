// Replaces the program's operator new and delete by ones that count; the array forms call these.
#include "support/heap.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include <malloc.h>

namespace {

std::atomic<std::size_t> calls{0};
std::atomic<std::ptrdiff_t> taken{0}, highest{0};

#ifndef KSCOUT_THREAD_SANITIZER
void* counted(void* block) {
  if (!block) throw std::bad_alloc();
  calls.fetch_add(1, std::memory_order_relaxed);
  const auto size = static_cast<std::ptrdiff_t>(malloc_usable_size(block));
  const std::ptrdiff_t now = taken.fetch_add(size, std::memory_order_relaxed) + size;
  std::ptrdiff_t seen = highest.load(std::memory_order_relaxed);
  while (now > seen && !highest.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
  return block;
}

void give_back(void* block) noexcept {
  if (!block) return;
  taken.fetch_sub(static_cast<std::ptrdiff_t>(malloc_usable_size(block)), std::memory_order_relaxed);
  std::free(block);
}
#endif

}  // namespace

#ifndef KSCOUT_THREAD_SANITIZER  // which has operators of its own; nothing is counted beside them

void* operator new(std::size_t size) { return counted(std::malloc(size > 0 ? size : 1)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(unit, (size + unit - 1) / unit * unit));
}
void operator delete(void* block) noexcept { give_back(block); }
void operator delete(void* block, std::size_t) noexcept { give_back(block); }
void operator delete(void* block, std::align_val_t) noexcept { give_back(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { give_back(block); }
#endif

namespace kscout {

HeapWatch::HeapWatch() : allocations_(calls), live_(taken) { highest = taken.load(); }
std::size_t HeapWatch::allocations() const { return calls - allocations_; }
std::ptrdiff_t HeapWatch::live() const { return taken - live_; }
std::ptrdiff_t HeapWatch::peak() const { return highest - live_; }

}  // namespace kscout
