#pragma once
/// \file
/// Reads lists of problems, asks for sets of them, merges, splits, samples and sorts them.
///
///     auto problems = merge_equal(parse_any_problems(text, "shapes.txt"));
///     auto [train, held_out] = split_problems(problems, 0.2, /*seed=*/1);
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/fail.h"
#include "op/operation.h"

namespace kscout {

/// The problems as structs; throws unsupported where one is of another operation.
template <ProblemStruct P>
std::vector<P> structs_of(const std::vector<Problem>& problems) {
  std::vector<P> structs;
  for (const Problem& problem : problems) structs.push_back(problem.as<P>());
  return structs;
}
/// The inverse.
template <ProblemStruct P>
std::vector<Problem> records_of(const std::vector<P>& structs) {
  return {structs.begin(), structs.end()};
}

/// Reads problems, one per line as print() writes them, of any operations in any order (for GEMMs also
/// `m,n,k` and `MxNxK`), or a CSV table of one operation with a header of field names (those without a
/// default required) or general names, such as `dtype` and `pad`; fields as for set_fields. Skips empty lines
/// and lines that start with '#'. `source` names the text in errors. `usual`: the element type of problems
/// that state none. Throws corrupt_data with the source and the line.
std::vector<Problem> parse_any_problems(std::string_view text, std::string_view source,
                                        DType usual = DType::fp32);
/// The same for problems of one operation; throws corrupt_data for those of another.
std::vector<Problem> parse_problems_of(const Operation& operation, std::string_view text,
                                       std::string_view source, DType usual = DType::fp32);
template <ProblemStruct P>
std::vector<P> parse_problems_of(std::string_view text, std::string_view source, DType usual = DType::fp32) {
  return structs_of<P>(parse_problems_of(operation(ProblemOf<P>::kind), text, source, usual));
}

/// The operation of a text of problems: that of the first line with content.
const Operation& operation_of_text(std::string_view text) noexcept;

/// The problems of each operation, in the order of first appearance.
using ProblemsByOperation = std::vector<std::pair<const Operation*, std::vector<Problem>>>;
ProblemsByOperation by_operation(const std::vector<Problem>& problems);

/// The first line of a record of calls (docs/formats/exec_record.md), which may hold several operations.
inline constexpr std::string_view kRecordHeader = "problem,calls,total_us";

/// The rows of a record of calls as lines of one-line forms, whose weights are the calls; other texts stay as
/// they are. Throws corrupt_data with the source and the line.
std::string lines_of_record(std::string text, std::string_view source);

/// The content of a file or a pipe, for the parse functions; a record's as lines_of_record() gives it. Throws
/// not_found, or corrupt_data above 1 GiB.
std::string read_problem_text(const std::filesystem::path& file);
std::vector<Problem> read_any_problems(const std::filesystem::path& file, DType usual = DType::fp32);
template <ProblemStruct P>
std::vector<P> read_problems_of(const std::filesystem::path& file, DType usual = DType::fp32) {
  return parse_problems_of<P>(read_problem_text(file), file.string(), usual);
}

/// The operation that has a set of problems of this name; null when none has.
const Operation* operation_of_set(std::string_view name) noexcept;

/// The set to make, or the list to choose from. Limits apply to each problem with its dtype. Operations
/// without epilogues (OperationFacts::has_epilogues), directions or packing ignore those.
struct ProblemSetRequest {
  std::string set = "smoke";                        ///< a name of Operation::sets()
  std::optional<std::vector<Problem>> listed = {};  ///< instead of a set: problems of the operation
  DType dtype = DType::fp32;                        ///< of sets
  /// Layouts of each size; empty: rcr, for "training", "odd_sizes" and "attention" those of the passes, for
  /// sets of convolutions and lists those that they state.
  std::vector<Layout> layouts = {};
  std::vector<Epilogue> epilogues = {};  ///< of each size; empty: none, for lists those that they state
  /// For "llm", "llm_2025" and "conv_networks": only these models; empty = all.
  std::vector<std::string> models = {};
  std::optional<Op> op = {};  ///< direction that replaces that of the set
  std::string packing = {};   ///< a word of Packing; empty: that of the set
  double max_gflop = std::numeric_limits<double>::infinity();
  double max_bytes = std::numeric_limits<double>::infinity();  ///< limit for all operands together
  /// Number of sizes of GEMMs to draw by `seed`; 0 = all. Sets that are random: number of problems to make
  /// (0 = 200).
  std::size_t count = 0;
  std::optional<std::uint64_t> seed = {};  ///< nothing: that of the operation
  // Bounds of the sizes of set `random`.
  std::int64_t min_size = 1;
  std::int64_t max_size = 8192;

