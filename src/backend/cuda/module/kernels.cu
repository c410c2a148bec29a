#include <algorithm>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "backend/cuda/module/kernels.h"

namespace kscout::cuda {

namespace {

// Converts element types to doubles and back, with the same bits as src/instruments/elements.h on a CPU.

template <class T>
struct Plain {
  using stored = T;
  static __device__ double load(T x) { return static_cast<double>(x); }
  static __device__ T store(double x) { return static_cast<T>(x); }
};
struct Tf32 : Plain<float> {
  static __device__ float store(double x) {
    const unsigned bits = __float_as_uint(static_cast<float>(x));
    return __uint_as_float((bits + 0x1000u) & 0xFFFFE000u);
  }
};
struct Bf16 {
  using stored = __nv_bfloat16;
  static __device__ double load(stored x) { return __bfloat162float(x); }
  static __device__ stored store(double x) { return __float2bfloat16_rn(static_cast<float>(x)); }
};
struct Fp16 {
  using stored = __half;
  static __device__ double load(stored x) { return __half2float(x); }
  static __device__ stored store(double x) { return __double2half(x); }
};
template <__nv_fp8_interpretation_t kind>
struct Fp8 {
  using stored = __nv_fp8_storage_t;
  static __device__ double load(stored x) { return __half2float(__half(__nv_cvt_fp8_to_halfraw(x, kind))); }
  static __device__ stored store(double x) { return __nv_cvt_double_to_fp8(x, __NV_SATFINITE, kind); }
};

template <class F>
bool with_element(DType dtype, F&& fn) {
  switch (dtype) {
    case DType::fp64:
      fn(Plain<double>());
      return true;
    case DType::fp32:
      fn(Plain<float>());
      return true;
    case DType::tf32:
      fn(Tf32());
      return true;
    case DType::fp16:
      fn(Fp16());
      return true;
    case DType::bf16:
      fn(Bf16());
      return true;
    case DType::fp8:
      fn(Fp8<__NV_E4M3>());
      return true;
    case DType::bf8:
      fn(Fp8<__NV_E5M2>());
      return true;
    case DType::int32:
      fn(Plain<std::int32_t>());
      return true;
    case DType::int8:
      fn(Plain<std::int8_t>());
      return true;
    default:
      return false;
  }
}

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1 << 16;

unsigned blocks_for(std::int64_t work) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((work + kThreads - 1) / kThreads, 1, kMaxBlocks));
}

__device__ std::uint32_t scattered(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x85EBCA6Bu;
  x ^= x >> 13;
  x *= 0xC2B2AE35u;
  return x ^ (x >> 16);
}

template <class E>
__global__ void fill_kernel(typename E::stored* data, std::int64_t count, std::uint32_t operand,
                            const std::uint32_t* flips, double scale) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const auto within = static_cast<std::uint32_t>(i % kFillBlock);
    const std::uint32_t bits = scattered((operand << 16) + within + 1) ^ flips[i / kFillBlock];
    data[i] = E::store(static_cast<std::int32_t>(bits) * scale);
  }
}

template <class E>
__global__ void gather_kernel(const typename E::stored* data, const std::int64_t* indices, std::int64_t count,
                              double* out) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step)
    out[i] = E::load(data[indices[i]]);
}

struct Sums {
  double value, squares;
  __device__ void add(double element, double x, Squares what) {
    const double product = element * x;
    value += product;
    if (what == Squares::plain) squares += element * element;
    if (what == Squares::scaled) squares += product * product;
  }
};

/// Adds up the sums of `kOfRow` neighbouring threads, a warp or the block, and leaves them in the first; the
/// order of summation is fixed.
template <int kOfRow>
__device__ Sums reduce(Sums own) {
  static_assert(kOfRow == 32 || kOfRow == kThreads);
  __shared__ Sums of[kThreads];
  const auto wait = [] {
    if constexpr (kOfRow == kThreads) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  };
  Sums& mine = of[threadIdx.x];
  mine = own;
  for (unsigned half = kOfRow / 2; half > 0; half /= 2) {
    wait();
    if (threadIdx.x % kOfRow < half) {
      mine.value += of[threadIdx.x + half].value;
      mine.squares += of[threadIdx.x + half].squares;
    }
  }
  own = mine;
  wait();
  return own;
}

constexpr std::int64_t kNarrow = 2048;  // columns up to which a warp sums a row

