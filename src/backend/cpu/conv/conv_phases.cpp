// Walks over the result of a convolution: which pixels meet which taps, and where.
#include <algorithm>
#include <numeric>

#include "backend/cpu/conv/conv_plan.h"
#include "backend/cpu/gemm/gemm_plan.h"

namespace kscout::cpu {

namespace {

struct ConvAxis {
  std::int64_t in, out, filter, stride, dilation, pad;
};

/// Output i and tap t meet input i * stride + t * dilation - pad.
AxisPhase forward_phase(const ConvAxis& a) {
  return {.first = 0,
          .stride = 1,
          .count = a.out,
          .step = a.stride,
          .offset = -a.pad,
          .tap_step = a.dilation,
          .source = a.in,
          .taps = a.filter,
          .tap_first = 0,
          .tap_stride = 1};
}

/// Input x and tap t meet output (x + pad - t * dilation) / stride, where that is whole. The inputs whose
/// positions agree modulo the stride meet the same taps, every (stride / gcd(stride, dilation))-th one. The
/// phase's taps run from the filter's last one to its first, so that their outputs follow each other in
/// memory.
std::vector<AxisPhase> backward_phases(const ConvAxis& a) {
  std::vector<AxisPhase> phases;
  const std::int64_t between = a.stride / std::gcd(a.stride, a.dilation);
  for (std::int64_t first = 0; first < std::min(a.stride, a.in); ++first) {
    std::int64_t tap = 0;
    while (tap < a.filter && (first + a.pad - tap * a.dilation) % a.stride != 0) ++tap;
    const std::int64_t taps = tap < a.filter ? ceil_div(a.filter - tap, between) : 0;
    const std::int64_t last = tap + (taps - 1) * between;
    phases.push_back({.first = first,
                      .stride = a.stride,
                      .count = ceil_div(a.in - first, a.stride),
                      .step = 1,
                      .offset = taps > 0 ? (first + a.pad - last * a.dilation) / a.stride : 0,
                      .tap_step = between * a.dilation / a.stride,
                      .source = a.out,
                      .taps = taps,
                      .tap_first = last,
                      .tap_stride = -between});
  }
  return phases;
}

/// In a register tile of one vector with fewer rows than kBusyRows, products wait for each other. In any tile
/// with fewer than kMinTileRows, they wait for the filter.
constexpr std::int64_t kBusyRows = 8, kMinTileRows = 4;

}  // namespace

Range AxisPhase::met_taps(std::int64_t i) const noexcept {
  std::int64_t begin = 0, end = taps;
  while (begin < end && !meets(i, begin)) ++begin;
  while (end > begin && !meets(i, end - 1)) --end;
  return {begin, end};
}

std::int64_t AxisPhase::run_end(std::int64_t i) const noexcept {
  const Range met = met_taps(i);
  const auto same = [&](std::int64_t at) {
    const Range other = met_taps(at);
    return other.begin == met.begin && other.end == met.end;
  };
  do ++i;
  while (i < count && same(i));
  return i;
}

Range AxisPhase::meet_all_taps() const noexcept {
  Range all{0, count};
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const Range met = positions(tap);
    all = {std::max(all.begin, met.begin), std::min(all.end, met.end)};
  }
  return {std::min(all.begin, count), std::max(std::min(all.begin, count), all.end)};
}

Range AxisPhase::positions(std::int64_t tap) const noexcept {
  const std::int64_t from = offset + tap * tap_step;
  const std::int64_t begin = from < 0 ? ceil_div(-from, step) : 0;
  const std::int64_t end = source > from ? ceil_div(source - from, step) : 0;
  return {std::min(begin, count), std::clamp(end, std::min(begin, count), count)};
}

