#pragma once
/// \file
/// Plans one config for one convolution: which pixels and taps are multiplied, parts for threads, workspace.
///
///     const ConvPlan plan = make_conv_plan(problem, config);
///     run_plan(plan, tensors, workspace);
///
/// Forward and backward data are the same walk: every pixel of the result sums the taps (positions of the
/// filter) that reach a pixel of the source. The pixels that meet the same taps are a phase: backward data
/// with a stride has one phase per class of result pixels whose positions agree modulo the stride.
#include <cstdint>
#include <string>
#include <vector>

#include <kscout/conv_problem.h>
#include <kscout/launch.h>

#include "backend/cpu/conv/conv_kernels.h"
#include "backend/cpu/gemm/gemm_plan.h"
#include "provider/native/native_conv.h"

namespace kscout::cpu {

/// Positions of the result along one axis, first + i * stride for i < count, that meet the same taps.
/// Position i and tap j of the phase meet source position i * step + offset + j * tap_step.
struct AxisPhase {
  std::int64_t first, stride, count;
  std::int64_t step, offset, tap_step;
  std::int64_t source;  ///< size of the source
  std::int64_t taps;    ///< taps of the phase; tap j is tap_first + j * tap_stride of the filter
  std::int64_t tap_first, tap_stride;

  std::int64_t at(std::int64_t i, std::int64_t tap) const noexcept {
    return i * step + offset + tap * tap_step;
  }
  bool meets(std::int64_t i, std::int64_t tap) const noexcept {
    const std::int64_t position = at(i, tap);
    return position >= 0 && position < source;
  }
  /// The taps that position i meets: begin and end.
  Range met_taps(std::int64_t i) const noexcept;
  /// The positions that meet every tap.
  Range meet_all_taps() const noexcept;
  /// The positions that meet this tap.
  Range positions(std::int64_t tap) const noexcept;
  /// The first position behind i that does not meet the same taps.
  std::int64_t run_end(std::int64_t i) const noexcept;
};

/// A set of result pixels that meet the same taps. Pixel p of the phase counts (image, d, h, w), w fastest.
struct ConvPhase {
  AxisPhase d, h, w;
  std::int64_t packed;  ///< offset of the phase's packed filter
  bool by_runs;         ///< kind rows: register tiles end where the met taps of an image row change

  std::int64_t taps() const noexcept { return d.taps * h.taps * w.taps; }
  std::int64_t rows(std::int64_t images) const noexcept { return images * d.count * h.count; }
};

/// A pixel of a phase.
struct Pixel {
  std::int64_t image, d, h, w;
};

inline Pixel pixel_at(const ConvPhase& phase, std::int64_t index) {
  const std::int64_t row = index / phase.w.count, plane = row / phase.h.count;
  return {plane / phase.d.count, plane % phase.d.count, row % phase.h.count, index % phase.w.count};
}

inline void step_pixel(const ConvPhase& phase, Pixel& at) {
  if (++at.w < phase.w.count) return;
  at.w = 0;
  if (++at.h < phase.h.count) return;
  at.h = 0;
  if (++at.d < phase.d.count) return;
  at.d = 0;
  ++at.image;
}

/// Sizes of the tensor that is read per pixel (source) or computed (result).
struct ConvImageSize {
  std::int64_t d, h, w;
  std::int64_t channels;  ///< of a pixel, all groups
  std::int64_t group;     ///< of one group
  std::int64_t pixels() const noexcept { return d * h * w; }
};

struct ConvPlan {
  Op op;
  NativeConvConfig config;
  const ConvKernels* kernels;
  const GemmKernels* gemm_kernels;  ///< for packing
  std::int64_t images, groups, taps;
  std::int64_t filter_h, filter_w;
  std::int64_t c_group, k_group;

