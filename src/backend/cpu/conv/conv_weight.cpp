// Computes the filter's gradient: conv_bwd_weight. A is the output image's gradient, B the input image, C the
// filter's gradient.
#include <algorithm>

#include "backend/cpu/conv/conv_plan.h"
#include "backend/cpu/gemm/gemm_plan.h"

namespace kscout::cpu {

namespace {

/// Output pixels of one image row that meet one tap.
struct MetPixels {
  bool exists;         ///< whether the tap's input row exists
  std::int64_t input;  ///< input pixel that output pixel 0 of the row would meet
};

/// Where an image row of the output, numbered over all images, meets a tap.
MetPixels meet(const ConvPlan& plan, std::int64_t row, std::int64_t z, std::int64_t y, std::int64_t x) {
  const ConvPhase& phase = plan.phases.front();
  const std::int64_t h = row % phase.h.count, plane = row / phase.h.count, d = plane % phase.d.count;
  const std::int64_t image = plane / phase.d.count;
  const bool exists = phase.d.meets(d, z) && phase.h.meets(h, y);
  return {exists,
          ((image * plan.source.d + phase.d.at(d, z)) * plan.source.h + phase.h.at(h, y)) * plan.source.w +
              phase.w.at(0, x)};
}

template <class Use>
void for_all_taps(const ConvPlan& plan, const Use& use) {
  std::int64_t tap = 0;
  const ConvPhase& phase = plan.phases.front();
  for (std::int64_t z = 0; z < phase.d.taps; ++z) {
    for (std::int64_t y = 0; y < phase.h.taps; ++y) {
      for (std::int64_t x = 0; x < phase.w.taps; ++x) use(tap++, z, y, x);
    }
  }
}

std::int64_t rows_of_block(const ConvPlan& plan) {
  return std::max<std::int64_t>(1, plan.config.pixels / plan.phases.front().w.count);
}

/// Register tiles of output channels x input channels (kind patch: x taps and input channels).
class WeightTiles {
 public:
  WeightTiles(const ConvPlan& plan, const GemmBuffers& buffers, float* sums, float* workspace)
      : plan_(plan),
        output_(static_cast<const float*>(buffers.a)),
        input_(static_cast<const float*>(buffers.b)),
        sums_(sums),
        segments_(reinterpret_cast<ConvSegment*>(workspace)),
        patch_(workspace + segment_floats(plan)) {}

  static std::int64_t segment_floats(const ConvPlan& plan) {
    const bool patch = plan.config.kind == NativeConvKind::patch;
    return floats_of<ConvSegment>(patch ? 1 : plan.taps * rows_of_block(plan) + plan.taps);
  }
  static std::int64_t patch_floats(const ConvPlan& plan) {
    if (plan.config.kind != NativeConvKind::patch) return 0;
    return rows_of_block(plan) * plan.phases.front().w.count * plan.filter_row();
  }

  void run(int part) {
    const std::int64_t tiles = ceil_div(plan_.k_group, plan_.config.mr);
    const Range channels =
        share_of(plan_.groups * tiles, plan_.config.threads_k, part % plan_.config.threads_k);
    const ConvPhase& phase = plan_.phases.front();
    const Range rows =
        share_of(phase.rows(plan_.images), plan_.config.threads_p, part / plan_.config.threads_k);
    bool first = true;  // an empty share of rows still writes its zeros
    for (std::int64_t row = rows.begin; row < rows.end || first; row += rows_of_block(plan_)) {
      const Range block{row, std::min(row + rows_of_block(plan_), rows.end)};
      if (plan_.config.kind == NativeConvKind::patch) {
        run_patches(block, channels, !first);
      } else {
        run_rows(block, channels, !first);
      }
      first = false;
    }
  }

