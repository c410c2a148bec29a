#pragma once
/// \file
/// Starts the kernels of hopper_tile.cuh. Included by the sources of kernels alone.
#include <algorithm>

#include "backend/cuda/module/device.h"
#include "backend/cuda/module/hopper_tile.cuh"

namespace kscout::cuda {

namespace {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

int shared_bytes(int tile_n) {
  const int stage = (kTileM + tile_n) * kLineBytes;
  return kPipelineBytes / stage * stage + kConsumers * 4 * 8 * (2 * tile_n + 16) + 1024;
}

/// A function of the driver, or null.
template <class Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result = {};
  if (cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result) != cudaSuccess)
    return nullptr;
  return reinterpret_cast<Function>(function);
}

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode encode_function() {
  static const auto found = driver_function<Encode>("cuTensorMapEncodeTiled");
  return found;
}

CUtensorMapDataType map_type(DType dtype) {
  return dtype == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

bool is_aligned(const void* base, std::int64_t leading) {
  return reinterpret_cast<std::uintptr_t>(base) % 16 == 0 && leading % 8 == 0;
}

/// `box_lines` lines of 64 elements are loaded at a time. `matrices`: not 0 for several, one after the other;
/// a box has lines of `box_matrices` of them.
bool describe(Source& source, DType dtype, const void* base, std::int64_t lines, std::int64_t length,
              std::int64_t leading, int box_lines, std::int64_t matrices = 0, int box_matrices = 1) {
  source.base = static_cast<const std::byte*>(base);
  source.pitch = 2 * leading;
  source.lines = static_cast<int>(lines);
  source.length = static_cast<int>(length);
  source.aligned = is_aligned(base, leading);
  if (!source.aligned) return true;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(length), static_cast<cuuint64_t>(lines),
                              static_cast<cuuint64_t>(matrices)};
  const cuuint64_t pitch[] = {static_cast<cuuint64_t>(source.pitch),
                              static_cast<cuuint64_t>(source.pitch * lines)};
  const cuuint32_t box[] = {kBlock, static_cast<cuuint32_t>(box_lines),
                            static_cast<cuuint32_t>(box_matrices)};
  const cuuint32_t steps[] = {1, 1, 1};
  return encode_function()(&source.map, map_type(dtype), matrices == 0 ? 2 : 3, const_cast<void*>(base),
                           sizes, pitch, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                           CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

CallStatus count_processors(int& processors) {
  if (!encode_function()) return answer(CallStatus::unsupported, "the driver has no tensor maps");
  int device = 0;
  const CallStatus got = check_cuda(cudaGetDevice(&device), "the GPU");
  if (got != CallStatus::done) return got;
  return check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "a GPU");
}

template <class AnyKernel>
CallStatus allow_shared_memory(AnyKernel kernel, int tile_n) {
  return check_cuda(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes(tile_n)),
      "shared memory of a kernel");
}

/// Starts blocks that share the work of `job` in clusters.
template <class AnyJob>
CallStatus start(void (*kernel)(AnyJob), const AnyJob& job, int tile_n, int cluster, bool copies,
                 int processors, cudaStream_t stream) {
  const std::int64_t works = std::int64_t{job.m_units} * job.n_tiles * job.parts;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(static_cast<unsigned>(std::min<std::int64_t>(works, processors / cluster) * cluster));
  launch.blockDim = dim3(static_cast<unsigned>(threads_of(copies)));
  launch.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes(tile_n));
  launch.stream = stream;
  launch.attrs = &attribute;
  launch.numAttrs = 1;
  return check_cuda(cudaLaunchKernelEx(&launch, kernel, job), "a GEMM kernel");
}

template <class T>
void add_parts(const Job& job, cudaStream_t stream) {
  constexpr int kThreads = 256;
  const dim3 grid(static_cast<unsigned>(ceil_div(job.n, kThreads)),
                  static_cast<unsigned>(std::min(job.m, 65535)));
  sum_parts<T><<<grid, kThreads, 0, stream>>>(job);
}

/// Adds the parts of C, where there are several.
CallStatus add_parts(const Job& job, DType dtype, cudaStream_t stream) {
  if (job.parts == 1) return CallStatus::done;
  if (dtype == DType::bf16) {
    add_parts<__nv_bfloat16>(job, stream);
  } else {
    add_parts<__half>(job, stream);
  }
  return check_cuda(cudaGetLastError(), "the sum of a GEMM's parts");
}

/// Floats between lines of a part.
constexpr std::int64_t partial_pitch(std::int64_t n) { return ceil_div(n, 4) * 4; }

constexpr std::uint64_t partial_bytes(std::int64_t m, std::int64_t n, int parts) {
  if (parts == 1) return 0;
  return static_cast<std::uint64_t>(parts) * static_cast<std::uint64_t>(m) *
         static_cast<std::uint64_t>(partial_pitch(n)) * sizeof(float);
}

}  // namespace

}  // namespace kscout::cuda
