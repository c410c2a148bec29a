#pragma once
/// \file
/// Reads and writes the container of a `.ksf` file, and its sections with forests and tables.
///
///     std::string file = pack_ksf({{KsfKind::forest, 0, forest_bytes(forest)}});
///     for (const KsfSection& section : unpack_ksf(file)) ...   // checked: magic, version, sizes, checksum
///
/// docs/formats/ksf.md describes every byte. select/model.h reads and writes whole models.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forest/forest.h"

namespace kscout {

inline constexpr std::uint32_t kKsfVersion = 4;  ///< the version of files with a target of another scale
inline constexpr std::uint32_t kKsfVersionWithSetup = 3;     ///< the version of files with set-up times
inline constexpr std::uint32_t kKsfVersionWithoutSetup = 2;  ///< the version of all other written files
inline constexpr std::uint32_t kOldestKsfVersion = 1;  ///< the oldest readable version: without shortlists

enum class KsfKind : std::uint32_t {
  meta = 1,       ///< JSON text, index 0
  schema = 2,     ///< TOML text: the features' formulas, index 0
  configs = 3,    ///< i32 table: axis x config, index 0
  members = 4,    ///< u32 list: configs of a family or of the shortlist
  traits = 5,     ///< f64 table: trait x member
  forest = 6,     ///< trees
  shortlist = 7,  ///< the network of forest/shortlist.h, index 0
  setup = 8,      ///< f64 list: set-up times of a family's configs
};

/// One part of a file. Sections are sorted by (kind, index), without repetition.
struct KsfSection {
  KsfKind kind;
  std::uint32_t index;  ///< numbers the sections of one kind from 0
  std::string bytes;
};

/// A section that points into the file.
struct KsfView {
  KsfKind kind;
  std::uint32_t index;
  std::string_view bytes;
};

/// The bytes of a file, of the oldest version from `at_least` that can express the sections. Equal sections
/// give equal bytes.
std::string pack_ksf(std::span<const KsfSection> sections, std::uint32_t at_least = kOldestKsfVersion);

/// Writes size and checksum into a file of at least 32 bytes: the last step of pack_ksf; tests use it after
/// damaging a file.
void seal_ksf(std::string& file);

/// The sections of a file; the file must outlive them. Throws corrupt_data (the error and its position) or
/// unsupported (another format version).
std::vector<KsfView> unpack_ksf(std::string_view file);

std::string forest_bytes(const Forest& forest);
/// Throws corrupt_data; the result has passed check(forest).
Forest parse_forest(std::string_view bytes);

/// A table of numbers by column, as in sections configs (i32), traits (f64), members (u32, one column) and
/// setup (f64, one column).
template <class T>
struct KsfTable {
  std::uint32_t columns = 0;
  std::uint32_t rows = 0;
  std::vector<T> values;  ///< column after column
  bool operator==(const KsfTable&) const = default;
};
template <class T>
std::string table_bytes(const KsfTable<T>& table);
template <class T>
KsfTable<T> parse_table(std::string_view bytes, std::string_view what);

}  // namespace kscout
