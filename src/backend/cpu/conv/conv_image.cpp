// Computes images: conv_fwd and conv_bwd_data.
#include <algorithm>
#include <cstring>

#include "backend/cpu/conv/conv_plan.h"
#include "backend/cpu/gemm/gemm_plan.h"

namespace kscout::cpu {

namespace {

std::int64_t most_taps(const ConvPlan& plan) {
  std::int64_t taps = 0;
  for (const ConvPhase& phase : plan.phases) taps = std::max(taps, phase.taps());
  return taps;
}

/// Max floats of the inputs beside the padding that a block copies: as many as a second-level cache keeps.
constexpr std::int64_t kMaxPadded = 1 << 16;

/// One tap, the first one.
constexpr ConvTapRow kFirstTap{0, 0};

/// A register tile of pixels: how its inputs are found, and where its result goes.
struct Tile {
  const float* const* a_rows;  ///< null: pixels at a constant distance
  const float* a;
  float* const* c_rows;
  float* c;
  ConvTaps taps;
  std::int64_t pixels;
  std::int64_t count;  ///< tiles of so many pixels, one behind the other
  bool joined;         ///< all taps of a filter row count as one of that many more channels
};

/// Walks blocks of pixels; builds the tiles of a block and multiplies them with the filter.
class ImageTiles {
 public:
  ImageTiles(const ConvPlan& plan, const GemmBuffers& buffers, const float* packed, float* workspace)
      : plan_(plan),
        source_(static_cast<const float*>(buffers.a)),
        result_(static_cast<float*>(buffers.c)),
        packed_(packed),
        kind_(plan.config.kind) {
    const Space space = space_of(plan);
    const auto take = [&](std::int64_t floats) {
      float* const from = workspace;
      workspace += floats;
      return from;
    };
    zeros_ = take(space.zeros);
    patch_ = take(space.patch);
    padded_ = take(space.padded);
    pointers_ = reinterpret_cast<const float**>(take(space.pointers));
    results_ = reinterpret_cast<float**>(take(space.results));
    rows_ = reinterpret_cast<ConvTapRow*>(take(space.rows));
    tiles_ = reinterpret_cast<Tile*>(take(space.tiles));
    std::fill_n(zeros_, space.zeros, 0.0F);
  }

  void run(int part) {
    const std::int64_t panels = ceil_div(plan_.result.group, plan_.config.nr);
    columns_ = share_of(plan_.groups * panels, plan_.config.threads_k, part % plan_.config.threads_k);
    if (columns_.begin == columns_.end) return;
    for (const ConvPhase& phase : plan_.phases) {
      phase_ = &phase;
      inner_ = phase.w.meet_all_taps();
      joined_ = joins_taps(plan_, phase);
      // Range of work: register tiles of consecutive pixels, or image rows.
      const bool by_rows = kind_ == NativeConvKind::rows;
      const std::int64_t unit = by_rows ? phase.w.count : plan_.config.mr;
      const std::int64_t pixels = phase.rows(plan_.images) * phase.w.count;
      const Range mine =
          share_of(ceil_div(pixels, unit), plan_.config.threads_p, part / plan_.config.threads_k);
      const std::int64_t block = std::max<std::int64_t>(1, plan_.config.pixels / unit);
      for (std::int64_t u = mine.begin; u < mine.end; u += block) {
        run_block({u * unit, std::min(pixels, std::min(u + block, mine.end) * unit)});
      }
    }
  }

