#pragma once
/// \file
/// The container of a `.ksf` file and the two kinds of section that need no other knowledge.
///
///     std::string file = pack_ksf({{KsfKind::forest, 0, forest_bytes(forest)}});
///     for (const KsfSection& section : unpack_ksf(file)) ...   // checked: magic, version, sizes, checksum
///
/// Every byte is described in docs/formats/ksf.md. What a whole model holds is read and written by
/// select/model.h.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forest/forest.h"

namespace kscout {

inline constexpr std::uint32_t kKsfVersion = 2;        ///< what is written
inline constexpr std::uint32_t kOldestKsfVersion = 1;  ///< the oldest that is read: without shortlists

enum class KsfKind : std::uint32_t {
  meta = 1,       ///< JSON text, index 0
  schema = 2,     ///< TOML text: the features' formulas, index 0
  configs = 3,    ///< i32 table: axis x config, index 0
  members = 4,    ///< u32 list: configs of a family or of the shortlist
  traits = 5,     ///< f64 table: trait x member
  forest = 6,     ///< trees
  shortlist = 7,  ///< the network of forest/shortlist.h, index 0
};

/// One part of a file. Sections stand in rising order of (kind, index), without repetition.
struct KsfSection {
  KsfKind kind;
  std::uint32_t index;  ///< counts sections of one kind from 0
  std::string bytes;
};

/// Same, pointing into the file.
struct KsfView {
  KsfKind kind;
  std::uint32_t index;
  std::string_view bytes;
};

/// The file's bytes. Equal sections give equal bytes.
std::string pack_ksf(std::span<const KsfSection> sections);

/// Writes size and checksum into a file of at least 32 bytes: what pack_ksf does last, and what tests need
/// after damage.
void seal_ksf(std::string& file);

/// The sections of a file, which must outlive them. Throws corrupt_data (what is wrong, and where) or
/// unsupported (another format version).
std::vector<KsfView> unpack_ksf(std::string_view file);

std::string forest_bytes(const Forest& forest);
/// Throws corrupt_data; what it returns has passed check(forest).
Forest parse_forest(std::string_view bytes);

/// A table of numbers in columns, as sections configs (i32), traits (f64) and members (u32, one column) hold
/// it.
template <class T>
struct KsfTable {
  std::uint32_t columns = 0;
  std::uint32_t rows = 0;
  std::vector<T> values;  ///< columns one after another
  bool operator==(const KsfTable&) const = default;
};
template <class T>
std::string table_bytes(const KsfTable<T>& table);
template <class T>
KsfTable<T> parse_table(std::string_view bytes, std::string_view what);

}  // namespace kscout
