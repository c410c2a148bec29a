#pragma once
/// \file
/// Depthwise convolutions of provider `groupwise`: every channel is its own group. Included by
/// groupwise_depthwise.cu alone.
///
/// A thread has kV channels and a strip of kP results along the width, and sums in fp32. Filters of kT
/// elements along the width, with a stride of kStep and without dilation, have loops of known length; kT = 0
/// takes all others.
#include "backend/cuda/module/groupwise_conv.cuh"

namespace kscout::cuda {

inline constexpr int kDepthwiseThreads = 128;
inline constexpr int kFilterGap = 4;  ///< floats after each line of a filter in shared memory

struct DepthwiseJob {
  const Element* image;
  const Element* filter;  ///< of conv_bwd_weight: the gradient of the output image
  Element* result;
  float* partial;  ///< of parts > 1: [part][elements of the result]
  Walks walks;
  std::int32_t images, channels;
  std::int32_t filter_y, filter_x, filter_elements;
  std::int32_t result_size[3];
  std::int32_t lanes;  ///< threads of a block that share a strip: they have lanes * kV channels
  std::int32_t strips_of_thread;
  std::int32_t parts;
  std::int64_t result_elements;
  FastDivisor by_elements;               ///< of the filter
  FastDivisor by_count[3][kMaxClasses];  ///< of the walks; along the width, their strips
  bool bf16;
};

#ifdef __CUDACC__

template <int kV>
struct Channels {
  std::uint32_t words[(kV + 1) / 2];

  __device__ static Channels zeros() {
    Channels all;
#pragma unroll
    for (std::uint32_t& word : all.words) word = 0;
    return all;
  }
  __device__ static Channels load(const Element* from) {
    Channels all;
    if constexpr (kV == 8) {
      const uint4 four = __ldg(reinterpret_cast<const uint4*>(from));
      all.words[0] = four.x, all.words[1] = four.y, all.words[2] = four.z, all.words[3] = four.w;
    } else if constexpr (kV == 4) {
      const uint2 two = __ldg(reinterpret_cast<const uint2*>(from));
      all.words[0] = two.x, all.words[1] = two.y;
    } else if constexpr (kV == 2) {
      all.words[0] = __ldg(reinterpret_cast<const std::uint32_t*>(from));
    } else {
      all.words[0] = __ldg(from);
    }
    return all;
  }
  __device__ void store(Element* to) const {
    if constexpr (kV == 8) {
      *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
    } else if constexpr (kV == 4) {
      *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
    } else if constexpr (kV == 2) {
      *reinterpret_cast<std::uint32_t*>(to) = words[0];
    } else {
      *to = static_cast<Element>(words[0]);
    }
  }
  template <bool kBf16>
  __device__ float get(int i) const {
    const std::uint32_t word = words[i / 2];
    if constexpr (kBf16) return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xFFFF0000u);
    return to_float(i % 2 == 0 ? word & 0xFFFFu : word >> 16, false);
  }
};

/// One strip of results.
struct Strip {
  int image, d, h, w;  ///< w is the first
  /// Strips are numbered along the height first: neighbours read the same rows of the image.
  __device__ Strip(int number, const FastDivisor& by_d, const FastDivisor& by_h, const FastDivisor& by_w,
                   int width) {
    const auto take = [&](const FastDivisor& by) {
      const auto quotient = static_cast<int>(by.quotient(number));
      const int rest = number - quotient * static_cast<int>(by.divisor);
      number = quotient;
      return rest;
    };
    h = take(by_h);
    w = take(by_w) * width;
    d = take(by_d);
    image = number;
  }
};

