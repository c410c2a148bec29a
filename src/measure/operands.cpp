
#include "measure/operands.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <kscout/conv_problem.h>

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

/// Calls fn(first byte, bytes) for each gap between the lines of a matrix, all batch items.
template <class F>
void for_each_gap(const MatrixView& view, std::int64_t items, F&& fn) {
  if (view.leading == view.length()) return;
  const std::size_t bytes = element_bytes(view.dtype);
  for (std::int64_t item = 0; item < items; ++item) {
    for (std::int64_t line = 0; line < view.lines(); ++line) {
      const std::int64_t first = item * view.batch_stride + line * view.leading + view.length();
      fn(static_cast<std::size_t>(first) * bytes,
         static_cast<std::size_t>(view.leading - view.length()) * bytes);
    }
  }
}

void fill_matrix(Instruments& device, GuardedBuffer& buffer, const MatrixView& view, std::int64_t items,
                 Operand operand, std::uint64_t seed) {
  const auto count = static_cast<std::int64_t>(buffer.size() / element_bytes(view.dtype));
  device.fill(view.dtype, buffer.data(), count, operand, seed);
  for_each_gap(view, items, [&](std::size_t at, std::size_t bytes) {
    device.memory().set(buffer.data() + at, std::byte{0xFF}, bytes, {});
  });
}

}  // namespace

MatrixView view_a(const GemmProblem& p) noexcept {
  const bool row = row_major_a(p.layout);
  const std::int64_t ld = leading_dimensions(p).a;
  return {p.dtype_a, p.m, p.k, ld, ld * (row ? p.m : p.k), row};
}

MatrixView view_b(const GemmProblem& p) noexcept {
  const bool row = row_major_b(p.layout);
  const std::int64_t ld = leading_dimensions(p).b;
  return {p.dtype_b, p.k, p.n, ld, ld * (row ? p.k : p.n), row};
}

MatrixView view_c(const GemmProblem& p) noexcept {
  const std::int64_t ld = leading_dimensions(p).c;
  return {p.dtype_c, p.m, p.n, ld, ld * p.m, true};
}

namespace {

/// Positions and numbers of the elements of the three operands.
struct OperandViews {
  MatrixView a, b, c;
  std::int64_t items;
};

/// A tensor without gaps.
MatrixView packed(DType dtype, std::int64_t count) { return {dtype, 1, count, count, count, true}; }

OperandViews views_of(const GemmProblem& problem) {
  return {view_a(problem), view_b(problem), view_c(problem), problem.batch};
}

OperandViews views_of(const ConvProblem& problem) {
  const ConvElements count = operand_elements(problem);
  const auto [a, b, c] =
      by_operand(problem.op, packed(problem.dtype_in, count.in), packed(problem.dtype_wei, count.wei),
                 packed(problem.dtype_out, count.out));
  return {a, b, c, 1};
}

double bytes_of(const MatrixView& view, std::int64_t items) {
  return static_cast<double>(items * view.batch_stride) * static_cast<double>(element_bytes(view.dtype));
}

}  // namespace

void GemmOperands::make(ProblemRef problem, std::uint64_t seed, const OperandVariant& variant) {
  check(problem);
  const OperandViews views = problem.visit([](const auto& of) { return views_of(of); });
  const Signature signature = signature_of(problem);
  view_c_ = views.c;
  items_ = views.items;
  accumulate_ = signature.accumulate;
  has_bias_ = has_bias(signature.epilogue);
  const double a = bytes_of(views.a, items_), b = bytes_of(views.b, items_), c = bytes_of(views.c, items_);
  const double copies_of_c = accumulate_ ? 2 : 1;
  if (const double room = device_.memory_bytes(); a + b + copies_of_c * c > room) {
    fail(Errc::unsupported, "operands of {:.1f} GB: {:.1f} GB of memory may be used for them here",
         (a + b + copies_of_c * c) / 1e9, room / 1e9);
  }
  alpha_ = variant.alpha;
  const auto offset = [&](DType dtype) { return variant.unaligned ? element_bytes(dtype) : 0; };
  a_.resize(static_cast<std::size_t>(a), offset(views.a.dtype));
  b_.resize(static_cast<std::size_t>(b), offset(views.b.dtype));
  c_.resize(static_cast<std::size_t>(c), offset(views.c.dtype));
  fill_matrix(device_, a_, views.a, items_, Operand::a, seed);
  fill_matrix(device_, b_, views.b, items_, Operand::b, seed);
  a_.make_read_only();
  b_.make_read_only();
  if (accumulate_) {
    initial_c_.resize(c_.size());
    fill_matrix(device_, initial_c_, view_c_, items_, Operand::c, seed);
  }
  if (has_bias_) {
    bias_.resize(static_cast<std::size_t>(view_c_.columns) * element_bytes(view_c_.dtype),
                 offset(view_c_.dtype));
    device_.fill(view_c_.dtype, bias_.data(), view_c_.columns, Operand::bias, seed);
  }
  reset_c();
}

void GemmOperands::reset_c() {
  if (!accumulate_) return c_.poison();
  const auto bytes = static_cast<std::int64_t>(c_.size());
  device_.memory().copy({.from = initial_c_.data(),
                         .to = c_.data(),
                         .lines = 1,
                         .line_bytes = bytes,
                         .to_lines = 1,
                         .to_line_bytes = bytes},
                        {});
}

void GemmOperands::repair() { c_.repair(); }

GemmBuffers GemmOperands::buffers() noexcept {
  return {.a = a_.data(),
          .b = b_.data(),
          .c = c_.data(),
          .alpha = alpha(),
          .beta = beta(),
          .bias = bias(),
          .space = device_.memory().space()};
}

std::string GemmOperands::damage() const {
  if (const std::string text = c_.damage(); !text.empty()) return "C was written " + text;
  std::string text;
  std::vector<std::byte> gap;
  for_each_gap(view_c_, items_, [&](std::size_t at, std::size_t bytes) {
    gap.resize(bytes);
    device_.memory().read(gap.data(), c_.data() + at, bytes, {});
    const auto changed = [](std::byte b) { return b != std::byte{0xFF}; };
    if (text.empty() && std::ranges::any_of(gap, changed)) {
      text = fmt::format("C was written between its lines, {} bytes from its start", at);
    }
  });
  return text;
}

void GemmOperands::evict_from_caches(const Instruments::Region& more) const {
  const std::array regions = {Instruments::Region{a_.data(), a_.size()},
                              Instruments::Region{b_.data(), b_.size()},
                              Instruments::Region{c_.data(), c_.size()}, more};
  device_.evict(regions);
}

}  // namespace kscout
