// Reads the lines of ONEDNN_VERBOSE that tell of an executed matmul or convolution:
//
//     onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core,undef,
//         src:f32::blocked:ab::f0 wei:f32::blocked:ba::f0 dst:f32::blocked:ab::f0,ATTRIBUTES,,32x48:48x96,0.03
//     ...,convolution,...,forward_training,src:... wei:... bia:... dst:...,ATTRIBUTES,alg:convolution_direct,
//         g8mb2_ic8oc8_ih14oh14kh5sh1dh0ph2_iw10ow10kw5sw1dw0pw2,0.009
//
// Older releases lack "v1" and "primitive" and write src_f32 for src:f32. Tags name the axes of a tensor from
// the outermost to the innermost: ab is row-major, ba column-major; a letter in upper case is blocked, in a
// format of the library.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/fail.h"
#include "core/numbers.h"
#include "core/problem_text.h"
#include "logs/log_formats.h"
#include "op/gemm/strided_gemm.h"

namespace kscout {

namespace {

struct OnednnType {
  std::string_view name;
  DType dtype;
};
constexpr OnednnType kOnednnTypes[] = {
    {"f32", DType::fp32}, {"f64", DType::fp64},    {"f16", DType::fp16},    {"bf16", DType::bf16},
    {"s8", DType::int8},  {"f8_e4m3", DType::fp8}, {"f8_e5m2", DType::bf8}, {"s32", DType::int32},
};

struct OnednnDirection {
  std::string_view word;
  Op op;
};
constexpr OnednnDirection kOnednnDirections[] = {{"forward_training", Op::conv_fwd},
                                                 {"forward_inference", Op::conv_fwd},
                                                 {"backward_data", Op::conv_bwd_data},
                                                 {"backward_weights", Op::conv_bwd_weight}};

/// A memory descriptor: NAME:TYPE:PROPERTIES:KIND:TAG:STRIDES:FLAGS, before release 3.5 NAME_TYPE:...
struct OnednnMemory {
  std::string_view type, tag;
  std::vector<std::int64_t> strides;  ///< empty: dense