  struct Space {
    std::int64_t zeros, patch, padded, pointers, results, rows, tiles;
    std::int64_t total() const { return zeros + patch + padded + pointers + results + rows + tiles; }
  };
  static Space space_of(const ConvPlan& plan) {
    const std::int64_t mr = plan.config.mr, taps = most_taps(plan);
    const std::int64_t pixels = std::max<std::int64_t>(plan.config.pixels, mr);
    Space space{};
    space.zeros = floats_of<float>(plan.source.channels);
    if (plan.config.kind == NativeConvKind::patch) {
      space.patch = floats_of<float>(pixels * taps * plan.source.group);
      space.pointers = floats_of<float*>(pixels);
      space.results = space.pointers;
      space.tiles = floats_of<Tile>(ceil_div(pixels, mr));
    } else if (plan.config.kind == NativeConvKind::igemm) {
      space.pointers = floats_of<float*>(pixels * taps);
      space.results = floats_of<float*>(pixels);
      space.rows = floats_of<ConvTapRow>(ceil_div(pixels, mr) * taps);
      space.tiles = floats_of<Tile>(ceil_div(pixels, mr));
    } else {
      std::int64_t rows = 0, tiles = 0, covered = 0;
      for (const ConvPhase& phase : plan.phases) {
        const std::int64_t of_block = rows_of_block(plan, phase);
        rows = std::max(rows, of_block);
        tiles = std::max(tiles, of_block * (phase.by_runs ? phase.w.count : ceil_div(phase.w.count, mr)));
        covered = std::max(covered, of_block * phase.w.count);
        if (copies_padded(plan, phase))
          space.padded = std::max(space.padded, floats_of<float>(padded_floats(plan, phase)));
      }
      space.pointers = floats_of<float*>(covered * taps);
      space.results = floats_of<float*>(covered);
      // Of each image row, and of each tile with copies or pointers.
      space.rows = floats_of<ConvTapRow>(rows * tap_rows(plan) + tiles * taps);
      space.tiles = floats_of<Tile>(tiles);
    }
    return space;
  }

 private:
  /// The inputs of neighbouring taps are neighbours in memory, and so are their packed filters.
  static bool joins_taps(const ConvPlan& plan, const ConvPhase& phase) {
    return plan.config.depth == 0 && phase.w.tap_step == 1 && plan.groups == 1;
  }
  static std::int64_t rows_of_block(const ConvPlan& plan, const ConvPhase& phase) {
    return std::max<std::int64_t>(1, plan.config.pixels / phase.w.count);
  }
  /// Register tiles beside the padding read copies of their inputs, with zeros for the padding, so that they
  /// need no pointer per pixel and tap.
  static bool copies_padded(const ConvPlan& plan, const ConvPhase& phase) {
    return phase.w.tap_step == 1 && padded_floats(plan, phase) <= kMaxPadded;
  }
  /// Inputs of the tiles of a block, with the padding.
  static std::int64_t padded_floats(const ConvPlan& plan, const ConvPhase& phase) {
    const std::int64_t tiles = rows_of_block(plan, phase) * ceil_div(phase.w.count, plan.config.mr);
    return tiles * phase.d.taps * phase.h.taps * met_columns(phase.w, plan.config.mr) * plan.source.channels;
  }

  void run_block(const Range& pixels) {
    const std::int64_t panels = ceil_div(plan_.result.group, plan_.config.nr);
    if (kind_ == NativeConvKind::patch) {
      for (std::int64_t u = columns_.begin; u < columns_.end;) {
        const std::int64_t group = u / panels, end = std::min(columns_.end, (group + 1) * panels);
        lay_patches(pixels, group);
        multiply({u, end});
        u = end;
      }
      return;
    }
    if (kind_ == NativeConvKind::igemm) {
      point_at_sources(pixels);
    } else {
      lay_rows(pixels);
    }
    multiply(columns_);
  }

  /// Where the next tile writes its pointers and its taps.
  struct Free {
    const float** pointers;
    float** results;
    ConvTapRow* rows;
  };

  /// Kind igemm: a pointer per pixel and tap.
  void point_at_sources(const Range& pixels) {
    Free to{pointers_, results_, rows_};
    tile_count_ = 0;
    Pixel at = pixel_at(*phase_, pixels.begin);
    for (std::int64_t p = pixels.begin; p < pixels.end; p += plan_.config.mr)
      tiles_[tile_count_++] = pointer_tile(at, std::min<std::int64_t>(plan_.config.mr, pixels.end - p), to);
  }

