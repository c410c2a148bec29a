#pragma once
/// \file
/// Allocates memory with an unreadable page right behind (or right before) its elements: an access one
/// element too far crashes the test program at that access.
#include <cstddef>
#include <cstdint>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

namespace kscout::test {

class Guarded {
 public:
  enum class Edge { behind, before };

  explicit Guarded(std::size_t floats, Edge edge = Edge::behind) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t bytes = floats * sizeof(float);
    const std::size_t inner = (bytes + page - 1) / page * page;
    size_ = inner + 2 * page;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(base_, page, PROT_NONE);
    mprotect(base_ + page + inner, page, PROT_NONE);
    data_ = reinterpret_cast<float*>(base_ + page + (edge == Edge::behind ? inner - bytes : 0));
  }
  ~Guarded() { munmap(base_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  float* data() const noexcept { return data_; }

 private:
  std::byte* base_;
  std::size_t size_;
  float* data_;
};

}  // namespace kscout::test
