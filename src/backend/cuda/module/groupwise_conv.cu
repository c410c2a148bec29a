#include <algorithm>
#include <memory>

#include "backend/cuda/module/device.h"
#include "backend/cuda/module/groupwise_conv.h"
#include "backend/cuda/module/groupwise_depthwise.cuh"
#include "backend/cuda/module/groupwise_gemm.cuh"

namespace kscout::cuda {

namespace {

constexpr std::int64_t kMost = 0x7FFFFFFF;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Adds the parts of a result.
__global__ void add_parts(const float* partial, int parts, std::int64_t elements, Element* result,
                          bool bf16) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += step) {
    float sum = 0;
    for (int part = 0; part < parts; ++part) sum += partial[part * elements + i];
    result[i] = to_element(sum, bf16);
  }
}

/// Writes the filters of `merge` groups as one matrix, for all groups: [k][filter element][channel of the
/// merged groups], 0 where a channel belongs to another group than k.
__global__ void merge_filters(const Element* filter, Element* merged, std::int64_t count, int k_all,
                              int merge, FastDivisor by_channels, FastDivisor by_elements,
                              FastDivisor by_per_k, FastDivisor by_per_c) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const auto at = static_cast<std::uint32_t>(i);
    const std::uint32_t line = by_channels.quotient(at), channel = at - line * by_channels.divisor;
    const std::uint32_t k = by_elements.quotient(line), element = line - k * by_elements.divisor;
    const std::uint32_t group_k = by_per_k.quotient(k), own = by_per_c.quotient(channel);
    Element value = 0;
    if (static_cast<int>(k) < k_all && group_k % static_cast<std::uint32_t>(merge) == own)
      value = filter[(std::int64_t{k} * by_elements.divisor + element) * by_per_c.divisor + channel -
                     own * by_per_c.divisor];
    merged[i] = value;
  }
}

constexpr std::uint64_t round_up(std::uint64_t bytes) { return (bytes + 255) / 256 * 256; }

std::int64_t volume(const ConvShape& s, bool output) {
  std::int64_t elements = s.n;
  for (const ConvAxis& axis : s.axes) elements *= output ? axis.out : axis.in;
  return elements;
}

std::int64_t filter_elements(const ConvShape& s) {
  return std::int64_t{s.axes[0].filter} * s.axes[1].filter * s.axes[2].filter;
}

std::int64_t result_elements(const ConvShape& s) {
  switch (s.direction) {
    case Direction::forward:
      return volume(s, true) * s.k;
    case Direction::backward_data:
      return volume(s, false) * s.c;
    case Direction::backward_weight:
      break;
  }
  return filter_elements(s) * (s.c / s.g) * s.k;
}

struct Launched {
  Walks walks = {};
  int classes = 1;
  std::int64_t most_rows = 0;  ///< elements of the largest class of the computed image
};

Launched walks_of(const ConvShape& s) {
  Launched made;
  made.most_rows = s.n;
  for (int i = 0; i < 3; ++i) {
    made.walks.classes[i] = classes_of(s.direction, s.axes[i]);
    made.classes *= made.walks.classes[i];
    std::int64_t most = 0;
    for (int residue = 0; residue < made.walks.classes[i]; ++residue) {
      made.walks.of[i][residue] = walk_of(s.direction, s.axes[i], residue);
      most = std::max<std::int64_t>(most, made.walks.of[i][residue].count);
    }
    made.most_rows *= most;
  }
  return made;
}

/// Elements of the widest load that the address and all distances of elements allow.
int vector_for(const void* a, const void* b, std::int64_t first, std::int64_t second, std::int64_t third,
               std::int64_t fourth) {
  const auto bits = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) |
                    static_cast<std::uintptr_t>(2 * (first | second | third | fourth));
  return bits % 16 == 0 ? 8 : bits % 4 == 0 ? 2 : 1;
}

class GroupwiseConv : public Matmul {
 public:
  GroupwiseConv(const ConvShape& shape, const GroupwiseConfig& kernel) : shape_(shape), kernel_(kernel) {}
  virtual ~GroupwiseConv() = default;
  std::uint64_t workspace_bytes() const noexcept override { return sums_bytes(); }
  void destroy() noexcept override { delete this; }
  virtual CallStatus prepare() = 0;

