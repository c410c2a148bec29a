// Makes operands whose sums depend on their order, runs configs on them and hashes the rows.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "core/fail.h"
#include "core/hash.h"
#include "instruments/elements.h"
#include "measure/measured_backend.h"
#include "op/gemm/gemm_views.h"
#include "search/measure_classes.h"

namespace kscout {

namespace {

constexpr std::size_t kDigits = 16;  // of a hash

/// The places of K in pairs, in an order that depends on K only: place 2i and place 2i + 1 of the result hold
/// products that cancel.
std::vector<std::int64_t> paired_places(std::int64_t k) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(k));
  std::iota(places.begin(), places.end(), std::int64_t{0});
  std::mt19937_64 random(static_cast<std::uint64_t>(k));
  for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[random() % i]);
  return places;
}

/// A number of size 2^-4 to 2^4 with a random sign; whole numbers for integer types.
double scattered(std::uint32_t bits, bool whole) {
  const double sign = (bits & 1u) != 0 ? -1 : 1;
  if (whole) return sign * static_cast<double>(1 + (bits >> 1) % 8);
  constexpr double kSizes[] = {0x1p-4, 0x1p-3, 0x1p-2, 0x1p-1, 1, 2, 4, 8};
  return sign * kSizes[(bits >> 1) & 7u] * (1 + static_cast<double>(bits >> 4) * 0x1p-28);
}

bool is_whole(DType dtype) {
  return with_element(dtype, []<class E>() { return E::round_off == 0; });
}

std::size_t bytes_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.elements()) * element_bytes(tensor.dtype);
}

}  // namespace

bool RowBits::agrees(const RowBits& other) const {
  for (std::size_t i = 0; i < of_pattern.size(); ++i) {
    if (of_pattern[i] != 0 && other.of_pattern[i] != 0 && of_pattern[i] != other.of_pattern[i]) return false;
  }
  return why.empty() && other.why.empty();
}

std::string RowBits::text() const {
  std::string text;
  for (const std::uint64_t hash : of_pattern) text += hash_digits(hash);
  return text;
}

RowBits RowBits::parse(std::string_view text) {
  RowBits bits;
  bool right = text.size() == kDigits * bits.of_pattern.size();
  for (std::size_t i = 0; right && i < bits.of_pattern.size(); ++i) {
    const char* const end = text.data() + (i + 1) * kDigits;
    right = std::from_chars(text.data() + i * kDigits, end, bits.of_pattern[i], 16).ptr == end;
  }
  if (!right)
    fail(Errc::corrupt_data, "bits '{}': must be {} hexadecimal digits", text,
         kDigits * bits.of_pattern.size());
  return bits;
}

RowRuns::RowRuns(Backend& backend, ProblemRef weight, std::int64_t max_m)
    : backend_(backend), memory_(backend.memory()), problem_(with_m(weight, max_m)), max_m_(max_m) {
  check(problem_);
  const OperandList operands = operation(problem_.op()).operands(problem_);
  const std::size_t a = bytes_of(operands[0]), b = bytes_of(operands[1]), c = bytes_of(operands[2]);
  if (const double limit = instruments_of(backend).memory_bytes(); static_cast<double>(a + b + c) > limit)
    fail(Errc::unsupported, "{}: the operands need {} bytes, {} may be used", print(problem_), a + b + c,
         limit);
  a_ = allocated(a);
  b_ = allocated(b);
  c_ = allocated(c);
  fill_a();
  fill_b();
  if (!has_bias(signature_of(problem_).epilogue)) return;
  bias_ = allocated(bytes_of(operands[3]));
  fill_bias();
}

RowRuns::Bytes RowRuns::allocated(std::size_t bytes) {
  return Bytes(static_cast<std::byte*>(memory_.allocate(bytes)), {&memory_});
}

void RowRuns::fill_a() {
  const MatrixView view = view_a(problem_.gemm());
  const std::int64_t rows = std::min(kRowPatterns, max_m_);
  const std::size_t element = element_bytes(view.dtype);
  const std::size_t row_bytes = static_cast<std::size_t>(view.leading) * element;
  std::vector<std::byte> patterns(row_bytes * static_cast<std::size_t>(rows));
  const auto places = paired_places(view.columns);
  const bool whole = is_whole(view.dtype);
  with_element(view.dtype, [&]<class E>() {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        const auto index = static_cast<std::uint32_t>(static_cast<std::uint64_t>(row) << 24 | i / 2);
        const double value = scattered(scatter(index ^ 0xA0000000u), whole);
        E::store(patterns.data(), view.at(0, row, places[i]), i % 2 == 0 ? value : -value);
      }
    }
  });
  for (std::int64_t row = 0; row < max_m_; row += rows) {
    // The last line may end with its last element.
    const std::int64_t count = std::min(rows, max_m_ - row);
    const std::size_t bytes = static_cast<std::size_t>(view.at(0, count - 1, view.columns - 1) + 1) * element;
    memory_.write(a_.get() + static_cast<std::size_t>(row) * row_bytes, patterns.data(), bytes, {});
  }
}

