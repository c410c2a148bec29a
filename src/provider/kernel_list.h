#pragma once
/// \file
/// Reads the names of kernels from a list.
///
///     for (const ListedKernel& one : listed_kernels(read_plain_text(file), file)) parse_config_name(one.name);
///
/// A list is one of these texts: names, one a line, where lines with # are comments and '|' ends a name; JSON
/// with a list `kernels` (as `kscout kernels --export-json` and CK Tile's instance builder write it); CSV
/// with a column for which is_kernel_column() holds.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kscout {

struct ListedKernel {
  std::string name;
  std::size_t line = 0;  ///< of the text, from 1; in JSON the position in `kernels`, in CSV the row
};

/// All names in their order, repeated ones too. Throws corrupt_data for JSON or CSV without names.
std::vector<ListedKernel> listed_kernels(std::string_view text, const std::string& source);

/// Whether a table's column of this name holds the names of kernels: kernel, kernel_name, config, name,
/// selected_kernel.
bool is_kernel_column(std::string_view column) noexcept;

}  // namespace kscout
