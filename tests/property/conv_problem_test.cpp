/// \file
/// Draws random convolutions and compares the sizes of their products with a loop over every multiply-add.
#include <random>

#include <gtest/gtest.h>

#include <kscout/conv_problem.h>

namespace kscout {
namespace {

using Rng = std::mt19937_64;

std::int64_t pick(Rng& rng, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(rng);
}

ConvProblem random_conv(Rng& rng) {
  for (;;) {
    ConvProblem p = make_conv(static_cast<Op>(pick(rng, 1, 3)), static_cast<DType>(pick(rng, 0, 9)),
                              static_cast<Layout>(pick(rng, 4, 7)));
    const bool deep = spatial_rank(p.layout) == 3;
    p.n = pick(rng, 1, 3);
    p.g = pick(rng, 1, 3);
    p.c = p.g * pick(rng, 1, 3);
    p.k = p.g * pick(rng, 1, 3);
    for_each_field<ConvProblem>([&](const auto& field) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(p.*field.member)>, std::int64_t>) {
        const std::string_view name = field.name;
        if (!deep && (name == "d" || name == "z" || name.ends_with("_d"))) return;
        if (name == "d" || name == "h" || name == "w") p.*field.member = pick(rng, 1, 8);
        if (name == "z" || name == "y" || name == "x") p.*field.member = pick(rng, 1, 4);
        if (name.starts_with("stride") || name.starts_with("dilation")) p.*field.member = pick(rng, 1, 4);
        if (name.find("_pad_") != std::string_view::npos) p.*field.member = pick(rng, 0, 3);
      }
    });
    if (is_valid(p)) return p;
  }
}

/// One spatial axis as a direct computation sees it.
struct Line {
  std::int64_t in, filter, stride, dilation, left_pad, out;
};
std::vector<Line> lines_of(const ConvProblem& p) {
  const ConvOutput out = output_sizes(p);
  return {{p.d, p.z, p.stride_d, p.dilation_d, p.left_pad_d, out.d},
          {p.h, p.y, p.stride_h, p.dilation_h, p.left_pad_h, out.h},
          {p.w, p.x, p.stride_w, p.dilation_w, p.left_pad_w, out.w}};
}

/// Pairs (result, filter element) of one axis that a direct computation walks, zeros of the padding included:
/// forward and for the filter's gradient each output meets each element; for the input's gradient an element
/// of the input meets those elements of the filter from which it is a whole number of steps away.
std::int64_t pairs(const Line& line, Op op) {
  if (op != Op::conv_bwd_data) return line.out * line.filter;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < line.in; ++i) {
    for (std::int64_t f = 0; f < line.filter; ++f) {
      const std::int64_t distance = i + line.left_pad - f * line.dilation;
      count += ((distance % line.stride) + line.stride) % line.stride == 0;
    }
  }
  return count;
}

TEST(ConvProperty, ProductsCountEveryMultiplyAdd) {
  Rng rng(7);
  for (int i = 0; i < 2000; ++i) {
    const ConvProblem p = random_conv(rng);
    std::int64_t expected = 0;
    for (std::int64_t image = 0; image < p.n; ++image) {
      for (std::int64_t c = 0; c < p.c; ++c) {
        for (std::int64_t k = 0; k < p.k; ++k) {
          if (c / (p.c / p.g) != k / (p.k / p.g)) continue;  // another group
          std::int64_t places = 1;
          for (const Line& line : lines_of(p)) places *= pairs(line, p.op);
          expected += places;
        }
      }
    }
    const auto gemms = implicit_gemms(p);
    std::int64_t counted = 0;
    for (const ImplicitGemm& gemm : gemms) {
      counted += gemm.m * gemm.n * gemm.k * gemm.groups;
      ASSERT_EQ(gemm.parts, static_cast<std::int64_t>(gemms.size()));
    }
    ASSERT_EQ(counted, expected) << print(p);
    if (p.op != Op::conv_bwd_data) {
      ASSERT_EQ(flop_count(p), 2.0 * static_cast<double>(expected)) << print(p);
    }
    const ImplicitGemm largest = implicit_gemm(p);
    ASSERT_EQ(largest.parts, static_cast<std::int64_t>(gemms.size())) << print(p);
    for (const ImplicitGemm& gemm : gemms) ASSERT_LE(gemm.m * gemm.k, largest.m * largest.k) << print(p);
  }
}

/// No product leaves out a multiply-add whose three elements exist.
TEST(ConvProperty, BackwardDataCoversForward) {
  Rng rng(8);
  for (int i = 0; i < 2000; ++i) {
    ConvProblem p = random_conv(rng);
    p.op = Op::conv_bwd_data;
    std::int64_t real = p.n * (p.c / p.g) * p.k;
    for (const Line& line : lines_of(p)) {
      std::int64_t count = 0;
      for (std::int64_t o = 0; o < line.out; ++o) {
        for (std::int64_t f = 0; f < line.filter; ++f) {
          const std::int64_t place = o * line.stride + f * line.dilation - line.left_pad;
          count += place >= 0 && place < line.in;
        }
      }
      real *= count;
    }
    std::int64_t counted = 0;
    for (const ImplicitGemm& gemm : implicit_gemms(p)) counted += gemm.m * gemm.n * gemm.k * gemm.groups;
    ASSERT_GE(counted, real) << print(p);
  }
}

TEST(ConvProperty, LinesReadBack) {
  Rng rng(9);
  for (int i = 0; i < 2000; ++i) {
    ConvProblem p = random_conv(rng);
    if (pick(rng, 0, 3) == 0) p.dtype_wei = static_cast<DType>(pick(rng, 0, 9));
    if (pick(rng, 0, 3) == 0) p.split_k = pick(rng, 1, 9);
    if (p.op != Op::conv_bwd_weight) p.prepacked = pick(rng, 0, 1) == 0;
    if (pick(rng, 0, 3) == 0) p.left_pad_w = p.right_pad_w = p.left_pad_h = p.right_pad_h = 3;
    const ConvProblem again = parse_conv_problem(print(p));
    ASSERT_EQ(again, p) << print(p);
    ASSERT_EQ(std::hash<ConvProblem>{}(again), std::hash<ConvProblem>{}(p));
  }
}

}  // namespace
}  // namespace kscout