 protected:
  std::uint64_t sums_bytes() const noexcept {
    if (kernel_.split_k == 1) return 0;
    return round_up(static_cast<std::uint64_t>(kernel_.split_k) *
                    static_cast<std::uint64_t>(result_elements(shape_)) * sizeof(float));
  }
  bool bf16() const { return shape_.dtype == DType::bf16; }

  CallStatus sum_parts(const MatmulCall& call, cudaStream_t stream) const {
    if (kernel_.split_k > 1) {
      constexpr int kThreads = 256;
      const std::int64_t elements = result_elements(shape_);
      const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(ceil_div(elements, kThreads), 4096));
      add_parts<<<blocks, kThreads, 0, stream>>>(static_cast<const float*>(call.workspace), kernel_.split_k,
                                                 elements, static_cast<Element*>(call.c), bf16());
    }
    return check_cuda(cudaGetLastError(), "a convolution kernel");
  }

  ConvShape shape_;
  GroupwiseConfig kernel_;
};

class GemmConv final : public GroupwiseConv {
 public:
  using GroupwiseConv::GroupwiseConv;

  CallStatus prepare() override {
    const ConvShape& s = shape_;
    const Launched launched = walks_of(s);
    const int image_per = (s.direction == Direction::backward_data ? s.k : s.c) / s.g;
    const int result_per = (s.direction == Direction::backward_data ? s.c : s.k) / s.g;
    const int merge = kernel_.merge;
    job_.walks = launched.walks;
    job_.images = s.n;
    job_.image_channels = image_per * s.g;
    job_.result_channels = result_per * s.g;
    job_.image_per = image_per;
    job_.result_per = result_per;
    job_.image_group = image_per * merge;
    job_.result_group = result_per * merge;
    job_.merged_groups = static_cast<int>(ceil_div(s.g, merge));
    job_.filter_y = s.axes[1].filter;
    job_.filter_x = s.axes[2].filter;
    job_.filter_elements = static_cast<int>(filter_elements(s));
    for (int i = 0; i < 3; ++i)
      job_.result_size[i] = s.direction == Direction::backward_data ? s.axes[i].in : s.axes[i].out;
    job_.parts = kernel_.split_k;
    job_.result_elements = result_elements(s);
    job_.by_image_group = FastDivisor(job_.image_group);
    job_.by_image_per = FastDivisor(image_per);
    job_.by_result_per = FastDivisor(result_per);
    for (int i = 0; i < 3; ++i) {
      for (int residue = 0; residue < launched.walks.classes[i]; ++residue)
        job_.by_taps[i][residue] = FastDivisor(std::max(1, launched.walks.of[i][residue].taps));
    }
    const bool weight = s.direction == Direction::backward_weight;
    if (weight) {
      job_.by_width = FastDivisor(s.axes[2].out);
      job_.by_plane = FastDivisor(s.axes[2].out * s.axes[1].out);
      job_.by_pixels = FastDivisor(s.axes[2].out * s.axes[1].out * s.axes[0].out);
    }
    job_.bf16 = bf16();
    if (merged_elements() > kMost)
      return answer(CallStatus::unsupported, "merged filters of more than 2^31 elements");
    const std::int64_t m = weight ? job_.result_group : launched.most_rows;
    const std::int64_t n = weight ? std::int64_t{job_.filter_elements} * job_.image_group : job_.result_group;
    job_.m_tiles = static_cast<int>(ceil_div(m, kernel_.tile_m));
    job_.n_tiles = static_cast<int>(ceil_div(n, kernel_.tile_n));
    const std::int64_t blocks =
        std::int64_t{job_.m_tiles} * job_.n_tiles * job_.merged_groups * job_.parts * launched.classes;
    if (blocks > kMost) return answer(CallStatus::unsupported, "more blocks than a grid has");
    blocks_ = static_cast<unsigned>(blocks);
    for (const int vector : {8, 2, 1}) {
      const ConvKernel<GemmJob> kernel = kernel_for(vector);
      if (!kernel.function) return answer(CallStatus::unsupported, "no kernel of these tiles");
      const CallStatus got =
          check_cuda(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          kernel.shared_bytes),
                     "shared memory of a kernel");
      if (got != CallStatus::done) return got;
    }
    return CallStatus::done;
  }

  std::uint64_t workspace_bytes() const noexcept override {
    return sums_bytes() + static_cast<std::uint64_t>(merged_elements()) * sizeof(Element);
  }

  CallStatus run(const MatmulCall& call, void* stream) noexcept override {
    GemmJob job = job_;
    const bool weight = shape_.direction == Direction::backward_weight;
    job.image = static_cast<const Element*>(weight ? call.b : call.a);
    job.filter = static_cast<const Element*>(weight ? call.a : call.b);
    job.result = static_cast<Element*>(call.c);
    job.partial = static_cast<float*>(call.workspace);
    job.aligned_result = reinterpret_cast<std::uintptr_t>(call.c) % 4 == 0;
    // conv_fwd loads lines of the filter along the channels of the image, the other directions along those of
    // both images.
    const bool forward = shape_.direction == Direction::forward;
    const auto on = static_cast<cudaStream_t>(stream);
    const void* filter = call.b;
    if (merged_elements() > 0) {
      auto* const merged = reinterpret_cast<Element*>(static_cast<std::byte*>(call.workspace) + sums_bytes());
      const std::int64_t count = merged_elements();
      constexpr int kThreads = 256;
      const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(ceil_div(count, kThreads), 4096));
      const int per_c = shape_.c / shape_.g, per_k = shape_.k / shape_.g;
      merge_filters<<<blocks, kThreads, 0, on>>>(
          job.filter, merged, count, shape_.k, kernel_.merge, FastDivisor(per_c * kernel_.merge),
          FastDivisor(job.filter_elements), FastDivisor(per_k), FastDivisor(per_c));
      filter = job.filter = merged;
    }
    const int vector = vector_for(call.a, filter, job.image_channels, job.image_group,
                                  forward ? 0 : job.result_channels, forward ? 0 : job.result_group);
    const ConvKernel<GemmJob> kernel = kernel_for(vector);
    kernel.function<<<blocks_, static_cast<unsigned>(kernel.threads),
                      static_cast<unsigned>(kernel.shared_bytes), on>>>(job);
    return sum_parts(call, on);
  }

 private:
  ConvKernel<GemmJob> kernel_for(int vector) const {
    return groupwise_gemm(shape_.direction, kernel_.tile_m, kernel_.tile_n, vector);
  }
  /// Of the filter as merge_filters writes it; 0 without merged groups.
  std::int64_t merged_elements() const noexcept {
    if (kernel_.merge == 1 || shape_.direction == Direction::backward_weight) return 0;
    const std::int64_t k = std::int64_t{job_.merged_groups} * kernel_.merge * (shape_.k / shape_.g);
    return k * filter_elements(shape_) * (shape_.c / shape_.g) * kernel_.merge;
  }

  GemmJob job_ = {};
  unsigned blocks_ = 0;
};

