#include "op/gemm/exact_product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "instruments/elements.h"
#include "instruments/instruments.h"
#include "op/gemm/gemm_reference.h"
#include "op/gemm/gemm_views.h"

namespace kscout {

namespace {

/// Rows and columns repeat after so many. No tile is a multiple of it, so a misplaced one shows.
constexpr std::int64_t kClasses = 61;
constexpr std::int64_t kBlock = 8;
constexpr int kTurn = 48;        // where a walk turns back
constexpr std::byte kGap{0x3f};  // of numbers that are no whole ones, in each type of floating point

constexpr double factor(std::int64_t row_class) noexcept {
  constexpr double kFactors[] = {1, -1, 2, -2};
  return kFactors[scatter(static_cast<std::uint32_t>(row_class) + 1) % 4];
}
constexpr double initial_c(std::int64_t row, std::int64_t column) noexcept {
  return static_cast<double>((row + 2 * column) % 4);
}
constexpr double bias_of(std::int64_t column) noexcept { return static_cast<double>(column % 4); }

std::int64_t class_of(std::int64_t line, std::int64_t item) noexcept { return (line + item) % kClasses; }

/// 8 signs (a set bit is -1) with this sum: +-2 or +-4.
std::uint8_t block_of(int sum, std::uint32_t random) noexcept {
  const unsigned minus = static_cast<unsigned>((kBlock - sum) / 2);
  const auto ones = static_cast<std::uint8_t>((1U << minus) - 1);
  return std::rotl(ones, static_cast<int>(random % 8));
}

}  // namespace

bool ExactProduct::knows(const GemmProblem& p) noexcept {
  const auto is_any = [](DType type, std::initializer_list<DType> of) {
    return std::ranges::count(of, type) != 0;
  };
  const auto of_product = {DType::fp32, DType::tf32, DType::fp16, DType::bf16,
                           DType::fp8,  DType::bf8,  DType::int8};
  return is_any(p.dtype_a, of_product) && is_any(p.dtype_b, of_product) && p.dtype_c != DType::int8 &&
         (is_any(p.dtype_c, of_product) || p.dtype_c == DType::int32) && p.dtype_acc != DType::fp64;
}

ExactProduct::ExactProduct(const GemmProblem& problem, const Strides& strides)
    : problem_(problem), a_(view_a(problem)), b_(view_b(problem)), c_(view_c(problem)) {
  if (!knows(problem)) with_element(DType::int4, []<class E>() {});
  for (const auto& [view, stride] : {std::pair{&a_, strides.a}, {&b_, strides.b}, {&c_, strides.c}}) {
    if (stride != 0) view->batch_stride = stride;
  }
  const std::int64_t blocks = (problem.k + kBlock - 1) / kBlock;
  common_.resize(static_cast<std::size_t>(blocks));
  walks_.resize(static_cast<std::size_t>(blocks * kWalks));
  int at[kWalks] = {};
  for (std::int64_t block = 0; block < blocks; ++block) {
    const auto number = static_cast<std::uint32_t>(block);
    common_[static_cast<std::size_t>(block)] = static_cast<std::uint8_t>(scatter(number ^ 0x9e3779b9U));
    const std::int64_t signs_of_k = std::min(problem.k - block * kBlock, kBlock);
    for (int walk = 0; walk < kWalks; ++walk) {
      const std::uint32_t random = scatter(number * kWalks + static_cast<std::uint32_t>(walk));
      const bool down = at[walk] > kTurn || (at[walk] >= -kTurn && random % 2 != 0);
      const int size = random & 2 ? 2 : 4;
      const std::uint8_t bits = block_of(down ? -size : size, random >> 2);
      at[walk] += down ? -size : size;
      walks_[static_cast<std::size_t>(block * kWalks + walk)] = bits;
      const auto counted = static_cast<std::uint8_t>(bits & ((1U << signs_of_k) - 1));
      ends_[walk] = static_cast<std::int8_t>(ends_[walk] + signs_of_k - 2 * std::popcount(counted));
    }
  }
}

std::size_t ExactProduct::bytes(const MatrixView& view) const noexcept {
  return static_cast<std::size_t>((problem_.batch - 1) * view.batch_stride + view.lines() * view.leading) *
         element_bytes(view.dtype);
}
std::size_t ExactProduct::bytes_bias() const noexcept {
  return has_bias(problem_.epilogue) ? static_cast<std::size_t>(problem_.n) * element_bytes(problem_.dtype_c)
                                     : 0;
}

std::uint8_t ExactProduct::signs(std::int64_t block, bool is_b, std::int64_t column_class) const noexcept {
  const std::uint8_t common = common_[static_cast<std::size_t>(block)];
  if (!is_b) return common;
  return common ^ walks_[static_cast<std::size_t>(block * kWalks + column_class % kWalks)];
}

void ExactProduct::fill(std::span<std::byte> to, const MatrixView& view, bool is_b) const {
  const bool along_k = view.row_major != is_b;  // whether a line has all K of a row or a column
  with_element(view.dtype, [&]<class E>() {
    using T = typename E::stored;
    T numbers[kClasses][2];  // of each class, with both signs
    for (std::int64_t c = 0; c < kClasses; ++c) {
      E::store(numbers[c], 0, factor(c));
      E::store(numbers[c], 1, -factor(c));
    }
    const std::int64_t lines = view.lines(), length = view.length(), repeated = std::min(kClasses, length);
    const auto number_of = [&](std::int64_t k, std::int64_t of) {
      return numbers[of][signs(k / kBlock, is_b, of) >> (k % kBlock) & 1];
    };
    std::vector<T> line(static_cast<std::size_t>(length));
    const auto put = [&](std::int64_t item, std::int64_t at) {
      const std::int64_t first = item * view.batch_stride + at * view.leading;
      std::memcpy(to.data() + static_cast<std::size_t>(first) * sizeof(T), line.data(),
                  line.size() * sizeof(T));
    };
    std::ranges::fill(to, kGap);
    for (std::int64_t item = 0; item < problem_.batch; ++item) {
      for (std::int64_t first = 0; along_k && first < std::min(kClasses, lines); ++first) {
        const std::int64_t of = class_of(first, item);
        for (std::int64_t k = 0; k < length; k += kBlock) {
          const unsigned bits = signs(k / kBlock, is_b, of);
          const std::int64_t count = std::min(kBlock, length - k);
          for (std::int64_t i = 0; i < count; ++i)
            line[static_cast<std::size_t>(k + i)] = numbers[of][bits >> i & 1];
        }
        for (std::int64_t at = first; at < lines; at += kClasses) put(item, at);
      }
      for (std::int64_t k = 0; !along_k && k < lines; ++k) {
        for (std::int64_t i = 0; i < repeated; ++i)
          line[static_cast<std::size_t>(i)] = number_of(k, class_of(i, item));
        for (std::int64_t i = repeated; i < length; i += repeated)
          std::copy_n(line.begin(), std::min(repeated, length - i), line.begin() + i);
        put(item, k);
      }
    }
  });
}

void ExactProduct::fill_c(std::span<std::byte> to) const {
  std::ranges::fill(to, std::byte{0xff});
  if (!problem_.accumulate) return;
  with_element(c_.dtype, [&]<class E>() {
    for (std::int64_t item = 0; item < problem_.batch; ++item)
      for (std::int64_t row = 0; row < problem_.m; ++row)
        for (std::int64_t column = 0; column < problem_.n; ++column)
          E::store(to.data(), c_.at(item, row, column), initial_c(row, column));
  });
}

void ExactProduct::fill_bias(std::span<std::byte> to) const {
  if (to.empty()) return;
  with_element(c_.dtype, [&]<class E>() {
    for (std::int64_t column = 0; column < problem_.n; ++column) E::store(to.data(), column, bias_of(column));
  });
}

double ExactProduct::expected(std::int64_t item, std::int64_t row, std::int64_t column) const noexcept {
  const std::int64_t row_class = class_of(row, item), column_class = class_of(column, item);
  const double sum = factor(row_class) * factor(column_class) * ends_[column_class % kWalks] +
                     (problem_.accumulate ? initial_c(row, column) : 0) +
                     (has_bias(problem_.epilogue) ? bias_of(column) : 0);
  return apply_epilogue(problem_.epilogue, sum);
}

std::optional<ExactProduct::Fault> ExactProduct::fault(std::span<const std::byte> c) const {
  const bool is_gelu = problem_.epilogue == Epilogue::gelu || problem_.epilogue == Epilogue::bias_gelu;
  Fault found;
  with_element(c_.dtype, [&]<class E>() {
    const auto is_right = [&](double value, double exact) {
      if (is_gelu) return std::abs(value - exact) <= 4 * E::round_off * (1 + std::abs(exact));
      typename E::stored stored;
      E::store(&stored, 0, exact);
      return value == E::load(&stored, 0);
    };
    for (std::int64_t item = 0; item < problem_.batch; ++item) {
      for (std::int64_t row = 0; row < problem_.m; ++row) {
        for (std::int64_t column = 0; column < problem_.n; ++column) {
          const double value = E::load(c.data(), c_.at(item, row, column)),
                       exact = expected(item, row, column);
          if (is_right(value, exact)) continue;
          if (found.wrong++ == 0)
            found.text =
                fmt::format("row {}, column {} of item {} is {}, not {}", row, column, item, value, exact);
        }
      }
    }
  });
  if (found.wrong == 0) return std::nullopt;
  return found;
}

}  // namespace kscout
