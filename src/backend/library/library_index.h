#pragma once
/// \file
/// Index file of a kernel library: which configs it holds. Format: docs/formats/kernel-library.md.
///
///     const LibraryIndex index = read_library_index("kernels/toy.kscout-library.json");
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/family.h>
#include <kscout/provider.h>

namespace kscout {

struct LibraryIndex {
  std::string name;
  std::filesystem::path file;       ///< the index itself, for messages
  std::filesystem::path library;    ///< the shared object
  std::uint64_t checksum = 0;       ///< text_hash of its bytes
  std::string backend;              ///< whose memory its kernels take
  std::string device;               ///< a preset's name, or "auto" for this machine
  const Provider* provider;         ///< who describes the configs
  std::vector<Rule> applicability;  ///< asked of each problem, for every kernel
  std::vector<NamedConfig> configs;
  std::vector<std::string> kernels;  ///< by config: the kernel's name inside the library
};

/// Reads and checks everything but the shared object. Throws not_found, unsupported (newer format or another
/// ABI), corrupt_data naming the file and the member: no JSON, an unknown member or backend, a name that no
/// provider can read, one config twice, a rule that does not compile.
LibraryIndex read_library_index(const std::filesystem::path& file);

/// The same from text; `file` locates the library and stands in messages.
LibraryIndex parse_library_index(std::string_view json, const std::filesystem::path& file);

}  // namespace kscout