std::vector<ConvPhase> phases_of(const ConvProblem& p) {
  const ConvOutput o = output_sizes(p);
  const ConvAxis axes[3] = {{p.d, o.d, p.z, p.stride_d, p.dilation_d, p.left_pad_d},
                            {p.h, o.h, p.y, p.stride_h, p.dilation_h, p.left_pad_h},
                            {p.w, o.w, p.x, p.stride_w, p.dilation_w, p.left_pad_w}};
  std::vector<AxisPhase> along[3];
  for (std::size_t i = 0; i < 3; ++i) {
    along[i] = p.op == Op::conv_bwd_data ? backward_phases(axes[i]) : std::vector{forward_phase(axes[i])};
  }
  std::vector<ConvPhase> phases;
  for (const AxisPhase& d : along[0]) {
    for (const AxisPhase& h : along[1]) {
      for (const AxisPhase& w : along[2]) phases.push_back({d, h, w, 0, false});
    }
  }
  return phases;
}

namespace {

/// How many neighbouring pixels of an image row may count as one: as many as a vector has room for, at least
/// those of a stride, which meet the same source pixels, more or less; else a part of these that divides the
/// row.
std::int64_t pixels_to_merge(const ConvPlan& plan, std::int64_t stride) {
  const std::int64_t w = plan.result.w;
  std::int64_t pixels =
      std::max(plan.kernels->lanes / plan.result.channels / stride, std::int64_t{1}) * stride;
  while (pixels > 0 && w % pixels != 0) pixels -= stride;
  return pixels > 0 || w < stride ? pixels : std::gcd(w, stride);
}

/// What `pixels` neighbours meet, from pixel `first` of a stride on: every source pixel that one of them
/// meets.
AxisPhase merged_phase(const std::vector<AxisPhase>& unmerged, std::int64_t first, std::int64_t pixels) {
  const auto stride = static_cast<std::int64_t>(unmerged.size());
  AxisPhase merged = unmerged.front();
  merged.stride = std::max(stride / pixels, std::int64_t{1});
  merged.first = first / pixels;
  merged.step *= std::max(pixels / stride, std::int64_t{1});
  merged.offset = merged.taps = merged.tap_first = 0;
  merged.tap_step = merged.tap_stride = 1;
  for (std::int64_t i = first; i < first + pixels; ++i) {
    const AxisPhase& of = unmerged[static_cast<std::size_t>(i % stride)];
    if (of.taps == 0) continue;
    const std::int64_t from = of.at(i / stride, 0), behind = of.at(i / stride, of.taps - 1) + 1;
    const std::int64_t end = merged.taps == 0 ? behind : std::max(merged.offset + merged.taps, behind);
    merged.offset = merged.taps == 0 ? from : std::min(merged.offset, from);
    merged.taps = end - merged.offset;
  }
  return merged;
}

}  // namespace

void merge_pixels(ConvPlan& plan) {
  const std::int64_t channels = plan.result.channels, stride = plan.phases.front().w.stride;
  plan.merged = 1;
  if (plan.groups != 1) return;
  const std::int64_t pixels = pixels_to_merge(plan, stride), lanes = plan.kernels->lanes;
  if (pixels < 2) return;
  std::vector<AxisPhase> unmerged, merged;
  std::int64_t vectors_apart = 0, vectors_merged = 0;  // multiplied for a pixel of each phase, all taps
  for (std::size_t i = 0; i < static_cast<std::size_t>(stride); ++i) unmerged.push_back(plan.phases[i].w);
  for (std::int64_t first = 0; first < std::max(stride, pixels); first += pixels) {
    merged.push_back(merged_phase(unmerged, first, pixels));
    merged.back().count = ceil_div(plan.result.w / pixels - merged.back().first, merged.back().stride);
    vectors_merged += merged.back().taps * ceil_div(pixels * channels, lanes);
    for (std::int64_t i = first; i < first + pixels; ++i)
      vectors_apart += unmerged[static_cast<std::size_t>(i % stride)].taps * ceil_div(channels, lanes);
  }
  constexpr double kGain = 1.2;
  if (vectors_apart == 0 || static_cast<double>(vectors_merged) * kGain > static_cast<double>(vectors_apart))
    return;
  std::vector<ConvPhase> phases;
  for (std::size_t i = 0; i < plan.phases.size(); i += static_cast<std::size_t>(stride)) {
    for (const AxisPhase& w : merged) phases.push_back({plan.phases[i].d, plan.phases[i].h, w, 0, false});
  }
  plan.phases = std::move(phases);
  plan.merged = pixels;
  plan.unmerged = std::move(unmerged);
  plan.result.w /= pixels;
  plan.result.channels *= pixels;
  plan.result.group *= pixels;
}

