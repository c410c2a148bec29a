#pragma once
/// \file
/// Where CUTLASS's headers are on this machine. They are found, never brought.
#include <filesystem>
#include <string>

namespace kscout {

/// The include folder of CUTLASS: below `root` (a checkout, an include folder, or a Python environment or
/// folder with the wheel nvidia-cutlass); without one, below CUTLASS_PATH, the active Python environment, or
/// /usr. Throws not_found with the places that were looked at.
std::filesystem::path find_cutlass(const std::string& root);

}  // namespace kscout
