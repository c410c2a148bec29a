#include "backend/cpu/conv/conv_plan.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/common/planned_launch.h"
#include "backend/cpu/gemm/gemm_plan.h"

namespace kscout::cpu {

namespace {

/// Per lane, the input channel that it uses for its group's first channel.
std::vector<std::int32_t> lane_table_of(std::int64_t lanes, std::int64_t result, std::int64_t source) {
  std::vector<std::int32_t> of(static_cast<std::size_t>(lanes));
  for (std::int64_t i = 0; i < lanes; ++i)
    of[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i / result * source);
  return of;
}

/// Elements of a packed filter per pair of channels.
std::int64_t packed_taps(const ConvPlan& plan, const ConvPhase& phase) {
  return plan.config.kind == NativeConvKind::wino ? kWinogradTaps : phase.taps();
}

}  // namespace

std::int64_t packed_width(const ConvPlan& plan) noexcept {
  const std::int64_t nr = plan.config.nr, width = plan.result.group;
  return width / nr * nr + round_up(width % nr, plan.kernels->lanes);
}

ConvPlan make_conv_plan(const ConvProblem& p, const NativeConvConfig& config) {
  ConvPlan plan{};
  const ConvOutput o = output_sizes(p);
  const ConvImageSize in{p.d, p.h, p.w, p.c, p.c / p.g}, out{o.d, o.h, o.w, p.k, p.k / p.g};
  const bool weight = p.op == Op::conv_bwd_weight, lanes = config.kind == NativeConvKind::lanes;
  const bool winograd = config.kind == NativeConvKind::wino;
  plan.op = p.op;
  plan.config = config;
  plan.kernels = kernels_of<ConvKernels>(config.isa);
  plan.gemm_kernels = kernels_of<GemmKernels>(config.isa);
  plan.images = p.n;
  plan.groups = p.g;
  plan.taps = p.z * p.y * p.x;
  plan.filter_h = p.y;
  plan.filter_w = p.x;
  plan.c_group = p.c / p.g;
  plan.k_group = p.k / p.g;
  plan.source = p.op == Op::conv_bwd_data ? out : in;
  plan.result = p.op == Op::conv_bwd_data ? in : out;
  plan.phases = phases_of(p);
  plan.merged = 1;
  if (!weight && !lanes && !winograd) merge_pixels(plan);
  // A block of more pixels than the problem has would only ask for memory.
  plan.config.pixels = static_cast<std::int32_t>(std::min<std::int64_t>(
      config.pixels, round_up(p.n * plan.result.d * plan.result.h * plan.result.w, config.mr)));
  if (lanes && (plan.source.group != 1 || plan.result.group != 1))
    plan.lane_of = lane_table_of(plan.kernels->lanes, plan.result.group, plan.source.group);
  if (!weight) {
    const std::int64_t width =
        lanes ? round_up(plan.result.channels, plan.kernels->lanes) : p.g * packed_width(plan);
    for (ConvPhase& phase : plan.phases) {
      phase.packed = plan.packed_floats;
      plan.packed_floats += packed_taps(plan, phase) * plan.source.group * width;
    }
    plan.packed_floats = round_up(plan.packed_floats, kLine);
    for (ConvPhase& phase : plan.phases)
      phase.by_runs = config.kind == NativeConvKind::rows && tiles_by_runs(plan, phase.w);
  }
  plan.part_floats = round_up(weight  ? (lanes ? weight_lanes_workspace(plan) : weight_tiles_workspace(plan))
                              : lanes ? image_lanes_workspace(plan)
                              : winograd ? image_winograd_workspace(plan)
                                         : image_tiles_workspace(plan),
                              kLine);
  if (weight && config.threads_p > 1) plan.partial_floats = round_up(p.k * plan.filter_row(), kLine);
  plan.workspace_floats = config.threads() * plan.part_floats + (config.threads_p - 1) * plan.partial_floats;
  plan.kept_floats = p.prepacked ? plan.packed_floats : 0;
  plan.workspace_floats += plan.packed_floats - plan.kept_floats;
  return plan;
}

GemmPlan make_product_plan(const ConvProblem& p, const NativeConvConfig& c) {
  const std::int64_t pixels = p.n * p.d * p.h * p.w, in = p.c / p.g, out = p.k / p.g;
  NativeConfig config{.isa = c.isa,
                      .kind = NativeKind::tiled,
                      .mr = c.mr,
                      .nr = c.nr,
                      .pack_a = c.pack_x,
                      .pack_b = c.pack_w,
                      .prefetch = 0,
                      .mc = c.pixels,
                      .kc = c.depth,
                      .nc = c.channels,
                      .order = NativeOrder::n,
                      .split_k = 1,
                      .threads_m = c.threads_p,
                      .threads_n = c.threads_k};
  GemmProblem product = make_gemm(pixels, out, in, DType::fp32, Layout::rcr);
  product.lda = p.c;
  product.ldb = in;
  product.ldc = p.k;
  std::int64_t step_a = in, step_b = out * in, step_c = out;  // from group to group
  if (p.op == Op::conv_bwd_data) {
    product = make_gemm(pixels, in, out, DType::fp32, Layout::rrr);
    product.lda = p.k;
    product.ldb = in;
    product.ldc = p.c;
    step_a = out;
    step_c = in;
  } else if (p.op == Op::conv_bwd_weight) {
    config.mc = c.depth;
    config.kc = c.pixels;
    config.split_k = c.threads_p;
    config.threads_m = c.threads_k;
    config.threads_n = 1;
    product = make_gemm(out, in, pixels, DType::fp32, Layout::crr);
    product.lda = p.k;
    product.ldb = p.c;
    product.ldc = in;
    step_a = out;
    step_b = in;
    step_c = out * in;
  }
  product.batch = p.g;
  GemmPlan plan = make_gemm_plan(product, config);
  plan.a.batch = step_a;
  plan.b.batch = step_b;
  plan.batch_c = step_c;
  if (p.prepacked && config.pack_b) {
    plan.prepacked_b = true;
    plan.packed_width = plan.n / config.nr * config.nr + round_up(plan.n % config.nr, plan.kernels->lanes);
    plan.packed_batch = round_up(plan.k * plan.packed_width, kLine);
    plan.kept_floats = plan.batches * plan.packed_batch;
    plan.part_size -= plan.b_size;
    plan.workspace_floats -= config.threads() * plan.b_size;
    plan.b_size = 0;
  }
  return plan;
}

namespace {

/// Calls use(tap of the phase, tap of the filter).
template <class Use>
void for_taps(const ConvPlan& plan, const ConvPhase& phase, const Use& use) {
  std::int64_t tap = 0;
  for (std::int64_t d = 0; d < phase.d.taps; ++d) {
    for (std::int64_t h = 0; h < phase.h.taps; ++h) {
      for (std::int64_t w = 0; w < phase.w.taps; ++w) {
        const std::int64_t z = phase.d.tap_first + d * phase.d.tap_stride;
        const std::int64_t y = phase.h.tap_first + h * phase.h.tap_stride;
        use(tap++, (z * plan.filter_h + y) * plan.filter_w + phase.w.tap_first + w * phase.w.tap_stride);
      }
    }
  }
}

/// Filter element of a result channel and a source channel of one group.
const float* filter_element(const ConvPlan& plan, const float* wei, std::int64_t group, std::int64_t result,
                            std::int64_t tap, std::int64_t source) {
  const bool data = plan.op == Op::conv_bwd_data;
  const std::int64_t k = group * plan.k_group + (data ? source : result);
  return wei + (k * plan.taps + tap) * plan.c_group + (data ? result : source);
}

/// One tile's columns of one group: [tap][source channel][column].
void pack_panel(const ConvPlan& plan, const ConvPhase& phase, const float* wei, std::int64_t group,
                std::int64_t first, float* to) {
  const std::int64_t width = std::min<std::int64_t>(plan.config.nr, plan.result.group - first);
  const std::int64_t depth = plan.source.group, stored = round_up(width, plan.kernels->lanes);
  for_taps(plan, phase, [&](std::int64_t at, std::int64_t tap) {
    pack_columns(plan, wei, group, first, tap, {0, depth}, to + at * depth * stored);
  });
}

/// The same for merged pixels.
void pack_merged_panel(const ConvPlan& plan, const ConvPhase& phase, const float* wei, std::int64_t first,
                       float* to) {
  const std::int64_t width = std::min<std::int64_t>(plan.config.nr, plan.result.group - first);
  const std::int64_t stored = round_up(width, plan.kernels->lanes);
  const std::int64_t channels = plan.result.group / plan.merged;
  ConvPhase rows = phase;
  rows.w.taps = 1;
  for_taps(plan, rows, [&](std::int64_t, std::int64_t row) {
    for (std::int64_t tap = 0; tap < phase.w.taps; ++tap, to += plan.source.group * stored) {
      std::fill_n(to, plan.source.group * stored, 0.0F);
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t own = unmerged_tap(plan, phase, tap, (first + i) / channels);
        if (own < 0) continue;
        for (std::int64_t s = 0; s < plan.source.group; ++s)
          to[s * stored + i] = *filter_element(plan, wei, 0, (first + i) % channels, row + own, s);
      }
    }
  });
}

/// One vector of result channels: [tap][source channel][lane].
void pack_vector(const ConvPlan& plan, const ConvPhase& phase, const float* wei, std::int64_t vector,
                 float* to) {
  const std::int64_t lanes = plan.kernels->lanes, depth = plan.source.group;
  const std::int64_t first = vector * lanes, count = std::min(lanes, plan.result.channels - first);
  const std::int64_t step =
      plan.op == Op::conv_bwd_data ? plan.filter_row() : 1;  // to the next source channel
  const float* from[kMaxLanes];
  for (std::int64_t lane = 0; lane < count; ++lane) {
    const std::int64_t channel = first + lane;
    from[lane] = filter_element(plan, wei, channel / plan.result.group, channel % plan.result.group, 0, 0);
  }
  for_taps(plan, phase, [&](std::int64_t, std::int64_t tap) {
    for (std::int64_t s = 0; s < depth; ++s, to += lanes) {
      const std::int64_t offset = tap * plan.c_group + s * step;
      for (std::int64_t lane = 0; lane < count; ++lane) to[lane] = from[lane][offset];
      std::fill(to + count, to + lanes, 0.0F);
    }
  });
}

}  // namespace

