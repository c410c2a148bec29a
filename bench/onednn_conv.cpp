#include "onednn_conv.h"

namespace kscout::bench {

namespace {

using Description = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
constexpr auto kFp32 = dnnl::memory::data_type::f32;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

bool is_3d(const ConvProblem& p) { return p.layout == Layout::ndhwgc || p.layout == Layout::ngcdhw; }

/// d, h, w; without d in 2-D.
Dims spatial(const ConvProblem& p, std::int64_t d, std::int64_t h, std::int64_t w) {
  return is_3d(p) ? Dims{d, h, w} : Dims{h, w};
}

Dims joined(Dims first, const Dims& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

Description image(const ConvProblem& p, std::int64_t channels, const Dims& sizes) {
  const auto tag = is_3d(p) ? dnnl::memory::format_tag::ndhwc : dnnl::memory::format_tag::nhwc;
  return {joined({p.n, channels}, sizes), kFp32, tag};
}

Dims filter_dims(const ConvProblem& p) {
  const Dims taps = spatial(p, p.z, p.y, p.x);
  if (p.g == 1) return joined({p.k, p.c}, taps);
  return joined({p.g, p.k / p.g, p.c / p.g}, taps);
}

/// The filter as k [z] y x c/g, described by strides.
Description plain_filter(const ConvProblem& p) {
  const std::int64_t c = p.c / p.g;
  const Dims taps = is_3d(p) ? Dims{p.y * p.x * c, p.x * c, c} : Dims{p.x * c, c};
  const std::int64_t of_k = p.z * p.y * p.x * c;
  const Dims strides = p.g == 1 ? joined({of_k, 1}, taps) : joined({p.k / p.g * of_k, of_k, 1}, taps);
  return {filter_dims(p), kFp32, strides};
}

}  // namespace

template <class OfKernel>
void OneDnnConv::make(const OfKernel& description) {
  kernel_ = dnnl::primitive(description);
  implementation_ = description.impl_info_str();
}

OneDnnConv::OneDnnConv(const ConvProblem& p, const ConvTensors& tensors)
    : op_(p.op), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
  const ConvOutput o = output_sizes(p);
  const Description in = image(p, p.c, spatial(p, p.d, p.h, p.w)),
                    out = image(p, p.k, spatial(p, o.d, o.h, o.w)), plain = plain_filter(p),
                    any(filter_dims(p), kFp32, dnnl::memory::format_tag::any);
  const Dims strides = spatial(p, p.stride_d, p.stride_h, p.stride_w),
             dilations = spatial(p, p.dilation_d - 1, p.dilation_h - 1, p.dilation_w - 1),
             left = spatial(p, p.left_pad_d, p.left_pad_h, p.left_pad_w),
             right = spatial(p, p.right_pad_d, p.right_pad_h, p.right_pad_w);
  using Forward = dnnl::convolution_forward;
  const auto kind =
      op_ == Op::conv_fwd ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
  const Forward::primitive_desc forward(engine_, kind, kDirect, in, any, out, strides, dilations, left,
                                        right);
  Description chosen;
  if (op_ == Op::conv_fwd) {
    make(forward);
    chosen = forward.weights_desc();
  } else if (op_ == Op::conv_bwd_data) {
    const dnnl::convolution_backward_data::primitive_desc backward(engine_, kDirect, in, any, out, strides,
                                                                   dilations, left, right, forward);
    make(backward);
    chosen = backward.weights_desc();
  } else {
    const dnnl::convolution_backward_weights::primitive_desc backward(engine_, kDirect, in, any, out, strides,
                                                                      dilations, left, right, forward);
    make(backward);
    chosen = backward.diff_weights_desc();
  }
  in_ = dnnl::memory(in, engine_, tensors.in);
  out_ = dnnl::memory(out, engine_, tensors.out);
  plain_ = dnnl::memory(plain, engine_, tensors.wei);
  wei_ = chosen == plain ? plain_ : dnnl::memory(chosen, engine_);
  if (chosen == plain) return;
  conversion_ = op_ == Op::conv_bwd_weight ? dnnl::reorder(wei_, plain_) : dnnl::reorder(plain_, wei_);
}

void OneDnnConv::compute() {
  if (op_ == Op::conv_fwd) {
    kernel_.execute(stream_, {{DNNL_ARG_SRC, in_}, {DNNL_ARG_WEIGHTS, wei_}, {DNNL_ARG_DST, out_}});
  } else if (op_ == Op::conv_bwd_data) {
    kernel_.execute(stream_, {{DNNL_ARG_DIFF_DST, out_}, {DNNL_ARG_WEIGHTS, wei_}, {DNNL_ARG_DIFF_SRC, in_}});
  } else {
    kernel_.execute(stream_, {{DNNL_ARG_SRC, in_}, {DNNL_ARG_DIFF_DST, out_}, {DNNL_ARG_DIFF_WEIGHTS, wei_}});
  }
  stream_.wait();
}

void OneDnnConv::convert() {
  if (!conversion_) return;
  if (op_ == Op::conv_bwd_weight) {
    conversion_->execute(stream_, wei_, plain_);
  } else {
    conversion_->execute(stream_, plain_, wei_);
  }
  stream_.wait();
}

void OneDnnConv::both() {
  if (op_ != Op::conv_bwd_weight) convert();
  compute();
  if (op_ == Op::conv_bwd_weight) convert();
}

}  // namespace kscout::bench
