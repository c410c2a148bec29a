#pragma once
/// \file
/// Draws random fp32 GEMMs, and checks their results.
///
///     Rng rng(seed);
///     const GemmProblem p = random_problem(rng);
///     const Operands x(p, rng, Guarded::Edge::behind);
///     const GemmBuffers buffers{.a = x.a.data(), .b = x.b.data(), .c = x.c.data()};
///     compute(p, buffers);
///     expect_product(p, buffers, x);
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/backend.h>

#include "guarded.h"

namespace kscout::test {

using Rng = std::mt19937_64;

inline constexpr float kGap = -7777.0F;  // between the lines of C: must survive

inline std::int64_t pick(Rng& rng, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(rng);
}
template <class T, std::size_t N>
T one_of(Rng& rng, const T (&values)[N]) {
  return values[static_cast<std::size_t>(pick(rng, 0, N - 1))];
}

inline std::int64_t random_size(Rng& rng) {
  switch (pick(rng, 0, 4)) {
    case 0:
      return pick(rng, 0, 3);
    case 1:
      return pick(rng, 1, 20);
    case 2:
      return one_of(
          rng, {std::int64_t{7}, std::int64_t{13}, std::int64_t{16}, std::int64_t{31}, std::int64_t{64}});
    case 3:
      return pick(rng, 20, 70);
    default:
      return pick(rng, 60, 150);
  }
}

inline GemmProblem random_problem(Rng& rng) {
  GemmProblem p = make_gemm(random_size(rng), random_size(rng), random_size(rng), DType::fp32,
                            static_cast<Layout>(pick(rng, 0, 3)));
  p.batch = pick(rng, 0, 3) == 0 ? pick(rng, 2, 3) : 1;
  const LeadingDimensions packed = leading_dimensions(p);
  if (pick(rng, 0, 1)) p.lda = packed.a + pick(rng, 0, 9);
  if (pick(rng, 0, 1)) p.ldb = packed.b + pick(rng, 0, 9);
  if (pick(rng, 0, 1)) p.ldc = packed.c + pick(rng, 0, 9);
  p.accumulate = pick(rng, 0, 1) != 0;
  return p;
}

struct Operands {
  Guarded a, b, c;
  std::vector<float> before;  // C as it was

  Operands(const GemmProblem& p, Rng& rng, Guarded::Edge edge)
      : a(static_cast<std::size_t>(operand_elements(p).a), edge),
        b(static_cast<std::size_t>(operand_elements(p).b), edge),
        c(static_cast<std::size_t>(operand_elements(p).c), edge) {
    const auto sizes = operand_elements(p);
    std::uniform_real_distribution<float> values(-1, 1);
    std::generate_n(a.data(), sizes.a, [&] { return values(rng); });
    std::generate_n(b.data(), sizes.b, [&] { return values(rng); });
    const std::int64_t ldc = leading_dimensions(p).c;
    for (std::int64_t i = 0; i < sizes.c; ++i) {
      // NaN where C is not read: it must not spread.
      c.data()[i] = i % ldc >= p.n ? kGap
                    : p.accumulate ? values(rng)
                                   : std::numeric_limits<float>::quiet_NaN();
    }
    before.assign(c.data(), c.data() + sizes.c);
  }
};

/// What the epilogue makes of a sum; GELU in its tanh form.
inline double activated(Epilogue epilogue, double x) {
  switch (epilogue) {
    case Epilogue::relu:
    case Epilogue::bias_relu:
      return std::max(x, 0.0);
    case Epilogue::gelu:
    case Epilogue::bias_gelu:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979324) * (x + 0.044715 * x * x * x)));
    case Epilogue::none:
    case Epilogue::bias:
      break;
  }
  return x;
}

/// Compares with sums in double. A sum of k products in any order of float operations is off by at most
/// (k + 8) * 2^-24 times the sum of the magnitudes (Higham, section 3.1); splits and blocks only shorten
/// chains. The slope of GELU is below 1.13, and its value is rounded a few times more.
inline void expect_product(const GemmProblem& p, const GemmBuffers& buffers, const Operands& x) {
  const LeadingDimensions ld = leading_dimensions(p);
  const std::int64_t batch_a = operand_elements(p).a / p.batch, batch_b = operand_elements(p).b / p.batch;
  const auto fresh = static_cast<const float*>(buffers.c);
  const auto bias = static_cast<const float*>(buffers.bias);  // null: none is added
  const bool has_gelu = p.epilogue == Epilogue::gelu || p.epilogue == Epilogue::bias_gelu;
  const double roundings = static_cast<double>(p.k + 8) * (has_gelu ? 1.13 : 1) + (has_gelu ? 4 : 0);
  for (std::int64_t batch = 0; batch < p.batch; ++batch) {
    for (std::int64_t i = 0; i < p.m; ++i) {
      const std::int64_t line = (batch * p.m + i) * ld.c;
      for (std::int64_t j = 0; j < p.n; ++j) {
        double sum = 0, magnitude = 0;
        for (std::int64_t k = 0; k < p.k; ++k) {
          const double product =
              double{x.a.data()[batch * batch_a + (row_major_a(p.layout) ? i * ld.a + k : k * ld.a + i)]} *
              x.b.data()[batch * batch_b + (row_major_b(p.layout) ? k * ld.b + j : j * ld.b + k)];
          sum += product;
          magnitude += std::abs(product);
        }
        const double old = buffers.beta != 0 ? buffers.beta * x.before[line + j] : 0;
        const double added = bias ? bias[j] : 0;
        const double expected = activated(p.epilogue, buffers.alpha * sum + old + added);
        const double magnitudes = std::abs(buffers.alpha) * magnitude + std::abs(old) + std::abs(added);
        const double tolerance = roundings * 0x1p-24 * magnitudes + 1e-30;
        ASSERT_LE(std::abs(fresh[line + j] - expected), tolerance)
            << "C(" << i << ", " << j << ") of batch " << batch << " is " << fresh[line + j] << ", not "
            << expected;
        ASSERT_FALSE(std::isnan(fresh[line + j])) << "C(" << i << ", " << j << ")";
      }
      for (std::int64_t j = p.n; j < ld.c; ++j) ASSERT_EQ(fresh[line + j], kGap) << "gap of C, row " << i;
    }
  }
}

}  // namespace kscout::test