  /// A tile of `height` pixels from `at` on, which moves behind them: a pointer per pixel and tap, for the
  /// taps that at least one of the pixels meets.
  Tile pointer_tile(Pixel& at, std::int64_t height, Free& to) {
    const std::int64_t taps = phase_->taps();
    Tile tile{to.pointers, nullptr, to.results, nullptr, {to.rows, 0, 0, 1, 0}, height, 1, false};
    for (std::int64_t i = 0; i < height; ++i, step_pixel(*phase_, at)) {
      point_at(at, to.pointers + i, height);
      *to.results++ = result_ + result_offset(plan_, *phase_, at);
    }
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const float* const* const of_tap = tile.a_rows + tap * height;
      if (std::all_of(of_tap, of_tap + height, [&](const float* from) { return from == zeros_; })) continue;
      if (tile.taps.row_count != tap) std::copy_n(of_tap, height, to.pointers);
      to.pointers += height;
      *to.rows++ = {0, tap};
      ++tile.taps.row_count;
    }
    return tile;
  }

  /// Writes the pointers of one pixel; those of its next tap are `distance` further.
  void point_at(const Pixel& at, const float** to, std::int64_t distance) {
    const ConvImageSize& size = plan_.source;
    const Range met = phase_->w.met_taps(at.w);
    for (std::int64_t i = 0; i < phase_->d.taps; ++i) {
      const std::int64_t d = phase_->d.at(at.d, i);
      for (std::int64_t j = 0; j < phase_->h.taps; ++j) {
        const std::int64_t h = phase_->h.at(at.h, j);
        const bool exists = phase_->d.meets(at.d, i) && phase_->h.meets(at.h, j);
        const std::int64_t row = ((at.image * size.d + d) * size.h + h) * size.w;
        for (std::int64_t k = 0; k < phase_->w.taps; ++k, to += distance) {
          const bool inside = exists && k >= met.begin && k < met.end;
          *to = inside ? source_ + (row + phase_->w.at(at.w, k)) * size.channels : zeros_;
        }
      }
    }
  }

  /// Kind rows: tiles along image rows. A tile whose pixels meet all taps of a filter row needs no pointers.
  void lay_rows(const Range& pixels) {
    const ConvPhase& phase = *phase_;
    const bool copies = copies_padded(plan_, phase);
    Free to{pointers_, results_, rows_};
    float* padded = padded_;
    tile_count_ = 0;
    for (std::int64_t p = pixels.begin; p < pixels.end; p += phase.w.count) {
      Pixel at = pixel_at(phase, p);
      const ConvTapRow* const of_row = to.rows;
      const std::int64_t row_count = met_rows(plan_, phase, at, to.rows);
      to.rows += row_count;
      const ConvTaps all{of_row, row_count, 0, joined_ ? 1 : phase.w.taps,
                         phase.w.tap_step * plan_.source.channels};
      while (at.w < phase.w.count) {
        const std::int64_t height = std::min<std::int64_t>(plan_.config.mr, phase.w.count - at.w);
        if (at.w >= inner_.begin && at.w + height <= inner_.end && !phase.by_runs) {
          const std::int64_t count = (inner_.end - at.w) / height;
          tiles_[tile_count_++] = near_tile(at, all, height, count);
          at.w += count * height;
        } else if (phase.by_runs) {
          lay_run(at, all);
        } else if (copies) {
          Tile& tile = tiles_[tile_count_++] = near_tile(at, all, height, 1);
          tile.taps.rows = to.rows;
          const float* const from = tile.a;
          tile.a = padded;
          for (std::int64_t i = 0; i < row_count; ++i) {
            *to.rows++ = {padded - tile.a, of_row[i].index};
            padded = copy_padded(phase.w, plan_.source.channels, at.w, height, from + of_row[i].a, padded);
          }
          at.w += height;
        } else {
          Pixel of_tile = at;
          at.w += height;
          tiles_[tile_count_++] = pointer_tile(of_tile, height, to);
        }
      }
    }
  }

