
#include "op/operands.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/fail.h"
#include "core/problem_text.h"

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

void GuardedBuffer::resize(std::size_t bytes, std::size_t offset) {
  const std::size_t front = kGuardBytes + stagger_ + offset;
  const std::size_t needed = (front + bytes + kGuardBytes + kPage - 1) / kPage * kPage;
  if (needed > mapped_) {
    // Grows at least twofold, because a new mapping costs a page fault per page.
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
  offset_ = offset;
  device_.memory().set(payload_ - kGuardBytes, kPaint, kGuardBytes, {});
  device_.memory().set(payload_ + size_, kPaint, kGuardBytes, {});
}

void GuardedBuffer::resize_workspace(std::size_t bytes) {
  // Operands may take three quarters of the memory.
  const double room = device_.memory_bytes() / 3;
  if (static_cast<double>(bytes) > room) {
    fail(Errc::unsupported, "a workspace of {:.1f} GB: {:.1f} GB of memory may be used for it here",
         static_cast<double>(bytes) / 1e9, room / 1e9);
  }
  resize(bytes);
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

namespace {

/// Calls fn(first byte, bytes) for each gap between the lines of a tensor.
template <class F>
void for_each_gap(const Tensor& tensor, F&& fn) {
  const std::size_t line_axis = tensor.rank - 1;
  if (line_axis == 0) return;
  const std::int64_t length = tensor.sizes[line_axis], leading = tensor.strides[line_axis - 1];
  if (leading == length) return;
  const std::size_t bytes = element_bytes(tensor.dtype);
  for (std::int64_t line = 0; line + leading <= tensor.elements(); line += leading)
    fn(static_cast<std::size_t>(line + length) * bytes, static_cast<std::size_t>(leading - length) * bytes);
}

void fill(Instruments& device, GuardedBuffer& buffer, const Tensor& tensor, Operand operand,
          std::uint64_t seed) {
  device.fill(tensor.dtype, buffer.data(), tensor.elements(), operand, seed);
  for_each_gap(tensor, [&](std::size_t at, std::size_t bytes) {
    device.memory().set(buffer.data() + at, std::byte{0xFF}, bytes, {});
  });
}

}  // namespace

const Tensor* GemmOperands::tensor_at(std::size_t at) const noexcept {
  const auto found = std::ranges::find_if(
      tensors_, [&](const Tensor& tensor) { return tensor.at == at && !tensor.optional; });
  return found == tensors_.end() ? nullptr : found;
}

void GemmOperands::make(ProblemRef problem, std::uint64_t seed, const OperandVariant& variant) {
  check(problem);
  tensors_ = operation(problem.kind()).operands(problem);
  result_ = tensors_.result().at;
  packable_ = operation(problem.kind()).packable;
  accumulate_ = signature_of(problem).accumulate;
  const auto bytes_of = [](const Tensor& of) {
    return static_cast<double>(of.elements()) * static_cast<double>(element_bytes(of.dtype));
  };
  double needed = accumulate_ ? bytes_of(tensors_.result()) : 0;
  for (const Tensor& tensor : tensors_) needed += bytes_of(tensor);
  const double of_reference = operation(problem.kind()).reference_bytes(problem);
  const bool on_host = device_.memory().space().kind == MemoryKind::host;
  if (const double room = device_.memory_bytes(); needed + (on_host ? of_reference : 0) > room) {
    fail(Errc::unsupported, "{}: operands of {:.1f} GB{}: {:.1f} GB of memory may be used for them here",
         print(problem), needed / 1e9,
         on_host ? fmt::format(", and {:.1f} GB to verify the result", of_reference / 1e9) : "", room / 1e9);
  }
  alpha_ = variant.alpha;
  for (const Tensor& tensor : tensors_) {
    if (tensor.optional) continue;
    GuardedBuffer& buffer = all_[tensor.at];
    buffer.resize(static_cast<std::size_t>(bytes_of(tensor)),
                  variant.unaligned ? element_bytes(tensor.dtype) : 0);
    if (tensor.at == result_) continue;
    fill(device_, buffer, tensor, static_cast<Operand>(tensor.at), seed);
    buffer.make_read_only();
  }
  if (accumulate_) {
    initial_.resize(all_[result_].size());
    fill(device_, initial_, tensors_.result(), static_cast<Operand>(result_), seed);
  }
  reset_c();
}

void GemmOperands::reset_c() {
  if (!accumulate_) return all_[result_].poison();
  const auto bytes = static_cast<std::int64_t>(initial_.size());
  device_.memory().copy({.from = initial_.data(),
                         .to = all_[result_].data(),
                         .lines = 1,
                         .line_bytes = bytes,
                         .to_lines = 1,
                         .to_line_bytes = bytes},
                        {});
}

void GemmOperands::repair() { all_[result_].repair(); }

Buffers GemmOperands::buffers() noexcept {
  Buffers buffers{.alpha = alpha(), .beta = beta(), .space = device_.memory().space()};
  for (std::size_t at = 0; at < Buffers::max_operands; ++at) buffers.operand[at] = operand(at);
  return buffers;
}

std::string GemmOperands::damage() const {
  const GuardedBuffer& c = all_[result_];
  if (const std::string text = c.damage(); !text.empty()) return "C was written " + text;
  std::string text;
  std::vector<std::byte> gap;
  for_each_gap(tensors_.result(), [&](std::size_t at, std::size_t bytes) {
    gap.resize(bytes);
    device_.memory().read(gap.data(), c.data() + at, bytes, {});
    const auto changed = [](std::byte b) { return b != std::byte{0xFF}; };
    if (text.empty() && std::ranges::any_of(gap, changed)) {
      text = fmt::format("C was written between its lines, {} bytes from its start", at);
    }
  });
  return text;
}

std::string GemmOperands::damage(const GuardedBuffer& workspace, const GuardedBuffer& packed) const {
  if (std::string text = damage(); !text.empty()) return text;
  if (const std::string text = workspace.damage(); !text.empty()) return "the workspace was written " + text;
  if (const std::string text = packed.damage(); !text.empty()) return "the packed filter was written " + text;
  return {};
}

void GemmOperands::evict_from_caches(const Instruments::Region& more) const {
  std::vector<Instruments::Region> regions{more};
  for (const Tensor& tensor : tensors_) {
    if (!tensor.optional) regions.push_back({all_[tensor.at].data(), all_[tensor.at].size()});
  }
  device_.evict(regions);
}

}  // namespace kscout