  std::int64_t filter_row() const noexcept { return taps * c_group; }  ///< elements of an output channel
  ConvImageSize source, result;       ///< conv_bwd_weight: input and output image
  std::int64_t merged;                ///< neighbouring pixels of the result that count as one; merge_pixels
  std::vector<AxisPhase> unmerged;    ///< phases along w of single pixels, by position modulo their stride
  std::vector<ConvPhase> phases;      ///< conv_bwd_weight: one
  std::vector<std::int32_t> lane_of;  ///< kind lanes; empty where lane i uses input i
  // In floats.
  std::int64_t packed_floats;   ///< packed filter, shared by all parts
  std::int64_t kept_floats;     ///< the same, where it is packed once for many runs; else 0
  std::int64_t part_floats;     ///< workspace of one part; 64-byte multiple
  std::int64_t partial_floats;  ///< conv_bwd_weight: sums of one part along the pixels, other than the first
  std::int64_t workspace_floats;  ///< parts, partial sums, and the packed filter unless it is kept
};

ConvPlan make_conv_plan(const ConvProblem& problem, const NativeConvConfig& config);
void pack_part(const ConvPlan& plan, const float* wei, float* packed, int part) noexcept;
void run_plan(const ConvPlan& plan, const GemmBuffers& buffers, float* workspace);

// Phases (conv_phases.cpp).
/// One phase per class of result pixels that meet the same taps; along w fastest.
std::vector<ConvPhase> phases_of(const ConvProblem& problem);
/// Register tiles of a result with few channels use few lanes of a vector: neighbouring pixels of an image
/// row then count as one pixel with the channels of all, which meets the source pixels that any of them
/// meets. The packed filter has zeros where one of them meets less.
void merge_pixels(ConvPlan& plan);
/// Position in the filter row of what single pixel `pixel` of a merged one multiplies with tap `tap` of the
/// phase; -1: nothing.
std::int64_t unmerged_tap(const ConvPlan& plan, const ConvPhase& phase, std::int64_t tap,
                          std::int64_t pixel) noexcept;
/// Whether register tiles of kind rows should end where the met taps of an image row change.
bool tiles_by_runs(const ConvPlan& plan, const AxisPhase& w) noexcept;
/// Elements from the image's start to a pixel of the result.
std::int64_t result_offset(const ConvPlan& plan, const ConvPhase& phase, const Pixel& at) noexcept;
/// Elements to the source that a pixel and tap (0, 0, 0) would meet; it may lie in the padding.
std::int64_t source_offset(const ConvPlan& plan, const ConvPhase& phase, const Pixel& at) noexcept;
/// The filter rows that a pixel's row meets, as offsets from source_offset. Returns their number.
std::int64_t met_rows(const ConvPlan& plan, const ConvPhase& phase, const Pixel& at,
                      ConvTapRow* rows) noexcept;
/// The most filter rows that a phase has.
std::int64_t tap_rows(const ConvPlan& plan) noexcept;

// Kinds of conv_fwd and conv_bwd_data (conv_image.cpp, conv_winograd.cpp), and of conv_bwd_weight
// (conv_weight.cpp).
void run_image_tiles(const ConvPlan& plan, const GemmBuffers& buffers, const float* packed, float* workspace,
                     int part) noexcept;
void run_image_lanes(const ConvPlan& plan, const GemmBuffers& buffers, const float* packed, float* workspace,
                     int part) noexcept;
void run_image_winograd(const ConvPlan& plan, const GemmBuffers& buffers, const float* packed,
                        float* workspace, int part) noexcept;
void run_weight_tiles(const ConvPlan& plan, const GemmBuffers& buffers, float* sums, float* workspace,
                      int part) noexcept;
void run_weight_lanes(const ConvPlan& plan, const GemmBuffers& buffers, float* sums, float* workspace,
                      int part) noexcept;

/// Whether kinds rows and patch of conv_bwd_weight have their vectors along the output channels: with few
/// input channels, that multiplies less.
bool sums_by_columns(const ConvPlan& plan) noexcept;

/// Kind patch: copies the inputs of every pixel, tap after tap; zeros for taps in the padding.
void copy_patches(const ConvPlan& plan, const ConvPhase& phase, const Range& pixels, const float* source,
                  std::int64_t group, float* to) noexcept;

/// Source pixels that `pixels` neighbours of an image row meet, with the padding.
inline std::int64_t met_columns(const AxisPhase& w, std::int64_t pixels) noexcept {
  return pixels > 0 ? (pixels - 1) * w.step + w.taps : 0;
}
/// Copies what `pixels` pixels of an image row from position `first` on meet of one source row, zeros for the
/// padding, for neighbouring taps. `from` is what the first pixel and tap 0 meet; it may lie in the padding.
/// Returns the copy's end.
float* copy_padded(const AxisPhase& w, std::int64_t channels, std::int64_t first, std::int64_t pixels,
                   const float* from, float* to) noexcept;

inline constexpr std::int64_t kMaxLanes = 16;  ///< floats per vector
/// Kind wino: products per channel and 2x2 pixels, each with its own packed filter.
inline constexpr std::int64_t kWinogradTaps = 16;

/// Copies one tap of the filter, for columns [first, first + nr) of a group and some source channels:
/// [source channel][column], in whole vectors.
void pack_columns(const ConvPlan& plan, const float* wei, std::int64_t group, std::int64_t first,
                  std::int64_t tap, const Range& channels, float* to) noexcept;
/// Kind wino: one tile's columns of one group, [16][source channel][column].
void pack_winograd_panel(const ConvPlan& plan, const float* wei, std::int64_t group, std::int64_t first,
                         float* to) noexcept;

/// Width of a group's packed filter: whole tiles, and a last one of whole vectors.
std::int64_t packed_width(const ConvPlan& plan) noexcept;
/// Floats of a part's workspace.
std::int64_t image_lanes_workspace(const ConvPlan& plan) noexcept;
std::int64_t image_tiles_workspace(const ConvPlan& plan) noexcept;
std::int64_t image_winograd_workspace(const ConvPlan& plan) noexcept;
std::int64_t weight_tiles_workspace(const ConvPlan& plan) noexcept;
std::int64_t weight_lanes_workspace(const ConvPlan& plan) noexcept;

/// Plans kind gemm: the convolution as a batch of products, one per group.
GemmPlan make_product_plan(const ConvProblem& problem, const NativeConvConfig& config);

}  // namespace kscout::cpu
