/// \file
/// Enumerates CK Tile's curated grouped convolutions by joining tables by macro tile
/// (families/ck_tile_conv_lists.toml). For each tile, in this order: (waves, warp tile) pairs, vector widths
/// ascending, pipelines, specialisations. Base configs come first, then features, then depthwise kernels for
/// 2-D forward.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include <kscout/conv_problem.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/problem_text.h"
#include "core/toml_reader.h"
#include "provider/ck_tile/ck_tile.h"
#include "provider/ck_tile/family/ck_builder.h"

namespace kscout {
namespace {

using enum CkConvAxis;
using Triple = std::array<std::int32_t, 3>;

constexpr std::string_view kFile = "families/ck_tile_conv_lists.toml";

/// fp16 and bf16 share tables; fp32 has its own.
enum class Kind : std::uint8_t { half, single };
std::optional<Kind> kind_of(const Signature& s) {
  if (s.dtype_b != s.dtype_a || s.dtype_c != s.dtype_a) return std::nullopt;
  if (s.dtype_a == DType::fp16 || s.dtype_a == DType::bf16) return Kind::half;
  if (s.dtype_a == DType::fp32) return Kind::single;
  return std::nullopt;
}

struct Tile {
  std::int32_t m, n, k;
  auto operator<=>(const Tile&) const = default;
};

/// Conditions for a table row to apply to a config.
struct Where {
  Op op;
  Kind kind;
};

// ---- the tables, read once. They are part of the program, so errors in them are reported as our bugs.

[[noreturn]] void bad_table(std::string_view what) { fail(Errc::corrupt_data, "{}: {}", kFile, what); }

const toml::node& at(const toml::table& table, std::string_view key) {
  const toml::node* node = table.get(key);
  if (node == nullptr) bad_table(fmt::format("'{}' is missing", key));
  return *node;
}
const toml::array& rows_of(const toml::table& table, std::string_view key) {
  const toml::array* rows = at(table, key).as_array();
  if (rows == nullptr) bad_table(fmt::format("'{}' is no list", key));
  return *rows;
}
std::string text_at(const toml::table& table, std::string_view key) {
  return at(table, key).value_or<std::string>("");
}
std::int32_t number_of(const toml::node& node) {
  const auto number = node.value<std::int32_t>();
  if (!number) bad_table("a number is expected");
  return *number;
}
Triple triple_of(const toml::node& node) {
  const toml::array* list = node.as_array();
  if (list == nullptr || list->size() != 3) bad_table("three numbers are expected");
  return {number_of((*list)[0]), number_of((*list)[1]), number_of((*list)[2])};
}
std::vector<std::string> texts_at(const toml::table& table, std::string_view key) {
  std::vector<std::string> texts;
  for (const toml::node& node : rows_of(table, key)) texts.push_back(node.value_or<std::string>(""));
  return texts;
}

/// Reads "16x16x64 16x32x64" with any blanks between; "*" means no tile.
std::vector<Tile> tiles_of(const std::string& text) {
  std::vector<Tile> tiles;
  if (text == "*") return tiles;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string_view one = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (one.empty()) continue;
    const auto sizes = read_sizes(one, text);
    if (sizes.size() != 3) bad_table(fmt::format("'{}' is no tile", one));
    tiles.push_back({static_cast<std::int32_t>(sizes[0]), static_cast<std::int32_t>(sizes[1]),
                     static_cast<std::int32_t>(sizes[2])});
  }
  return tiles;
}

std::optional<Op> op_of(const toml::table& row) {
  if (!row.contains("op")) return std::nullopt;
  return parse<Op>(text_at(row, "op"));
}
std::optional<Kind> kind_at(const toml::table& row) {
  if (!row.contains("class")) return std::nullopt;
  return text_at(row, "class") == "half" ? Kind::half : Kind::single;
}

/// A table by tile. Of the rows that name a tile (or "*"), the most specific one applies: a row with an op
/// before one without, then a row with a class before one without.
template <class V>
class ByTile {
 public:
  template <class F>
  ByTile(const toml::table& file, std::string_view name, F&& value) {
    for (const toml::node& node : rows_of(file, name)) {
      const toml::table& row = *node.as_table();
      Entry entry{op_of(row), kind_at(row), value(row)};
      const std::string tiles = text_at(row, "tiles");
      if (tiles == "*") otherwise_.push_back(entry);
      for (const Tile& tile : tiles_of(tiles)) entries_[tile].push_back(entry);
    }
  }
  const V* find(const Where& where, const Tile& tile) const {
    const auto found = entries_.find(tile);
    if (const V* value = found == entries_.end() ? nullptr : best(found->second, where)) return value;
    return best(otherwise_, where);
  }

