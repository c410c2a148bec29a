#pragma once
// Wraps a grouped convolution of CK Tile in the C ABI of kscout's kernel libraries.
#include <type_traits>
#include <vector>

#include "common.hpp"

namespace kscout_ck {

/// The sizes in CK Tile's form: channels of one group, spatial axes outermost first.
inline ck_tile::conv::ConvParam conv_param(const kscout_conv_shape& s) {
  const auto axes = [&](const std::int64_t(&all)[3]) {
    std::vector<index_t> some;
    for (int i = 3 - static_cast<int>(s.rank); i < 3; ++i) some.push_back(static_cast<index_t>(all[i]));
    return some;
  };
  return ck_tile::conv::ConvParam(static_cast<index_t>(s.rank), static_cast<index_t>(s.g),
                                  static_cast<index_t>(s.n), static_cast<index_t>(s.k / s.g),
                                  static_cast<index_t>(s.c / s.g), axes(s.filter), axes(s.in), axes(s.stride),
                                  axes(s.dilation), axes(s.left_pad), axes(s.right_pad));
}

inline std::uint64_t volume(const std::int64_t (&sizes)[3]) {
  return static_cast<std::uint64_t>(sizes[0] * sizes[1] * sizes[2]);
}
inline std::uint64_t filter_elements(const kscout_conv_shape& s) {
  return static_cast<std::uint64_t>(s.k * (s.c / s.g)) * volume(s.filter);
}
inline std::uint64_t input_elements(const kscout_conv_shape& s) {
  return static_cast<std::uint64_t>(s.n * s.c) * volume(s.in);
}

/// `takes` returns whether the kernel supports the sizes of a convolution.
template <class F>
const char* conv_refusal(const kscout_kernel_shape& shape, F&& takes) {
  if (shape.conv == nullptr) return "the shape is no convolution's";
  return takes(*shape.conv) ? nullptr : "the kernel does not take this convolution";
}

// ---- differences between the directions: operands of the implicit GEMM, and the host's arguments

template <class Config, class ConvTraits>
struct Forward {
  using A = typename Config::In;
  using B = typename Config::Wei;
  using C = typename Config::Out;
  using HostArgs = ForwardArgs;
  using Layouts = ForwardTraits<ConvTraits, Config::wave_groups>;
  template <class Partitioner, class Pipeline, class Epilogue>
  using Kernel = ck_tile::GroupedConvolutionForwardKernel<ConvTraits, Partitioner, Pipeline, Epilogue>;
  static HostArgs host_args(const kscout_conv_shape& s, const void* a, const void* b, void* c,
                            index_t parts) {
    return HostArgs(conv_param(s), a, b, {}, c, parts);
  }
  static std::uint64_t bytes_to_zero(const kscout_conv_shape&, index_t) { return 0; }
};

template <class Config, class ConvTraits>
struct BackwardData {
  using A = typename Config::Out;
  using B = typename Config::Wei;
  using C = typename Config::In;
  using HostArgs = ck_tile::GroupedConvBwdDataHostArgs;
  using Layouts = BackwardDataTraits<ConvTraits, Config::wave_groups>;
  template <class Partitioner, class Pipeline, class Epilogue>
  using Kernel = ck_tile::GroupedConvolutionBackwardDataKernel<ConvTraits, Partitioner, Pipeline, Epilogue>;
  static HostArgs host_args(const kscout_conv_shape& s, const void* a, const void* b, void* c,
                            index_t parts) {
    return HostArgs(conv_param(s), c, b, {}, a, parts);
  }
  /// The image is set to 0 first: the kernel does not write elements that no filter element meets.
  static std::uint64_t bytes_to_zero(const kscout_conv_shape& s, index_t) {
    return input_elements(s) * sizeof(C);
  }
};

template <class Config, class ConvTraits>
struct BackwardWeight {
  using A = typename Config::Out;
  using B = typename Config::In;
  using C = typename Config::Wei;
  using HostArgs = ck_tile::GroupedConvBwdWeightHostArgs;
  using Layouts = BackwardWeightTraits<ConvTraits, Config::wave_groups>;
  template <class Partitioner, class Pipeline, class Epilogue>
  using Kernel = ck_tile::GroupedConvolutionBackwardWeightKernel<ConvTraits, Partitioner, Pipeline, Epilogue>;
  static HostArgs host_args(const kscout_conv_shape& s, const void* a, const void* b, void* c,
                            index_t parts) {
    return HostArgs(conv_param(s), b, c, {}, a, parts);
  }
  /// With split-K, the filter is set to 0 first: the kernel adds the slices to the existing contents.
  static std::uint64_t bytes_to_zero(const kscout_conv_shape& s, index_t parts) {
    return parts > 1 ? filter_elements(s) * sizeof(C) : 0;
  }
};

/// Converts fp32 sums to the filter's type, for kernels in two stages.
template <class To>
__global__ void convert_from_fp32(const float* from, To* to, std::uint64_t elements) {
  const std::uint64_t at = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at < elements) to[at] = ck_tile::type_convert<To>(from[at]);
}

