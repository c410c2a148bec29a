#pragma once
/// \file
/// Families of shapes: the slices of every report. The limits stand here only.
///
/// Of a GemmProblem, or of the product that a problem is computed as (product_of):
///
///     shape_family(problem) == ShapeFamily::tiny_m; word(ShapeFamily::tiny_m) == "tiny_m"
#include <cstdint>

#include <kscout/problem.h>

namespace kscout {

/// By rows of C, as the public CK Tile heuristics slice their reports.
enum class ShapeFamily : std::uint8_t { tiny_m, small_m, medium_m, large_m };
template <>
struct EnumWords<ShapeFamily> {
  static constexpr std::string_view what = "shape family";
  static constexpr std::array<std::string_view, 4> words = {"tiny_m", "small_m", "medium_m", "large_m"};
};

/// By depth.
enum class DepthRegime : std::uint8_t { shallow_k, medium_k, deep_k };
template <>
struct EnumWords<DepthRegime> {
  static constexpr std::string_view what = "depth regime";
  static constexpr std::array<std::string_view, 3> words = {"shallow_k", "medium_k", "deep_k"};
};

/// By the outline of C.
enum class Outline : std::uint8_t { square, tall, wide };
template <>
struct EnumWords<Outline> {
  static constexpr std::string_view what = "outline";
  static constexpr std::array<std::string_view, 3> words = {"square", "tall", "wide"};
};

inline constexpr std::int64_t kTinyM = 32;      ///< below: tiny_m
inline constexpr std::int64_t kSmallM = 256;    ///< below: small_m
inline constexpr std::int64_t kMediumM = 4096;  ///< below: medium_m; from here large_m
inline constexpr std::int64_t kShallowK = 512;
inline constexpr std::int64_t kMediumK = 4096;
inline constexpr std::int64_t kOutlineRatio = 4;  ///< a side this many times the other makes C tall or wide

template <class P>
constexpr ShapeFamily shape_family(const P& problem) noexcept {
  return problem.m < kTinyM     ? ShapeFamily::tiny_m
         : problem.m < kSmallM  ? ShapeFamily::small_m
         : problem.m < kMediumM ? ShapeFamily::medium_m
                                : ShapeFamily::large_m;
}

template <class P>
constexpr DepthRegime depth_regime(const P& problem) noexcept {
  return problem.k < kShallowK  ? DepthRegime::shallow_k
         : problem.k < kMediumK ? DepthRegime::medium_k
                                : DepthRegime::deep_k;
}

template <class P>
constexpr Outline outline(const P& problem) noexcept {
  return problem.m / kOutlineRatio >= problem.n && problem.m > problem.n   ? Outline::tall
         : problem.n / kOutlineRatio >= problem.m && problem.n > problem.m ? Outline::wide
                                                                           : Outline::square;
}

}  // namespace kscout
