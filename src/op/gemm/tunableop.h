#pragma once
/// \file
/// Names GEMMs as PyTorch's TunableOp does, and reads its files (docs/tuned_tables.md).
///
///     tunableop_key(make_gemm(4, 5, 6, DType::bf16)).text();
///     // "GemmTunableOp_BFloat16_TN,tn_5_4_6_ld_6_6_5"
///     const TunableOpFile file = read_tunableop(read_file("tunableop_untuned0.csv"), "tunableop_untuned0.csv");
///
/// PyTorch's matrices are column-major. It computes C^T = B^T A^T of a row-major problem, so m and n, A and B
/// change places, and a matrix of ours with rows is one of its matrices with columns.
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <kscout/any_problem.h>

#include "op/skipped_lines.h"

namespace kscout {

/// The first two columns of a line.
struct TunableOpKey {
  std::string op, parameters;
  std::string text() const { return op + ',' + parameters; }
};

/// Throws unsupported, with the reason, for a problem that TunableOp has no name for. The name does not tell
/// whether C is read, nor which activation follows a bias.
TunableOpKey tunableop_key(const GemmProblem& problem);

/// The layout of a row-major problem whose B and A the library transposes or not, as its A and B.
Layout tunableop_layout(bool transposed_a, bool transposed_b) noexcept;

/// The problem with 0 for each leading dimension that equals the packed one.
GemmProblem without_packed_dimensions(GemmProblem problem) noexcept;

/// A line with its third column, such as "Gemm_Hipblaslt_7" or "Default".
struct TunedGemm {
  GemmProblem problem;
  std::string solution;
  bool operator==(const TunedGemm&) const = default;
};

struct TunableOpFile {
  std::vector<GemmProblem> problems;   ///< in the order of the file, equal ones once
  std::vector<TunedGemm> tuned;        ///< the lines of tuned operators
  std::size_t lines = 0;               ///< lines of operators
  std::vector<SkippedLines> left_out;  ///< lines that are no problem here
};

/// Reads the lists of untuned operators that PyTorch writes (PYTORCH_TUNABLEOP_RECORD_UNTUNED=1), and files
/// of tuned ones, whose further columns are ignored. Throws corrupt_data, with the line, for a line that is
/// none of TunableOp, an unknown element type or a wrong size. A last line without a line end counts as cut
/// short unless a comma ends its parameters; of a tuned line, unless a comma ends its solution.
TunableOpFile read_tunableop(std::string_view text, std::string_view source);

/// The problem of one such line, or the reason why it is none here. Throws corrupt_data as read_tunableop()
/// does.
std::variant<Problem, std::string> read_tunableop_line(const LogLine& line);

/// "NAME,VALUE" of each line "Validator,NAME,VALUE"; other lines are not read.
std::vector<std::string> tunableop_validators(std::string_view text);

}  // namespace kscout