 private:
  void run_rows(const Range& rows, const Range& channels, bool accumulate) {
    const AxisPhase& w = plan_.phases.front().w;
    const std::int64_t per_tap = rows_of_block(plan_);
    std::int64_t* const counts = reinterpret_cast<std::int64_t*>(segments_ + plan_.taps * per_tap);
    for_all_taps(plan_, [&](std::int64_t tap, std::int64_t z, std::int64_t y, std::int64_t x) {
      const Range met = w.positions(x);
      ConvSegment* to = segments_ + tap * per_tap;
      for (std::int64_t row = rows.begin; row < rows.end && met.begin < met.end; ++row) {
        const MetPixels pixels = meet(plan_, row, z, y, x);
        if (!pixels.exists) continue;
        *to++ = {output_ + (row * w.count + met.begin) * plan_.result.channels,
                 input_ + (pixels.input + met.begin * w.step) * plan_.source.channels, met.end - met.begin};
      }
      counts[tap] = to - (segments_ + tap * per_tap);
    });
    ConvWeightArgs args{};
    args.b_step = w.step * plan_.source.channels;
    for (std::int64_t u = channels.begin; u < channels.end; ++u) {
      for (std::int64_t tap = 0; tap < plan_.taps; ++tap) {
        args.segments = segments_ + tap * per_tap;
        args.segment_count = counts[tap];
        if (accumulate && args.segment_count == 0) continue;
        multiply(args, u, plan_.source.group, plan_.c_group, tap * plan_.c_group, accumulate);
      }
    }
  }

  void run_patches(const Range& rows, const Range& channels, bool accumulate) {
    const AxisPhase& w = plan_.phases.front().w;
    const std::int64_t tiles = ceil_div(plan_.k_group, plan_.config.mr);
    segments_[0] = {output_ + rows.begin * w.count * plan_.result.channels, patch_,
                    (rows.end - rows.begin) * w.count};
    ConvWeightArgs args{};
    args.segments = segments_;
    args.segment_count = 1;
    args.b_step = plan_.filter_row();
    std::int64_t copied = -1;
    for (std::int64_t u = channels.begin; u < channels.end; ++u) {
      if (u / tiles != copied) {
        copied = u / tiles;
        copy_patches(plan_, plan_.phases.front(), {rows.begin * w.count, rows.end * w.count}, input_, copied,
                     patch_);
      }
      multiply(args, u, 0, plan_.filter_row(), 0, accumulate);
    }
  }

  /// One tile of output channels (u) times all columns of B, to the columns of C from `to`.
  void multiply(ConvWeightArgs& args, std::int64_t u, std::int64_t b_group, std::int64_t columns,
                std::int64_t to, bool accumulate) {
    const std::int64_t tiles = ceil_div(plan_.k_group, plan_.config.mr), lanes = plan_.kernels->lanes;
    const std::int64_t group = u / tiles, first = u % tiles * plan_.config.mr;
    const std::int64_t height = std::min<std::int64_t>(plan_.config.mr, plan_.k_group - first);
    args.a_first = group * plan_.k_group + first;
    args.a_step = plan_.result.channels;
    args.ldc = plan_.filter_row();
    args.accumulate = accumulate;
    float* const c = sums_ + (group * plan_.k_group + first) * args.ldc + to;
    for (std::int64_t column = 0; column < columns; column += plan_.config.nr) {
      const std::int64_t width = std::min<std::int64_t>(plan_.config.nr, columns - column);
      const std::int64_t vectors = ceil_div(width, lanes), last = width - (vectors - 1) * lanes;
      args.b_first = group * b_group + column;
      args.c = c + column;
      args.last = static_cast<std::int32_t>(last);
      plan_.kernels->weight[last < lanes][height][vectors](args);
    }
  }