/// conv_fwd and conv_bwd_data.
template <int kV, int kP, int kT, int kStep, bool kBf16>
__global__ void __launch_bounds__(kDepthwiseThreads)
    depthwise_gather(const __grid_constant__ DepthwiseJob job) {
  extern __shared__ float weights[];  // [filter element of the image][channel of the block]
  const int block_channels = job.lanes * kV;
  const int first_channel = static_cast<int>(blockIdx.y) * block_channels;
  const int kind = static_cast<int>(blockIdx.z);
  const int class_w = kind % job.walks.classes[2],
            class_h = kind / job.walks.classes[2] % job.walks.classes[1];
  const int class_d = kind / job.walks.classes[2] / job.walks.classes[1];
  const Walk& walk_w = job.walks.of[2][class_w];
  const Walk& walk_h = job.walks.of[1][class_h];
  const Walk& walk_d = job.walks.of[0][class_d];
  const int thread = static_cast<int>(threadIdx.x);

  const int pitch_of_weights = block_channels + kFilterGap;
  const int here = min(block_channels, job.channels - first_channel) * job.filter_elements;
  for (int i = thread; i < here; i += kDepthwiseThreads) {
    const auto channel = static_cast<int>(job.by_elements.quotient(i));
    const int element = i - channel * job.filter_elements;
    weights[element * pitch_of_weights + channel] =
        to_float(job.filter[static_cast<std::int64_t>(first_channel) * job.filter_elements + i], kBf16);
  }
  __syncthreads();

  const int lane = thread % job.lanes, row = thread / job.lanes, rows = kDepthwiseThreads / job.lanes;
  const int channel = first_channel + lane * kV;
  if (row >= rows || channel >= job.channels) return;
  const int strips_w = (walk_w.count + kP - 1) / kP;
  const int strips = job.images * walk_d.count * walk_h.count * strips_w;
  const std::int64_t pitch = job.channels;

  for (int i = 0; i < job.strips_of_thread; ++i) {
    const int number = (static_cast<int>(blockIdx.x) * job.strips_of_thread + i) * rows + row;
    if (number >= strips) return;
    const Strip strip(number, job.by_count[0][class_d], job.by_count[1][class_h], job.by_count[2][class_w],
                      kP);
    float sums[kP][kV] = {};
    const int from_w = walk_w.base + strip.w * walk_w.step;
    for (int z = 0; z < walk_d.taps; ++z) {
      const int d = walk_d.base + strip.d * walk_d.step + z * walk_d.tap_step;
      if (d < 0 || d >= walk_d.source) continue;
      for (int y = 0; y < walk_h.taps; ++y) {
        const int h = walk_h.base + strip.h * walk_h.step + y * walk_h.tap_step;
        if (h < 0 || h >= walk_h.source) continue;
        const Element* const line =
            job.image +
            ((static_cast<std::int64_t>(strip.image) * walk_d.source + d) * walk_h.source + h) *
                walk_w.source * pitch +
            channel;
        const float* const weight = weights +
                                    (((walk_d.first_tap + z * walk_d.next_tap) * job.filter_y +
                                      walk_h.first_tap + y * walk_h.next_tap) *
                                         job.filter_x +
                                     walk_w.first_tap) *
                                        pitch_of_weights +
                                    lane * kV;
        const int next_weight = walk_w.next_tap * pitch_of_weights;
        if constexpr (kT > 0) {
          constexpr int kLoads = (kP - 1) * kStep + kT;
          Channels<kV> loaded[kLoads];
#pragma unroll
          for (int x = 0; x < kLoads; ++x) {
            const int w = from_w + x;
            loaded[x] =
                w >= 0 && w < walk_w.source ? Channels<kV>::load(line + w * pitch) : Channels<kV>::zeros();
          }
#pragma unroll
          for (int t = 0; t < kT; ++t) {
            float factors[kV];
#pragma unroll
            for (int c = 0; c < kV; ++c) factors[c] = weight[t * next_weight + c];
#pragma unroll
            for (int p = 0; p < kP; ++p) {
#pragma unroll
              for (int c = 0; c < kV; ++c)
                sums[p][c] += loaded[p * kStep + t].template get<kBf16>(c) * factors[c];
            }
          }
        } else {
          for (int t = 0; t < walk_w.taps; ++t) {
            float factors[kV];
#pragma unroll
            for (int c = 0; c < kV; ++c) factors[c] = weight[t * next_weight + c];
#pragma unroll
            for (int p = 0; p < kP; ++p) {
              const int w = from_w + p * walk_w.step + t * walk_w.tap_step;
              if (w < 0 || w >= walk_w.source) continue;
              const Channels<kV> loaded = Channels<kV>::load(line + w * pitch);
#pragma unroll
              for (int c = 0; c < kV; ++c) sums[p][c] += loaded.template get<kBf16>(c) * factors[c];
            }
          }
        }
      }
    }
    const std::int64_t result_line = ((static_cast<std::int64_t>(strip.image) * job.result_size[0] +
                                       walk_d.out_first + strip.d * walk_d.out_step) *
                                          job.result_size[1] +
                                      walk_h.out_first + strip.h * walk_h.out_step) *
                                     job.result_size[2];
#pragma unroll
    for (int p = 0; p < kP; ++p) {
      if (strip.w + p >= walk_w.count) break;
      Channels<kV> made;
#pragma unroll
      for (int c = 0; c < kV; c += 2)
        made.words[c / 2] = kV == 1 ? to_element(sums[p][0], kBf16)
                                    : to_elements(sums[p][c], sums[p][kV == 1 ? 0 : c + 1], kBf16);
      made.store(job.result + (result_line + walk_w.out_first + (strip.w + p) * walk_w.out_step) * pitch +
                 channel);
    }
  }
}

