#include <algorithm>
#include <memory>

#include "backend/cuda/module/hopper_conv.h"
#include "backend/cuda/module/hopper_gemm.cuh"
#include "backend/cuda/module/hopper_gemm.h"
#include "backend/cuda/module/hopper_launch.cuh"

namespace kscout::cuda {

namespace {

using Kernel = void (*)(Job);

template <class T, int kTileN, bool kCopies>
Kernel kernel_for(bool a_lines, bool b_lines) {
  if (a_lines)
    return b_lines ? hopper_tiles<T, GemmLoads<kTileN, true, true, kCopies>>
                   : hopper_tiles<T, GemmLoads<kTileN, true, false, kCopies>>;
  return b_lines ? hopper_tiles<T, GemmLoads<kTileN, false, true, kCopies>>
                 : hopper_tiles<T, GemmLoads<kTileN, false, false, kCopies>>;
}
template <class T, bool kCopies>
Kernel kernel_for(int tile_n, bool a_lines, bool b_lines) {
  switch (tile_n) {
    case 128:
      return kernel_for<T, 128, kCopies>(a_lines, b_lines);
    case 192:
      return kernel_for<T, 192, kCopies>(a_lines, b_lines);
    case 256:
      // The accumulators leave no registers for warps that copy.
      if constexpr (!kCopies) return kernel_for<T, 256, false>(a_lines, b_lines);
      return nullptr;
    default:
      return nullptr;
  }
}
Kernel kernel_for(const MatmulShape& shape, int tile_n, bool copies) {
  const bool a_lines = !row_major_a(shape.layout), b_lines = row_major_b(shape.layout);
  if (shape.dtype_a == DType::bf16) {
    return copies ? kernel_for<__nv_bfloat16, true>(tile_n, a_lines, b_lines)
                  : kernel_for<__nv_bfloat16, false>(tile_n, a_lines, b_lines);
  }
  return copies ? kernel_for<__half, true>(tile_n, a_lines, b_lines)
                : kernel_for<__half, false>(tile_n, a_lines, b_lines);
}

using GroupedKernel = void (*)(GroupedJob);

template <class T>
GroupedKernel grouped_kernel_for(int tile_n, bool b_lines) {
  const auto of = [b_lines]<int kTileN>() -> GroupedKernel {
    return b_lines ? hopper_tiles<T, GroupedLoads<kTileN, true>>
                   : hopper_tiles<T, GroupedLoads<kTileN, false>>;
  };
  return tile_n == 64    ? of.template operator()<64>()
         : tile_n == 128 ? of.template operator()<128>()
         : tile_n == 192 ? of.template operator()<192>()
                         : of.template operator()<256>();
}
GroupedKernel grouped_kernel_for(const MatmulShape& shape, int tile_n) {
  const bool b_lines = row_major_b(shape.layout);
  return shape.dtype_a == DType::bf16 ? grouped_kernel_for<__nv_bfloat16>(tile_n, b_lines)
                                      : grouped_kernel_for<__half>(tile_n, b_lines);
}

Activation activation_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::relu:
    case Epilogue::bias_relu:
      return Activation::relu;
    case Epilogue::gelu:
    case Epilogue::bias_gelu:
      return Activation::gelu;
    case Epilogue::none:
    case Epilogue::bias:
      break;
  }
  return Activation::none;
}

class HopperMatmul final : public Matmul {
 public:
  HopperMatmul(const MatmulShape& shape, const HopperConfig& kernel) : shape_(shape), kernel_(kernel) {}

  CallStatus prepare() {
    CallStatus got = count_processors(processors_);
    for (const bool copies : {false, true}) {
      const Kernel kernel = kernel_for(shape_, kernel_.tile_n, copies);
      if (got == CallStatus::done && kernel) got = allow_shared_memory(kernel, kernel_.tile_n);
    }
    return got;
  }

  std::uint64_t workspace_bytes() const noexcept override {
    return partial_bytes(shape_.m, shape_.n, kernel_.split_k);
  }
  void destroy() noexcept override { delete this; }

  CallStatus run(const MatmulCall& call, void* stream) noexcept override {
    const MatmulShape& s = shape_;
    const bool a_lines = !row_major_a(s.layout), b_lines = row_major_b(s.layout);
    const auto [tile_n, cluster, split_k] = kernel_;
    const bool b_aligned = is_aligned(call.b, s.ldb), copies = !b_aligned || !is_aligned(call.a, s.lda);
    const Kernel kernel = kernel_for(s, tile_n, copies);
    // Blocks of a cluster share what the tensor memory accelerator loads of B.
    if (!kernel || (cluster > 1 && !b_aligned)) {
      return answer(
          CallStatus::unsupported,
          "tiles of 256 columns need A and B that begin at multiples of 16 bytes, clusters such a B; "
          "take another config of the family");
    }
    Job job;
    const bool described = describe(job.a, s.dtype_a, call.a, a_lines ? s.k : s.m, a_lines ? s.m : s.k, s.lda,
                                    a_lines ? kBlock : kTileM) &&
                           describe(job.b, s.dtype_b, call.b, b_lines ? s.k : s.n, b_lines ? s.n : s.k, s.ldb,
                                    b_lines ? kBlock : tile_n / cluster);
    if (!described) return answer(CallStatus::failed, "the driver refuses a tensor map");
    job.c = call.c;
    job.ldc = s.ldc;
    job.partial = static_cast<float*>(call.workspace);
    job.partial_ld = partial_pitch(s.n);
    job.m = static_cast<int>(s.m);
    job.n = static_cast<int>(s.n);
    job.k_tiles = static_cast<int>(ceil_div(s.k, kTileK));
    job.k_tiles_of_part = static_cast<int>(ceil_div(job.k_tiles, split_k));
    job.m_units = static_cast<int>(ceil_div(s.m, std::int64_t{kTileM} * cluster));
    job.n_tiles = static_cast<int>(ceil_div(s.n, tile_n));
    job.parts = split_k;
    job.alpha = static_cast<float>(call.alpha);
    job.bias = has_bias(s.epilogue) ? call.bias : nullptr;
    job.activation = activation_of(s.epilogue);
    const auto on = static_cast<cudaStream_t>(stream);
    const CallStatus got = start(kernel, job, tile_n, cluster, copies, processors_, on);
    return got == CallStatus::done ? add_parts(job, s.dtype_a, on) : got;
  }

