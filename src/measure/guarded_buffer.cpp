#include "measure/guarded_buffer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/fail.h"

namespace kscout {

namespace {

constexpr auto kPaint = std::byte{0xA5};
constexpr std::size_t kPage = 4096;

}  // namespace

GuardedBuffer::~GuardedBuffer() { release(); }

void GuardedBuffer::release() noexcept {
  if (mapping_) device_.unmap(mapping_, mapped_);
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
    mapping_ = device_.map(wanted);
    mapped_ = wanted;
  } else if (read_only_) {
    device_.protect(mapping_, mapped_, false);
  }
  read_only_ = false;
  payload_ = mapping_ + front;
  size_ = bytes;
  device_.memory().set(payload_ - kGuardBytes, kPaint, kGuardBytes, {});
  device_.memory().set(payload_ + size_, kPaint, kGuardBytes, {});
}

void GuardedBuffer::poison() {
  if (size_ > 0) device_.memory().set(payload_, std::byte{0xFF}, size_, {});
}

void GuardedBuffer::make_read_only() {
  device_.protect(mapping_, mapped_, true);
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
  std::array<std::byte, kGuardBytes> zone;
  device_.memory().read(zone.data(), payload_ + size_, kGuardBytes, {});
  if (std::memcmp(zone.data(), clean.data(), kGuardBytes) != 0) {
    return fmt::format("{} bytes past its end", std::ranges::find_if(zone, changed) - zone.begin());
  }
  device_.memory().read(zone.data(), payload_ - kGuardBytes, kGuardBytes, {});
  if (std::memcmp(zone.data(), clean.data(), kGuardBytes) != 0) {
    return fmt::format("{} bytes before its start", zone.end() - std::ranges::find_if(zone, changed));
  }
  return {};
}

}  // namespace kscout