/// Config: In, Wei, Out, Acc; InLayout, WeiLayout, OutLayout; rank, specialization; tile_*, warp_*,
/// warp_tile_*, vec_*; double_buffer, wave_groups, merged_groups, split_image, explicit_gemm, two_stage,
/// stream_k, blocks_per_cu, split_k_axis, scheduler; templates Direction, Pipeline, Partitioner.
template <class Config>
struct Conv : Entry<Conv<Config>> {
  using ConvTraits = ConvTraitsOf<Config>;
  using Fixed = FixedParams<ConvTraits>;
  using Part = typename Config::template Direction<Config, ConvTraits>;
  using Shape = ck_tile::TileGemmShape<
      ck_tile::sequence<Config::tile_m, Config::tile_n, Config::tile_k>,
      ck_tile::sequence<Config::warp_m, Config::warp_n, Config::warp_k>,
      ck_tile::sequence<Config::warp_tile_m, Config::warp_tile_n, Config::warp_tile_k>>;
  using Partitioner = typename Config::template Partitioner<Shape, Fixed>;
  using UniversalTraits =
      ck_tile::TileGemmUniversalTraits<Fixed::kPadM, Fixed::kPadN, Fixed::kPadK, Config::double_buffer,
                                       typename Part::Layouts::AsLayout, typename Part::Layouts::BsLayout,
                                       typename Part::Layouts::CLayout, Fixed::TransposeC,
                                       Fixed::UseStructuredSparsity, Fixed::Persistent, Config::wave_groups>;
  using Problem = PipelineProblem<typename Part::A, typename Part::B, typename Config::Acc, Shape,
                                  UniversalTraits, Config::scheduler, Fixed::FixedVectorSize,
                                  ConvTraits::VectorSizeA, ConvTraits::VectorSizeB>;
  using Pipeline = typename Config::template Pipeline<Problem>;
  /// The type that the kernel itself stores.
  using Stored = std::conditional_t<Config::two_stage, float, typename Part::C>;
  template <Store store>
  using Epilogue = ShuffledStore<store, typename Part::A, typename Part::B, typename Config::Acc, Stored,
                                 typename ConvTraits::ImplicitGemmDsLayout, Config, Fixed::TransposeC,
                                 Config::wave_groups, Fixed::FixedVectorSize, Config::vec_c>;
  template <Store store>
  using KernelThat = typename Part::template Kernel<Partitioner, Pipeline, Epilogue<store>>;
  using Kernel = KernelThat<Store::over>;

  static index_t parts(const kscout_kernel_shape& shape) { return shape.axes[Config::split_k_axis]; }

  /// Bytes for sums before they are converted, and for stream-K's own use.
  static std::uint64_t workspace_of(const kscout_kernel_shape& shape) {
    if constexpr (Config::stream_k) {
      auto args =
          Kernel::MakeKernelArgs(Part::host_args(*shape.conv, nullptr, nullptr, nullptr, parts(shape)));
      return Kernel::GetWorkSpaceSize(args);
    } else {
      return Config::two_stage ? filter_elements(*shape.conv) * sizeof(float) : 0;
    }
  }

  static const char* refusal(const kscout_kernel_shape& shape) {
    return conv_refusal(shape, [&](const kscout_conv_shape& conv) {
      return Kernel::IsSupportedArgument(
          Kernel::MakeKernelArgs(Part::host_args(conv, nullptr, nullptr, nullptr, parts(shape))));
    });
  }