  bool is_plain() const {
    return !tag.empty() && std::ranges::all_of(tag, [](char c) { return c >= 'a' && c <= 'l'; });
  }
};

std::optional<OnednnMemory> memory_of(std::string_view descriptors, std::string_view name) {
  for (const std::string_view one : parts_in(descriptors, " ")) {
    if (!one.starts_with(name) || one.size() <= name.size()) continue;
    if (one[name.size()] != ':' && one[name.size()] != '_') continue;
    const auto parts = split(one.substr(name.size() + 1), ':');
    if (parts[0] == "undef" || parts.size() < 4) return std::nullopt;
    OnednnMemory memory{parts[0], parts[3], {}};
    if (parts.size() > 4 && parts[4].find('x') != std::string_view::npos)
      memory.strides = read_sizes(parts[4], one);
    return memory;
  }
  return std::nullopt;
}

OnednnMemory needed_memory(std::string_view descriptors, std::string_view name) {
  auto memory = memory_of(descriptors, name);
  if (!memory) throw NotRead{fmt::format("without a descriptor of {}", name)};
  return *std::move(memory);
}

DType dtype_of(const OnednnMemory& memory) {
  const auto* const known = std::ranges::find(kOnednnTypes, memory.type, &OnednnType::name);
  if (known == std::end(kOnednnTypes)) throw NotRead{fmt::format("of type {}", memory.type)};
  return known->dtype;
}

/// What follows `name` among the attributes, such as "eltwise_relu+sum" after "attr-post-ops:".
std::string_view attribute(std::string_view attributes, std::string_view name) {
  for (const std::string_view one : parts_in(attributes, " ")) {
    if (one.starts_with(name)) return one.substr(name.size());
  }
  return {};
}

/// The cells of a line from "exec" on.
struct OnednnCall {
  std::string_view primitive, direction, memory, attributes, problem;
};

// ---- Products

/// The last two axes of a tensor as a matrix; the axes before them are a batch.
struct OnednnMatrix {
  StridedMatrix matrix;
  std::int64_t batch = 1;
};

OnednnMatrix matrix_of(const OnednnMemory& memory, const std::vector<std::int64_t>& sizes) {
  const std::size_t axes = sizes.size();
  OnednnMatrix one;
  for (std::size_t axis = 0; axis + 2 < axes; ++axis)
    if (__builtin_mul_overflow(one.batch, sizes[axis], &one.batch)) throw NotRead{"whose batch is too large"};
  one.matrix = StridedMatrix::row_major(sizes[axes - 2], sizes[axes - 1]);
  // The application's storage of what the library has packed is not known.
  if (!memory.is_plain()) return one;
  std::string rows_last;
  for (std::size_t axis = 0; axis < axes; ++axis) rows_last += static_cast<char>('a' + axis);
  const bool is_row_major = memory.tag == rows_last;
  std::swap(rows_last[axes - 2], rows_last[axes - 1]);
  if (!is_row_major && memory.tag != rows_last)
    throw NotRead{fmt::format("of matrices in order {}", memory.tag)};
  if (!is_row_major) one.matrix = StridedMatrix::row_major(one.matrix.columns, one.matrix.rows).transposed();
  if (memory.strides.size() == axes)
    one.matrix.row_stride = memory.strides[axes - 2], one.matrix.column_stride = memory.strides[axes - 1];
  return one;
}

void set_epilogue(GemmProblem& p, std::string_view post_ops, bool bias) {
  bool relu = false, gelu = false;
  for (std::string_view op : parts_in(post_ops, "+;'")) {
    if (op == "sum" && !relu && !gelu) {
      p.accumulate = true;
    } else if (op == "eltwise_relu" && !relu && !gelu) {
      relu = true;
    } else if ((op == "eltwise_gelu_tanh" || op == "eltwise_gelu_erf") && !relu && !gelu) {
      gelu = true;
    } else {
      throw NotRead{fmt::format("with post-op {}", op)};
    }
  }
  p.epilogue = relu   ? (bias ? Epilogue::bias_relu : Epilogue::relu)
               : gelu ? (bias ? Epilogue::bias_gelu : Epilogue::gelu)
               : bias ? Epilogue::bias
                      : Epilogue::none;
}

GemmProblem matmul_of(const OnednnCall& call) {
  const OnednnMemory src = needed_memory(call.memory, "src"), wei = needed_memory(call.memory, "wei"),
                     dst = needed_memory(call.memory, "dst");
  const auto operands = split(call.problem, ':');
  if (operands.size() < 2) throw NotRead{"without sizes"};
  const auto sizes_a = read_sizes(operands[0], call.problem), sizes_b = read_sizes(operands[1], call.problem);
  if (sizes_a.size() < 2 || sizes_a.size() > 12 || sizes_b.size() != sizes_a.size())
    throw NotRead{"without sizes"};
  OnednnMatrix a = matrix_of(src, sizes_a), b = matrix_of(wei, sizes_b);
  GemmProblem p = make_gemm(0, 0, 0, dtype_of(src));
  p.dtype_b = dtype_of(wei);
  p.dtype_c = dtype_of(dst);
  const std::string_view fpmath = attribute(call.attributes, "attr-fpmath:");
  if (fpmath.starts_with("tf32") && p.dtype_a == DType::fp32) {
    p.dtype_a = p.dtype_b = p.dtype_c = DType::tf32;
  } else if (!fpmath.empty() && !fpmath.starts_with("strict")) {
    throw NotRead{fmt::format("with fpmath {}", fpmath)};
  }
  set_epilogue(p, attribute(call.attributes, "attr-post-ops:"), memory_of(call.memory, "bia").has_value());
  if (a.batch != b.batch) {
    // One B for all items whose rows follow each other: one larger product.
    const bool follow =
        a.matrix.column_stride == 1 && a.matrix.row_stride == a.matrix.columns && src.strides.empty();
    if (b.batch != 1 || !follow) throw NotRead{"of batches whose items share an operand"};
    if (__builtin_mul_overflow(a.matrix.rows, a.batch, &a.matrix.rows))
      throw NotRead{"whose batch is too large"};
    a.batch = 1;
  }
  p.batch = a.batch;
  auto sizes_c = sizes_a;
  sizes_c.back() = sizes_b.back();
  const OnednnMatrix c = matrix_of(dst, sizes_c);
  if (c.matrix.row_stride == 1 && c.matrix.column_stride != 1) {
    // A column-major C: its transpose is row-major.
    if (has_bias(p.epilogue)) throw NotRead{"with a bias for each row"};
    std::swap(p.dtype_a, p.dtype_b);
    set_matrices(p, b.matrix.transposed(), a.matrix.transposed(), c.matrix.column_stride);
  } else {
    set_matrices(p, a.matrix, b.matrix, c.matrix.row_stride);
  }
  return p;
}

// ---- Convolutions

/// The numbers of "g8mb2_ic8oc8_ih14oh14kh5sh1dh0ph2_iw10..." by their letters.
std::map<std::string, std::int64_t, std::less<>> letters_of(std::string_view text) {
  std::map<std::string, std::int64_t, std::less<>> numbers;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t digits = std::min(text.find_first_of("0123456789", at), text.size());
    const std::size_t end = std::min(text.find_first_not_of("0123456789", digits), text.size());
    std::string name(text.substr(at, digits - at));
    std::erase(name, '_');
    const auto number = number_in<std::int64_t>(text.substr(digits, end - digits));
    if (name.empty() || !number) throw NotRead{"without sizes"};
    numbers.emplace(std::move(name), *number);
    at = end;
  }
  return numbers;
}

/// The zeros behind an axis, which only the output's size tells: those before it, where they fit.
std::int64_t right_pad(std::int64_t in, std::int64_t out, std::int64_t filter, std::int64_t stride,
                       std::int64_t dilation, std::int64_t left) {
  constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;
  for (const std::int64_t size : {in, out, filter, stride, dilation, left + 1})
    if (size < 1 || size > kMaxSize) throw NotRead{"without sizes"};
  const std::int64_t extent = in - ((filter - 1) * dilation + 1) + left;
  if (extent + left >= 0 && (extent + left) / stride + 1 == out) return left;
  const std::int64_t right = (out - 1) * stride - extent;
  if (right < 0 && extent / stride + 1 != out) throw NotRead{"that crop the image"};
  return std::max<std::int64_t>(right, 0);
}

Layout conv_layout(const OnednnCall& call, bool three) {
  // An image in a format of the library does not show how the application stores it; the other one may.
  for (const std::string_view name : {"src", "dst"}) {
    const OnednnMemory image = needed_memory(call.memory, name);
    if (!image.is_plain()) continue;
    const bool last = image.tag.ends_with('b');
    return three ? (last ? Layout::ndhwgc : Layout::ngcdhw) : (last ? Layout::nhwgc : Layout::ngchw);
  }
  return three ? Layout::ndhwgc : Layout::nhwgc;
}

ConvProblem convolution_of(const OnednnCall& call) {
  const auto* const direction = std::ranges::find(kOnednnDirections, call.direction, &OnednnDirection::word);
  if (direction == std::end(kOnednnDirections)) throw NotRead{fmt::format("of direction {}", call.direction)};
  const auto numbers = letters_of(call.problem);
  const auto number = [&](std::string_view name, std::int64_t otherwise) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? otherwise : found->second;
  };
  const bool three = numbers.contains("id");
  const DType type = dtype_of(needed_memory(call.memory, "src"));
  ConvProblem p = make_conv(direction->op, type, conv_layout(call, three));
  p.dtype_wei = dtype_of(needed_memory(call.memory, "wei"));
  p.dtype_out = dtype_of(needed_memory(call.memory, "dst"));
  p.n = number("mb", 0);
  p.g = number("g", 1);
  p.c = number("ic", 0);
  p.k = number("oc", 0);
  const auto axis = [&](char letter, std::int64_t& in, std::int64_t& filter, std::int64_t& stride,
                        std::int64_t& dilation, std::int64_t& left, std::int64_t& right) {
    const auto of = [&](char what, std::int64_t otherwise) {
      return number(std::string{what, letter}, otherwise);
    };
    in = of('i', 1), filter = of('k', 1), stride = of('s', 1), left = of('p', 0);
    dilation = of('d', 0) + 1;  // the library counts the elements between
    right = right_pad(in, of('o', 1), filter, stride, dilation, left);
  };
  if (three) axis('d', p.d, p.z, p.stride_d, p.dilation_d, p.left_pad_d, p.right_pad_d);
  axis('h', p.h, p.y, p.stride_h, p.dilation_h, p.left_pad_h, p.right_pad_h);
  axis('w', p.w, p.x, p.stride_w, p.dilation_w, p.left_pad_w, p.right_pad_w);
  check(p);
  return p;
}

