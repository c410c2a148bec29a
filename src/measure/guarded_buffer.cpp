#include "measure/guarded_buffer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "core/fail.h"

namespace kscout {

namespace {

constexpr auto kPaint = std::byte{0xA5};
constexpr std::size_t kPage = 4096;

}  // namespace

GuardedBuffer::~GuardedBuffer() { release(); }

void GuardedBuffer::release() noexcept {
  if (mapping_) munmap(mapping_, mapped_);
  mapping_ = nullptr;
  mapped_ = 0;
}

void GuardedBuffer::resize(std::size_t bytes) {
  const std::size_t front = kGuardBytes + stagger_;
  const std::size_t needed = (front + bytes + kGuardBytes + kPage - 1) / kPage * kPage;
  if (needed > mapped_) {
    // Twice the old size at least: a new mapping costs a page fault per page all over again.
    const std::size_t wanted = std::max(needed, 2 * mapped_);
    release();
    void* const memory = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      fail(Errc::device_failure, "a buffer of {} bytes: {}", bytes, std::strerror(errno));
    }
    mapping_ = static_cast<std::byte*>(memory);
    mapped_ = wanted;
  } else if (read_only_) {
    mprotect(mapping_, mapped_, PROT_READ | PROT_WRITE);
  }
  read_only_ = false;
  payload_ = mapping_ + front;
  size_ = bytes;
  std::fill_n(payload_ - kGuardBytes, kGuardBytes, kPaint);
  std::fill_n(payload_ + size_, kGuardBytes, kPaint);
}

void GuardedBuffer::poison() noexcept {
  if (size_ > 0) std::memset(payload_, 0xFF, size_);
}

void GuardedBuffer::make_read_only() {
  if (mprotect(mapping_, mapped_, PROT_READ) != 0) {
    fail(Errc::device_failure, "cannot protect a buffer: {}", std::strerror(errno));
  }
  read_only_ = true;
}

std::string GuardedBuffer::damage() const {
  if (!mapping_) return {};
  static const auto clean = [] {
    std::array<std::byte, kGuardBytes> zone;
    zone.fill(kPaint);
    return zone;
  }();
  const auto changed = [](std::byte b) { return b != kPaint; };
  const std::byte* const end = payload_ + size_;
  if (std::memcmp(end, clean.data(), kGuardBytes) != 0) {
    return fmt::format("{} bytes past its end", std::find_if(end, end + kGuardBytes, changed) - end);
  }
  const std::byte* const begin = payload_ - kGuardBytes;
  if (std::memcmp(begin, clean.data(), kGuardBytes) != 0) {
    return fmt::format("{} bytes before its start",
                       payload_ - std::find_if(begin, begin + kGuardBytes, changed));
  }
  return {};
}

}  // namespace kscout