  std::uint64_t seed_of(Op of) const { return seed.value_or(operation(of).draw_seed); }
};

/// Removes the problems above the limits of a request.
template <class P>
void keep_within_limits(std::vector<P>& problems, const ProblemSetRequest& request) {
  std::erase_if(problems, [&](const P& problem) {
    return flop_count(problem) > 1e9 * request.max_gflop || min_bytes(problem) > request.max_bytes;
  });
}

/// One of the properties by which problems are counted: "layout", "rcr".
struct ProblemSlice {
  std::string_view name;
  std::string value;
  std::int64_t place = 0;  ///< values are listed by their places, then by their texts
};
template <WordEnum E>
ProblemSlice slice_of(std::string_view name, E value) {
  return {name, std::string(word(value)), static_cast<std::int64_t>(value)};
}

/// The quantities and slices of a problem, the same for all problems of an operation.
struct ProblemDescription {
  std::vector<std::pair<std::string_view, double>> quantities;
  std::vector<ProblemSlice> slices;
};

/// A problem's weight; add_weight() adds to it.
inline double weight_of(ProblemRef problem) { return problem.value().weight(); }
template <ProblemStruct P>
void add_weight(P& problem, double weight) {
  problem.weight += weight;
}
inline void add_weight(Problem& problem, double weight) { problem.set_weight(problem.weight() + weight); }

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

/// The position of a problem's group in [0, 1), by hash.
double group_fraction(ProblemRef problem, std::uint64_t seed, SplitBy by = SplitBy::sizes);

/// Splits problems into training and held-out parts: the groups with group_fraction < share are held out.
/// Preserves order. Throws invalid_argument for a share outside [0, 1].
template <class P>
std::pair<std::vector<P>, std::vector<P>> split_problems(const std::vector<P>& problems,
                                                         double held_out_share, std::uint64_t seed,
                                                         SplitBy by = SplitBy::sizes) {
  if (!(held_out_share >= 0 && held_out_share <= 1)) {
    fail(Errc::invalid_argument, "held-out share {}: must be between 0 and 1", held_out_share);
  }
  std::pair<std::vector<P>, std::vector<P>> parts;
  for (const P& problem : problems) {
    (group_fraction(problem, seed, by) < held_out_share ? parts.second : parts.first).push_back(problem);
  }
  return parts;
}

/// Removes the problems whose group contains one of `others`. Preserves order.
template <class P>
void leave_out_groups(std::vector<P>& problems, const std::vector<P>& others, SplitBy by) {
  std::set<ProblemSizes> groups;
  for (const P& other : others) groups.insert(group_of(other, by));
  std::erase_if(problems, [&](const P& problem) { return groups.contains(group_of(problem, by)); });
}

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

/// Slices by operations, of any problem. `tune` shares its budget among them.
enum class SizeClass : std::uint8_t { below_100_mflop, to_1_gflop, to_10_gflop, above_10_gflop };
template <>
struct EnumWords<SizeClass> {
  static constexpr std::string_view what = "size class";
  static constexpr std::array<std::string_view, 4> words = {"0.0_to_0.1", "0.1_to_1", "1_to_10", "above_10"};
};
/// GFLOP; a problem of exactly so many is in the class below.
inline constexpr std::array<double, 3> kSizeClassLimits = {0.1, 1, 10};

inline SizeClass size_class(ProblemRef problem) {
  const double gflop = flop_count(problem) / 1e9;
  return static_cast<SizeClass>(
      std::ranges::count_if(kSizeClassLimits, [&](double limit) { return gflop > limit; }));
}

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
