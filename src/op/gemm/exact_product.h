#pragma once
/// \file
/// Makes operands of a GEMM whose exact result is known without computing it, and finds what a kernel did
/// wrong.
///
///     const ExactProduct product(problem);
///     product.fill_a(a), product.fill_b(b), product.fill_c(c);    // spans of product.bytes_a() and so on
///     run(a, b, c);                                               // with alpha 1, and beta 1 to accumulate
///     if (const auto fault = product.fault(c)) say(fault->text);
///
/// All elements are 1, -1, 2 or -2, so each position of K counts. Every part of K from one multiple of 8 to
/// another has a sum of at least 2 in most columns: a part that a kernel leaves out, computes twice or takes
/// from another place changes them. The sums stay so small that all partial sums of neighbouring K, in fp32,
/// fp16 and bf16, are exact. So a result is right bit for bit, or it is wrong: no tolerance hides a fault,
/// and no rounding passes for one. (GELU's values have to be rounded: there, a tolerance decides.)
///
/// A(i,k) = r(i) s(k) and B(k,j) = t(j) s(k) p(j,k), with factors r, t of +-1 and +-2, signs s, and 16 walks
/// of signs p that turn back before they are 64 away from 0. Then C(i,j) = r(i) t(j) times the end of a walk.
/// The idea of operands that show each kind of lost work is that of tests for systolic arrays and of
/// "algorithm-based fault tolerance" (K.-H. Huang, J. A. Abraham, IEEE Trans. Computers 1984).
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kscout/problem.h>

#include "instruments/matrix_view.h"

namespace kscout {

class ExactProduct {
 public:
  /// Whether the types have exact results: all but int4, fp64 and results of int8.
  static bool knows(const GemmProblem& problem) noexcept;

  /// Distances between the items of a batch, in elements; 0: they follow each other.
  struct Strides {
    std::int64_t a = 0, b = 0, c = 0;
    bool operator==(const Strides&) const = default;
  };
  /// Throws unsupported for types that it does not know, and bad_alloc.
  ExactProduct(const GemmProblem& problem, const Strides& strides);
  explicit ExactProduct(const GemmProblem& problem) : ExactProduct(problem, Strides()) {}

  std::size_t bytes_a() const noexcept { return bytes(a_); }
  std::size_t bytes_b() const noexcept { return bytes(b_); }
  std::size_t bytes_c() const noexcept { return bytes(c_); }
  std::size_t bytes_bias() const noexcept;
  /// Gaps between lines and items hold other numbers, so reading there is a fault that shows.
  void fill_a(std::span<std::byte> to) const { fill(to, a_, false); }
  void fill_b(std::span<std::byte> to) const { fill(to, b_, true); }
  /// Small numbers where the problem accumulates, else no numbers.
  void fill_c(std::span<std::byte> to) const;
  void fill_bias(std::span<std::byte> to) const;

  struct Fault {
    std::int64_t wrong = 0;  ///< elements
    std::string text;        ///< the first of them, for people
  };
  std::optional<Fault> fault(std::span<const std::byte> c) const;

 private:
  std::size_t bytes(const MatrixView& view) const noexcept;
  void fill(std::span<std::byte> to, const MatrixView& view, bool is_b) const;
  /// 8 signs of k at 8 * block, for a column of this class.
  std::uint8_t signs(std::int64_t block, bool is_b, std::int64_t column_class) const noexcept;
  double expected(std::int64_t item, std::int64_t row, std::int64_t column) const noexcept;

  static constexpr int kWalks = 16;
  GemmProblem problem_;
  MatrixView a_, b_, c_;
  std::vector<std::uint8_t> common_;  ///< the signs s, 8 in each
  std::vector<std::uint8_t> walks_;   ///< the signs p: of each 8 of k, those of each walk
  std::int8_t ends_[kWalks] = {};     ///< of the walks, after K signs
};

}  // namespace kscout