 private:
  MatmulShape shape_;
  HopperConfig kernel_;
  int processors_ = 0;
};

class HopperGrouped final : public Matmul {
 public:
  HopperGrouped(const MatmulShape& shape, const HopperConfig& kernel) : shape_(shape), kernel_(kernel) {}

  CallStatus prepare(std::span<const std::int64_t> rows) {
    if (rows.size() > Groups::kMax) return answer(CallStatus::unsupported, "more groups than a launch takes");
    Groups& all = job_.groups;
    std::int64_t row = 0, unit = 0;
    all.count = 0;
    for (std::size_t group = 0; group < rows.size(); ++group) {
      if (rows[group] == 0) continue;
      all.first_row[all.count] = static_cast<int>(row);
      all.first_unit[all.count] = static_cast<int>(unit);
      all.matrix[all.count++] = static_cast<std::uint16_t>(group);
      row += rows[group];
      unit += ceil_div(rows[group], std::int64_t{kTileM} * kernel_.cluster);
    }
    all.first_row[all.count] = static_cast<int>(row);
    all.first_unit[all.count] = static_cast<int>(unit);
    const std::int64_t n_tiles = ceil_div(shape_.n, kernel_.tile_n);
    constexpr std::int64_t kMost = 0x7FFFFFFF;
    if (row > kMost - kTileM * kernel_.cluster || unit * n_tiles > kMost)
      return answer(CallStatus::unsupported, "more rows or tiles than a 32-bit number counts");
    job_.ldc = shape_.ldc;
    job_.m = static_cast<int>(row);
    job_.n = static_cast<int>(shape_.n);
    job_.k_tiles = job_.k_tiles_of_part = static_cast<int>(ceil_div(shape_.k, kTileK));
    job_.m_units = static_cast<int>(unit);
    job_.n_tiles = static_cast<int>(n_tiles);
    job_.parts = 1;
    groups_ = static_cast<std::int32_t>(rows.size());
    const CallStatus got = count_processors(processors_);
    return got == CallStatus::done
               ? allow_shared_memory(grouped_kernel_for(shape_, kernel_.tile_n), kernel_.tile_n)
               : got;
  }

  std::uint64_t workspace_bytes() const noexcept override { return 0; }
  void destroy() noexcept override { delete this; }

  CallStatus run(const MatmulCall& call, void* stream) noexcept override {
    const MatmulShape& s = shape_;
    const bool b_lines = row_major_b(s.layout);
    if (!is_aligned(call.a, s.lda) || !is_aligned(call.b, s.ldb))
      return answer(CallStatus::unsupported, "A and B of a grouped GEMM begin at multiples of 16 bytes");
    GroupedJob job = job_;
    const bool described = describe(job.a, s.dtype_a, call.a, s.m, s.k, s.lda, kTileM) &&
                           describe(job.b, s.dtype_b, call.b, b_lines ? s.k : s.n, b_lines ? s.n : s.k, s.ldb,
                                    b_lines ? kBlock : kernel_.tile_n / kernel_.cluster, groups_);
    if (!described) return answer(CallStatus::failed, "the driver refuses a tensor map");
    job.c = call.c;
    job.alpha = static_cast<float>(call.alpha);
    return start(grouped_kernel_for(s, kernel_.tile_n), job, kernel_.tile_n, kernel_.cluster, false,
                 processors_, static_cast<cudaStream_t>(stream));
  }

 private:
  MatmulShape shape_;
  HopperConfig kernel_;
  GroupedJob job_ = {};
  std::int32_t groups_ = 0;
  int processors_ = 0;
};

}  // namespace

CallStatus prepare_hopper(const AnyShape& shape, std::span<const std::int32_t> axes, std::uint64_t,
                          Matmul** matmul) {
  const auto config = config_from<HopperConfig>(axes);
  const auto prepared = [&](auto made, auto... rest) {
    const CallStatus got = made->prepare(rest...);
    if (got == CallStatus::done) *matmul = made.release();
    return got;
  };
  if (shape.conv) return prepare_hopper_conv(*shape.conv, config, matmul);
  if (!shape.rows.empty())
    return prepared(std::make_unique<HopperGrouped>(*shape.product, config), shape.rows);
  return prepared(std::make_unique<HopperMatmul>(*shape.product, config));
}

}  // namespace kscout::cuda
