#pragma once
/// \file
/// Files of the repository (families/*.toml and others) that travel inside the library.
///
///     std::string_view text = embedded_file("families/native_gemm.toml");
#include <cstddef>
#include <string_view>
#include <vector>

namespace kscout {

struct EmbeddedFile {
  std::string_view name;  ///< path from the repository's root
  std::string_view bytes;
};

/// The bytes of a file that was embedded; throws not_found naming the nearest one. No copy, no parsing.
std::string_view embedded_file(std::string_view name);
/// Names of all embedded files that start with `prefix`.
std::vector<std::string_view> embedded_file_names(std::string_view prefix);

}  // namespace kscout
