#include <algorithm>
#include <memory>

#include "backend/cuda/module/hopper_conv.cuh"
#include "backend/cuda/module/hopper_conv.h"
#include "backend/cuda/module/hopper_launch.cuh"

namespace kscout::cuda {

namespace {

using Kernel = void (*)(ConvJob);

template <class T, int kTileN>
Kernel kernel_for(Direction direction) {
  switch (direction) {
    case Direction::forward:
      return hopper_tiles<T, PixelRows<kTileN, false>>;
    case Direction::backward_data:
      return hopper_tiles<T, PixelRows<kTileN, true>>;
    case Direction::backward_weight:
      break;
  }
  return hopper_tiles<T, PixelColumns<kTileN>>;
}
template <class T>
Kernel kernel_for(Direction direction, int tile_n) {
  switch (tile_n) {
    case 64:
      return kernel_for<T, 64>(direction);
    case 128:
      return kernel_for<T, 128>(direction);
    case 256:
      return kernel_for<T, 256>(direction);
    default:
      return nullptr;
  }
}
Kernel kernel_for(const ConvShape& shape, int tile_n) {
  return shape.dtype == DType::bf16 ? kernel_for<__nv_bfloat16>(shape.direction, tile_n)
                                    : kernel_for<__half>(shape.direction, tile_n);
}

using EncodeIm2col = decltype(&cuTensorMapEncodeIm2col);

EncodeIm2col encode_im2col_function() {
  static const auto found = driver_function<EncodeIm2col>("cuTensorMapEncodeIm2col");
  return found;
}

/// Axes in the order of ConvShape: depth, height, width.
struct Image {
  const void* base;
  std::int64_t images, channels;
  Walk walks[3];
  bool has_depth;