  /// `count` tiles of pixels at a constant distance.
  Tile near_tile(const Pixel& at, const ConvTaps& taps, std::int64_t height, std::int64_t count) const {
    return {nullptr, source_ + source_offset(plan_, *phase_, at),
            nullptr, result_ + result_offset(plan_, *phase_, at),
            taps,    height,
            count,   joined_};
  }

  /// Tiles of about equal sizes for the pixels from `at` on that meet the same taps.
  void lay_run(Pixel& at, ConvTaps taps) {
    const AxisPhase& w = phase_->w;
    const Range met = w.met_taps(at.w);
    const std::int64_t end = w.run_end(at.w), pixels = end - at.w;
    const std::int64_t tiles = ceil_div(pixels, plan_.config.mr), larger = pixels % tiles;
    taps.first = met.begin;
    taps.count = met.end - met.begin;
    if (larger > 0) tiles_[tile_count_++] = near_tile(at, taps, pixels / tiles + 1, larger);
    at.w += larger * (pixels / tiles + 1);
    tiles_[tile_count_++] = near_tile(at, taps, pixels / tiles, tiles - larger);
    at.w = end;
  }

  /// Kind patch: copies the inputs of every pixel, tap after tap.
  void lay_patches(const Range& pixels, std::int64_t group) {
    const ConvPhase& phase = *phase_;
    const std::int64_t width = phase.taps() * plan_.source.group;
    copy_patches(plan_, phase, pixels, source_, group, patch_);
    tile_count_ = 0;
    Pixel at = pixel_at(phase, pixels.begin);
    for (std::int64_t p = pixels.begin; p < pixels.end; p += plan_.config.mr) {
      const std::int64_t height = std::min<std::int64_t>(plan_.config.mr, pixels.end - p);
      const std::int64_t first = p - pixels.begin;
      tiles_[tile_count_++] = {
          pointers_ + first, nullptr, results_ + first, nullptr, {&kFirstTap, 1, 0, 1, 0}, height, 1, false};
      for (std::int64_t i = first; i < first + height; ++i, step_pixel(phase, at)) {
        pointers_[i] = patch_ + i * width;
        results_[i] = result_ + result_offset(plan_, phase, at);
      }
    }
  }

  /// Multiplies all tiles of the block with the packed columns [columns.begin, columns.end) of all groups.
  void multiply(const Range& columns) {
    const std::int64_t nr = plan_.config.nr, lanes = plan_.kernels->lanes;
    const std::int64_t panels = ceil_div(plan_.result.group, nr);
    const bool patch = kind_ == NativeConvKind::patch;
    const std::int64_t depth = patch ? phase_->taps() * plan_.source.group : plan_.source.group;
    const std::int64_t taps = patch ? 1 : phase_->taps();
    // A phase without taps has no packed filter, and is cleared at once.
    const std::int64_t step =
        plan_.config.depth > 0 && taps > 0 ? plan_.config.depth : std::max<std::int64_t>(depth, 1);
    ConvTileArgs args{};
    args.a_step = phase_->w.step * plan_.source.channels;
    args.ldc = phase_->w.stride * plan_.result.channels;
    std::int64_t first = 0;
    do {
      const std::int64_t of_tap = std::min(step, depth - first);
      args.accumulate = first > 0;
      for (std::int64_t u = columns.begin; u < columns.end; ++u) {
        const std::int64_t group = u / panels, column = u % panels * nr;
        const std::int64_t width = std::min(nr, plan_.result.group - column);
        const std::int64_t vectors = ceil_div(width, lanes);
        args.b_step = vectors * lanes;
        args.b_tap = depth * args.b_step;
        args.b = packed_ + phase_->packed + (group * packed_width(plan_) + column) * taps * depth +
                 first * args.b_step;
        args.shift = patch ? first : group * plan_.source.group + first;
        args.c_shift = group * plan_.result.group + column;
        args.last = static_cast<std::int32_t>(width - (vectors - 1) * lanes);
        for (std::int64_t i = 0; i < tile_count_; ++i) {
          const Tile& tile = tiles_[i];
          args.a_rows = tile.a_rows;
          args.a = tile.a;
          args.c_rows = tile.c_rows;
          args.c = tile.c;
          args.taps = tile.taps;
          args.tiles = tile.count;
          args.depth = tile.joined ? depth * phase_->w.taps : of_tap;
          plan_.kernels->tile[tile.a_rows != nullptr][tile.pixels][vectors](args);
        }
      }
      first += step;
    } while (first < depth);
  }