 private:
  struct Entry {
    std::optional<Op> op;
    std::optional<Kind> kind;
    V value;
  };
  static const V* best(const std::vector<Entry>& entries, const Where& where) {
    const V* chosen = nullptr;
    int most = -1;
    for (const Entry& entry : entries) {
      if ((entry.op && *entry.op != where.op) || (entry.kind && *entry.kind != where.kind)) continue;
      const int special = (entry.op ? 2 : 0) + (entry.kind ? 1 : 0);
      if (special > most) most = special, chosen = &entry.value;
    }
    return chosen;
  }
  std::map<Tile, std::vector<Entry>> entries_;
  std::vector<Entry> otherwise_;
};

struct Pipeline {
  std::int32_t pipeline, scheduler;
};
/// Reads "mem interwave"; intrawave when the scheduler is omitted.
std::vector<Pipeline> pipelines_of(const toml::table& row) {
  std::vector<Pipeline> pipelines;
  for (const std::string& text : texts_at(row, "pipelines")) {
    const auto words = split(text, ' ');
    pipelines.push_back({parse_axis_value(axis_of(pipeline), words[0]),
                         parse_axis_value(axis_of(scheduler), words.size() > 1 ? words[1] : "intrawave")});
  }
  return pipelines;
}

/// A group of tiles, and how its configs differ from the base configs.
struct Feature {
  std::vector<Tile> tiles;
  std::vector<std::pair<std::size_t, std::int32_t>> set;  ///< axis, value
  std::optional<std::vector<Pipeline>> pipelines;         ///< in place of the tile's
  bool old_warp_tile_k = false;
};

struct Special {
  std::int32_t word;
  std::vector<std::string> ops;
  std::int32_t least_tile_k, most_tile_mn;
};

struct Tables {
  toml::table file = parse_toml(embedded_file(kFile), kFile);
  ByTile<std::vector<std::string>> waves{file, "tile_waves",
                                         [](const toml::table& row) { return texts_at(row, "waves"); }};
  ByTile<std::vector<std::string>> vectors{file, "tile_vectors",
                                           [](const toml::table& row) { return texts_at(row, "vectors"); }};
  ByTile<std::vector<Triple>> more_vectors{file, "more_vectors", [](const toml::table& row) {
                                             std::vector<Triple> triples;
                                             for (const auto& node : rows_of(row, "triples"))
                                               triples.push_back(triple_of(node));
                                             return triples;
                                           }};
  ByTile<std::vector<Pipeline>> pipelines{file, "tile_pipelines", pipelines_of};
  ByTile<std::int32_t> old_warp_tile_k{file, "old_warp_tile_k", [](const toml::table& row) {
                                         return parse_axis_value(axis_of(pipeline), text_at(row, "pipeline"));
                                       }};
  /// Sizes of the warp tile, by waves.
  std::map<std::string, ByTile<std::vector<std::int32_t>>, std::less<>> warp_tiles;
  std::vector<Special> specials;

  Tables() {
    for (const auto& [name, waves_of_name] : *at(file, "waves").as_table()) {
      toml::table those{{"rows", toml::array{}}};
      for (const toml::node& row : rows_of(file, "warp_tiles")) {
        if (text_at(*row.as_table(), "waves") == name.str())
          those["rows"].as_array()->push_back(*row.as_table());
      }
      warp_tiles.try_emplace(std::string(name.str()), those, "rows", [](const toml::table& row) {
        std::vector<std::int32_t> sizes;
        for (const toml::node& size : rows_of(row, "sizes")) sizes.push_back(number_of(size));
        return sizes;
      });
    }
    for (const toml::node& node : rows_of(file, "specializations")) {
      const toml::table& row = *node.as_table();
      specials.push_back({parse_axis_value(axis_of(specialization), text_at(row, "word")),
                          texts_at(row, "ops"), row["least_tile_k"].value_or(0),
                          row["most_tile_mn"].value_or(INT32_MAX)});
    }
  }
  const toml::table& table(std::string_view name) const { return *at(file, name).as_table(); }
};

const Tables& tables() {
  static const Tables once;
  return once;
}

/// Waves of a work-group, and the warp tile's size, which is equal along M and N.
struct WavePair {
  Triple waves;
  std::int32_t size;
};

/// Joins the tables for one signature and device.
class Lister {
 public:
  Lister(const FamilyFile& family, const Signature& signature, const Device& device, Kind kind)
      : family_(family),
        signature_(signature),
        arch_(device.arch),
        where_{signature.op, kind},
        configs_(ck_tile_conv_space(signature.op)) {}