std::int64_t unmerged_tap(const ConvPlan& plan, const ConvPhase& phase, std::int64_t tap,
                          std::int64_t pixel) noexcept {
  const auto stride = static_cast<std::int64_t>(plan.unmerged.size());
  pixel += phase.w.first * plan.merged;
  const AxisPhase& of = plan.unmerged[static_cast<std::size_t>(pixel % stride)];
  const std::int64_t distance = phase.w.offset + tap - of.at(pixel / stride, 0);
  if (distance < 0 || distance % of.tap_step != 0 || distance / of.tap_step >= of.taps) return -1;
  return of.tap_first + distance / of.tap_step * of.tap_stride;
}

bool tiles_by_runs(const ConvPlan& plan, const AxisPhase& w) noexcept {
  // Without a distance between taps, runs in the padding are of one pixel.
  if (w.tap_step < 2 * w.step || w.taps < 2) return false;
  const std::int64_t mr = plan.config.mr;
  const std::int64_t vectors =
      ceil_div(std::min<std::int64_t>(plan.config.nr, plan.result.group), plan.kernels->lanes);
  const auto cost = [&](std::int64_t pixels, std::int64_t taps) {
    return std::max({pixels, ceil_div(kBusyRows, vectors), kMinTileRows}) * taps;
  };
  std::int64_t mixed = 0, by_runs = 0;
  for (std::int64_t at = 0; at < w.count; at += mr) {
    const std::int64_t end = std::min(at + mr, w.count);
    Range met = w.met_taps(at);
    for (std::int64_t i = at + 1; i < end; ++i) {
      const Range of_pixel = w.met_taps(i);
      met = {std::min(met.begin, of_pixel.begin), std::max(met.end, of_pixel.end)};
    }
    mixed += cost(end - at, met.end - met.begin);
  }
  for (std::int64_t at = 0, end = 0; at < w.count; at = end) {
    end = w.run_end(at);
    const Range met = w.met_taps(at);
    const std::int64_t tiles = ceil_div(end - at, mr), larger = (end - at) % tiles;
    by_runs += larger * cost((end - at) / tiles + 1, met.end - met.begin) +
               (tiles - larger) * cost((end - at) / tiles, met.end - met.begin);
  }
  return by_runs < mixed;
}

std::int64_t result_offset(const ConvPlan& plan, const ConvPhase& phase, const Pixel& at) noexcept {
  const std::int64_t d = phase.d.first + at.d * phase.d.stride, h = phase.h.first + at.h * phase.h.stride;
  const std::int64_t w = phase.w.first + at.w * phase.w.stride;
  const ConvImageSize& size = plan.result;
  return (((at.image * size.d + d) * size.h + h) * size.w + w) * size.channels;
}

std::int64_t source_offset(const ConvPlan& plan, const ConvPhase& phase, const Pixel& at) noexcept {
  const ConvImageSize& size = plan.source;
  return (((at.image * size.d + phase.d.at(at.d, 0)) * size.h + phase.h.at(at.h, 0)) * size.w +
          phase.w.at(at.w, 0)) *
         size.channels;
}

std::int64_t met_rows(const ConvPlan& plan, const ConvPhase& phase, const Pixel& at,
                      ConvTapRow* rows) noexcept {
  const ConvImageSize& size = plan.source;
  const Range d = phase.d.met_taps(at.d), h = phase.h.met_taps(at.h);
  std::int64_t count = 0;
  for (std::int64_t i = d.begin; i < d.end; ++i) {
    for (std::int64_t j = h.begin; j < h.end; ++j) {
      rows[count++] = {(i * phase.d.tap_step * size.h + j * phase.h.tap_step) * size.w * size.channels,
                       (i * phase.h.taps + j) * phase.w.taps};
    }
  }
  return count;
}

std::int64_t tap_rows(const ConvPlan& plan) noexcept {
  std::int64_t rows = 0;
  for (const ConvPhase& phase : plan.phases) rows = std::max(rows, phase.d.taps * phase.h.taps);
  return rows;
}

}  // namespace kscout::cpu