/// Uses `kOfRow` threads per row of a row-major matrix.
template <class E, int kOfRow>
__global__ void multiply_rows(MatrixView view, const typename E::stored* data, std::int64_t lines,
                              const double* x, std::int64_t x_step, Squares what, double* value,
                              double* squares) {
  constexpr int kRowsOfBlock = kThreads / kOfRow;
  const int within = threadIdx.x % kOfRow;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kRowsOfBlock;
  for (std::int64_t line = static_cast<std::int64_t>(blockIdx.x) * kRowsOfBlock + threadIdx.x / kOfRow;
       line < lines; line += step) {
    const std::int64_t item = line / view.rows, row = line % view.rows;
    const auto* const elements = data + item * view.batch_stride + row * view.leading;
    Sums sums{0, 0};
    for (std::int64_t c = within; c < view.columns; c += kOfRow)
      sums.add(E::load(elements[c]), x[item * x_step + c], what);
    sums = reduce<kOfRow>(sums);
    if (within == 0) {
      value[line] = sums.value;
      if (what != Squares::none) squares[line] = sums.squares;
    }
  }
}

constexpr int kRows = 32, kLanes = kThreads / kRows;

/// Uses one block per 32 rows of a column-major matrix: neighbouring threads read neighbouring rows of one
/// column.
template <class E>
__global__ void multiply_columns(MatrixView view, const typename E::stored* data, std::int64_t groups,
                                 std::int64_t groups_of_item, const double* x, std::int64_t x_step,
                                 Squares what, double* value, double* squares) {
  __shared__ Sums of[kLanes][kRows];
  const int lane = threadIdx.x / kRows, within = threadIdx.x % kRows;
  for (std::int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const std::int64_t item = group / groups_of_item, row = group % groups_of_item * kRows + within;
    Sums sums{0, 0};
    if (row < view.rows) {
      const auto* const elements = data + item * view.batch_stride + row;
      for (std::int64_t c = lane; c < view.columns; c += kLanes)
        sums.add(E::load(elements[c * view.leading]), x[item * x_step + c], what);
    }
    of[lane][within] = sums;
    __syncthreads();
    if (lane == 0 && row < view.rows) {
      for (int other = 1; other < kLanes; ++other) {
        sums.value += of[other][within].value;
        sums.squares += of[other][within].squares;
      }
      value[item * view.rows + row] = sums.value;
      if (what != Squares::none) squares[item * view.rows + row] = sums.squares;
    }
    __syncthreads();
  }
}

__global__ void read_kernel(const uint4* data, std::int64_t count, std::uint32_t* sink) {
  std::uint32_t seen = 0;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const uint4 v = data[i];
    seen ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (seen == 0x9E3779B9u) *sink = seen;  // never true, but the compiler cannot know that
}

// ---- copies between lines of any alignment

constexpr std::int64_t kUnit = 16;  // bytes that one thread stores

/// 16 bytes from any address; reads the aligned units that hold them.
__device__ uint4 load_unit(const char* from) {
  const auto shift = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) % kUnit);
  const auto* const units = reinterpret_cast<const uint4*>(from - shift);
  const uint4 low = __ldg(units);
  if (shift == 0) return low;
  const uint4 high = __ldg(units + 1);
  unsigned w0 = low.x, w1 = low.y, w2 = low.z, w3 = low.w, w4 = high.x, w5 = high.y;
  if (shift & 8) w0 = w2, w1 = w3, w2 = w4, w3 = w5, w4 = high.z, w5 = high.w;
  if (shift & 4) w0 = w1, w1 = w2, w2 = w3, w3 = w4, w4 = w5;
  const unsigned bits = shift % 4 * 8;
  return {__funnelshift_r(w0, w1, bits), __funnelshift_r(w1, w2, bits), __funnelshift_r(w2, w3, bits),
          __funnelshift_r(w3, w4, bits)};
}

/// One thread per aligned unit of a line of `to`: `units` of them cover a line. Units at the edges of a line,
/// and those whose loads would leave the operand, go byte by byte.
template <class Index>
__global__ void copy_kernel(MatrixCopy copy, const char* from_end, Index units, Index total) {
  const auto* const from = static_cast<const char*>(copy.from);
  const auto lines = static_cast<Index>(copy.to_lines);
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += step) {
    const Index of = i / units, item = of / lines, line = of % lines;
    char* const to_line =
        static_cast<char*>(copy.to) + static_cast<std::int64_t>(item) * copy.to_item + line * copy.to_pitch;
    const auto before = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to_line) % kUnit);
    const std::int64_t at = static_cast<std::int64_t>(i % units) * kUnit - before;  // in the line
    const std::int64_t end = copy.to_line_bytes;
    const std::int64_t filled = static_cast<std::int64_t>(line) < copy.lines ? copy.line_bytes : 0;
    const char* const source = from + static_cast<std::int64_t>(item) * copy.from_item +
                               static_cast<std::int64_t>(line) * copy.from_pitch + at;
    if (at >= 0 && at + kUnit <= end && at >= filled) {
      *reinterpret_cast<uint4*>(to_line + at) = uint4{0, 0, 0, 0};
      continue;
    }
    const auto shift = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(source) % kUnit);
    const bool inside =
        source - shift >= from && source + (shift == 0 ? kUnit : 2 * kUnit - shift) <= from_end;
    if (at >= 0 && at + kUnit <= filled && inside) {
      *reinterpret_cast<uint4*>(to_line + at) = load_unit(source);
      continue;
    }
    for (std::int64_t j = at < 0 ? -at : 0; j < kUnit && at + j < end; ++j)
      to_line[at + j] = at + j < filled ? source[j] : char{0};
  }
}