  const ConvPlan& plan_;
  const float* output_;
  const float* input_;
  float* sums_;
  ConvSegment* segments_;
  float* patch_;
};

/// Kinds rows and patch with few input channels: register tiles of the inputs of a filter row x output
/// channels. The vectors lie along the output channels, so the inputs are read where they are; only those
/// beside the padding are copied. The sums are transposed when they are complete.
class WeightColumns {
 public:
  WeightColumns(const ConvPlan& plan, const GemmBuffers& buffers, float* result, float* workspace)
      : plan_(plan),
        phase_(plan.phases.front()),
        inner_(phase_.w.meet_all_taps()),
        output_(static_cast<const float*>(buffers.a)),
        input_(static_cast<const float*>(buffers.b)),
        result_(result),
        segments_(reinterpret_cast<ConvSegment*>(workspace)),
        counts_(reinterpret_cast<std::int64_t*>(workspace + segment_floats(plan))),
        padded_(workspace + segment_floats(plan) + floats_of<std::int64_t>(filter_rows(plan))),
        sums_(padded_ + padded_floats(plan)) {}

  static std::int64_t workspace(const ConvPlan& plan) {
    return segment_floats(plan) + floats_of<std::int64_t>(filter_rows(plan)) + padded_floats(plan) +
           plan.filter_row() * plan.k_group;
  }

  void run(int part) {
    const Range panels = share_of(ceil_div(plan_.k_group, plan_.config.nr), plan_.config.threads_k,
                                  part % plan_.config.threads_k);
    const Range rows =
        share_of(phase_.rows(plan_.images), plan_.config.threads_p, part / plan_.config.threads_k);
    bool first = true;  // an empty share of rows still writes its zeros
    for (std::int64_t row = rows.begin; row < rows.end || first; row += rows_of_block(plan_)) {
      lay_segments({row, std::min(row + rows_of_block(plan_), rows.end)});
      for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) add(panel, !first);
      first = false;
    }
    store({panels.begin * plan_.config.nr, std::min(panels.end * plan_.config.nr, plan_.k_group)});
  }

 private:
  static constexpr std::int64_t kOfRow = 3;  ///< segments: beside the padding, between, and beside it

  static std::int64_t filter_rows(const ConvPlan& plan) {
    return plan.phases.front().d.taps * plan.phases.front().h.taps;
  }
  static std::int64_t segment_floats(const ConvPlan& plan) {
    return floats_of<ConvSegment>(filter_rows(plan) * rows_of_block(plan) * kOfRow);
  }
  static std::int64_t padded_floats(const ConvPlan& plan) {
    const AxisPhase& w = plan.phases.front().w;
    const Range inner = w.meet_all_taps();
    const std::int64_t columns = met_columns(w, inner.begin) + met_columns(w, w.count - inner.end);
    return floats_of<float>(filter_rows(plan) * rows_of_block(plan) * columns * plan.source.channels);
  }

  /// Lists per filter row the pixels of the output rows that meet it.
  void lay_segments(const Range& rows) {
    const std::int64_t of_filter_row = rows_of_block(plan_) * kOfRow;
    float* padded = padded_;
    for (std::int64_t i = 0; i < filter_rows(plan_); ++i) {
      ConvSegment* const first = segments_ + i * of_filter_row;
      ConvSegment* to = first;
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        const MetPixels at = meet(plan_, row, i / phase_.h.taps, i % phase_.h.taps, 0);
        if (!at.exists) continue;
        const auto add_segment = [&](const Range& pixels, bool inside) {
          if (pixels.begin >= pixels.end) return;
          const std::int64_t count = pixels.end - pixels.begin;
          const float* from = input_ + (at.input + pixels.begin * phase_.w.step) * plan_.source.channels;
          if (!inside) {
            float* const copy = padded;
            padded = copy_padded(phase_.w, plan_.source.channels, pixels.begin, count, from, copy);
            from = copy;
          }
          *to++ = {from, output_ + (row * phase_.w.count + pixels.begin) * plan_.result.channels, count};
        };
        add_segment({0, inner_.begin}, false);
        add_segment(inner_, true);
        add_segment({inner_.end, phase_.w.count}, false);
      }
      counts_[i] = to - first;
    }
  }