  int axes() const { return has_depth ? 3 : 2; }
};

/// The position of an axis' last pixel, less that of the image's last element.
std::int64_t upper_corner(const Walk& walk) {
  return walk.base + std::int64_t{walk.count - 1} * walk.step - (walk.source - 1);
}

/// Why the accelerator cannot load an image's pixels along an axis; null if it can. Limits:
/// cuTensorMapEncodeIm2col, and the im2col mode of PTX, whose offsets have as many bits as the corners.
const char* im2col_refusal(const Walk& walk, bool has_depth) {
  const std::int64_t limit = has_depth ? 16 : 128;
  const auto outside = [limit](std::int64_t corner) { return corner < -limit || corner >= limit; };
  if (walk.step > 8) return "strides above 8";
  if (outside(walk.base) || outside(upper_corner(walk)) ||
      std::int64_t{walk.taps - 1} * walk.tap_step >= 2 * limit)
    return "pads or extents of the filter that tensor maps do not hold";
  return nullptr;
}

/// `pixels` of 64 channels are loaded at a time.
bool describe_pixels(CUtensorMap& map, DType dtype, const Image& image, int pixels) {
  const int axes = image.axes(), rank = axes + 2;
  cuuint64_t sizes[5] = {static_cast<cuuint64_t>(image.channels)}, pitches[4];
  cuuint32_t steps[5] = {1};
  int lower[3], upper[3];
  cuuint64_t pitch = 2 * sizes[0];
  for (int i = 0; i < axes; ++i) {
    const Walk& walk = image.walks[2 - i];
    sizes[i + 1] = static_cast<cuuint64_t>(walk.source);
    steps[i + 1] = static_cast<cuuint32_t>(walk.step);
    lower[i] = walk.base;
    upper[i] = static_cast<int>(upper_corner(walk));
    pitches[i] = pitch;
    pitch *= sizes[i + 1];
  }
  sizes[rank - 1] = static_cast<cuuint64_t>(image.images);
  steps[rank - 1] = 1;
  pitches[rank - 2] = pitch;
  return encode_im2col_function()(&map, map_type(dtype), static_cast<cuuint32_t>(rank),
                                  const_cast<void*>(image.base), sizes, pitches, lower, upper, kBlock,
                                  static_cast<cuuint32_t>(pixels), steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

class HopperConv final : public Matmul {
 public:
  HopperConv(const ConvShape& shape, const HopperKernel& kernel) : shape_(shape), kernel_(kernel) {}

  CallStatus prepare() {
    const ConvShape& s = shape_;
    const bool data = s.direction == Direction::backward_data,
               weight = s.direction == Direction::backward_weight;
    if (const char* const why = refusal()) return answer(CallStatus::unsupported, "%s", why);
    function_ = kernel_for(s, kernel_.tile_n);
    if (!function_) return answer(CallStatus::unsupported, "no kernel of %d columns", kernel_.tile_n);
    if (!encode_im2col_function()) return answer(CallStatus::unsupported, "the driver has no tensor maps");

    image_.images = s.n;
    image_.channels = data ? s.k : s.c;
    const ConvAxis& depth = s.axes[0];
    image_.has_depth = depth.in != 1 || depth.out != 1 || depth.filter != 1 || depth.pad != 0;
    std::int64_t pixels = s.n;
    for (int i = 0; i < 3; ++i) {
      const Walk walk = image_.walks[i] = walk_of(s.direction, s.axes[i], 0);
      if (i > 0 || image_.has_depth) {
        if (const char* const why = im2col_refusal(walk, image_.has_depth))
          return answer(CallStatus::unsupported, "%s", why);
      }
      const int axis = 2 - i;
      job_.base[axis] = walk.base;
      job_.step[axis] = walk.step;
      job_.tap_step[axis] = walk.tap_step;
      job_.by_pixels[axis] = FastDivisor(walk.count);
      if (axis < 2) job_.by_taps[axis] = FastDivisor(walk.taps);
      pixels *= walk.count;
    }
    job_.has_depth = image_.has_depth;
    taps_ = std::int64_t{s.axes[0].filter} * s.axes[1].filter * s.axes[2].filter;
    const std::int64_t blocks = ceil_div(image_.channels, weight ? kernel_.tile_n : kBlock);
    const std::int64_t m = weight ? s.k : pixels;
    const std::int64_t n = weight ? taps_ * s.c : data ? s.c : s.k;
    const std::int64_t k_tiles = weight ? ceil_div(pixels, kTileK) : taps_ * blocks;
    const std::int64_t m_units = ceil_div(m, std::int64_t{kTileM} * kernel_.cluster);
    const std::int64_t n_tiles = weight ? taps_ * blocks : ceil_div(n, kernel_.tile_n);
    constexpr std::int64_t kMost = 0x7FFFFFFF;
    if (pixels > kMost - kTileM * kernel_.cluster || n > kMost - kernel_.tile_n || k_tiles > kMost ||
        m_units * n_tiles * kernel_.split_k > kMost)
      return answer(CallStatus::unsupported, "more pixels or tiles than a 32-bit number counts");
    job_.taps = static_cast<int>(taps_);
    job_.channels = static_cast<int>(image_.channels);
    job_.by_blocks = FastDivisor(static_cast<std::int32_t>(blocks));
    job_.a.aligned = job_.b.aligned = true;
    job_.ldc = n;
    job_.partial_ld = partial_pitch(n);
    job_.m = static_cast<int>(m);
    job_.n = static_cast<int>(n);
    job_.k_tiles = static_cast<int>(k_tiles);
    job_.parts = kernel_.split_k;
    job_.k_tiles_of_part = static_cast<int>(ceil_div(k_tiles, job_.parts));
    job_.m_units = static_cast<int>(m_units);
    job_.n_tiles = static_cast<int>(n_tiles);
    job_.alpha = 1;
    const CallStatus got = count_processors(processors_);
    return got == CallStatus::done ? allow_shared_memory(function_, kernel_.tile_n) : got;
  }

  std::uint64_t workspace_bytes() const noexcept override {
    return partial_bytes(job_.m, job_.n, job_.parts);
  }
  Algorithm algorithm() const noexcept override { return {}; }
  void destroy() noexcept override { delete this; }

  CallStatus run(const MatmulCall& call, void* stream) noexcept override {
    const ConvShape& s = shape_;
    ConvJob job = job_;
    Image image = image_;
    if (!is_aligned(call.a, 0) || !is_aligned(call.b, 0))
      return answer(CallStatus::unsupported, "A and B of a convolution begin at multiples of 16 bytes");
    bool described = false;
    switch (s.direction) {
      case Direction::forward:
        image.base = call.a;
        described =
            describe_pixels(job.a.map, s.dtype, image, kTileM) &&
            describe(job.b, s.dtype, call.b, taps_, s.c, s.c, 1, s.k, kernel_.tile_n / kernel_.cluster);
        break;
      case Direction::backward_data:
        image.base = call.a;
        described = describe_pixels(job.a.map, s.dtype, image, kTileM) &&
                    describe(job.b, s.dtype, call.b, taps_, s.c, s.c, 1, s.k, kBlock);
        break;
      case Direction::backward_weight: {
        image.base = call.b;
        std::int64_t pixels = s.n;
        for (const ConvAxis& axis : s.axes) pixels *= axis.out;
        described = describe(job.a, s.dtype, call.a, pixels, s.k, s.k, kBlock) &&
                    describe_pixels(job.b.map, s.dtype, image, kBlock);
        break;
      }
    }
    if (!described) return answer(CallStatus::failed, "the driver refuses a tensor map");
    job.c = call.c;
    job.partial = static_cast<float*>(call.workspace);
    const auto on = static_cast<cudaStream_t>(stream);
    const CallStatus got = start(function_, job, kernel_.tile_n, kernel_.cluster, false, processors_, on);
    return got == CallStatus::done ? add_parts(job, s.dtype, on) : got;
  }

 private:
  /// Null for a convolution of this kind.
  const char* refusal() const {
    const ConvShape& s = shape_;
    if (s.dtype != DType::bf16 && s.dtype != DType::fp16) return "elements other than bf16 and fp16";
    if (s.g != 1) return "several groups";
    if (s.c % 8 != 0) return "input channels that are no multiple of 8";
    if (s.direction != Direction::forward && s.k % 8 != 0) return "output channels that are no multiple of 8";
    for (const ConvAxis& axis : s.axes) {
      if (s.direction == Direction::backward_data && axis.stride != 1) return "conv_bwd_data with a stride";
    }
    return nullptr;
  }

  ConvShape shape_;
  HopperKernel kernel_;
  ConvJob job_ = {};
  Image image_ = {};
  std::int64_t taps_ = 0;
  Kernel function_ = nullptr;
  int processors_ = 0;
};

}  // namespace

CallStatus make_hopper_conv(const ConvShape& shape, const HopperKernel& kernel, Matmul** matmul) {
  auto made = std::make_unique<HopperConv>(shape, kernel);
  const CallStatus got = made->prepare();
  if (got == CallStatus::done) *matmul = made.release();
  return got;
}

}  // namespace kscout::cuda
