#include "tensors.h"

#include <string>

#include <kscout/error.h>

namespace kscout::python {

namespace {

using Sizes = std::vector<std::int64_t>;

/// Channels as one dimension, or as groups and channels per group.
struct Channels {
  std::int64_t all, groups;

  void append_to(Sizes& sizes, bool apart) const {
    if (apart) sizes.push_back(groups);
    sizes.push_back(apart ? all / groups : all);
  }
};

Sizes image_shape(const ConvProblem& p, Channels channels, ConvOutput spatial, bool apart) {
  const bool channels_last = p.layout == Layout::nhwgc || p.layout == Layout::ndhwgc;
  Sizes sizes{p.n};
  if (!channels_last) channels.append_to(sizes, apart);
  if (spatial_rank(p.layout) == 3) sizes.push_back(spatial.d);
  sizes.insert(sizes.end(), {spatial.h, spatial.w});
  if (channels_last) channels.append_to(sizes, apart);
  return sizes;
}

Sizes shape_of(const ConvProblem& p, Tensor tensor, bool apart) {
  if (tensor == Tensor::input) return image_shape(p, {p.c, p.g}, {p.d, p.h, p.w}, apart);
  if (tensor == Tensor::output) return image_shape(p, {p.k, p.g}, output_sizes(p), apart);
  Sizes sizes;
  Channels{p.k, p.g}.append_to(sizes, apart);
  if (spatial_rank(p.layout) == 3) sizes.push_back(p.z);
  sizes.insert(sizes.end(), {p.y, p.x, p.c / p.g});
  return sizes;
}

const char* meaning(Tensor tensor, bool gradient) {
  switch (tensor) {
    case Tensor::input:
      return gradient ? "the input's gradient" : "the input";
    case Tensor::filter:
      return gradient ? "the filter's gradient" : "the filter";
    default:
      return gradient ? "the output's gradient" : "the output";
  }
}

/// Whether a tensor of a direction is a gradient: for the backward directions, the result and the gradient of
/// the output.
bool is_gradient(Op direction, Tensor tensor) {
  if (direction == Op::conv_fwd) return false;
  return tensor == Tensor::output || tensor == tensor_order(direction).c;
}

DType stated_type(const ConvProblem& p, Tensor tensor) {
  const DType type = tensor == Tensor::input    ? p.dtype_in
                     : tensor == Tensor::filter ? p.dtype_wei
                                                : p.dtype_out;
  return type == DType::tf32 ? DType::fp32 : type;
}

bool is_packed(const InputArray& array) {
  std::int64_t stride = 1;
  for (std::size_t i = array.ndim(); i-- > 0; stride *= static_cast<std::int64_t>(array.shape(i))) {
    if (array.shape(i) > 1 && array.stride(i) != stride) return false;
  }
  return true;
}

}  // namespace

OfOperands<Tensor> tensor_order(Op direction) noexcept {
  return by_operand(direction, Tensor::input, Tensor::filter, Tensor::output);
}

std::vector<std::int64_t> tensor_shape(const ConvProblem& problem, Tensor tensor) {
  return shape_of(problem, tensor, /*apart=*/false);
}

void check_tensor(const ConvProblem& problem, std::string_view name, Tensor tensor, const MemorySpace& where,
                  const InputArray& array) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Errc::invalid_argument, "array " + std::string(name) + ", " +
                                            meaning(tensor, is_gradient(problem.op, tensor)) + ", " + why);
  };
  if (space_of(name, array) != where) refuse("is in another memory than a");
  const DType type = element_type(name, array), stated = stated_type(problem, tensor);
  if (type != stated) {
    refuse("holds " + std::string(word(type)) + "; " + print(problem) + " takes " +
           std::string(word(stated)) + convert_to(stated));
  }
  Sizes sizes, strides;
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    sizes.push_back(static_cast<std::int64_t>(array.shape(i)));
    strides.push_back(array.stride(i));
  }
  const Sizes wanted = tensor_shape(problem, tensor), apart = shape_of(problem, tensor, /*apart=*/true);
  if (sizes != wanted && sizes != apart) {
    refuse("has shape " + sizes_text(sizes) + "; " + print(problem) + " takes " + sizes_text(wanted) +
           " or, with groups apart, " + sizes_text(apart) + ": dimensions stand in the order of memory");
  }
  if (!is_packed(array)) {
    refuse("has strides of " + sizes_text(strides) +
           " elements; it must be packed in the order of its dimensions: copy it "
           "first");
  }
}

std::string sizes_text(const Sizes& sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "(" : ", ") + std::to_string(size);
  return text.empty() ? "()" : text + ")";
}

const char* numpy_type(ProblemRef problem) {
  const DType type = signature_of(problem).dtype_c;
  switch (type) {
    case DType::fp64:
      return "float64";
    case DType::fp32:
    case DType::tf32:
      return "float32";
    case DType::fp16:
      return "float16";
    case DType::int32:
      return "int32";
    case DType::int8:
      return "int8";
    default:
      throw Error(Errc::invalid_argument, "NumPy has no type for the " + std::string(word(type)) +
                                              " results of " + print(problem) +
                                              "; give an array c of another package");
  }
}

ConvTensors conv_tensors(Op direction, const void* a, const void* b, void* c) noexcept {
  // Only the tensor that the direction computes is written.
  const auto [in, wei, out] = by_tensor(direction, const_cast<void*>(a), const_cast<void*>(b), c);
  return {.in = in, .wei = wei, .out = out};
}

}  // namespace kscout::python