  ConfigTable run() {
    list({base_tiles(), {}, std::nullopt, false});
    for (const toml::node& node : rows_of(tables().file, "features")) {
      const toml::table& row = *node.as_table();
      if (op_of(row) != where_.op || kind_at(row).value_or(where_.kind) != where_.kind) continue;
      list(feature_of(row));
    }
    return std::move(configs_);
  }

 private:
  std::vector<Tile> base_tiles() const {
    for (const toml::node& node : rows_of(tables().file, "tiles")) {
      const toml::table& row = *node.as_table();
      if (op_of(row) != where_.op || kind_at(row) != where_.kind) continue;
      for (const toml::node& rank : rows_of(row, "ranks")) {
        if (number_of(rank) == spatial_rank(signature_.layout)) return tiles_of(text_at(row, "tiles"));
      }
    }
    return {};
  }

  Feature feature_of(const toml::table& row) const {
    Feature feature;
    feature.tiles = tiles_of(text_at(row, "tiles"));
    for (const auto& [key, value] : *at(row, "set").as_table()) {
      const std::size_t axis = configs_.space().axis_index(key.str());
      const auto text = value.template value<std::string>();
      const Axis& about = configs_.space().axes[axis];
      feature.set.emplace_back(
          axis, text && !about.words.empty() ? parse_axis_value(about, *text) : number_of(value));
    }
    if (row.contains("pipelines")) feature.pipelines = pipelines_of(row);
    feature.old_warp_tile_k = row["old_warp_tile_k"].value_or(false);
    return feature;
  }

  void list(const Feature& feature) {
    for (const Tile& tile : feature.tiles) {
      for (const WavePair& pair : wave_pairs(tile)) {
        for (const Triple& widths : vector_widths(tile)) list(feature, tile, pair, widths);
      }
    }
  }

  void list(const Feature& feature, const Tile& tile, const WavePair& pair, const Triple& widths) {
    const auto& pipelines = feature.pipelines ? *feature.pipelines : *tables().pipelines.find(where_, tile);
    for (const Pipeline& how : pipelines) {
      KernelConfig config = plain_ck_conv(where_.op);
      const auto put = [&](std::array<CkConvAxis, 3> axes, const Triple& values) {
        for (std::size_t i = 0; i < 3; ++i) value_of(config, axes[i]) = values[i];
      };
      put({tile_m, tile_n, tile_k}, {tile.m, tile.n, tile.k});
      put({warp_m, warp_n, warp_k}, pair.waves);
      put({warp_tile_m, warp_tile_n, warp_tile_k},
          {pair.size, pair.size, warp_tile_depth(tile, pair.size, how, feature.old_warp_tile_k)});
      put({vec_a, vec_b, vec_c}, widths);
      value_of(config, pipeline) = how.pipeline;
      value_of(config, scheduler) = how.scheduler;
      value_of(config, double_buffer) = has_word(config, pipeline, "compv4");
      for (const auto& [axis, value] : feature.set) config[axis] = value;
      for (const Special& special : tables().specials) {
        if (std::ranges::find(special.ops, word(where_.op)) == special.ops.end() ||
            tile.k < special.least_tile_k || tile.m * tile.n > special.most_tile_mn) {
          continue;
        }
        value_of(config, specialization) = special.word;
        configs_.push_back(config);
      }
    }
  }

  /// The curated pairs that the architecture supports; if none remains, every pair that it supports.
  std::vector<WavePair> wave_pairs(const Tile& tile) const {
    std::vector<WavePair> kept;
    for (const std::string& name : *tables().waves.find(where_, tile)) {
      const Triple waves = triple_of(at(tables().table("waves"), name));
      const auto* sizes = tables().warp_tiles.find(name)->second.find(where_, tile);
      const std::int32_t m = tile.m / waves[0], n = tile.n / waves[1];
      const bool wide = m >= 32 && n >= 32 && m % 32 == 0 && n % 32 == 0;
      for (const std::int32_t size : sizes ? *sizes : std::vector{wide ? 32 : 16}) {
        if (fits(tile, {waves, size})) kept.push_back({waves, size});
      }
    }
    if (!kept.empty()) return kept;
    for (const double digits : family_.table("waves_of_arch").row(arch_)) {
      const auto waves = static_cast<std::int32_t>(digits);
      for (const std::int32_t size : {32, 16}) {
        const WavePair pair{{waves / 100, waves / 10 % 10, waves % 10}, size};
        if (fits(tile, pair)) kept.push_back(pair);
      }
    }
    return kept;
  }

