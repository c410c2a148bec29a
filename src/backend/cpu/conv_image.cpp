// Computes images: conv_fwd and conv_bwd_data.
#include <algorithm>
#include <cstring>

#include "backend/cpu/conv_plan.h"
#include "backend/cpu/plan.h"

namespace kscout::cpu {

namespace {

/// Elements from the image's start to a pixel of the result.
std::int64_t result_offset(const ConvPlan& plan, const ConvWalk& walk, const Pixel& at) {
  const std::int64_t d = walk.d.first + at.d * walk.d.stride, h = walk.h.first + at.h * walk.h.stride;
  const std::int64_t w = walk.w.first + at.w * walk.w.stride;
  const ConvImageSize& size = plan.result;
  return (((at.image * size.d + d) * size.h + h) * size.w + w) * size.channels;
}

/// Elements to the source that a pixel and tap (0, 0, 0) would meet; it may lie in the padding.
std::int64_t source_offset(const ConvPlan& plan, const ConvWalk& walk, const Pixel& at) {
  const ConvImageSize& size = plan.source;
  return (((at.image * size.d + walk.d.at(at.d, 0)) * size.h + walk.h.at(at.h, 0)) * size.w +
          walk.w.at(at.w, 0)) *
         size.channels;
}

/// The filter rows that a pixel's row meets, as offsets from source_offset. Returns their number.
std::int64_t met_rows(const ConvPlan& plan, const ConvWalk& walk, const Pixel& at, ConvTapRow* rows) {
  const ConvImageSize& size = plan.source;
  const Units d = walk.d.met_taps(at.d), h = walk.h.met_taps(at.h);
  std::int64_t count = 0;
  for (std::int64_t i = d.begin; i < d.end; ++i) {
    for (std::int64_t j = h.begin; j < h.end; ++j) {
      rows[count++] = {(i * walk.d.tap_step * size.h + j * walk.h.tap_step) * size.w * size.channels,
                       (i * walk.h.taps + j) * walk.w.taps};
    }
  }
  return count;
}

std::int64_t tap_rows(const ConvPlan& plan) {
  std::int64_t rows = 0;
  for (const ConvWalk& walk : plan.walks) rows = std::max(rows, walk.d.taps * walk.h.taps);
  return rows;
}

std::int64_t most_taps(const ConvPlan& plan) {
  std::int64_t taps = 0;
  for (const ConvWalk& walk : plan.walks) taps = std::max(taps, walk.taps());
  return taps;
}

/// The range of w that meets every tap of its filter row.
Units inner_pixels(const AxisWalk& w) {
  Units inner{0, w.count};
  for (std::int64_t tap = 0; tap < w.taps; ++tap) {
    const Units met = w.positions(tap);
    inner = {std::max(inner.begin, met.begin), std::min(inner.end, met.end)};
  }
  return {std::min(inner.begin, w.count), std::max(std::min(inner.begin, w.count), inner.end)};
}

/// A register tile of pixels: how its inputs are found, and where its result goes.
struct Tile {
  const float* const* a_rows;  ///< null: pixels at a constant distance
  const float* a;
  float* const* c_rows;
  float* c;
  ConvTaps taps;
  std::int64_t pixels;
  bool joined;  ///< all taps of a filter row count as one of that many more channels
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
    for (const ConvWalk& walk : plan_.walks) {
      walk_ = &walk;
      inner_ = inner_pixels(walk.w);
      // The inputs of neighbouring taps are neighbours in memory, and so are their packed filters.
      joined_ = plan_.config.depth == 0 && walk.w.tap_step == 1 && plan_.groups == 1;
      // Units of work: register tiles of consecutive pixels, or image rows.
      const bool by_rows = kind_ == NativeConvKind::rows;
      const std::int64_t unit = by_rows ? walk.w.count : plan_.config.mr;
      const std::int64_t pixels = walk.rows(plan_.images) * walk.w.count;
      const Units mine =
          share_of(ceil_div(pixels, unit), plan_.config.threads_p, part / plan_.config.threads_k);
      const std::int64_t block = std::max<std::int64_t>(1, plan_.config.pixels / unit);
      for (std::int64_t u = mine.begin; u < mine.end; u += block) {
        run_block({u * unit, std::min(pixels, std::min(u + block, mine.end) * unit)});
      }
    }
  }