void RowRuns::fill_b() {
  const MatrixView view = view_b(problem_.gemm());
  std::vector<std::byte> all(bytes_of(operation(problem_.op()).operands(problem_)[1]));
  const auto places = paired_places(view.rows);
  const bool whole = is_whole(view.dtype);
  with_element(view.dtype, [&]<class E>() {
    for (std::int64_t column = 0; column < view.columns; ++column) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        const std::uint64_t index = static_cast<std::uint64_t>(column) * places.size() + i / 2;
        const auto bits =
            scatter(static_cast<std::uint32_t>(index) ^ static_cast<std::uint32_t>(index >> 32));
        E::store(all.data(), view.at(0, places[i], column), scattered(bits, whole));
      }
    }
  });
  memory_.write(b_.get(), all.data(), all.size(), {});
}

/// About as small as the rounding errors to which it is added.
void RowRuns::fill_bias() {
  const MatrixView c = view_c(problem_.gemm());
  std::vector<std::byte> all(static_cast<std::size_t>(c.columns) * element_bytes(c.dtype));
  const bool whole = is_whole(c.dtype);
  with_element(c.dtype, [&]<class E>() {
    for (std::int64_t i = 0; i < c.columns; ++i) {
      const double value = scattered(scatter(static_cast<std::uint32_t>(i) ^ 0xB0000000u), whole);
      E::store(all.data(), i, whole ? value : value * 0x1p-10);
    }
  });
  memory_.write(bias_.get(), all.data(), all.size(), {});
}

RowBits RowRuns::hash_rows(std::int64_t m) {
  constexpr std::int64_t kWhole = 64, kEnds = 16, kInside = 32;
  const MatrixView view = view_c(problem_.gemm());
  const std::size_t element = element_bytes(view.dtype);
  const std::size_t row_bytes = static_cast<std::size_t>(view.columns) * element;
  const std::size_t step = static_cast<std::size_t>(view.leading) * element;
  RowBits bits;
  std::array<std::vector<std::byte>, kRowPatterns> seen;
  const auto take = [&](std::int64_t first, std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count - 1) * step + row_bytes;
    rows_.resize(std::max(rows_.size(), bytes));
    memory_.read(rows_.data(), c_.get() + static_cast<std::size_t>(first) * step, bytes, {});
    for (std::int64_t row = first; row < first + count && bits.why.empty(); ++row) {
      const auto pattern = static_cast<std::size_t>(row % kRowPatterns);
      const std::byte* const line = rows_.data() + static_cast<std::size_t>(row - first) * step;
      if (seen[pattern].empty()) {
        seen[pattern].assign(line, line + row_bytes);
        bits.of_pattern[pattern] =
            text_hash({reinterpret_cast<const char*>(line), row_bytes}) | std::uint64_t{1};
      } else if (std::memcmp(seen[pattern].data(), line, row_bytes) != 0) {
        bits.why = fmt::format("row {} differs from an equal row of the same run", row);
      }
    }
  };
  if (m <= kWhole) {
    take(0, m);
    return bits;
  }
  take(0, kEnds);
  for (std::int64_t i = 1; i <= kInside; ++i) take(kEnds + (m - 2 * kEnds) * i / (kInside + 1), 1);
  take(m - kEnds, kEnds);
  return bits;
}

RowBits RowRuns::run(const KernelConfig& config, std::int64_t m) {
  std::unique_ptr<Launch> launch;
  try {
    launch = backend_.prepare(with_m(problem_, m), config);
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) throw;
    return {.why = error.what()};
  }
  if (launch->workspace_bytes() > workspace_bytes_) {
    workspace_.reset();
    workspace_bytes_ = 0;
    workspace_ = allocated(launch->workspace_bytes());
    workspace_bytes_ = launch->workspace_bytes();
  }
  return run(m, [&](const Problem&, const GemmBuffers& buffers) { launch->run(buffers, workspace_.get()); });
}

RowBits RowRuns::run(std::int64_t m, const std::function<void(const Problem&, const GemmBuffers&)>& compute) {
  const Problem problem = with_m(problem_, m);
  const std::size_t bytes = bytes_of(operation(problem.op()).operands(problem).result());
  memory_.set(c_.get(), std::byte{0xFF}, bytes, {});
  compute(problem,
          {.a = a_.get(), .b = b_.get(), .c = c_.get(), .bias = bias_.get(), .space = memory_.space()});
  return hash_rows(m);
}

}  // namespace kscout