  /// Whether the architecture supports the waves and a square warp tile of this size, and they divide the
  /// tile.
  bool fits(const Tile& tile, const WavePair& pair) const {
    const auto& [waves, size] = pair;
    const auto listed = family_.table("waves_of_arch").row(arch_);
    const bool has_waves =
        std::ranges::find(listed, 100.0 * waves[0] + 10.0 * waves[1] + waves[2]) != listed.end();
    const auto warp_tiles =
        family_.table(where_.kind == Kind::half ? "warp_tiles_of_half" : "warp_tiles_of_fp32").row(arch_);
    bool has_size = false;
    for (const double digits : warp_tiles) {
      const auto m = static_cast<std::int32_t>(digits / 1e6),
                 n = static_cast<std::int32_t>(digits / 1e3) % 1000;
      has_size = has_size || (m == size && n == size);
    }
    return has_waves && has_size && tile.m % size == 0 && tile.n % size == 0 &&
           tile.m / size % waves[0] == 0 && tile.n / size % waves[1] == 0 && waves[2] <= 2;
  }

  std::int32_t warp_tile_depth(const Tile& tile, std::int32_t size, const Pipeline& how, bool old) const {
    const std::int32_t* old_pipeline = tables().old_warp_tile_k.find(where_, tile);
    if (old || (old_pipeline && *old_pipeline == how.pipeline)) {
      return std::min(size == 32 ? 8 : 16, where_.kind == Kind::half ? tile.k : tile.k / 4);
    }
    const toml::table& by_kind =
        *tables().table("warp_tile_k")[where_.kind == Kind::half ? "half" : "float"].as_table();
    const std::int32_t least = tile.k <= 16 ? 4 : 8;
    return std::min(std::max(least, number_of(at(by_kind, std::to_string(size)))), tile.k);
  }

  /// The tile's widths, ascending; the rules remove widths that a work-group cannot load or store.
  std::set<Triple> vector_widths(const Tile& tile) const {
    const std::int32_t widest = where_.kind == Kind::half ? 8 : 4;
    std::set<Triple> all;
    for (const std::string& strategy : *tables().vectors.find(where_, tile)) {
      Triple widths = triple_of(at(tables().table("vectors"), strategy));
      for (std::int32_t& width : widths) width = width == 0 ? 1 : widest / width;
      all.insert(widths);
    }
    if (const auto* more = tables().more_vectors.find(where_, tile)) all.insert(more->begin(), more->end());
    return all;
  }

  const FamilyFile& family_;
  const Signature& signature_;
  std::string arch_;
  Where where_;
  ConfigTable configs_;
};

ConfigTable depthwise(const Signature& signature) {
  ConfigTable configs(ck_tile_conv_space(signature.op));
  const toml::table& table = tables().table("depthwise");
  const auto columns = texts_at(table, "columns");
  for (const toml::node& node : rows_of(table, "rows")) {
    const toml::array& row = *node.as_array();
    if (row.size() != columns.size()) bad_table("a depthwise row does not have a number per column");
    KernelConfig config = plain_ck_depthwise();
    for (std::size_t i = 0; i < columns.size(); ++i) config.set(columns[i], number_of(row[i]));
    configs.push_back(config);
  }
  return configs;
}

}  // namespace

ConfigTable curated_conv(const FamilyFile& family, const Signature& signature, const Device& device) {
  const auto kind = kind_of(signature);
  const bool channels_last = signature.layout == Layout::nhwgc || signature.layout == Layout::ndhwgc;
  if (!kind || is_gemm_layout(signature.layout)) return ConfigTable(ck_tile_conv_space(signature.op));
  if (channels_last) return Lister(family, signature, device, *kind).run();
  if (signature.op == Op::conv_fwd && signature.layout == Layout::ngchw) return depthwise(signature);
  return ConfigTable(ck_tile_conv_space(signature.op));
}

}  // namespace kscout