class DepthwiseConv final : public GroupwiseConv {
 public:
  using GroupwiseConv::GroupwiseConv;

  CallStatus prepare() override {
    const ConvShape& s = shape_;
    if (s.g != s.c || s.g != s.k) return answer(CallStatus::unsupported, "the convolution is not depthwise");
    const Launched launched = walks_of(s);
    const ConvAxis& width = s.axes[2];
    // With the classes of a strided conv_bwd_data, taps along the width differ between classes.
    const bool gather = s.direction != Direction::backward_weight;
    const bool known = (width.filter == 3 || width.filter == 5 || width.filter == 7) && width.dilation == 1 &&
                       (s.direction == Direction::backward_data ? width.stride == 1 : width.stride <= 2);
    taps_ = known ? width.filter : 0;
    step_ = known ? width.stride : 0;
    kernel_here_ = kernel_for(kernel_.vector, taps_, step_);
    if (!kernel_here_.function && taps_ > 0) {
      taps_ = step_ = 0;
      kernel_here_ = kernel_for(kernel_.vector, 0, 0);
    }
    if (!kernel_here_.function) return answer(CallStatus::unsupported, "no kernel of this vector and strip");
    if (s.c % kernel_.vector != 0)
      return answer(CallStatus::unsupported, "the channels are no multiple of the vector");
    job_.walks = launched.walks;
    job_.images = s.n;
    job_.channels = s.c;
    job_.filter_y = s.axes[1].filter;
    job_.filter_x = width.filter;
    job_.filter_elements = static_cast<int>(filter_elements(s));
    for (int i = 0; i < 3; ++i)
      job_.result_size[i] = s.direction == Direction::backward_data ? s.axes[i].in : s.axes[i].out;
    job_.parts = kernel_.split_k;
    job_.result_elements = result_elements(s);
    job_.bf16 = bf16();
    // The lanes of a block are a part of all vectors that leaves few of them idle, at most 32.
    const std::int64_t vectors = s.c / kernel_.vector;
    const std::int64_t channel_blocks = ceil_div(vectors, 32);
    job_.lanes = static_cast<int>(ceil_div(vectors, channel_blocks));
    const int rows = kDepthwiseThreads / job_.lanes;
    const std::int64_t block_channels = std::int64_t{job_.lanes} * kernel_.vector;
    job_.by_elements = FastDivisor(job_.filter_elements);
    for (int i = 0; i < 3; ++i) {
      for (int residue = 0; residue < launched.walks.classes[i]; ++residue) {
        const int count = std::max(1, launched.walks.of[i][residue].count);
        job_.by_count[i][residue] =
            FastDivisor(i == 2 ? static_cast<int>(ceil_div(count, kernel_.pixels)) : count);
      }
    }
    const std::int64_t others = launched.most_rows / std::max(1, most_width(launched));
    const std::int64_t strips = others * ceil_div(most_width(launched), kernel_.pixels);
    grid_ = dim3(1, static_cast<unsigned>(ceil_div(s.c, block_channels)),
                 static_cast<unsigned>(launched.classes));
    if (gather) {
      // Blocks of more strips read the filter less often; a GPU wants several blocks on each processor.
      constexpr std::int64_t kBlocksWanted = 132 * 16;
      const std::int64_t blocks = ceil_div(strips, rows) * grid_.y * grid_.z;
      job_.strips_of_thread = static_cast<int>(std::clamp<std::int64_t>(blocks / kBlocksWanted, 1, 16));
      grid_.x = static_cast<unsigned>(ceil_div(strips, std::int64_t{rows} * job_.strips_of_thread));
      shared_ = static_cast<int>((block_channels + kFilterGap) * job_.filter_elements * 4);
    } else {
      const int taps = std::max(taps_, 1);
      grid_.x = static_cast<unsigned>(job_.filter_elements / taps * job_.parts);
      shared_ = static_cast<int>(rows * taps * block_channels * 4);
    }
    return check_cuda(
        cudaFuncSetAttribute(kernel_here_.function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_),
        "shared memory of a kernel");
  }

