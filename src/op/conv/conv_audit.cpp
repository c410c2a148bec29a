#include <fmt/format.h>

#include "op/audit.h"

namespace kscout {

std::vector<RunProperty> conv_run_properties() {
  std::vector<RunProperty> all = {
      {"(p.left_pad_d != p.right_pad_d or p.left_pad_h != p.right_pad_h or p.left_pad_w != p.right_pad_w)",
       "padding on the left and on the right differ"},
      {"p.c == p.g", "there is one input channel per group"},
      {"p.k == p.g", "there is one output channel per group"},
      {"p.g > 1", "there are groups"},
      {"p.z * p.y * p.x == 1", "the filter is 1x1"},
      {"p.z * p.y * p.x > 1", "the filter is larger than 1x1"},
      {"p.stride_d * p.stride_h * p.stride_w > 1", "there is a stride"},
      {"p.dilation_d * p.dilation_h * p.dilation_w > 1", "there is a dilation"},
      {"max(p.left_pad_h, p.left_pad_w) > 16", "the padding is above 16"},
      {"(p.left_pad_h >= p.y * p.dilation_h or p.left_pad_w >= p.x * p.dilation_w)",
       "the padding is as large as the filter"},
      {"p.z > 1", "the filter is deep"},
      {"p.n == 1", "there is one image"}};
  for (const int of : {2, 8}) {
    all.push_back({fmt::format("p.c / p.g % {} != 0", of),
                   fmt::format("input channels per group are no multiple of {}", of)});
    all.push_back({fmt::format("p.k / p.g % {} != 0", of),
                   fmt::format("output channels per group are no multiple of {}", of)});
  }
  return all;
}

std::string pytorch_of(const ConvProblem& p) {
  // PyTorch pads both ends alike.
  if (p.left_pad_d != p.right_pad_d || p.left_pad_h != p.right_pad_h || p.left_pad_w != p.right_pad_w)
    return {};
  const bool deep = p.layout == Layout::ndhwgc || p.layout == Layout::ngcdhw;
  const bool last = p.layout == Layout::nhwgc || p.layout == Layout::ndhwgc;
  const auto axes = [&](std::int64_t d, std::int64_t h, std::int64_t w) {
    return deep ? fmt::format("{}, {}, {}", d, h, w) : fmt::format("{}, {}", h, w);
  };
  const std::string format = !last  ? "torch.contiguous_format"
                             : deep ? "torch.channels_last_3d"
                                    : "torch.channels_last";
  const std::string name = fmt::format("conv{}d", deep ? 3 : 2);
  std::string text = fmt::format(
      "x = torch.randn({}, {}, {}, **on).to(memory_format={})\n"
      "w = torch.randn({}, {}, {}, **on).to(memory_format={})\n"
      "how = dict(stride=({}), padding=({}), dilation=({}), groups={})\n"
      "def conv(x, w): return torch.nn.functional.{}(x, w, **how)\n",
      p.n, p.c, axes(p.d, p.h, p.w), format, p.k, p.c / p.g, axes(p.z, p.y, p.x), format,
      axes(p.stride_d, p.stride_h, p.stride_w), axes(p.left_pad_d, p.left_pad_h, p.left_pad_w),
      axes(p.dilation_d, p.dilation_h, p.dilation_w), p.g, name);
  if (p.op == Op::conv_fwd)
    return text +
           "c, right = conv(x, w).double(), conv(x.double(), w.double())\n"
           "scale = conv(x.double().abs(), w.double().abs())\n";
  const char* const of = p.op == Op::conv_bwd_data ? "x" : "w";
  return text + fmt::format(
                    "g = torch.randn_like(conv(x, w))\n"
                    "def gradient(x, w, g): return torch.autograd.grad(conv(x.requires_grad_(), "
                    "w.requires_grad_()), {}, g)[0]\n"
                    "c, wide = gradient(x, w, g).double(), [t.detach().double() for t in (x, w, g)]\n"
                    "right, scale = gradient(*wide), gradient(*[t.detach().abs() for t in wide])\n",
                    of);
}

}  // namespace kscout
