#pragma once
/// \file
/// Writes choices as a file of tuned operators for PyTorch's TunableOp.
///
///     const TunableOpTable table = tunableop_table(choices, {"PT_VERSION,2.14.0"});
///     write_file_atomically("tunableop_results0.csv", table.text);
///
/// Lines "Validator,NAME,VALUE", then one line for each problem: its name (op/gemm/tunableop.h) and the
/// solution. Guide: docs/tuned_tables.md.
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "export/header.h"
#include "op/skipped_lines.h"
#include "provider/cublaslt/cublaslt.h"

namespace kscout {

/// "Gemm_Cublaslt_id_66_tile_..." with the numbers of the library.
std::string tunableop_solution(const CublasLtNumbers& numbers);
/// Inverse of tunableop_solution; nothing for another text.
std::optional<CublasLtNumbers> parse_tunableop_solution(std::string_view text);

struct TunableOpTable {
  std::string text;
  std::size_t solutions = 0;           ///< lines with an algorithm
  std::size_t defaults = 0;            ///< lines "Default": PyTorch calls the library as without a file
  std::vector<SkippedLines> left_out;  ///< choices that a file of TunableOp cannot express
  std::set<std::int32_t> releases;     ///< of cuBLASLt that the algorithms are numbered for
};

/// The library's first suggestion is written as Default. Of problems with equal names the first one is
/// written.
TunableOpTable tunableop_table(std::span<const ShapeChoice> choices, std::span<const std::string> validators);

}  // namespace kscout