  /// Adds the block to the sums of one panel of output channels.
  void add(std::int64_t panel, bool accumulate) {
    const std::int64_t lanes = plan_.kernels->lanes, of_filter_row = phase_.w.taps * plan_.c_group;
    const std::int64_t channel = panel * plan_.config.nr, tiles = ceil_div(of_filter_row, plan_.config.mr);
    const std::int64_t width = std::min<std::int64_t>(plan_.config.nr, plan_.k_group - channel);
    const std::int64_t vectors = ceil_div(width, lanes), last = width - (vectors - 1) * lanes;
    ConvWeightArgs args{};
    args.a_step = phase_.w.step * plan_.source.channels;
    args.b_first = channel;
    args.b_step = plan_.result.channels;
    args.ldc = plan_.k_group;
    args.accumulate = accumulate;
    args.last = static_cast<std::int32_t>(last);
    for (std::int64_t i = 0; i < filter_rows(plan_); ++i) {
      args.segments = segments_ + i * rows_of_block(plan_) * kOfRow;
      args.segment_count = counts_[i];
      if (accumulate && args.segment_count == 0) continue;
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        const Range inputs = share_of(of_filter_row, tiles, tile);
        args.a_first = inputs.begin;
        args.c = sums_ + (i * of_filter_row + inputs.begin) * plan_.k_group + channel;
        plan_.kernels->weight[last < lanes][inputs.end - inputs.begin][vectors](args);
      }
    }
  }

  /// Transposes the sums of some output channels.
  void store(const Range& channels) {
    constexpr std::int64_t kLine = 16;  // floats of a cache line, read at once
    for (std::int64_t line = channels.begin; line < channels.end; line += kLine) {
      const std::int64_t end = std::min(line + kLine, channels.end);
      for (std::int64_t i = 0; i < plan_.filter_row(); ++i) {
        const float* const from = sums_ + i * plan_.k_group;
        for (std::int64_t k = line; k < end; ++k) result_[k * plan_.filter_row() + i] = from[k];
      }
    }
  }

  const ConvPlan& plan_;
  const ConvPhase& phase_;
  Range inner_;  ///< pixels of an image row that meet all taps of a filter row
  const float* output_;
  const float* input_;
  float* result_;
  ConvSegment* segments_;  ///< [filter row][output row][kOfRow]
  std::int64_t* counts_;
  float* padded_;
  float* sums_;  ///< [filter row][tap][input channel][output channel]
};

/// Vectors of output channels across groups; sums for several taps at once.
class WeightLanes {
 public:
  WeightLanes(const ConvPlan& plan, const GemmBuffers& buffers, float* sums, float* workspace)
      : plan_(plan),
        vector_lanes_(plan.kernels->lanes),
        output_(static_cast<const float*>(buffers.a)),
        input_(static_cast<const float*>(buffers.b)),
        result_(sums),
        met_(reinterpret_cast<Met*>(workspace)),
        rows_(reinterpret_cast<ConvTapRow*>(workspace + floats_of<Met>(plan.taps))),
        sums_(workspace + floats_of<Met>(plan.taps) + floats_of<ConvTapRow>(plan.taps)) {}

  static std::int64_t workspace(const ConvPlan& plan) {
    const std::int64_t lanes = plan.kernels->lanes;
    return floats_of<Met>(plan.taps) + floats_of<ConvTapRow>(plan.taps) +
           round_up(plan.result.channels, lanes) * plan.taps * plan.c_group;
  }

  void run(int part) {
    const Range vectors = share_of(ceil_div(plan_.result.channels, vector_lanes_), plan_.config.threads_k,
                                   part % plan_.config.threads_k);
    const ConvPhase& phase = plan_.phases.front();
    const Range mine =
        share_of(phase.rows(plan_.images), plan_.config.threads_p, part / plan_.config.threads_k);
    const std::int64_t of_vector = plan_.taps * plan_.c_group * vector_lanes_;
    std::fill(sums_ + vectors.begin * of_vector, sums_ + vectors.end * of_vector, 0.0F);
    for (std::int64_t row = mine.begin; row < mine.end; ++row) {
      const auto* const by_rows = row_kernels();
      const std::int64_t met = by_rows != nullptr ? meet_rows(row) : 0;
      std::int64_t met_all = -1;
      for (std::int64_t v = vectors.begin; v < vectors.end; ++v) {
        float* const sums = sums_ + v * of_vector;
        if (by_rows != nullptr && (v + 1) * vector_lanes_ <= plan_.result.channels) {
          add_filter_rows(by_rows, row, met, v, sums);
        } else {
          if (met_all < 0) met_all = meet_taps(row);
          add_row(row, met_all, v, sums);
        }
      }
    }
    for (std::int64_t v = vectors.begin; v < vectors.end; ++v) store(v, sums_ + v * of_vector);
  }

