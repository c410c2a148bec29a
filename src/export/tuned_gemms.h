#pragma once
/// \file
/// Reads and writes tables of tuned GEMMs of other programs: PyTorch's TunableOp, and hipBLASLt's file for
/// HIPBLASLT_TUNING_OVERRIDE_FILE.
///
///     TunedGemms tuned = read_tuned_gemms(read_file("tuning.txt"), "tuning.txt");
///     write_file_atomically("tunableop_results0.csv", tuned_for_tunableop(tuned, validators).text);
///
/// Both name a solution of hipBLASLt by its number, so a table of one becomes a table of the other. The
/// formats: docs/tuned_tables.md.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/problem.h>

#include "op/gemm/tunableop.h"
#include "op/skipped_lines.h"

namespace kscout {

struct TunedGemms {
  std::vector<TunedGemm> rows;
  std::vector<std::string> validators;  ///< of TunableOp: "PT_VERSION,2.14.0"
  std::string git_version;              ///< of hipBLASLt; empty when the file does not tell it
  std::vector<SkippedLines> left_out;
};

/// Reads one file of either format; a file of hipBLASLt has a header line with "transA". Throws corrupt_data
/// with the line.
TunedGemms read_tuned_gemms(std::string_view text, std::string_view source);

struct TunedTable {
  std::string text;
  std::size_t written = 0;
  std::vector<SkippedLines> left_out;
};

/// Of rows with equal names the first one is written.
TunedTable tuned_for_tunableop(std::span<const TunedGemm> rows, std::span<const std::string> validators);
/// hipBLASLt ignores a file of another git version. Rows whose solution is none of hipBLASLt are left out.
TunedTable tuned_for_hipblaslt(std::span<const TunedGemm> rows, std::string_view git_version);

}  // namespace kscout