void pack_columns(const ConvPlan& plan, const float* wei, std::int64_t group, std::int64_t first,
                  std::int64_t tap, const Range& channels, float* to) noexcept {
  const bool data = plan.op == Op::conv_bwd_data;
  const std::int64_t width = std::min<std::int64_t>(plan.config.nr, plan.result.group - first);
  const PackKernel pack = data ? plan.gemm_kernels->pack_groups : plan.gemm_kernels->pack_lines;
  const float* from = filter_element(plan, wei, group, first, tap, channels.begin);
  pack({from, plan.filter_row(), width, channels.end - channels.begin, to, plan.config.nr, true});
}

void pack_part(const ConvPlan& plan, const float* wei, float* packed, int part) noexcept {
  const int parts = plan.config.threads();
  const std::int64_t lanes = plan.kernels->lanes, nr = plan.config.nr;
  for (const ConvPhase& phase : plan.phases) {
    const std::int64_t column =
        packed_taps(plan, phase) * plan.source.group;  // floats per column of the packed filter
    if (plan.config.kind == NativeConvKind::lanes) {
      const Range mine = share_of(ceil_div(plan.result.channels, lanes), parts, part);
      for (std::int64_t v = mine.begin; v < mine.end; ++v)
        pack_vector(plan, phase, wei, v, packed + phase.packed + v * lanes * column);
    } else {
      const std::int64_t panels = ceil_div(plan.result.group, nr);
      const Range mine = share_of(plan.groups * panels, parts, part);
      for (std::int64_t u = mine.begin; u < mine.end; ++u) {
        const std::int64_t group = u / panels, first = u % panels * nr;
        float* const to = packed + phase.packed + (group * packed_width(plan) + first) * column;
        if (plan.config.kind == NativeConvKind::wino) {
          pack_winograd_panel(plan, wei, group, first, to);
        } else if (plan.merged > 1) {
          pack_merged_panel(plan, phase, wei, first, to);
        } else {
          pack_panel(plan, phase, wei, group, first, to);
        }
      }
    }
  }
}