 private:
  /// A tap that an image row meets.
  struct Met {
    std::int64_t tap, input;
    Range pixels;
  };

  /// Lists the taps that an image row meets; returns their number.
  std::int64_t meet_taps(std::int64_t row) {
    const AxisPhase& w = plan_.phases.front().w;
    std::int64_t count = 0;
    for_all_taps(plan_, [&](std::int64_t tap, std::int64_t z, std::int64_t y, std::int64_t x) {
      const Range pixels = w.positions(x);
      const MetPixels at = meet(plan_, row, z, y, x);
      if (at.exists && pixels.begin < pixels.end) met_[count++] = {tap, at.input, pixels};
    });
    return count;
  }

  /// Lists the filter rows that an image row meets, as offsets of what its first pixel and tap 0 meet.
  std::int64_t meet_rows(std::int64_t row) {
    const ConvPhase& phase = plan_.phases.front();
    std::int64_t count = 0;
    for (std::int64_t z = 0; z < phase.d.taps; ++z) {
      for (std::int64_t y = 0; y < phase.h.taps; ++y) {
        const MetPixels at = meet(plan_, row, z, y, 0);
        if (at.exists)
          rows_[count++] = {at.input * plan_.source.channels, (z * phase.h.taps + y) * phase.w.taps};
      }
    }
    return count;
  }

  /// The kernels of whole filter rows, by their number; null for other filters.
  const ConvRowSumsKernel* row_kernels() const {
    const AxisPhase& w = plan_.phases.front().w;
    if (plan_.lane_of.empty() && w.tap_step == 1 && w.step <= 2 && w.taps <= kMaxRowTaps) {
      const auto& kernels = plan_.kernels->row_sums[w.taps][w.step];
      if (kernels[1] != nullptr) return kernels;
    }
    return nullptr;
  }

  void add_filter_rows(const ConvRowSumsKernel* kernels, std::int64_t row, std::int64_t count,
                       std::int64_t vector, float* sums) {
    const AxisPhase& w = plan_.phases.front().w;
    std::int64_t at_once = std::max<std::int64_t>(1, plan_.config.mr / w.taps);
    while (kernels[std::min<std::int64_t>(at_once, kMaxRowTaps)] == nullptr) --at_once;
    ConvRowSumsArgs args{};
    args.g = output_ + row * w.count * plan_.result.channels + vector * vector_lanes_;
    args.g_step = plan_.result.channels;
    args.x = input_ + vector * vector_lanes_;
    args.x_step = w.step * plan_.source.channels;
    args.x_column = plan_.source.channels;
    args.pixels = w.count;
    args.begin = -w.offset;
    args.end = w.source - w.offset;
    args.sums = sums;
    for (std::int64_t i = 0; i < count; i += at_once) {
      args.rows = rows_ + i;
      kernels[std::min(at_once, count - i)](args);
    }
  }

  void add_row(std::int64_t row, std::int64_t count, std::int64_t vector, float* sums) {
    const std::int64_t at_once = std::max<std::int64_t>(1, plan_.config.mr / plan_.c_group);
    for (std::int64_t i = 0; i < count; i += at_once) {
      const std::int64_t taps = std::min(at_once, count - i);
      Range all = met_[i].pixels;
      for (std::int64_t t = i + 1; t < i + taps; ++t) {
        all = {std::max(all.begin, met_[t].pixels.begin), std::min(all.end, met_[t].pixels.end)};
      }
      if (all.begin >= all.end) {
        for (std::int64_t t = i; t < i + taps; ++t) add(row, vector, t, 1, met_[t].pixels, sums);
        continue;
      }
      add(row, vector, i, taps, all, sums);
      for (std::int64_t t = i; t < i + taps; ++t) {
        add(row, vector, t, 1, {met_[t].pixels.begin, all.begin}, sums);
        add(row, vector, t, 1, {all.end, met_[t].pixels.end}, sums);
      }
    }
  }

