#include "op/gemm/exact_product.h"

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/any_problem.h>

#include "instruments/elements.h"
#include "op/gemm/gemm_reference.h"
#include "op/gemm/gemm_views.h"

namespace kscout {
namespace {

struct Bytes {
  std::vector<std::byte> a, b, c, bias;
};

Bytes operands_of(const ExactProduct& product) {
  Bytes made{std::vector<std::byte>(product.bytes_a()), std::vector<std::byte>(product.bytes_b()),
             std::vector<std::byte>(product.bytes_c()), std::vector<std::byte>(product.bytes_bias())};
  product.fill_a(made.a);
  product.fill_b(made.b);
  product.fill_c(made.c);
  product.fill_bias(made.bias);
  return made;
}

/// How often a kernel adds the product at a position of K, and from where it takes it.
struct Position {
  int times;
  std::int64_t from;
};
using Positions = std::function<Position(std::int64_t k)>;

Position each_once(std::int64_t k) { return {1, k}; }

/// A kernel with `slices` of K, whose partial sums are stored in C's type.
void compute(const GemmProblem& p, Bytes& on, std::int64_t slices, const Positions& positions) {
  const auto load = [](DType dtype, const std::vector<std::byte>& from, std::int64_t at) {
    return with_element(dtype, [&]<class E>() { return E::load(from.data(), at); });
  };
  const MatrixView a = view_a(p), b = view_b(p), c = view_c(p);
  std::vector<double> partial(static_cast<std::size_t>(p.m * p.n));
  for (std::int64_t item = 0; item < p.batch; ++item) {
    for (std::int64_t row = 0; row < p.m; ++row) {
      for (std::int64_t column = 0; column < p.n; ++column) {
        with_element(p.dtype_c, [&]<class E>() {
          typename E::stored sum{};
          E::store(&sum, 0, 0);
          const std::int64_t length = (p.k + slices - 1) / slices;
          for (std::int64_t first = 0; first < p.k; first += length) {
            double part = 0;
            for (std::int64_t k = first; k < std::min(first + length, p.k); ++k) {
              const auto [times, from] = positions(k);
              part += times * load(p.dtype_a, on.a, a.at(item, row, from)) *
                      load(p.dtype_b, on.b, b.at(item, from, column));
            }
            E::store(&sum, 0, E::load(&sum, 0) + part);
          }
          const std::int64_t at = c.at(item, row, column);
          double value = E::load(&sum, 0);
          if (p.accumulate) value += E::load(on.c.data(), at);
          if (has_bias(p.epilogue)) value += load(p.dtype_c, on.bias, column);
          E::store(on.c.data(), at, apply_epilogue(p.epilogue, value));
        });
      }
    }
  }
}

bool is_found(const std::string& text, std::int64_t slices, const Positions& positions) {
  const GemmProblem problem = parse_any_problem(text).gemm();
  const ExactProduct product(problem);
  Bytes on = operands_of(product);
  compute(problem, on, slices, positions);
  return product.fault(on.c).has_value();
}

TEST(ExactProduct, RightResultsAreRightWhateverTheSlices) {
  for (const char* const text :
       {"gemm:70x40x1000:bf16:rcr", "gemm:8x13x4097:bf16:crr", "gemm:1x1x3000:fp16:rrr",
        "gemm:33x70x999:bf16:ccr", "gemm:16x16x2048:fp8:rcr:dtype_c=bf16", "gemm:16x16x512:int8:rcr",
        "gemm:20x24x1500:tf32:rcr", "gemm:9x10x1200:bf16:rcr:accumulate=1",
        "gemm:9x10x1200:bf16:rcr:epilogue=bias_relu", "gemm:9x10x1200:fp16:rcr:epilogue=bias_gelu",
        "gemm:9x10x1200:bf16:rcr:batch=3:lda=1208:ldc=24"}) {
    for (const std::int64_t slices : {1, 3, 16, 61}) EXPECT_FALSE(is_found(text, slices, each_once)) << text;
  }
}

TEST(ExactProduct, LostDoubledAndMisplacedPartsShow) {
  for (const char* const text :
       {"gemm:12x17x4096:bf16:rcr", "gemm:8x16x4096:bf16:crr", "gemm:16x8x4096:fp16:rrr",
        "gemm:5x17x4096:bf16:rcr:accumulate=1", "gemm:16x16x4096:fp16:rcr:epilogue=relu"}) {
    for (const std::int64_t first : {0, 8, 1024, 4088}) {
      for (const std::int64_t length : {8, 64, 1000}) {
        const auto is_inside = [&](std::int64_t k) { return k >= first && k < first + length; };
        EXPECT_TRUE(is_found(text, 4,
                             [&](std::int64_t k) {
                               return Position{is_inside(k) ? 0 : 1, k};
                             }))
            << text << " without " << length << " at " << first;
        EXPECT_TRUE(is_found(text, 4,
                             [&](std::int64_t k) {
                               return Position{is_inside(k) ? 2 : 1, k};
                             }))
            << text << " twice " << length << " at " << first;
        EXPECT_TRUE(is_found(text, 4,
                             [&](std::int64_t k) {
                               return Position{1, is_inside(k) ? (k + 2048) % 4096 : k};
                             }))
            << text << " from elsewhere " << length << " at " << first;
      }
    }
  }
}

TEST(ExactProduct, OneWrongElementShows) {
  const GemmProblem problem = parse_any_problem("gemm:70x40x1000:bf16:rcr:batch=2").gemm();
  const ExactProduct product(problem);
  Bytes on = operands_of(product);
  compute(problem, on, 1, each_once);
  ASSERT_FALSE(product.fault(on.c));
  reinterpret_cast<std::uint16_t*>(on.c.data())[view_c(problem).at(1, 69, 39)] ^= 1;
  const auto fault = product.fault(on.c);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->wrong, 1);
  EXPECT_NE(fault->text.find("row 69, column 39 of item 1 is "), std::string::npos) << fault->text;
}

TEST(ExactProduct, ElementsThatNobodyWritesShow) {
  const ExactProduct product(parse_any_problem("gemm:7x9x1024:fp16:rcr").gemm());
  const Bytes on = operands_of(product);
  EXPECT_EQ(product.fault(on.c)->wrong, 63);
}

TEST(ExactProduct, ItemsMayLieBetweenEachOthersLines) {
  GemmProblem problem = parse_any_problem("gemm:6x5x64:bf16:rcr:batch=3:lda=192:ldb=192").gemm();
  const ExactProduct product(problem, {.a = 64, .b = 64, .c = 0});
  Bytes on = operands_of(product);
  const auto at = [](const std::vector<std::byte>& from, std::int64_t i) {
    return BFloat16::load(from.data(), i);
  };
  for (std::int64_t item = 0; item < 3; ++item) {
    for (std::int64_t row = 0; row < 6; ++row) {
      for (std::int64_t column = 0; column < 5; ++column) {
        double sum = 0;
        for (std::int64_t k = 0; k < 64; ++k)
          sum += at(on.a, item * 64 + row * 192 + k) * at(on.b, item * 64 + column * 192 + k);
        BFloat16::store(on.c.data(), view_c(problem).at(item, row, column), sum);
      }
    }
  }
  EXPECT_FALSE(product.fault(on.c));
}

}  // namespace
}  // namespace kscout