namespace {

// A filter row may be a few floats: a call of memcpy or memset takes longer than they do.
void copy_few(const float* from, std::int64_t count, float* to) {
  constexpr std::int64_t kAtOnce = 4;
  for (; count >= kAtOnce; count -= kAtOnce, from += kAtOnce, to += kAtOnce)
    std::memcpy(to, from, kAtOnce * sizeof(float));
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}
/// Copies `count` floats for each of `pixels` pixels.
void copy_runs(const float* from, std::int64_t step, std::int64_t pixels, std::int64_t count, float* to,
               std::int64_t width) {
  for (std::int64_t p = 0; p < pixels; ++p, from += step, to += width) copy_few(from, count, to);
}
void clear_few(float* to, std::int64_t count) {
  if (count > 0) std::fill_n(to, count, 0.0F);
}

/// Copies what `pixels` pixels of an image row meet, from pixel `at` on, to rows of `width` floats.
void copy_row_patches(const ConvPlan& plan, const ConvPhase& phase, const Pixel& at, std::int64_t pixels,
                      const float* source, std::int64_t group, float* to, std::int64_t width) {
  const ConvImageSize& size = plan.source;
  const AxisPhase& w = phase.w;
  const std::int64_t end = at.w + pixels, of_pixel = w.step * size.channels;
  const Range all = w.meet_all_taps();
  const Range inner{std::clamp(all.begin, at.w, end),
                    std::clamp(all.end, std::clamp(all.begin, at.w, end), end)};
  // Taps that are neighbours in the image are copied at once.
  const bool adjacent = w.tap_step == 1 && size.group == size.channels;
  const std::int64_t runs = adjacent ? 1 : w.taps, run = (adjacent ? w.taps : 1) * size.group;
  for (std::int64_t i = 0; i < phase.d.taps; ++i) {
    for (std::int64_t j = 0; j < phase.h.taps; ++j, to += w.taps * size.group) {
      float* own = to;
      if (!phase.d.meets(at.d, i) || !phase.h.meets(at.h, j)) {
        for (std::int64_t p = at.w; p < end; ++p, own += width) clear_few(own, w.taps * size.group);
        continue;
      }
      const std::int64_t row = (at.image * size.d + phase.d.at(at.d, i)) * size.h + phase.h.at(at.h, j);
      const float* const from = source + row * size.w * size.channels + group * size.group;
      const auto copy_partly = [&](std::int64_t p) {
        const Range met = w.met_taps(p);
        clear_few(own, met.begin * size.group);
        for (std::int64_t k = met.begin; k < met.end; ++k)
          copy_few(from + w.at(p, k) * size.channels, size.group, own + k * size.group);
        clear_few(own + met.end * size.group, (w.taps - met.end) * size.group);
        own += width;
      };
      for (std::int64_t p = at.w; p < inner.begin; ++p) copy_partly(p);
      for (std::int64_t k = 0; k < runs && inner.begin < inner.end; ++k)
        copy_runs(from + w.at(inner.begin, k) * size.channels, of_pixel, inner.end - inner.begin, run,
                  own + k * run, width);
      own += (inner.end - inner.begin) * width;
      for (std::int64_t p = inner.end; p < end; ++p) copy_partly(p);
    }
  }
}

}  // namespace