template <class Index>
void start_copy(const MatrixCopy& copy, const char* from_end, std::int64_t units, cudaStream_t stream) {
  constexpr std::int64_t kMaxCopyBlocks = std::int64_t{1} << 30;
  const std::int64_t total = units * copy.to_lines * copy.items;
  const std::int64_t blocks = std::min((total + kThreads - 1) / kThreads, kMaxCopyBlocks);
  copy_kernel<Index><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      copy, from_end, static_cast<Index>(units), static_cast<Index>(total));
}

}  // namespace

void launch_copy(const MatrixCopy& copy, void* stream) {
  if (copy.items <= 0 || copy.to_lines <= 0 || copy.to_line_bytes <= 0) return;
  const char* const from_end = static_cast<const char*>(copy.from) + (copy.items - 1) * copy.from_item +
                               (copy.lines - 1) * copy.from_pitch + copy.line_bytes;
  const std::int64_t units = (copy.to_line_bytes + 2 * kUnit - 2) / kUnit;
  const auto in = static_cast<cudaStream_t>(stream);
  // Division of 32-bit numbers is several times faster.
  if (units * copy.to_lines * copy.items <= std::int64_t{1} << 31) {
    start_copy<std::uint32_t>(copy, from_end, units, in);
  } else {
    start_copy<std::uint64_t>(copy, from_end, units, in);
  }
}

bool launch_fill(DType dtype, void* data, std::int64_t count, std::uint32_t operand,
                 const std::uint32_t* flips) {
  if (count == 0) return true;
  const double scale = dtype == DType::int8 || dtype == DType::int32 ? 0x1p-28 : 0x1p-31;
  return with_element(dtype, [&]<class E>(E) {
    fill_kernel<E><<<blocks_for(count), kThreads>>>(static_cast<typename E::stored*>(data), count, operand,
                                                    flips, scale);
  });
}

bool launch_gather(DType dtype, const void* data, const std::int64_t* indices, std::int64_t count,
                   double* out) {
  if (count == 0) return true;
  return with_element(dtype, [&]<class E>(E) {
    gather_kernel<E>
        <<<blocks_for(count), kThreads>>>(static_cast<const typename E::stored*>(data), indices, count, out);
  });
}

bool launch_multiply(const MatrixView& view, const void* data, std::int64_t items, const double* x,
                     bool x_of_each_item, Squares what, double* value, double* squares) {
  if (view.rows == 0 || items == 0) return true;
  const std::int64_t x_step = x_of_each_item ? view.columns : 0;
  return with_element(view.dtype, [&]<class E>(E) {
    const auto* const elements = static_cast<const typename E::stored*>(data);
    if (view.row_major) {
      const std::int64_t lines = items * view.rows;
      const auto start = [&]<int kOfRow>(std::integral_constant<int, kOfRow>) {
        const std::int64_t blocks = (lines + kThreads / kOfRow - 1) / (kThreads / kOfRow);
        multiply_rows<E, kOfRow><<<static_cast<unsigned>(std::min(blocks, kMaxBlocks)), kThreads>>>(
            view, elements, lines, x, x_step, what, value, squares);
      };
      if (view.columns <= kNarrow) {
        start(std::integral_constant<int, 32>());
      } else {
        start(std::integral_constant<int, kThreads>());
      }
    } else {
      const std::int64_t of_item = (view.rows + kRows - 1) / kRows;
      multiply_columns<E><<<static_cast<unsigned>(std::min(items * of_item, kMaxBlocks)), kThreads>>>(
          view, elements, items * of_item, of_item, x, x_step, what, value, squares);
    }
  });
}

void launch_read(const void* data, std::uint64_t bytes, std::uint32_t* sink) {
  constexpr unsigned kReaders = 132 * 8;
  read_kernel<<<kReaders, kThreads>>>(static_cast<const uint4*>(data),
                                      static_cast<std::int64_t>(bytes / sizeof(uint4)), sink);
}

}  // namespace kscout::cuda
