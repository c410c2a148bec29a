#pragma once
/// \file
/// Reads the index file of a kernel library, which lists its configs. Format: docs/formats/kernel-library.md.
///
///     const LibraryIndex index = read_library_index("kernels/toy.kscout-library.json");
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/family.h>
#include <kscout/provider.h>

namespace kscout {

struct LibraryIndex {
  std::string name;
  std::filesystem::path file;     ///< path of the index, for messages
  std::filesystem::path library;  ///< path of the shared object
  std::uint64_t checksum = 0;     ///< text_hash of the shared object's bytes
  std::string backend;            ///< the backend whose memory the kernels use
  std::string device;             ///< a preset's name, or "auto" for this machine
  const Provider* provider;       ///< the provider that describes the configs
  /// Rules for the kernels of each operation that has kernels, checked for each problem.
  std::map<Op, std::vector<Rule>> applicability;
  std::vector<NamedConfig> configs;
  std::vector<std::string> kernels;  ///< by config: the kernel's name inside the library
};

/// Reads and checks everything except the shared object. Throws not_found, unsupported (newer format or
/// another ABI), corrupt_data naming the file and the member: invalid JSON, an unknown member or backend, a
/// name that no provider can read or of a built-in provider, a repeated config, a rule that does not compile.
LibraryIndex read_library_index(const std::filesystem::path& file);

/// The same from text; `file` locates the library and is named in errors.
LibraryIndex parse_library_index(std::string_view json, const std::filesystem::path& file);

/// See library_search_path() of kscout/registry.h.
std::vector<std::filesystem::path> library_index_files();

}  // namespace kscout
