#include <algorithm>
#include <memory>

#include "backend/cuda/module/hopper_conv.cuh"
#include "backend/cuda/module/hopper_conv.h"
#include "backend/cuda/module/hopper_conv_tiles.h"
#include "backend/cuda/module/hopper_launch.cuh"

namespace kscout::cuda {

namespace {

static_assert(kTileM == kConvTileM && kTileK == kConvTileK);

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
  if (tile_n == 64) return kernel_for<T, 64>(direction);
  return tile_n == 128 ? kernel_for<T, 128>(direction) : kernel_for<T, 256>(direction);
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
  HopperConv(const ConvShape& shape, const HopperConfig& kernel) : shape_(shape), kernel_(kernel) {}

  CallStatus prepare() {
    const ConvShape& s = shape_;
    if (const char* const why = hopper_conv_refusal(s, kernel_))
      return answer(CallStatus::unsupported, "%s", why);
    function_ = kernel_for(s, kernel_.tile_n);
    if (!encode_im2col_function()) return answer(CallStatus::unsupported, "the driver has no tensor maps");

    const HopperConvTiles tiles = hopper_conv_tiles(s, kernel_);
    taps_ = tiles.taps;
    image_.images = s.n;
    image_.channels = tiles.channels;
    image_.has_depth = job_.has_depth = tiles.has_depth;
    for (int i = 0; i < 3; ++i) {
      const Walk walk = image_.walks[i] = walk_of(s.direction, s.axes[i], 0);
      const int axis = 2 - i;
      job_.base[axis] = walk.base;
      job_.step[axis] = walk.step;
      job_.tap_step[axis] = walk.tap_step;
      job_.by_pixels[axis] = FastDivisor(walk.count);
      if (axis < 2) job_.by_taps[axis] = FastDivisor(walk.taps);
    }
    job_.taps = static_cast<int>(tiles.taps);
    job_.channels = static_cast<int>(tiles.channels);
    job_.by_blocks = FastDivisor(static_cast<std::int32_t>(tiles.blocks));
    job_.a.aligned = job_.b.aligned = true;
    job_.ldc = tiles.n;
    job_.partial_ld = partial_pitch(tiles.n);
    job_.m = static_cast<int>(tiles.m);
    job_.n = static_cast<int>(tiles.n);
    job_.k_tiles = static_cast<int>(tiles.k_tiles);
    job_.parts = kernel_.split_k;
    job_.k_tiles_of_part = static_cast<int>(ceil_div(tiles.k_tiles, job_.parts));
    job_.m_units = static_cast<int>(tiles.m_units);
    job_.n_tiles = static_cast<int>(tiles.n_tiles);
    job_.alpha = 1;
    const CallStatus got = count_processors(processors_);
    return got == CallStatus::done ? allow_shared_memory(function_, kernel_.tile_n) : got;
  }

  std::uint64_t workspace_bytes() const noexcept override {
    return partial_bytes(job_.m, job_.n, job_.parts);
  }
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
  ConvShape shape_;
  HopperConfig kernel_;
  ConvJob job_ = {};
  Image image_ = {};
  std::int64_t taps_ = 0;
  Kernel function_ = nullptr;
  int processors_ = 0;
};

}  // namespace

CallStatus prepare_hopper_conv(const ConvShape& shape, const HopperConfig& kernel, Matmul** matmul) {
  auto made = std::make_unique<HopperConv>(shape, kernel);
  const CallStatus got = made->prepare();
  if (got == CallStatus::done) *matmul = made.release();
  return got;
}

}  // namespace kscout::cuda