  const ConvPlan& plan_;
  const float* source_;
  float* result_;
  const float* packed_;
  NativeConvKind kind_;
  float* zeros_;
  float* patch_;
  float* padded_;
  const float** pointers_;
  float** results_;
  ConvTapRow* rows_;
  Tile* tiles_;
  std::int64_t tile_count_ = 0;
  const ConvPhase* phase_ = nullptr;
  bool joined_ = false;
  Range inner_{};    ///< pixels of an image row that meet all taps of a filter row
  Range columns_{};  ///< panels of all groups that this part computes
};

/// Kind lanes: blocks of image rows of the result, vectors of channels across groups.
class ImageLanes {
 public:
  ImageLanes(const ConvPlan& plan, const GemmBuffers& buffers, const float* packed, float* workspace)
      : plan_(plan),
        vector_lanes_(plan.kernels->lanes),
        source_(static_cast<const float*>(buffers.a)),
        result_(static_cast<float*>(buffers.c)),
        packed_(packed),
        lines_(reinterpret_cast<Line*>(workspace)),
        taps_(reinterpret_cast<ConvTapRow*>(workspace + floats_of<Line>(lines_of_block(plan)))) {}

  static std::int64_t workspace(const ConvPlan& plan) {
    const std::int64_t lines = lines_of_block(plan);
    return floats_of<Line>(lines) + floats_of<ConvTapRow>(lines * tap_rows(plan));
  }

  void run(int part) {
    const NativeConvConfig& config = plan_.config;
    const Range vectors =
        share_of(ceil_div(plan_.result.channels, vector_lanes_), config.threads_k, part % config.threads_k);
    const Range mine = share_of(result_rows(plan_), config.threads_p, part / config.threads_k);
    // A block smaller than an image row: every tile of pixels for all vectors before the next tile.
    const bool by_tiles = config.pixels < plan_.result.w && plan_.lane_of.empty();
    const std::int64_t whole = std::min(vectors.end, plan_.result.channels / vector_lanes_);
    for (std::int64_t row = mine.begin; row < mine.end; row += rows_of_block(plan_)) {
      lay_lines({row, std::min(row + rows_of_block(plan_), mine.end)});
      for (std::int64_t v = vectors.begin; v < vectors.end;) {
        const std::int64_t count = vectors_from(v, vectors.end);
        std::int64_t end = v + count;
        while (by_tiles && end + count <= whole && vectors_from(end, vectors.end) == count) end += count;
        for (std::int64_t i = 0; i < line_count_; ++i) run_line(lines_[i], {v, end}, count);
        v = end;
      }
    }
  }

 private:
  /// The pixels of one phase in an image row of the result.
  struct Line {
    const ConvPhase* phase;
    const float* from;  ///< what the first pixel and tap 0 meet; it may lie in the padding
    float* to;
    const ConvTapRow* taps;  ///< the filter rows that the image row meets
    std::int64_t tap_count;
    Range inner;  ///< pixels that meet all taps of a filter row
  };

