#pragma once
/// \file
/// Declares the inner loops of convolutions of one instruction set, as tables of functions. All in f32.
///
///   tile    pixels x channels of the result; per tap (position of the filter) an outer product over the
///           input's channels. Pixels are at a constant distance, or named by a table of pointers
///   weight  channels x channels of the filter's gradient: outer products over the pixels of image rows
///   lanes   pixels x vectors across groups; the input's channels are moved to the lanes that use them
///   sums    the filter's gradient across groups, one sum per tap and channel of a group
///   winograd  transforms of 4x4 inputs, of 3x3 filters, and of the 16 products of each tile
///
/// No kernel reads or writes outside the elements that its arguments name, except that packed filters are
/// padded with zeros to whole vectors.
#include <cstdint>

#include "backend/cpu/gemm/gemm_kernels.h"

namespace kscout::cpu {

/// Taps of one filter row: offset of the first tap's input from the pixel's first input, and the position of
/// the first tap in the packed filter.
struct ConvTapRow {
  std::int64_t a, index;
};

/// The taps that all pixels of a tile meet: in every row, `count` taps from `first`, whose inputs are `step`
/// elements apart.
struct ConvTaps {
  const ConvTapRow* rows;
  std::int64_t row_count;
  std::int64_t first, count, step;
};

struct ConvTileArgs {
  const float* const*
      a_rows;            ///< inputs: pointers[tap * rows of the tile + row]; null: at a constant distance
  const float* a;        ///< first pixel's input
  std::int64_t a_step;   ///< elements between pixels
  ConvTaps taps;         ///< with a table: each of the rows is one tap, of which only `index` is read
  std::int64_t shift;    ///< first channel of the input
  std::int64_t depth;    ///< channels that are summed per tap
  const float* b;        ///< packed filter, first channel
  std::int64_t b_step;   ///< elements between channels of the packed filter
  std::int64_t b_tap;    ///< elements between taps of the packed filter
  float* const* c_rows;  ///< pixels of the result, with a table; else c and ldc
  float* c;
  std::int64_t ldc;
  std::int64_t c_shift;  ///< first channel of the result
  std::int64_t tiles;    ///< tiles of pixels at a constant distance, one behind the other; with a table 1
  bool accumulate;       ///< adds to C; else C is not read
  std::int32_t last;     ///< valid lanes of the last vector, 1 to lanes
};

/// Pixels of an image row: the first pixel in both images.
struct ConvSegment {
  const float *a, *b;
  std::int64_t count;
};

/// C(rows x vectors) += sum over the pixels p of all segments: segment.a[p * a_step + a_first + row] *
/// segment.b[p * b_step + b_first + column].
struct ConvWeightArgs {
  const ConvSegment* segments;
  std::int64_t segment_count;
  std::int64_t a_first, a_step;
  std::int64_t b_first, b_step;
  float* c;
  std::int64_t ldc;
  bool accumulate;
  std::int32_t last;
};

struct ConvLanesArgs {
  const float* x;         ///< first pixel's input, first channel of the first vector
  std::int64_t x_step;    ///< elements between pixels
  std::int64_t x_vector;  ///< elements between the inputs of neighbouring vectors
  ConvTaps taps;
  const std::int32_t* lane_of;  ///< per lane, the input that it uses for a group's first channel
  std::int32_t span;            ///< inputs of one vector, 1 to lanes
  std::int64_t depth;           ///< channels of a group
  const float* w;               ///< packed filter: [vector][tap][channel][lane]
  std::int64_t w_vector;        ///< elements between vectors
  float* c;
  std::int64_t ldc;     ///< elements between pixels of the result
  std::int64_t pixels;  ///< a multiple of the tile's pixels
  std::int32_t last;    ///< valid lanes of the vector; below lanes: the tile has one vector
  // Filter rows only.
  std::int64_t vectors;     ///< a multiple of the tile's vectors
  std::int64_t begin, end;  ///< the columns of the source that exist; the first pixel's first input is 0
};

/// sums[tap][channel][lane] += sum over pixels of g[p * g_step + lane] * x[p * x_step + taps[tap].a +
/// input of lane and channel].
struct ConvSumsArgs {
  const float* g;
  std::int64_t g_step;
  const float* x;
  std::int64_t x_step;
  const ConvTapRow* taps;  ///< one tap each; `index`: position in `sums`
  std::int64_t pixels;
  const std::int32_t* lane_of;
  std::int32_t span;
  std::int32_t last;  ///< valid lanes
  float* sums;
};

/// The 16 transformed inputs of a tile, `step` elements apart.
struct WinogradInputArgs {
  const float* from[16];  ///< pixels of the source; zeros in the padding
  std::int64_t channels;
  float* to;
  std::int64_t step;
};

/// The 16 transformed elements of `count` filters, a multiple of the lanes; nine taps each.
struct WinogradFilterArgs {
  const float* from;
  std::int64_t from_step;  ///< elements between taps
  float* to;
  std::int64_t to_step;
  std::int64_t count;
};

/// 2x2 pixels from 16 products, which are stored in whole vectors.
struct WinogradOutputArgs {
  const float* from;
  std::int64_t step;  ///< elements between products
  float* to[4];       ///< pixels of the result; null: outside
  std::int64_t channels;
};

/// sums[tap][lane] += sum over pixels of g[p * g_step + lane] * x[p * x_step + tap * x_column + lane], for
/// all taps of several filter rows. An image row with its padding: columns outside [begin, end) count as
/// zeros.
struct ConvRowSumsArgs {
  const float* g;
  std::int64_t g_step;
  const float* x;  ///< first pixel's first input; it may lie in the padding
  std::int64_t x_step, x_column;
  const ConvTapRow* rows;
  std::int64_t pixels;
  std::int64_t begin, end;
  float* sums;
};

using ConvTileKernel = void (*)(const ConvTileArgs&);
using ConvWeightKernel = void (*)(const ConvWeightArgs&);
using ConvLanesKernel = void (*)(const ConvLanesArgs&);
using ConvSumsKernel = void (*)(const ConvSumsArgs&);
using ConvRowSumsKernel = void (*)(const ConvRowSumsArgs&);
using WinogradInputKernel = void (*)(const WinogradInputArgs&);
using WinogradFilterKernel = void (*)(const WinogradFilterArgs&);
using WinogradOutputKernel = void (*)(const WinogradOutputArgs&);

inline constexpr int kMaxSums = register_tiles(NativeIsa::avx512).accumulators;
inline constexpr int kMaxRowTaps = 7;  ///< of a filter row with kernels of its own

struct ConvKernels {
  int lanes = 0;
  ConvTileKernel tile[2][kMaxOuterRows + 1][kMaxOuterVectors + 1] = {};      ///< [pointers][rows][vectors]
  ConvWeightKernel weight[2][kMaxOuterRows + 1][kMaxOuterVectors + 1] = {};  ///< [masked][rows][vectors]
  ConvLanesKernel direct[kMaxTileSide + 1][kMaxOuterVectors + 1] =
      {};  ///< [pixels][vectors]: lane i uses input i
  ConvLanesKernel moved[kMaxTileSide + 1][kMaxOuterVectors + 1] = {};  ///< lanes take inputs by lane_of
  ConvLanesKernel masked[2][kMaxTileSide + 1] = {};  ///< [moved][pixels]: a part of one vector
  /// Lane i uses input i, all taps of a filter row, pixels in the padding or not: [taps][stride][pixels]
  /// [vectors]; vectors = 0: a part of one. Null where the registers do not suffice, and for other filters.
  ConvLanesKernel filter_row[kMaxRowTaps + 1][3][kMaxTileSide + 1][kMaxOuterVectors + 1] = {};
  ConvSumsKernel sums[kMaxSums + 1][17] = {};  ///< [taps][channels of a group]
  /// Depthwise, whole vectors: [taps of a filter row][stride][filter rows]; null for other filters.
  ConvRowSumsKernel row_sums[kMaxRowTaps + 1][3][kMaxRowTaps + 1] = {};
  WinogradInputKernel winograd_input = nullptr;
  WinogradFilterKernel winograd_filter = nullptr;
  WinogradOutputKernel winograd_output = nullptr;
};

template <>
void fill<ConvKernels, NativeIsa::scalar>(ConvKernels& kernels);
template <>
void fill<ConvKernels, NativeIsa::avx2>(ConvKernels& kernels);
template <>
void fill<ConvKernels, NativeIsa::avx512>(ConvKernels& kernels);

}  // namespace kscout::cpu