  static const char* start(const kscout_kernel_shape& shape, const kscout_kernel_call& call) {
    const kscout_conv_shape& conv = *shape.conv;
    void* const stored = Config::two_stage ? call.workspace : call.c;
    const auto host = Part::host_args(conv, call.a, call.b, stored, parts(shape));
    std::uint64_t to_zero = Part::bytes_to_zero(conv, parts(shape));
    if (Config::two_stage && to_zero != 0) to_zero = filter_elements(conv) * sizeof(float);
    if (to_zero != 0 && !zero(stored, to_zero, call.stream))
      return "the result cannot be set to 0 before parts are added";
    if constexpr (Config::stream_k) {
      const std::uint64_t bytes = workspace_of(shape);
      if (bytes != 0 && !zero(call.workspace, bytes, call.stream))
        return "stream-K's workspace cannot be set to 0";
      auto args = Kernel::MakeKernelArgs(host);
      Kernel::SetWorkSpacePointer(args, call.workspace);
      launch<Kernel>(args, call.stream);
    } else if (parts(shape) > 1) {
      launch<KernelThat<Store::add>>(KernelThat<Store::add>::MakeKernelArgs(host), call.stream);
    } else {
      launch<Kernel>(Kernel::MakeKernelArgs(host), call.stream);
    }
    if constexpr (Config::two_stage) {
      const std::uint64_t elements = filter_elements(conv);
      convert_from_fp32<<<static_cast<unsigned>((elements + 255) / 256), 256, 0,
                          static_cast<hipStream_t>(call.stream)>>>(
          static_cast<const float*>(call.workspace), static_cast<typename Part::C*>(call.c), elements);
    }
    return nullptr;
  }

 private:
  template <class K, class Args>
  static void launch(const Args& args, void* stream) {
    ck_tile::launch_kernel(launch_on(stream), ck_tile::make_kernel<Config::blocks_per_cu>(
                                                  K{}, K::GridSize(args), K::BlockSize(), 0, args));
  }
};

// ---- depthwise: computed directly, without an implicit GEMM

#if KSCOUT_CK_TILE >= 202601

/// Config: In, Wei, Out, Acc; tile_h, tile_w, filter, stride_h, stride_w, images, sub_h, sub_w, vec_in,
/// vec_out.
template <class Config>
struct Depthwise : Entry<Depthwise<Config>> {
  static constexpr index_t pad = (Config::filter - 1) / 2;
  using DepthTraits = ck_tile::DepthwiseConvFwdTraits<
      typename Config::In, typename Config::Wei, typename Config::Acc, typename Config::Out, 64,
      Config::tile_h, Config::tile_w, Config::filter, Config::filter, Config::stride_h, Config::stride_w, 1,
      1, pad, pad, Config::images, Config::sub_h, Config::sub_w, Config::vec_in, Config::vec_out>;
  using Pipeline = ck_tile::DepthwiseConvFwdPipeline<DepthTraits>;
  using ConvTraits = ck_tile::GroupedConvTraits<2, ck_tile::ConvolutionSpecialization::Default, void, void,
                                                ck_tile::tuple<>, void, Config::vec_in, Config::vec_in,
                                                Config::vec_out, 1, false, false, DepthTraits>;
  struct Epilogue {
    using DsLayout = ck_tile::tuple<>;
    using DsDataType = ck_tile::tuple<>;
    using ODataType = typename Config::Out;
    using AccDataType = typename Config::Acc;
    using CDElementwise = ck_tile::element_wise::PassThrough;
  };
  using Kernel = ck_tile::GroupedConvolutionForwardKernel<ConvTraits, void, Pipeline, Epilogue>;

  static auto kernel_args(const kscout_conv_shape& s, const void* in, const void* wei, void* out) {
    return Kernel::MakeKernelArgs(ForwardArgs(conv_param(s), in, wei, {}, out, 1));
  }

  static const char* refusal(const kscout_kernel_shape& shape) {
    return conv_refusal(shape, [](const kscout_conv_shape& conv) {
      return Kernel::IsSupportedArgument(kernel_args(conv, nullptr, nullptr, nullptr));
    });
  }

  static std::uint64_t workspace_of(const kscout_kernel_shape&) { return 0; }

  static const char* start(const kscout_kernel_shape& shape, const kscout_kernel_call& call) {
    const auto args = kernel_args(*shape.conv, call.a, call.b, call.c);
    ck_tile::launch_kernel(launch_on(call.stream), ck_tile::make_kernel(Kernel{}, Kernel::GridSize(args),
                                                                        Kernel::BlockSize(), 0, args));
    return nullptr;
  }
};

#else

template <class Config>
struct Depthwise {
  static_assert(never<Config>, "depthwise kernels need CK Tile of 2026");
};

#endif

}  // namespace kscout_ck