/// conv_bwd_weight: a block computes one line of the filter (kT elements along the width) for its channels
/// and its part of the output image. kT = 0: one element.
template <int kV, int kP, int kT, int kStep, bool kBf16>
__global__ void __launch_bounds__(kDepthwiseThreads)
    depthwise_weight(const __grid_constant__ DepthwiseJob job) {
  constexpr int kTaps = kT > 0 ? kT : 1;
  extern __shared__ float all_sums[];  // [row of threads][tap][channel of the block]
  const int block_channels = job.lanes * kV;
  const int first_channel = static_cast<int>(blockIdx.y) * block_channels;
  const Walk& walk_w = job.walks.of[2][0];
  const Walk& walk_h = job.walks.of[1][0];
  const Walk& walk_d = job.walks.of[0][0];
  const int thread = static_cast<int>(threadIdx.x);
  const int lines = kT > 0 ? job.filter_elements / kT : job.filter_elements;
  const int line_number = static_cast<int>(blockIdx.x) % lines, part = static_cast<int>(blockIdx.x) / lines;
  const int first_tap = kT > 0 ? 0 : line_number % job.filter_x;
  const int filter_line = kT > 0 ? line_number : line_number / job.filter_x;
  const int y = filter_line % job.filter_y, z = filter_line / job.filter_y;

  const int lane = thread % job.lanes, row = thread / job.lanes, rows = kDepthwiseThreads / job.lanes;
  const int channel = first_channel + lane * kV;
  const bool works = row < rows && channel < job.channels;
  const int strips_w = (walk_w.count + kP - 1) / kP;
  const int strips = job.images * walk_d.count * walk_h.count * strips_w;
  const int strips_of_part = (strips + job.parts - 1) / job.parts;
  const int end = min(strips, (part + 1) * strips_of_part);
  const std::int64_t pitch = job.channels;

  float sums[kTaps][kV] = {};
  for (int number = part * strips_of_part + row; works && number < end; number += rows) {
    const Strip strip(number, job.by_count[0][0], job.by_count[1][0], job.by_count[2][0], kP);
    const int d = walk_d.base + strip.d * walk_d.step + z * walk_d.tap_step;
    const int h = walk_h.base + strip.h * walk_h.step + y * walk_h.tap_step;
    if (d < 0 || d >= walk_d.source || h < 0 || h >= walk_h.source) continue;
    const Element* const line =
        job.image +
        ((static_cast<std::int64_t>(strip.image) * walk_d.source + d) * walk_h.source + h) * walk_w.source *
            pitch +
        channel;
    const Element* const gradient =
        job.filter +
        (((static_cast<std::int64_t>(strip.image) * walk_d.count + strip.d) * walk_h.count + strip.h) *
             walk_w.count +
         strip.w) *
            pitch +
        channel;
    const int from_w = walk_w.base + strip.w * walk_w.step + first_tap * walk_w.tap_step;
    Channels<kV> outputs[kP];
#pragma unroll
    for (int p = 0; p < kP; ++p)
      outputs[p] =
          strip.w + p < walk_w.count ? Channels<kV>::load(gradient + p * pitch) : Channels<kV>::zeros();
    constexpr int kLoads = kT > 0 ? (kP - 1) * kStep + kT : kP;
    Channels<kV> loaded[kLoads];
#pragma unroll
    for (int x = 0; x < kLoads; ++x) {
      const int w = from_w + x * (kT > 0 ? 1 : walk_w.step);
      loaded[x] = w >= 0 && w < walk_w.source ? Channels<kV>::load(line + w * pitch) : Channels<kV>::zeros();
    }
#pragma unroll
    for (int p = 0; p < kP; ++p) {
#pragma unroll
      for (int c = 0; c < kV; ++c) {
        const float output = outputs[p].template get<kBf16>(c);
#pragma unroll
        for (int t = 0; t < kTaps; ++t)
          sums[t][c] += loaded[kT > 0 ? p * kStep + t : p].template get<kBf16>(c) * output;
      }
    }
  }
  if (row < rows) {
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
#pragma unroll
      for (int c = 0; c < kV; ++c) all_sums[(row * kTaps + t) * block_channels + lane * kV + c] = sums[t][c];
    }
  }
  __syncthreads();
  const int here = min(block_channels, job.channels - first_channel);
  for (int i = thread; i < here * kTaps; i += kDepthwiseThreads) {
    const int own = i / kTaps, t = i - own * kTaps;
    float sum = 0;
    for (int r = 0; r < rows; ++r) sum += all_sums[(r * kTaps + t) * block_channels + own];
    const std::int64_t to = static_cast<std::int64_t>(first_channel + own) * job.filter_elements +
                            filter_line * job.filter_x + first_tap + t;
    if (job.parts > 1) {
      job.partial[part * job.result_elements + to] = sum;
    } else {
      job.result[to] = to_element(sum, kBf16);
    }
  }
}
#endif

}  // namespace kscout::cuda
