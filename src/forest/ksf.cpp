#include "forest/ksf.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/fail.h"
#include "core/hash.h"

namespace kscout {

static_assert(std::endian::native == std::endian::little, "a .ksf file is read in place: little-endian only");

namespace {

// As in PNG: a byte above 127 and both line ends reveal files that went through a text filter.
constexpr std::string_view kMagic{"\x89KSF\r\n\x1a\n", 8};
constexpr std::size_t kHeaderBytes = 32, kEntryBytes = 24, kAlignment = 16;
constexpr std::size_t kSizeAt = 16, kChecksumAt = 24;
constexpr std::uint32_t kMaxSections = 4096;

std::size_t aligned(std::size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

template <class T>
void put(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T get(std::string_view from, std::size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

/// CRC-32 (zlib's) of the whole file without the four bytes of the checksum.
std::uint32_t checksum(std::string_view file) {
  return crc32_of(file.substr(kChecksumAt + 4), crc32_of(file.substr(0, kChecksumAt)));
}

template <class T>
void put_array(std::string& to, std::span<const T> values) {
  to.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

/// Reads arrays from the front of a section; the caller has checked that they fit.
class Arrays {
 public:
  explicit Arrays(std::string_view bytes) : rest_(bytes) {}
  template <class T>
  void take(std::vector<T>& into, std::size_t count) {
    into.resize(count);
    if (count > 0) std::memcpy(into.data(), rest_.data(), count * sizeof(T));
    rest_.remove_prefix(count * sizeof(T));
  }

 private:
  std::string_view rest_;
};

void pad_to_8(std::string& bytes) { bytes.append((8 - bytes.size() % 8) % 8, '\0'); }

void check_padding(std::string_view padding, std::string_view what) {
  if (padding.find_first_not_of('\0') != std::string_view::npos) {
    fail(Errc::corrupt_data, ".ksf: bytes between the parts of {} are not 0", what);
  }
}

/// The counts at the start of a forest section.
struct ForestCounts {
  std::uint32_t features, average, trees, nodes, leaves, sets, words, zero;
};
static_assert(sizeof(ForestCounts) == 32);

/// Calls use(array, its length) for each array of a forest section, in order.
template <class F, class Use>
void each_array(F& forest, const ForestCounts& n, const Use& use) {
  const std::uint64_t trees = std::uint64_t{n.trees} + 1, sets = std::uint64_t{n.sets} + 1;
  use(forest.threshold, n.nodes);
  use(forest.leaf_value, n.leaves);
  use(forest.tree_nodes, trees);
  use(forest.tree_leaves, trees);
  use(forest.feature, n.nodes);
  use(forest.left, n.nodes);
  use(forest.right, n.nodes);
  use(forest.set_words, sets);
  use(forest.set_bits, n.words);
  use(forest.decision, n.nodes);
}

/// Bytes of a forest section before padding. 32-bit counts cannot overflow 64 bits.
std::uint64_t forest_size(const ForestCounts& n) {
  std::uint64_t size = sizeof n;
  const Forest none;
  each_array(none, n,
             [&]<class T>(const std::vector<T>&, std::uint64_t count) { size += sizeof(T) * count; });
  return size;
}

}  // namespace

std::string pack_ksf(std::span<const KsfSection> sections, std::uint32_t at_least) {
  std::size_t end = kHeaderBytes + kEntryBytes * sections.size();
  std::string table, bodies;
  const std::size_t bodies_at = aligned(end);
  for (const KsfSection& section : sections) {
    const std::size_t offset = aligned(bodies_at + bodies.size());
    bodies.resize(offset - bodies_at, '\0');
    put(table, static_cast<std::uint32_t>(section.kind));
    put(table, section.index);
    put(table, static_cast<std::uint64_t>(offset));
    put(table, static_cast<std::uint64_t>(section.bytes.size()));
    bodies += section.bytes;
  }
  // The oldest version that will do, so that older programs read what they can.
  const bool has_setup = std::ranges::find(sections, KsfKind::setup, &KsfSection::kind) != sections.end();
  std::string file(kMagic);
  put(file, std::max(at_least, has_setup ? kKsfVersionWithSetup : kKsfVersionWithoutSetup));
  put(file, static_cast<std::uint32_t>(sections.size()));
  file.resize(kHeaderBytes, '\0');  // size and checksum are written last
  file += table;
  file.resize(bodies_at, '\0');
  file += bodies;
  seal_ksf(file);
  return file;
}

void seal_ksf(std::string& file) {
  const std::uint64_t size = file.size();
  std::memcpy(file.data() + kSizeAt, &size, sizeof size);
  const std::uint32_t sum = checksum(file);
  std::memcpy(file.data() + kChecksumAt, &sum, sizeof sum);
}

std::vector<KsfView> unpack_ksf(std::string_view file) {
  if (!file.starts_with(kMagic)) fail(Errc::corrupt_data, "not a .ksf file: its first 8 bytes are wrong");
  if (file.size() < kHeaderBytes)
    fail(Errc::corrupt_data, ".ksf: {} bytes are too few for a header", file.size());
  const auto version = get<std::uint32_t>(file, 8);
  if (version > kKsfVersion) {
    fail(Errc::unsupported,
         ".ksf: format version {}, of a newer program; this one reads versions {} to {}: update it or train "
         "again",
         version, kOldestKsfVersion, kKsfVersion);
  }
  if (version < kOldestKsfVersion) {
    fail(Errc::unsupported,
         ".ksf: format version {}, of an older program; this one reads versions {} to {}: train again",
         version, kOldestKsfVersion, kKsfVersion);
  }
  const auto count = get<std::uint32_t>(file, 12);
  const auto size = get<std::uint64_t>(file, kSizeAt);
  if (size != file.size()) fail(Errc::corrupt_data, ".ksf: {} bytes, its header says {}", file.size(), size);
  if (get<std::uint32_t>(file, kChecksumAt) != checksum(file)) {
    fail(Errc::corrupt_data, ".ksf: the checksum does not match: the file is damaged");
  }
  if (get<std::uint32_t>(file, 28) != 0) fail(Errc::corrupt_data, ".ksf: reserved header bytes are not 0");
  if (count > kMaxSections || kHeaderBytes + kEntryBytes * std::size_t{count} > file.size()) {
    fail(Errc::corrupt_data, ".ksf: {} sections do not fit", count);
  }
  std::vector<KsfView> sections;
  std::size_t end = kHeaderBytes + kEntryBytes * std::size_t{count};
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t entry = kHeaderBytes + kEntryBytes * std::size_t{i};
    const auto kind = static_cast<KsfKind>(get<std::uint32_t>(file, entry));
    const auto index = get<std::uint32_t>(file, entry + 4);
    const auto offset = get<std::uint64_t>(file, entry + 8), length = get<std::uint64_t>(file, entry + 16);
    if (kind < KsfKind::meta || kind > KsfKind::setup) {
      fail(Errc::corrupt_data, ".ksf: section {} is of unknown kind {}", i, static_cast<std::uint32_t>(kind));
    }
    const bool follows = i > 0 && sections.back().kind == kind;
    if ((i > 0 && kind < sections.back().kind) || index != (follows ? sections.back().index + 1 : 0)) {
      fail(Errc::corrupt_data, ".ksf: section {} is out of order", i);
    }
    if (offset != aligned(end) || offset > size || length > size - offset) {
      fail(Errc::corrupt_data, ".ksf: section {} lies at {} with {} bytes in a file of {}", i, offset, length,
           size);
    }
    check_padding(file.substr(end, offset - end), "the file");
    end = offset + length;
    sections.push_back({kind, index, file.substr(offset, length)});
  }
  if (end != size) fail(Errc::corrupt_data, ".ksf: {} bytes after the last section", size - end);
  return sections;
}

std::string forest_bytes(const Forest& forest) {
  const auto count = [](const auto& values) { return static_cast<std::uint32_t>(values.size()); };
  const ForestCounts counts{forest.feature_count,
                            forest.average ? 1U : 0U,
                            static_cast<std::uint32_t>(forest.tree_count()),
                            count(forest.threshold),
                            count(forest.leaf_value),
                            static_cast<std::uint32_t>(forest.set_count()),
                            count(forest.set_bits),
                            0};
  std::string bytes;
  bytes.reserve(forest_size(counts) + 8);
  put(bytes, counts);
  each_array(forest, counts,
             [&]<class T>(const std::vector<T>& array, std::uint64_t) { put_array<T>(bytes, array); });
  pad_to_8(bytes);
  return bytes;
}

Forest parse_forest(std::string_view bytes) {
  if (bytes.size() < sizeof(ForestCounts)) fail(Errc::corrupt_data, ".ksf: forest of {} bytes", bytes.size());
  const auto n = get<ForestCounts>(bytes, 0);
  const std::uint64_t size = forest_size(n), padded = (size + 7) / 8 * 8;
  if (padded != bytes.size()) {
    fail(Errc::corrupt_data, ".ksf: forest of {} bytes, its counts need {}", bytes.size(), padded);
  }
  if (n.average > 1 || n.zero != 0)
    fail(Errc::corrupt_data, ".ksf: unknown forest flags {} {}", n.average, n.zero);
  check_padding(bytes.substr(size), "a forest");
  Forest forest;
  forest.feature_count = n.features;
  forest.average = n.average != 0;
  Arrays arrays(bytes.substr(sizeof n));
  each_array(forest, n, [&](auto& array, std::uint64_t count) { arrays.take(array, count); });
  check(forest);
  return forest;
}

template <class T>
std::string table_bytes(const KsfTable<T>& table) {
  std::string bytes;
  put(bytes, table.columns);
  put(bytes, table.rows);
  put_array<T>(bytes, table.values);
  pad_to_8(bytes);
  return bytes;
}

template <class T>
KsfTable<T> parse_table(std::string_view bytes, std::string_view what) {
  if (bytes.size() < 8) fail(Errc::corrupt_data, ".ksf: {}: {} bytes", what, bytes.size());
  KsfTable<T> table{get<std::uint32_t>(bytes, 0), get<std::uint32_t>(bytes, 4), {}};
  const std::uint64_t cells = std::uint64_t{table.columns} * table.rows;
  const std::uint64_t room = (bytes.size() - 8) / sizeof(T);
  if (cells > room || (8 + cells * sizeof(T) + 7) / 8 * 8 != bytes.size()) {
    fail(Errc::corrupt_data, ".ksf: {}: {} bytes for {} columns of {} rows", what, bytes.size(),
         table.columns, table.rows);
  }
  check_padding(bytes.substr(8 + cells * sizeof(T)), what);
  Arrays(bytes.substr(8)).take(table.values, cells);
  return table;
}

template std::string table_bytes(const KsfTable<std::int32_t>&);
template std::string table_bytes(const KsfTable<std::uint32_t>&);
template std::string table_bytes(const KsfTable<double>&);
template KsfTable<std::int32_t> parse_table(std::string_view, std::string_view);
template KsfTable<std::uint32_t> parse_table(std::string_view, std::string_view);
template KsfTable<double> parse_table(std::string_view, std::string_view);

}  // namespace kscout