  struct Space {
    std::int64_t zeros, patch, pointers, results, rows, tiles;
    std::int64_t total() const { return zeros + patch + pointers + results + rows + tiles; }
  };
  static Space space_of(const ConvPlan& plan) {
    const std::int64_t mr = plan.config.mr, taps = most_taps(plan);
    std::int64_t widest = 1;
    for (const ConvWalk& walk : plan.walks) widest = std::max(widest, walk.w.count);
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
      space.tiles = floats_of<Tile>(ceil_div(pixels, mr));
    } else {
      const std::int64_t rows = std::max<std::int64_t>(1, pixels);  // a row may be as short as one pixel
      const std::int64_t covered = std::max(pixels, widest);
      space.pointers = floats_of<float*>(covered * taps);
      space.results = floats_of<float*>(covered);
      space.rows = floats_of<ConvTapRow>(std::min(rows, covered) * tap_rows(plan));
      space.tiles = floats_of<Tile>(ceil_div(covered, mr) + std::min(rows, covered));
    }
    return space;
  }

 private:
  void run_block(const Units& pixels) {
    const std::int64_t panels = ceil_div(plan_.result.group, plan_.config.nr);
    if (kind_ == NativeConvKind::patch) {
      for (std::int64_t u = columns_.begin; u < columns_.end;) {
        const std::int64_t group = u / panels, end = std::min(columns_.end, (group + 1) * panels);
        copy_patches(pixels, group);
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

  /// Kind igemm: a pointer per pixel and tap.
  void point_at_sources(const Units& pixels) {
    const std::int64_t taps = walk_->taps();
    const float** pointers = pointers_;
    float** results = results_;
    tile_count_ = 0;
    Pixel at = pixel_at(*walk_, pixels.begin);
    for (std::int64_t p = pixels.begin; p < pixels.end; p += plan_.config.mr) {
      const std::int64_t height = std::min<std::int64_t>(plan_.config.mr, pixels.end - p);
      tiles_[tile_count_++] = {pointers, nullptr, results, nullptr, {nullptr, 1, 0, taps, 0}, height, false};
      for (std::int64_t i = 0; i < height; ++i, step_pixel(*walk_, at)) {
        point_at(at, pointers + i, height);
        *results++ = result_ + result_offset(plan_, *walk_, at);
      }
      pointers += taps * height;
    }
  }

  /// Writes the pointers of one pixel; those of its next tap are `distance` further.
  void point_at(const Pixel& at, const float** to, std::int64_t distance) {
    const ConvImageSize& size = plan_.source;
    const Units met = walk_->w.met_taps(at.w);
    for (std::int64_t i = 0; i < walk_->d.taps; ++i) {
      const std::int64_t d = walk_->d.at(at.d, i);
      for (std::int64_t j = 0; j < walk_->h.taps; ++j) {
        const std::int64_t h = walk_->h.at(at.h, j);
        const bool exists = walk_->d.meets(at.d, i) && walk_->h.meets(at.h, j);
        const std::int64_t row = ((at.image * size.d + d) * size.h + h) * size.w;
        for (std::int64_t k = 0; k < walk_->w.taps; ++k, to += distance) {
          const bool inside = exists && k >= met.begin && k < met.end;
          *to = inside ? source_ + (row + walk_->w.at(at.w, k)) * size.channels : zeros_;
        }
      }
    }
  }

  /// Kind rows: tiles along image rows. A tile whose pixels meet all taps of a filter row needs no pointers.
  void lay_rows(const Units& pixels) {
    const ConvWalk& walk = *walk_;
    const std::int64_t mr = plan_.config.mr, taps = walk.taps();
    ConvTapRow* rows = rows_;
    const float** pointers = pointers_;
    float** results = results_;
    tile_count_ = 0;
    for (std::int64_t p = pixels.begin; p < pixels.end; p += walk.w.count) {
      Pixel at = pixel_at(walk, p);
      const std::int64_t row_count = met_rows(plan_, walk, at, rows);
      const auto lay = [&](std::int64_t height, bool inside) {
        Tile& tile = tiles_[tile_count_++];
        if (inside) {
          tile = {nullptr,
                  source_ + source_offset(plan_, walk, at),
                  nullptr,
                  result_ + result_offset(plan_, walk, at),
                  {rows, row_count, 0, joined_ ? 1 : walk.w.taps, walk.w.tap_step * plan_.source.channels},
                  height,
                  joined_};
          at.w += height;
          return;
        }
        tile = {pointers, nullptr, results, nullptr, {nullptr, 1, 0, taps, 0}, height, false};
        for (std::int64_t i = 0; i < height; ++i, ++at.w) {
          point_at(at, pointers + i, height);
          *results++ = result_ + result_offset(plan_, walk, at);
        }
        pointers += taps * height;
      };
      while (at.w < walk.w.count) {
        const std::int64_t height = std::min(mr, walk.w.count - at.w);
        lay(height, at.w >= inner_.begin && at.w + height <= inner_.end);
      }
      rows += row_count;
    }
  }

  /// Kind patch: copies the inputs of every pixel, tap after tap.
  void copy_patches(const Units& pixels, std::int64_t group) {
    const ConvWalk& walk = *walk_;
    const std::int64_t width = walk.taps() * plan_.source.group;
    tile_count_ = 0;
    Pixel at = pixel_at(walk, pixels.begin);
    for (std::int64_t p = pixels.begin; p < pixels.end; p += plan_.config.mr) {
      const std::int64_t height = std::min<std::int64_t>(plan_.config.mr, pixels.end - p);
      const std::int64_t first = p - pixels.begin;
      tiles_[tile_count_++] = {
          pointers_ + first, nullptr, results_ + first, nullptr, {nullptr, 1, 0, 1, 0}, height, false};
      for (std::int64_t i = first; i < first + height; ++i, step_pixel(walk, at)) {
        copy_patch(plan_, walk, at, source_, group, patch_ + i * width);
        pointers_[i] = patch_ + i * width;
        results_[i] = result_ + result_offset(plan_, walk, at);
      }
    }
  }

  /// Multiplies all tiles of the block with the packed columns [columns.begin, columns.end) of all groups.
  void multiply(const Units& columns) {
    const std::int64_t nr = plan_.config.nr, lanes = plan_.kernels->lanes;
    const std::int64_t panels = ceil_div(plan_.result.group, nr);
    const bool patch = kind_ == NativeConvKind::patch;
    const std::int64_t depth = patch ? walk_->taps() * plan_.source.group : plan_.source.group;
    const std::int64_t taps = patch ? 1 : walk_->taps();
    const std::int64_t step = plan_.config.depth > 0 ? plan_.config.depth : std::max<std::int64_t>(depth, 1);
    ConvTileArgs args{};
    args.a_step = walk_->w.step * plan_.source.channels;
    args.ldc = walk_->w.stride * plan_.result.channels;
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
        args.b = packed_ + walk_->packed + (group * packed_width(plan_) + column) * taps * depth +
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
          args.depth = tile.joined ? depth * walk_->w.taps : of_tap;
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
  const float** pointers_;
  float** results_;
  ConvTapRow* rows_;
  Tile* tiles_;
  std::int64_t tile_count_ = 0;
  const ConvWalk* walk_ = nullptr;
  bool joined_ = false;
  Units inner_{};    ///< pixels of an image row that meet all taps of a filter row
  Units columns_{};  ///< panels of all groups that this part computes
};

/// Kind lanes: blocks of image rows, vectors of channels across groups.
class ImageLanes {
 public:
  ImageLanes(const ConvPlan& plan, const GemmBuffers& buffers, const float* packed, float* workspace)
      : plan_(plan),
        vector_lanes_(plan.kernels->lanes),
        source_(static_cast<const float*>(buffers.a)),
        result_(static_cast<float*>(buffers.c)),
        packed_(packed),
        rows_(reinterpret_cast<Row*>(workspace)),
        taps_(reinterpret_cast<ConvTapRow*>(workspace + floats_of<Row>(rows_of_block(plan)))) {}

  static std::int64_t workspace(const ConvPlan& plan) {
    const std::int64_t rows = rows_of_block(plan);
    return floats_of<Row>(rows) + floats_of<ConvTapRow>(rows * tap_rows(plan));
  }

  void run(int part) {
    const NativeConvConfig& config = plan_.config;
    const Units vectors =
        share_of(ceil_div(plan_.result.channels, vector_lanes_), config.threads_k, part % config.threads_k);
    for (const ConvWalk& walk : plan_.walks) {
      walk_ = &walk;
      inner_ = inner_pixels(walk.w);
      const Units mine = share_of(walk.rows(plan_.images), config.threads_p, part / config.threads_k);
      const std::int64_t block = std::max<std::int64_t>(1, config.pixels / walk.w.count);
      for (std::int64_t row = mine.begin; row < mine.end; row += block) {
        lay_rows({row, std::min(row + block, mine.end)});
        for (std::int64_t v = vectors.begin; v < vectors.end;) {
          const std::int64_t count = vectors_from(v, vectors.end);
          run_vectors(v, count);
          v += count;
        }
      }
    }
  }

 private:
  /// An image row of the result: its first pixel in both images, and the filter rows that it meets.
  struct Row {
    const float* from;
    float* to;
    const ConvTapRow* taps;
    std::int64_t tap_count;
  };

  static std::int64_t rows_of_block(const ConvPlan& plan) {
    std::int64_t rows = 1;
    for (const ConvWalk& walk : plan.walks) {
      rows = std::max(rows, std::min(plan.config.pixels / walk.w.count, walk.rows(plan.images)));
    }
    return rows;
  }

  void lay_rows(const Units& rows) {
    ConvTapRow* taps = taps_;
    row_count_ = rows.end - rows.begin;
    for (std::int64_t i = 0; i < row_count_; ++i) {
      const Pixel at = pixel_at(*walk_, (rows.begin + i) * walk_->w.count);
      const std::int64_t count = met_rows(plan_, *walk_, at, taps);
      rows_[i] = {source_ + source_offset(plan_, *walk_, at), result_ + result_offset(plan_, *walk_, at),
                  taps, count};
      taps += count;
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

  void run_vectors(std::int64_t vector, std::int64_t count) {
    const AxisWalk& w = walk_->w;
    const std::int64_t channel = vector * vector_lanes_,
                       last = std::min(vector_lanes_, plan_.result.channels - channel);
    const std::int64_t group = plan_.result.group, depth = plan_.source.group;
    const std::int64_t input = channel / group * depth;
    ConvLanesArgs args{};
    args.x_step = w.step * plan_.source.channels;
    args.x_vector = plan_.lane_of.empty() ? vector_lanes_ : vector_lanes_ / group * depth;
    args.lane_of = plan_.lane_of.data();
    args.depth = depth;
    args.span =
        static_cast<std::int32_t>(std::min(ceil_div(last, group) * depth, plan_.source.channels - input));
    args.last = static_cast<std::int32_t>(last);
    args.w_vector = walk_->taps() * depth * vector_lanes_;
    args.w = packed_ + walk_->packed + vector * args.w_vector;
    args.ldc = w.stride * plan_.result.channels;
    args.taps.step = w.tap_step * plan_.source.channels;
    for (std::int64_t i = 0; i < row_count_; ++i) {
      const Row& row = rows_[i];
      args.taps.rows = row.taps;
      args.taps.row_count = row.tap_count;
      for (std::int64_t at = 0; at < w.count; at += args.pixels) {
        // Whole tiles of pixels that meet all taps, then what remains of them; other pixels one by one.
        const bool inside = at >= inner_.begin && at < inner_.end;
        const std::int64_t left = inside ? inner_.end - at : 1;
        const std::int64_t tile = std::min<std::int64_t>(left, plan_.config.mr);
        const Units taps = inside ? Units{0, w.taps} : w.met_taps(at);
        args.pixels = left / tile * tile;
        args.taps.first = taps.begin;
        args.taps.count = taps.end - taps.begin;
        args.x = row.from + input + at * args.x_step;
        args.c = row.to + channel + at * args.ldc;
        kernel_of(tile, count, last, inside)(args);
      }
    }
  }

  ConvLanesKernel kernel_of(std::int64_t pixels, std::int64_t vectors, std::int64_t last, bool inside) const {
    const ConvKernelSet& kernels = *plan_.kernels;
    const bool moved = !plan_.lane_of.empty();
    if (last < vector_lanes_) return kernels.masked[moved][pixels];
    if (moved) return kernels.moved[pixels][vectors];
    const AxisWalk& w = walk_->w;
    if (inside && (w.taps == 3 || w.taps == 5 || w.taps == 7) && w.tap_step == 1 && w.step <= 2) {
      if (const auto kernel = kernels.filter_row[w.taps / 2 - 1][w.step - 1][pixels][vectors]) return kernel;
    }
    return kernels.direct[pixels][vectors];
  }

  const ConvPlan& plan_;
  std::int64_t vector_lanes_;
  const float* source_;
  float* result_;
  const float* packed_;
  Row* rows_;
  ConvTapRow* taps_;
  std::int64_t row_count_ = 0;
  const ConvWalk* walk_ = nullptr;
  Units inner_{};
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