  CallStatus run(const MatmulCall& call, void* stream) noexcept override {
    const bool weight = shape_.direction == Direction::backward_weight;
    DepthwiseJob job = job_;
    job.image = static_cast<const Element*>(weight ? call.b : call.a);
    job.filter = static_cast<const Element*>(weight ? call.a : call.b);
    job.result = static_cast<Element*>(call.c);
    job.partial = static_cast<float*>(call.workspace);
    const auto bytes = static_cast<std::uintptr_t>(2 * kernel_.vector);
    const auto aligned = [&](const void* pointer) {
      return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
    };
    // The filter is read, and its gradient written, one by one.
    if (!aligned(job.image) || !(weight ? aligned(job.filter) : aligned(job.result)))
      return answer(CallStatus::unsupported, "the images do not begin at multiples of a vector");
    const auto on = static_cast<cudaStream_t>(stream);
    kernel_here_
        .function<<<grid_, static_cast<unsigned>(kernel_here_.threads), static_cast<unsigned>(shared_), on>>>(
            job);
    return sum_parts(call, on);
  }

 private:
  ConvKernel<DepthwiseJob> kernel_for(int vector, int taps, int step) const {
    return groupwise_depthwise(shape_.direction, vector, kernel_.pixels, taps, step, bf16());
  }
  static int most_width(const Launched& launched) { return launched.walks.of[2][0].count; }

  DepthwiseJob job_ = {};
  ConvKernel<DepthwiseJob> kernel_here_;
  int taps_ = 0, step_ = 0, shared_ = 0;
  dim3 grid_;
};

}  // namespace

CallStatus prepare_groupwise(const AnyShape& shape, std::span<const std::int32_t> axes, std::uint64_t,
                             Matmul** matmul) {
  if (!shape.conv) return answer(CallStatus::unsupported, "the kernels compute convolutions");
  const auto kernel = config_from<GroupwiseConfig>(axes);
  std::unique_ptr<GroupwiseConv> made;
  if (kernel.kind == GroupwiseKind::depthwise) {
    made = std::make_unique<DepthwiseConv>(*shape.conv, kernel);
  } else {
    made = std::make_unique<GemmConv>(*shape.conv, kernel);
  }
  const CallStatus got = made->prepare();
  if (got == CallStatus::done) *matmul = made.release();
  return got;
}

}  // namespace kscout::cuda
