#pragma once
/// \file
/// Named sets of problems to measure, train on and report.
///
///     auto problems = make_problem_set({.set = "llm", .layouts = {Layout::rcr}, .max_gflop = 10});
///     auto [train, held_out] = split_problems(problems, 0.2, /*seed=*/1);
///
/// The same request gives the same problems, in the same order, on every machine.
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/problem.h>

namespace kscout {

struct ProblemSetInfo {
  std::string_view name;
  std::string_view summary;
};

/// The sets that make_problem_set knows, without "file".
std::span<const ProblemSetInfo> problem_sets() noexcept;

/// What to generate. Limits are asked of each problem with its dtype.
struct ProblemSetRequest {
  std::string set = "smoke";             ///< a name of problem_sets(), or "file"
  std::filesystem::path file = {};       ///< for "file": problems as text or CSV, see read_problems
  std::optional<std::string> text = {};  ///< of `file`, where it was read before: a pipe can be read once
  DType dtype = DType::fp32;             ///< of "file": of the problems that say none
  std::vector<Layout> layouts =
      {};  ///< each size in each of these; empty: rcr, for "file" those that stand there
  std::vector<std::string> models = {};  ///< for "llm": only these; empty = all
  double max_gflop = std::numeric_limits<double>::infinity();
  double max_bytes = std::numeric_limits<double>::infinity();  ///< of A, B and C together
  std::size_t count =
      0;  ///< keep so many sizes, drawn by `seed`; 0 = all. `random`: how many to make (0 = 200)
  std::uint64_t seed = 1;
  // Bounds of `random`.
  std::int64_t min_size = 1;
  std::int64_t max_size = 8192;
};

/// Throws invalid_argument for an unknown set (naming the nearest) or bounds that leave nothing to draw from,
/// not_found for a missing file. Problems are distinct; sets keep the order of their definition, layouts of
/// one size follow each other.
std::vector<GemmProblem> make_problem_set(const ProblemSetRequest& request);

/// Reads problems: one per line as print() writes them (or `m,n,k`), or a CSV table with a header of
/// GemmProblem's field names (m, n, k required; `dtype` sets all element types). Empty lines and lines that
/// start with '#' are skipped. `usual`: the element type of problems that say none. Throws not_found, or
/// corrupt_data with the file and the line.
std::vector<GemmProblem> read_problems(const std::filesystem::path& file, DType usual = DType::fp32);
/// The same from text; `source` names it in errors.
std::vector<GemmProblem> parse_problems(std::string_view text, std::string_view source,
                                        DType usual = DType::fp32);

/// The same for convolutions: one-line forms, or a table with ConvProblem's field names (op, n, c, k, h, w,
/// y, x required).
std::vector<ConvProblem> read_conv_problems(const std::filesystem::path& file, DType usual = DType::fp32);
std::vector<ConvProblem> parse_conv_problems(std::string_view text, std::string_view source,
                                             DType usual = DType::fp32);

/// Whether a problem's one-line form says an element type.
bool names_dtype(std::string_view problem_text);

/// Whether the first line that says something is of convolutions: a one-line form, or a header with a filter.
/// Throws not_found.
bool holds_conv_problems(const std::filesystem::path& file);
/// The same of a file's text.
bool is_text_of_convs(std::string_view text);

/// The text of a file or a pipe, for the functions that parse. Throws not_found, or corrupt_data above 1 GiB.
std::string read_problem_text(const std::filesystem::path& file);

template <class P>
void add_weight(P& problem, double weight) {
  if constexpr (std::is_same_v<P, Problem>) {
    problem.set_weight(problem.weight() + weight);
  } else {
    problem.weight += weight;
  }
}
inline double weight_of(ProblemRef problem) {
  return problem.visit([](const auto& of) { return of.weight; });
}

/// The problems with what operator== calls equal merged: first place kept, weights added.
template <class P>
std::vector<P> merge_equal(const std::vector<P>& problems) {
  std::unordered_map<P, std::size_t> places;
  std::vector<P> distinct;
  for (const P& problem : problems) {
    const auto [place, is_new] = places.try_emplace(problem, distinct.size());
    if (is_new) {
      distinct.push_back(problem);
    } else {
      add_weight(distinct[place->second], weight_of(problem));
    }
  }
  return distinct;
}

/// Which problems stay together when problems are split, whatever their layouts and element types: those of
/// equal sizes (sizes_of), or all products with weights of one shape: (n, k) of a GEMM, the filter and groups
/// of a convolution.
enum class SplitBy : std::uint8_t { sizes, weights };
template <>
struct EnumWords<SplitBy> {
  static constexpr std::string_view what = "way to part problems";
  static constexpr std::array<std::string_view, 2> words = {"sizes", "weights"};
};
/// What the problems of one group have in common; other entries are 0.
ProblemSizes group_of(ProblemRef problem, SplitBy by);
/// Where a problem's group falls in [0, 1).
double group_fraction(ProblemRef problem, std::uint64_t seed, SplitBy by = SplitBy::sizes);

/// Train and held-out parts: held out are the groups with group_fraction < share. Order is kept.
std::pair<std::vector<GemmProblem>, std::vector<GemmProblem>> split_problems(
    std::span<const GemmProblem> problems, double held_out_share, std::uint64_t seed,
    SplitBy by = SplitBy::sizes);

// ---- Families of shapes: the slices of every report. The limits stand here only.
//
// Of a GemmProblem, or of the product that a problem is computed as (product_of):
//
//     shape_family(problem) == ShapeFamily::tiny_m; word(ShapeFamily::tiny_m) == "tiny_m"

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
