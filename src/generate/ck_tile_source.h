#pragma once
/// \file
/// One CK Tile source per kernel, as text. The parts that kernels share stand in src/generate/ck_tile/.
///
///     std::string text = ck_tile_source(named);
///     // compile with CK's include folder and those of the generated project
#include <string>

#include <kscout/provider.h>

namespace kscout {

/// The C++ identifier of a kernel in its library: "k_" and the hash of its name.
std::string ck_tile_symbol(const NamedConfig& kernel);

/// The source that defines the kernel's entry for the library's table. Equal kernels give equal text. Throws
/// unsupported for a pipeline, epilogue or type that CK Tile has no class for.
std::string ck_tile_source(const NamedConfig& kernel);

}  // namespace kscout
