#pragma once
/// \file
/// Declares the compiled inner loops of one instruction set, as tables of functions.
///
/// Three forms (native.h, NativeForm), all in f32 with FMA where the machine has it:
///   outer   C tile += column of A times row of B, K steps; B's rows are vectors, A's elements are broadcast
///   dot     C tile = dot products along K; both operands are vectors along K
///   update  few rows of C += few elements of A times few rows of B (the wide lines), for some columns
/// Epilogues are kernels of their own, which run while the elements of C are still in a cache.
/// All sizes are in elements. No kernel reads or writes outside the elements that its arguments name. The
/// only exception is panels of packed B, which are padded with zeros to whole vectors.
#include <cstdint>

#include <kscout/types.h>

#include "backend/cpu/common/instruction_sets.h"

namespace kscout::cpu {

struct OuterArgs {
  const float* a;       ///< element (0, 0) of the tile's rows of A
  std::int64_t a_step;  ///< A by rows: elements between rows; A by columns: between columns
  const float* b;       ///< row 0 of B, first column of the tile
  std::int64_t b_step;  ///< elements between rows of B
  float* c;
  std::int64_t ldc;
  std::int64_t k;
  float alpha, beta;      ///< C = alpha * sum + beta * C; C is not read when beta is 0
  std::int32_t last;      ///< masked kernels: valid lanes of the last vector, 1 to lanes
  std::int64_t prefetch;  ///< prefetch distance in elements of K
};

struct DotArgs {
  const float* a;
  std::int64_t lda;  ///< elements between rows of A; A(i, k) = a[i * lda + k]
  const float* b;
  std::int64_t ldb;  ///< elements between columns of B; B(k, j) = b[j * ldb + k]
  float* c;
  std::int64_t ldc;
  std::int64_t k;
  float alpha, beta;
  std::int64_t prefetch;
  std::int64_t behind;  ///< elements that the lines of the larger operand begin behind a cache line
};

struct UpdateArgs {
  const float* a;       ///< a[line * a_step + row], already scaled by alpha
  std::int64_t a_step;  ///< elements between lines of the copy of A
  const float* b;       ///< first wide line
  std::int64_t b_step;  ///< elements between lines
  float* c;
  std::int64_t ldc;
  std::int64_t n;         ///< columns
  float beta;             ///< C = sum + beta * C
  std::int64_t prefetch;  ///< prefetch distance in elements of each line
};

/// Copies `width` x `k` elements into panels, one after the other. A panel covers `panel` elements of the
/// width and contains k groups of that size. The groups of the last panel have the remaining size or, with
/// `pad`, the next multiple of lanes, filled with zeros.
struct PackArgs {
  const float* src;
  std::int64_t ld;
  std::int64_t width;
  std::int64_t k;
  float* dst;
  std::int64_t panel;
  bool pad;
};

/// Elements of C that are finished but for the epilogue.
struct EpilogueArgs {
  float* c;
  std::int64_t ldc;
  std::int64_t m, n;
  const float* bias;  ///< of the first column; not read by an epilogue without a bias
};

using OuterKernel = void (*)(const OuterArgs&);
using DotKernel = void (*)(const DotArgs&);
using UpdateKernel = void (*)(const UpdateArgs&);
using PackKernel = void (*)(const PackArgs&);
using EpilogueKernel = void (*)(const EpilogueArgs&);

inline constexpr int kMaxOuterRows = register_tiles(NativeIsa::avx512).rows[0];
inline constexpr int kMaxOuterVectors = 4;

enum class ReadA {
  columns,
  rows
};  ///< columns: a[k * a_step + i], also packed panels; rows: a[i * a_step + k]
enum class Variant { plain, prefetching, masked };

struct GemmKernels {
  int lanes = 0;
  OuterKernel outer[2][3][kMaxOuterRows + 1][kMaxOuterVectors + 1] = {};  ///< [ReadA][Variant][rows][vectors]
  DotKernel dot[2][kMaxTileSide + 1][kMaxTileSide + 1] = {};              ///< [prefetching][rows][columns]
  UpdateKernel update[2][kMaxTileSide + 1][kMaxTileSide + 1] = {};        ///< [prefetching][rows][lines]
  PackKernel pack_lines = nullptr;   ///< source lines run along K: transposes
  PackKernel pack_groups = nullptr;  ///< source lines run across the width, src[p * ld + i]
  EpilogueKernel epilogue[EnumWords<Epilogue>::words.size()] = {};  ///< [Epilogue]; null for none
};

template <>
void fill<GemmKernels, NativeIsa::scalar>(GemmKernels& kernels);
template <>
void fill<GemmKernels, NativeIsa::avx2>(GemmKernels& kernels);
template <>
void fill<GemmKernels, NativeIsa::avx512>(GemmKernels& kernels);

}  // namespace kscout::cpu