  void add(std::int64_t row, std::int64_t vector, std::int64_t first, std::int64_t taps, const Range& pixels,
           float* sums) {
    if (pixels.begin >= pixels.end) return;
    const AxisPhase& w = plan_.phases.front().w;
    const std::int64_t channel = vector * vector_lanes_,
                       last = std::min(vector_lanes_, plan_.result.channels - channel);
    const std::int64_t input = channel / plan_.k_group * plan_.c_group;
    ConvTapRow of_taps[kMaxSums];
    for (std::int64_t t = 0; t < taps; ++t) {
      const Met& met = met_[first + t];
      of_taps[t] = {(met.input + pixels.begin * w.step) * plan_.source.channels + input, met.tap};
    }
    ConvSumsArgs args{};
    args.g = output_ + (row * w.count + pixels.begin) * plan_.result.channels + channel;
    args.g_step = plan_.result.channels;
    args.x = input_;
    args.x_step = w.step * plan_.source.channels;
    args.taps = of_taps;
    args.pixels = pixels.end - pixels.begin;
    args.lane_of = plan_.lane_of.empty() ? nullptr : plan_.lane_of.data();
    args.span = static_cast<std::int32_t>(
        std::min(ceil_div(last, plan_.k_group) * plan_.c_group, plan_.source.channels - input));
    args.last = static_cast<std::int32_t>(last);
    args.sums = sums;
    plan_.kernels->sums[taps][plan_.c_group](args);
  }

  void store(std::int64_t vector, const float* sums) {
    for (std::int64_t lane = 0; lane < vector_lanes_; ++lane) {
      const std::int64_t channel = vector * vector_lanes_ + lane;
      if (channel >= plan_.result.channels) return;
      float* const to = result_ + channel * plan_.filter_row();
      for (std::int64_t i = 0; i < plan_.filter_row(); ++i) to[i] = sums[i * vector_lanes_ + lane];
    }
  }

  const ConvPlan& plan_;
  std::int64_t vector_lanes_;
  const float* output_;
  const float* input_;
  float* result_;
  Met* met_;
  ConvTapRow* rows_;
  float* sums_;
};

}  // namespace

bool sums_by_columns(const ConvPlan& plan) noexcept {
  const std::int64_t lanes = plan.kernels->lanes;
  return plan.groups == 1 && plan.phases.front().w.tap_step == 1 && plan.c_group < lanes &&
         ceil_div(plan.k_group, lanes) * plan.c_group <= plan.k_group;
}

std::int64_t weight_tiles_workspace(const ConvPlan& plan) noexcept {
  if (sums_by_columns(plan)) return WeightColumns::workspace(plan);
  return WeightTiles::segment_floats(plan) + WeightTiles::patch_floats(plan);
}
std::int64_t weight_lanes_workspace(const ConvPlan& plan) noexcept { return WeightLanes::workspace(plan); }

void run_weight_tiles(const ConvPlan& plan, const GemmBuffers& buffers, float* sums, float* workspace,
                      int part) noexcept {
  if (sums_by_columns(plan)) {
    WeightColumns(plan, buffers, sums, workspace).run(part);
  } else {
    WeightTiles(plan, buffers, sums, workspace).run(part);
  }
}
void run_weight_lanes(const ConvPlan& plan, const GemmBuffers& buffers, float* sums, float* workspace,
                      int part) noexcept {
  WeightLanes(plan, buffers, sums, workspace).run(part);
}

}  // namespace kscout::cpu
