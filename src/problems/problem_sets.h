#pragma once
/// \file
/// Makes named sets of problems to measure, train on and report.
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

/// The sets that make_problem_set accepts, without "file".
std::span<const ProblemSetInfo> problem_sets() noexcept;

/// The set to make. Limits apply to each problem with its dtype.
struct ProblemSetRequest {
  std::string set = "smoke";        ///< a name of problem_sets(), or "file"
  std::filesystem::path file = {};  ///< for "file": problems as text or CSV, see read_problems
  /// Content of `file` if it was read before: a pipe can be read only once.
  std::optional<std::string> text = {};
  DType dtype = DType::fp32;  ///< for "file": the default of problems that state none
  /// Layouts of each size; empty: rcr, for "training" those of the passes, for "file" those that it states.
  std::vector<Layout> layouts = {};
  std::vector<std::string> models = {};  ///< for "llm": only these models; empty = all
  double max_gflop = std::numeric_limits<double>::infinity();
  double max_bytes = std::numeric_limits<double>::infinity();  ///< limit for A, B and C together
  /// Number of sizes to draw by `seed`; 0 = all. `random`: number of sizes to make (0 = 200).
  std::size_t count = 0;
  std::uint64_t seed = 1;
  // Bounds of the sizes of set `random`.
  std::int64_t min_size = 1;
  std::int64_t max_size = 8192;
};

/// Throws invalid_argument for an unknown set (naming the nearest) or for bounds that contain too few sizes,
/// not_found for a missing file. Problems are distinct. Sets keep the order of their definition; the layouts
/// of one size follow each other.
std::vector<GemmProblem> make_problem_set(const ProblemSetRequest& request);

/// Keeps the problems of `count` different sizes, drawn by a hash of the sizes. The draw is independent of
/// split_problems with the same seed. Preserves order.
void sample_sizes(std::vector<GemmProblem>& problems, std::size_t count, std::uint64_t seed);

/// Reads problems: one per line as print() writes them (or `m,n,k`), or a CSV table with a header of
/// GemmProblem's field names (m, n, k required) or general names, such as `dtype`; fields as for set_fields.
/// Skips empty lines and lines that start with '#'. `usual`: the element type of problems that state none.
/// Throws not_found, or corrupt_data with the file and the line.
std::vector<GemmProblem> read_problems(const std::filesystem::path& file, DType usual = DType::fp32);
/// The same from text; `source` names it in errors.
std::vector<GemmProblem> parse_problems(std::string_view text, std::string_view source,
                                        DType usual = DType::fp32);

/// Reads convolutions: one-line forms, or a table with ConvProblem's field names (op, n, c, k, h, w, y, x
/// required) or general names, such as `pad`.
std::vector<ConvProblem> read_conv_problems(const std::filesystem::path& file, DType usual = DType::fp32);
std::vector<ConvProblem> parse_conv_problems(std::string_view text, std::string_view source,
                                             DType usual = DType::fp32);

/// Whether the first line with content describes a convolution: a one-line form, or a table header with
/// column `y` (a filter's height). Throws not_found.
bool holds_conv_problems(const std::filesystem::path& file);
/// holds_conv_problems() for a file's text.
bool is_text_of_convs(std::string_view text);

/// The content of a file or a pipe, for the parse functions. Throws not_found, or corrupt_data above 1 GiB.
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

/// Merges problems that operator== calls equal: keeps the first position and adds the weights.
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

/// Defines the groups of problems that stay together in a split, whatever their layouts and element types.
/// sizes: problems of equal sizes (sizes_of). weights: all products with weight matrices of one shape, which
/// is (n, k) of a GEMM, the filter and groups of a convolution.
enum class SplitBy : std::uint8_t { sizes, weights };
template <>
struct EnumWords<SplitBy> {
  static constexpr std::string_view what = "way to split problems";
  static constexpr std::array<std::string_view, 2> words = {"sizes", "weights"};
};
/// The values that the problems of one group share; other entries are 0.
ProblemSizes group_of(ProblemRef problem, SplitBy by);
/// The position of a problem's group in [0, 1), by hash.
double group_fraction(ProblemRef problem, std::uint64_t seed, SplitBy by = SplitBy::sizes);

/// Splits problems into training and held-out parts: the groups with group_fraction < share are held out.
/// Preserves order. Throws invalid_argument for a share outside [0, 1].
std::pair<std::vector<GemmProblem>, std::vector<GemmProblem>> split_problems(
    std::span<const GemmProblem> problems, double held_out_share, std::uint64_t seed,
    SplitBy by = SplitBy::sizes);
std::pair<std::vector<ConvProblem>, std::vector<ConvProblem>> split_problems(
    std::span<const ConvProblem> problems, double held_out_share, std::uint64_t seed,
    SplitBy by = SplitBy::sizes);

/// Removes the problems whose group contains one of `others`. Preserves order.
void leave_out_groups(std::vector<GemmProblem>& problems, std::span<const GemmProblem> others, SplitBy by);
void leave_out_groups(std::vector<ConvProblem>& problems, std::span<const ConvProblem> others, SplitBy by);

// ---- Sorts shapes into families, the slices of every report. The limits are defined only here.
//
// The functions take a GemmProblem, or the product of any problem (product_of):
//
//     shape_family(problem) == ShapeFamily::tiny_m; word(ShapeFamily::tiny_m) == "tiny_m"

/// Slices by rows of C, as in the reports of the public CK Tile heuristics.
enum class ShapeFamily : std::uint8_t { tiny_m, small_m, medium_m, large_m };
template <>
struct EnumWords<ShapeFamily> {
  static constexpr std::string_view what = "shape family";
  static constexpr std::array<std::string_view, 4> words = {"tiny_m", "small_m", "medium_m", "large_m"};
};

/// Slices by K.
enum class DepthRegime : std::uint8_t { shallow_k, medium_k, deep_k };
template <>
struct EnumWords<DepthRegime> {
  static constexpr std::string_view what = "depth regime";
  static constexpr std::array<std::string_view, 3> words = {"shallow_k", "medium_k", "deep_k"};
};

/// Slices by the aspect ratio of C.
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
/// C is tall or wide when one side is at least this many times the other.
inline constexpr std::int64_t kOutlineRatio = 4;

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