  static std::int64_t result_rows(const ConvPlan& plan) {
    return plan.images * plan.result.d * plan.result.h;
  }
  static std::int64_t rows_of_block(const ConvPlan& plan) {
    return std::clamp<std::int64_t>(plan.config.pixels / plan.result.w, 1, result_rows(plan));
  }
  /// Walks along w of an image row: those of one class of d and h.
  static std::int64_t walks_of_row(const ConvPlan& plan) {
    return std::min(plan.phases.front().w.stride, plan.result.w);
  }
  static std::int64_t lines_of_block(const ConvPlan& plan) {
    return rows_of_block(plan) * walks_of_row(plan);
  }

  void lay_lines(const Range& rows) {
    const ConvImageSize& size = plan_.result;
    const std::int64_t stride_d = plan_.phases.front().d.stride, stride_h = plan_.phases.front().h.stride;
    const std::int64_t of_row = walks_of_row(plan_);
    ConvTapRow* taps = taps_;
    line_count_ = 0;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t h = row % size.h, d = row / size.h % size.d;
      const Pixel at{row / size.h / size.d, d / stride_d, h / stride_h, 0};
      const std::int64_t classes = d % stride_d * std::min(stride_h, size.h) + h % stride_h;
      for (std::int64_t i = 0; i < of_row; ++i) {
        const ConvPhase& phase = plan_.phases[static_cast<std::size_t>(classes * of_row + i)];
        const std::int64_t count = met_rows(plan_, phase, at, taps);
        lines_[line_count_++] = {&phase,
                                 source_ + source_offset(plan_, phase, at),
                                 result_ + result_offset(plan_, phase, at),
                                 taps,
                                 count,
                                 phase.w.meet_all_taps()};
        taps += count;
      }
    }
  }

  /// The config's vectors at once; a part of a vector, what remains of a share, and vectors of two wide
  /// groups go one by one.
  std::int64_t vectors_from(std::int64_t vector, std::int64_t end) const {
    const std::int64_t count = plan_.config.nr / vector_lanes_, group = plan_.result.group;
    const std::int64_t channel = vector * vector_lanes_, last = (vector + count) * vector_lanes_ - 1;
    const bool one_step = group <= vector_lanes_ || channel / group == last / group;
    return vector + count <= end && last < plan_.result.channels && one_step ? count : 1;
  }

  /// `count` of the vectors at once.
  void run_line(const Line& line, const Range& vectors, std::int64_t count) {
    const AxisPhase& w = line.phase->w;
    const std::int64_t group = plan_.result.group, depth = plan_.source.group;
    ConvLanesArgs args{};
    args.x_step = w.step * plan_.source.channels;
    args.x_vector = plan_.lane_of.empty() ? vector_lanes_ : vector_lanes_ / group * depth;
    args.lane_of = plan_.lane_of.data();
    args.depth = depth;
    args.w_vector = line.phase->taps() * depth * vector_lanes_;
    args.ldc = w.stride * plan_.result.channels;
    args.taps = {line.taps, line.tap_count, 0, w.taps, w.tap_step * plan_.source.channels};
    const bool by_rows = has_filter_row(w, count);
    for (std::int64_t v = vectors.begin; v < vectors.end; v += by_rows ? vectors.end : count) {
      const std::int64_t channel = v * vector_lanes_, input = channel / group * depth;
      const std::int64_t last = std::min(vector_lanes_, plan_.result.channels - channel);
      args.span =
          static_cast<std::int32_t>(std::min(ceil_div(last, group) * depth, plan_.source.channels - input));
      args.last = static_cast<std::int32_t>(last);
      args.vectors = vectors.end - v;
      args.w = packed_ + line.phase->packed + v * args.w_vector;
      const Line at{line.phase, line.from + input, line.to + channel, line.taps, line.tap_count, line.inner};
      const std::int64_t at_once = last < vector_lanes_ ? 0 : count;
      if (by_rows) {
        run_filter_rows(at, at_once, args);
      } else {
        run_taps(at, at_once, args);
      }
    }
  }