float* copy_padded(const AxisPhase& w, std::int64_t channels, std::int64_t first, std::int64_t pixels,
                   const float* from, float* to) noexcept {
  const std::int64_t at = w.at(first, 0), columns = met_columns(w, pixels);
  const std::int64_t begin = std::clamp<std::int64_t>(-at, 0, columns);
  const std::int64_t end = std::clamp<std::int64_t>(w.source - at, begin, columns);
  std::fill_n(to, begin * channels, 0.0F);
  if (begin < end) std::copy_n(from + begin * channels, (end - begin) * channels, to + begin * channels);
  std::fill_n(to + end * channels, (columns - end) * channels, 0.0F);
  return to + columns * channels;
}

void copy_patches(const ConvPlan& plan, const ConvPhase& phase, const Range& pixels, const float* source,
                  std::int64_t group, float* to) noexcept {
  const std::int64_t width = phase.taps() * plan.source.group;
  for (std::int64_t p = pixels.begin; p < pixels.end;) {
    const Pixel at = pixel_at(phase, p);
    const std::int64_t of_row = std::min(phase.w.count - at.w, pixels.end - p);
    copy_row_patches(plan, phase, at, of_row, source, group, to, width);
    p += of_row;
    to += of_row * width;
  }
}

namespace {

void run_conv_part(const ConvPlan& plan, const GemmBuffers& buffers, const float* packed, float* workspace,
                   int part) noexcept {
  const bool lanes = plan.config.kind == NativeConvKind::lanes;
  float* const own = workspace + part * plan.part_floats;
  if (plan.op != Op::conv_bwd_weight) {
    if (lanes) {
      run_image_lanes(plan, buffers, packed, own, part);
    } else if (plan.config.kind == NativeConvKind::wino) {
      run_image_winograd(plan, buffers, packed, own, part);
    } else {
      run_image_tiles(plan, buffers, packed, own, part);
    }
    return;
  }
  const int along_pixels = part / plan.config.threads_k;
  float* const sums = along_pixels == 0 ? static_cast<float*>(buffers.c)
                                        : workspace + plan.config.threads() * plan.part_floats +
                                              (along_pixels - 1) * plan.partial_floats;
  if (lanes) {
    run_weight_lanes(plan, buffers, sums, own, part);
  } else {
    run_weight_tiles(plan, buffers, sums, own, part);
  }
}

void sum_conv_parts(const ConvPlan& plan, const GemmBuffers& buffers, const float* workspace,
                    int part) noexcept {
  const std::int64_t elements = plan.groups * plan.k_group * plan.filter_row();
  const Range mine = share_of(elements, plan.config.threads(), part);
  float* const to = static_cast<float*>(buffers.c);
  const float* from = workspace + plan.config.threads() * plan.part_floats;
  for (int other = 1; other < plan.config.threads_p; ++other, from += plan.partial_floats) {
    for (std::int64_t i = mine.begin; i < mine.end; ++i) to[i] += from[i];
  }
}

}  // namespace

void run_plan(const ConvPlan& plan, const GemmBuffers& buffers, float* workspace) {
  const int parts = plan.config.threads();
  const float* packed = static_cast<const float*>(buffers.packed_b);
  if (plan.packed_floats > plan.kept_floats) {
    pack_all(plan, buffers.b, workspace);
    packed = workspace;
    workspace += plan.packed_floats;
  }
  run_parts(parts, [&](int part) { run_conv_part(plan, buffers, packed, workspace, part); });
  if (plan.partial_floats == 0) return;
  run_parts(parts, [&](int part) { sum_conv_parts(plan, buffers, workspace, part); });
}

}  // namespace kscout::cpu