class OnednnLogReader : public LineReader {
 public:
  std::string_view format() const override { return "oneDNN's verbose lines"; }
  bool take(const LogLine& whole, CallLog& log) override {
    const std::string_view line = whole.text;
    constexpr std::array<std::string_view, 2> kMarks{"onednn_verbose,", "dnnl_verbose,"};
    std::size_t begin = std::string_view::npos;
    for (const std::string_view mark : kMarks) begin = std::min(begin, line.find(mark));
    if (begin == std::string_view::npos) return false;
    const auto cells = split(line.substr(begin), ',');
    const auto exec = std::ranges::find(cells, "exec");
    if (exec == cells.end() || *(exec - 1) == "graph") return true;
    const std::vector<std::string_view> rest(exec, cells.end());
    if (rest.size() < 3) return true;
    const std::string_view primitive = rest[2];
    constexpr std::array<std::string_view, 4> kOther{"inner_product", "deconvolution", "rnn", "sdpa"};
    if (std::ranges::find(kOther, primitive) != kOther.end())
      throw NotRead{fmt::format("of primitive {}", primitive)};
    if (primitive != "matmul" && primitive != "convolution") return true;
    constexpr std::size_t kTime = 9;  // the last cell, behind the sizes
    require_end(rest.size() > kTime);
    const OnednnCall call{primitive, rest[4], rest[5], rest[6], rest[8]};
    if (primitive == "matmul") {
      log.add(matmul_of(call));
    } else {
      log.add(convolution_of(call));
    }
    return true;
  }
};

}  // namespace

std::unique_ptr<LineReader> onednn_log_reader() { return std::make_unique<OnednnLogReader>(); }

}  // namespace kscout