  /// Whether there are kernels of whole filter rows for every tile of a line.
  bool has_filter_row(const AxisPhase& w, std::int64_t vectors) const {
    if (!plan_.lane_of.empty() || w.tap_step != 1 || w.step > 2 || w.taps > kMaxRowTaps) return false;
    const std::int64_t pixels = ceil_div(w.count, ceil_div(w.count, plan_.config.mr));
    return plan_.kernels->filter_row[w.taps][w.step][pixels][vectors] != nullptr;
  }

  /// As few tiles as the config's size allows, of about equal sizes; the kernels skip the padding.
  void run_filter_rows(const Line& line, std::int64_t vectors, ConvLanesArgs& args) const {
    const AxisPhase& w = line.phase->w;
    const std::int64_t tiles = ceil_div(w.count, plan_.config.mr), pixels = w.count / tiles;
    const std::int64_t larger = w.count % tiles;
    const auto run_tiles = [&](std::int64_t at, std::int64_t tile, std::int64_t count) {
      if (count == 0) return;
      args.pixels = tile * count;
      args.begin = -w.offset - at * w.step;
      args.end = args.begin + w.source;
      args.x = line.from + at * args.x_step;
      args.c = line.to + at * args.ldc;
      plan_.kernels->filter_row[w.taps][w.step][tile][vectors](args);
    };
    run_tiles(0, pixels + 1, larger);
    run_tiles(larger * (pixels + 1), pixels, tiles - larger);
  }

  /// Whole tiles of pixels that meet all taps, then what remains of them; other pixels one by one.
  void run_taps(const Line& line, std::int64_t vectors, ConvLanesArgs& args) const {
    const AxisPhase& w = line.phase->w;
    for (std::int64_t at = 0; at < w.count; at += args.pixels) {
      const bool inside = at >= line.inner.begin && at < line.inner.end;
      const std::int64_t left = inside ? line.inner.end - at : 1;
      const std::int64_t tile = std::min<std::int64_t>(left, plan_.config.mr);
      const Range taps = inside ? Range{0, w.taps} : w.met_taps(at);
      args.pixels = left / tile * tile;
      args.taps.first = taps.begin;
      args.taps.count = taps.end - taps.begin;
      args.x = line.from + at * args.x_step;
      args.c = line.to + at * args.ldc;
      kernel_of(tile, vectors)(args);
    }
  }

  ConvLanesKernel kernel_of(std::int64_t pixels, std::int64_t vectors) const {
    const ConvKernels& kernels = *plan_.kernels;
    const bool moved = !plan_.lane_of.empty();
    if (vectors == 0) return kernels.masked[moved][pixels];
    return moved ? kernels.moved[pixels][vectors] : kernels.direct[pixels][vectors];
  }

  const ConvPlan& plan_;
  std::int64_t vector_lanes_;
  const float* source_;
  float* result_;
  const float* packed_;
  Line* lines_;
  ConvTapRow* taps_;
  std::int64_t line_count_ = 0;
};

}  // namespace

std::int64_t image_tiles_workspace(const ConvPlan& plan) noexcept {
  return ImageTiles::space_of(plan).total();
}
std::int64_t image_lanes_workspace(const ConvPlan& plan) noexcept { return ImageLanes::workspace(plan); }

void run_image_tiles(const ConvPlan& plan, const GemmBuffers& buffers, const float* packed, float* workspace,
                     int part) noexcept {
  ImageTiles(plan, buffers, packed, workspace).run(part);
}
void run_image_lanes(const ConvPlan& plan, const GemmBuffers& buffers, const float* packed, float* workspace,
                     int part) noexcept {
  ImageLanes(plan, buffers, packed, workspace).run(part);
}

}  // namespace kscout::cpu
