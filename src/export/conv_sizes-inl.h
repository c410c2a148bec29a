inline Signature signature_of(const Problem& p) {
  const bool data = p.op == Op::conv_bwd_data, weight = p.op == Op::conv_bwd_weight;
  return {data || weight ? p.dtype_out : p.dtype_in,
          weight ? p.dtype_in : p.dtype_wei,
          data     ? p.dtype_in
          : weight ? p.dtype_wei
                   : p.dtype_out,
          p.dtype_acc,
          p.layout,
          Epilogue::none,
          false};
}
// Whether a problem is of the direction that this header is for.
inline bool is_of_op(const Problem& p) { return p.op == Problem().op; }

// Elements of the output along one axis.
inline std::int64_t output_size(std::int64_t in, std::int64_t filter, std::int64_t stride,
                                std::int64_t dilation, std::int64_t left_pad, std::int64_t right_pad) {
  const std::int64_t padded = in + left_pad + right_pad, span = (filter - 1) * dilation + 1;
  return padded < span ? 0 : (padded - span) / stride + 1;
}
inline std::int64_t output_elements(const Problem& p) {
  return output_size(p.d, p.z, p.stride_d, p.dilation_d, p.left_pad_d, p.right_pad_d) *
         output_size(p.h, p.y, p.stride_h, p.dilation_h, p.left_pad_h, p.right_pad_h) *
         output_size(p.w, p.x, p.stride_w, p.dilation_w, p.left_pad_w, p.right_pad_w);
}

// Along one axis of conv_bwd_data: of all positions of the input that meet the same elements of the filter
// (positions that agree modulo the stride), those with the most products. Multiplies m by their number and k
// by the number of these elements.
inline void take_largest_meeting(std::int64_t in, std::int64_t filter, std::int64_t stride,
                                 std::int64_t dilation, std::int64_t left_pad, std::int64_t& m,
                                 std::int64_t& k) {
  std::int64_t divisor = stride, rest = dilation;
  while (rest != 0) {
    const std::int64_t next = divisor % rest;
    divisor = rest;
    rest = next;
  }
  const std::int64_t period = stride / divisor;
  std::int64_t places = 0, taps = 0;
  for (std::int64_t tap = 0; tap < (filter < period ? filter : period); ++tap) {
    const std::int64_t modulo = (tap * dilation - left_pad) % stride;
    const std::int64_t first = modulo < 0 ? modulo + stride : modulo;
    if (first >= in) continue;
    const std::int64_t places_here = (in - first - 1) / stride + 1,
                       taps_here = (filter - tap - 1) / period + 1;
    if (places_here * taps_here > places * taps) places = places_here, taps = taps_here;
  }
  m *= places;
  k *= taps;
}

// The product that computes a convolution, once per group; of conv_bwd_data with strides, the largest one.
inline Product product_of(const Problem& p) {
  if (p.op == Op::conv_bwd_data) {
    Product product = {p.n, p.c / p.g, p.k / p.g, p.g};
    take_largest_meeting(p.d, p.z, p.stride_d, p.dilation_d, p.left_pad_d, product.m, product.k);
    take_largest_meeting(p.h, p.y, p.stride_h, p.dilation_h, p.left_pad_h, product.m, product.k);
    take_largest_meeting(p.w, p.x, p.stride_w, p.dilation_w, p.left_pad_w, product.m, product.k);
    return product;
  }
  const std::int64_t filter = p.z * p.y * p.x, outputs = output_elements(p);
  if (p.op == Op::conv_bwd_weight) return {p.k / p.g, p.c / p.g * filter, p.n * outputs, p.g};
  return {p.n * outputs, p.k / p.g, p.c / p.g * filter, p.g};
}

inline double flop_count(const Problem& p) {
  return 2.0 * static_cast<double>(p.n) * static_cast<double>(p.k) * static_cast<double>(output_elements(p)) *
         static_cast<double>(p.c / p.g) * static_cast<double>(p.z * p.y * p.x);
}
inline double min_bytes(const Problem& p) {
  const auto bytes = [](std::int64_t elements, DType type) {
    return static_cast<double>(elements) * element_bytes[static_cast<int>(type)];
  };
  return bytes(p.n * p.c * (p.d * p.h * p.w), p.dtype_in) +
         bytes(p.k * (p.c / p.g) * (p.z * p.y * p.x), p.dtype_wei) +
         bytes(p.n * p.k * output_elements(p), p.dtype_out);
}
