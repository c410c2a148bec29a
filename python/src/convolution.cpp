#include "convolution.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include <nanobind/stl/vector.h>

#include <kscout/error.h>

namespace nb = nanobind;

namespace kscout::python {

namespace {

using Shape = Sizes;

[[noreturn]] void refuse_argument(const std::string& why) { throw Error(Errc::invalid_argument, why); }
[[noreturn]] void refuse_array(const NamedArray& named, const std::string& why) {
  refuse_argument(std::string("array ") + named.name + " " + why);
}

/// A tensor of a convolution, or its gradient.
enum class Part : std::uint8_t { input, filter, output };

/// The tensors that a direction reads, and the one that it computes.
OfOperands<Part> part_order(Op direction) noexcept {
  return by_operand(direction, Part::input, Part::filter, Part::output);
}

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

/// Sizes of a tensor's array, in memory order: nhwgc (n, h, w, c), ngchw (n, c, h, w), with d before h in
/// 3-D; the filter (k, y, x, c/g), with z before y. The channels are those of all groups together, or with
/// groups apart.
Sizes part_shape(const ConvProblem& p, Part part, bool apart) {
  if (part == Part::input) return image_shape(p, {p.c, p.g}, {p.d, p.h, p.w}, apart);
  if (part == Part::output) return image_shape(p, {p.k, p.g}, output_sizes(p), apart);
  Sizes sizes;
  Channels{p.k, p.g}.append_to(sizes, apart);
  if (spatial_rank(p.layout) == 3) sizes.push_back(p.z);
  sizes.insert(sizes.end(), {p.y, p.x, p.c / p.g});
  return sizes;
}

const char* meaning(Part part, bool gradient) {
  switch (part) {
    case Part::input:
      return gradient ? "the input's gradient" : "the input";
    case Part::filter:
      return gradient ? "the filter's gradient" : "the filter";
    default:
      return gradient ? "the output's gradient" : "the output";
  }
}

/// Whether a tensor of a direction is a gradient: for the backward directions, the result and the gradient of
/// the output.
bool is_gradient(Op direction, Part part) {
  if (direction == Op::conv_fwd) return false;
  return part == Part::output || part == part_order(direction).c;
}

DType stated_type(const ConvProblem& p, Part part) {
  const DType type = part == Part::input ? p.dtype_in : part == Part::filter ? p.dtype_wei : p.dtype_out;
  return type == DType::tf32 ? DType::fp32 : type;
}

/// Throws invalid_argument, naming the array, unless it is in this memory and matches the problem: type,
/// sizes (groups may be a separate dimension), packed in the order of its dimensions.
void check_tensor(const ConvProblem& problem, std::string_view name, Part part, const MemorySpace& where,
                  const InputArray& array) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Errc::invalid_argument, "array " + std::string(name) + ", " +
                                            meaning(part, is_gradient(problem.op, part)) + ", " + why);
  };
  if (space_of(name, array) != where) refuse("is in another memory than a");
  const DType type = element_type(name, array), stated = stated_type(problem, part);
  if (type != stated) {
    refuse("holds " + std::string(word(type)) + "; " + print(problem) + " takes " +
           std::string(word(stated)) + convert_to(stated));
  }
  const Sizes sizes = shape_of(array);
  const Sizes wanted = part_shape(problem, part, /*apart=*/false),
              apart = part_shape(problem, part, /*apart=*/true);
  if (sizes != wanted && sizes != apart) {
    refuse("has shape " + sizes_text(sizes) + "; " + print(problem) + " takes " + sizes_text(wanted) +
           " or, with groups apart, " + sizes_text(apart) + ": dimensions stand in the order of memory");
  }
  if (!is_packed(array)) {
    refuse("has strides of " + sizes_text(strides_of(array)) +
           " elements; it must be packed in the order of its dimensions: copy it "
           "first");
  }
}

void check_bias(const ConvProblem& problem, const NamedArray& bias);

Buffers tensor_buffers(const Problem& of, const ArrayCall& call, const OutputArray& c) {
  const ConvProblem problem = of.conv();
  const auto bias = call.further.find("bias");
  const bool biased = bias != call.further.end();
  if (call.alpha != 1 || call.beta != 0 || call.further.size() > std::size_t{biased})
    refuse_argument("alpha and beta are for GEMMs; leave them out of " + print(of));
  if (biased != has_bias(problem.epilogue)) {
    refuse_argument(print(of) + (biased ? ": a bias is given, but the epilogue is none; set epilogue=bias"
                                        : ": give the bias"));
  }
  const InputArray& second = call.second(of);
  const MemorySpace where = space_of("a", call.a);
  const OfOperands<Part> order = part_order(problem.op);
  check_tensor(problem, "a", order.a, where, call.a);
  check_tensor(problem, "b", order.b, where, second);
  check_tensor(problem, "c", order.c, where, InputArray(c));
  Buffers buffers{.space = where};
  buffers.operand = {call.a.data(), second.data(), c.data()};
  if (biased) {
    const NamedArray named{"bias", &bias->second};
    check_bias(problem, named);
    if (space_of("bias", bias->second) != where) refuse_array(named, "is in another memory than a");
    buffers.operand[3] = bias->second.data();
  }
  return buffers;
}

Sizes tensor_result(const Problem& of) {
  const ConvProblem problem = of.conv();
  return part_shape(problem, part_order(problem.op).c, /*apart=*/false);
}

/// The dimensions from the slowest to the fastest in memory, with the channels last or first.
std::vector<std::size_t> memory_order(int axes, bool channels_last) {
  std::vector<std::size_t> order(static_cast<std::size_t>(axes) + 2);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (channels_last) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

/// Whether the elements lie in this order without gaps. The stride of a dimension of one element means
/// nothing.
bool is_packed(const InputArray& array, const std::vector<std::size_t>& order) {
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0; stride *= static_cast<std::int64_t>(array.shape(order[i]))) {
    if (array.shape(order[i]) > 1 && array.stride(order[i]) != stride) return false;
  }
  return true;
}

/// The convolution's arrays.
struct Arrays {
  Op direction;
  int axes;
  OfTensors<NamedArray> given;  ///< null: not read
  NamedArray out;               ///< null: a new one
  NamedArray bias = {};         ///< null: none

  std::string name() const {
    const char* const part = direction == Op::conv_bwd_data     ? "_input"
                             : direction == Op::conv_bwd_weight ? "_weight"
                                                                : "";
    return "conv" + std::to_string(axes) + "d" + part;
  }
  bool writes_image() const { return direction != Op::conv_bwd_weight; }
  /// The image that is read, or the first of two.
  const NamedArray& first_image() const { return given.in.array ? given.in : given.out; }
  std::vector<NamedArray> all() const {
    std::vector<NamedArray> arrays;
    for (const NamedArray& one : {given.in, given.wei, given.out, out}) {
      if (one.array) arrays.push_back(one);
    }
    return arrays;
  }
  std::vector<NamedArray> images() const {
    std::vector<NamedArray> arrays;
    for (const NamedArray& one : {given.in, given.out, writes_image() ? out : NamedArray{}}) {
      if (one.array) arrays.push_back(one);
    }
    return arrays;
  }
};

void check_dimensions(const Arrays& arrays) {
  const std::string wanted = std::to_string(arrays.axes + 2);
  for (const NamedArray& one : arrays.all()) {
    if (std::to_string(one.array->ndim()) == wanted) continue;
    refuse_array(one, "has shape " + sizes_text(shape_of(*one.array)) + "; " + arrays.name() + " takes " +
                          wanted + " dimensions: batch and channels first");
  }
}

constexpr const char* kPack = ": copy it first, with x.contiguous() in PyTorch or numpy.ascontiguousarray(x)";
constexpr const char* kChannelsLast =
    "w.movedim(1, -1).contiguous().movedim(-1, 1) in PyTorch (memory_format=torch.channels_last), or the "
    "same with numpy.moveaxis and numpy.ascontiguousarray";

/// Whether the images of the convolution have their channels last; throws when no layout fits all of them.
bool has_channels_last(const Arrays& arrays) {
  const auto last = memory_order(arrays.axes, true), first = memory_order(arrays.axes, false);
  bool all_last = true, all_first = true;
  for (const NamedArray& one : arrays.images()) {
    const bool is_last = is_packed(*one.array, last), is_first = is_packed(*one.array, first);
    if (!is_last && !is_first) {
      refuse_array(one, "has shape " + sizes_text(shape_of(*one.array)) + " and strides of " +
                            sizes_text(strides_of(*one.array)) +
                            " elements, neither packed with channels first nor with channels last" + kPack);
    }
    all_last = all_last && is_last;
    all_first = all_first && is_first;
    if (all_last || all_first) continue;
    refuse_array(one, std::string("has channels ") + (is_last ? "last" : "first") + " in memory, array " +
                          arrays.first_image().name + (is_last ? " first" : " last") +
                          "; copy one of them to the other's order (channels last: " + kChannelsLast + ")");
  }
  return all_last;
}

void check_filter_order(const Arrays& arrays) {
  const NamedArray filter = arrays.writes_image() ? arrays.given.wei : arrays.out;
  if (!filter.array || is_packed(*filter.array, memory_order(arrays.axes, true))) return;
  refuse_array(filter, "has shape " + sizes_text(shape_of(*filter.array)) + " and strides of " +
                           sizes_text(strides_of(*filter.array)) +
                           " elements; kernels take filters with channels last in memory: pass "
                           "copy_filter=True to copy it in each call, or copy it once, " +
                           kChannelsLast);
}

Shape per_axis(const char* name, const PerAxis& value, int axes) {
  if (const auto* one = std::get_if<std::int64_t>(&value)) return Shape(static_cast<std::size_t>(axes), *one);
  const auto& all = std::get<Shape>(value);
  if (all.size() == static_cast<std::size_t>(axes)) return all;
  refuse_argument(std::string(name) + ": " + std::to_string(all.size()) +
                  " numbers; give one, or one per axis (" + std::to_string(axes) + ")");
}

/// Pointers to the fields of each spatial axis: d, h, w.
struct Axis {
  std::int64_t *image, *filter, *stride, *dilation, *left, *right;
};
std::array<Axis, 3> axes_of(ConvProblem& p) {
  return {{{&p.d, &p.z, &p.stride_d, &p.dilation_d, &p.left_pad_d, &p.right_pad_d},
           {&p.h, &p.y, &p.stride_h, &p.dilation_h, &p.left_pad_h, &p.right_pad_h},
           {&p.w, &p.x, &p.stride_w, &p.dilation_w, &p.left_pad_w, &p.right_pad_w}}};
}

/// The zeros before and after one axis.
std::pair<std::int64_t, std::int64_t> uneven_padding(const std::vector<Shape>& pairs, int axes,
                                                     std::size_t position) {
  if (pairs.size() == static_cast<std::size_t>(axes) && pairs[position].size() == 2)
    return {pairs[position][0], pairs[position][1]};
  std::string given;
  for (const Shape& one : pairs) given += (given.empty() ? "" : ", ") + sizes_text(one);
  refuse_argument("padding: (" + given + "); give one pair (before, after) per axis (" +
                  std::to_string(axes) + ")");
}

void set_padding(const Arrays& arrays, const FilterSteps& steps, const Axis& axis, std::size_t position) {
  if (const auto* const pairs = std::get_if<std::vector<Shape>>(&steps.padding)) {
    std::tie(*axis.left, *axis.right) = uneven_padding(*pairs, arrays.axes, position);
    return;
  }
  const auto* const word = std::get_if<std::string>(&steps.padding);
  if (!word) {
    const PerAxis pads = std::holds_alternative<Shape>(steps.padding)
                             ? PerAxis(std::get<Shape>(steps.padding))
                             : PerAxis(std::get<std::int64_t>(steps.padding));
    *axis.left = *axis.right = per_axis("padding", pads, arrays.axes)[position];
    return;
  }
  if (*word != "same" && *word != "valid") {
    refuse_argument(
        "padding='" + *word +
        "'; give 'same', 'valid', a number, a number per axis, or a pair (before, after) per axis");
  }
  if (*word == "valid") return;
  if (*axis.stride != 1) refuse_argument("padding='same' needs a stride of 1; give numbers");
  const std::int64_t zeros = *axis.dilation * (*axis.filter - 1);
  *axis.left = zeros / 2;
  *axis.right = zeros - zeros / 2;
}

/// Throws unless an array that is read or written has this shape.
void check_shape(const ConvProblem& problem, const NamedArray& named, const Shape& wanted) {
  if (!named.array || shape_of(*named.array) == wanted) return;
  refuse_array(named, "has shape " + sizes_text(shape_of(*named.array)) + "; " + print(problem) + " takes " +
                          sizes_text(wanted));
}

/// Throws unless the bias, if any, has a number of the output's type for each output channel.
void check_bias(const ConvProblem& problem, const NamedArray& bias) {
  if (!bias.array) return;
  check_shape(problem, bias, {problem.k});
  if (!is_packed(*bias.array, {0})) refuse_array(bias, std::string("is not packed") + kPack);
  if (element_type(bias.name, *bias.array) != problem.dtype_out) {
    refuse_array(bias, "holds " + std::string(word(element_type(bias.name, *bias.array))) + "; " +
                           print(problem) + " takes " + std::string(word(problem.dtype_out)) +
                           convert_to(problem.dtype_out));
  }
}

/// (n, channels, sizes of the last `axes` of d, h, w).
Shape logical_shape(std::int64_t first, std::int64_t second, const std::array<std::int64_t, 3>& sizes,
                    int axes) {
  Shape shape{first, second};
  shape.insert(shape.end(), sizes.end() - axes, sizes.end());
  return shape;
}

DType checked_type(const Arrays& arrays) {
  const NamedArray& first = arrays.first_image();
  const DType dtype = element_type(first.name, *first.array);
  for (const NamedArray& one : {arrays.given.wei, arrays.given.out}) {
    if (!one.array || element_type(one.name, *one.array) == dtype) continue;
    const DType other = element_type(one.name, *one.array);
    refuse_array(one, "holds " + std::string(word(other)) + ", array " + first.name + " " +
                          std::string(word(dtype)) + convert_to(dtype == DType::fp64 ? other : dtype));
  }
  return dtype;
}

/// The sizes of the problem, from two arrays and the shape of the third.
ConvProblem problem_of(const Arrays& arrays, const Shape& result_shape, const FilterSteps& steps) {
  const bool last = has_channels_last(arrays), three = arrays.axes == 3;
  ConvProblem p =
      make_conv(arrays.direction, checked_type(arrays),
                last ? (three ? Layout::ndhwgc : Layout::nhwgc) : (three ? Layout::ngcdhw : Layout::ngchw));
  const auto shape = [&](const NamedArray& named) {
    return named.array ? shape_of(*named.array) : result_shape;
  };
  const Shape image = shape(arrays.given.in), filter = shape(arrays.given.wei);
  const auto dimensions = static_cast<std::size_t>(arrays.axes) + 2;
  if (image.size() != dimensions || filter.size() != dimensions) {
    refuse_argument((arrays.direction == Op::conv_bwd_data ? "input_size " : "weight_size ") +
                    sizes_text(result_shape) + ": " + arrays.name() + " takes " + std::to_string(dimensions) +
                    " sizes: batch and channels first");
  }
  p.n = image[0];
  p.c = image[1];
  p.k = filter[0];
  p.g = steps.groups;
  const Shape stride = per_axis("stride", steps.stride, arrays.axes);
  const Shape dilation = per_axis("dilation", steps.dilation, arrays.axes);
  const auto all = axes_of(p);
  for (std::size_t i = 0; i < stride.size(); ++i) {
    const Axis& axis = all[all.size() - stride.size() + i];
    *axis.image = image[i + 2];
    *axis.filter = filter[i + 2];
    *axis.stride = stride[i];
    *axis.dilation = dilation[i];
    set_padding(arrays, steps, axis, i);
  }
  if (arrays.bias.array) p.epilogue = Epilogue::bias;
  if (p.g < 1 || filter[1] * p.g != p.c) {
    refuse_argument("a filter of shape " + sizes_text(filter) + " and groups=" + std::to_string(p.g) +
                    " do not fit an image of shape " + sizes_text(image) + ": its channels are " +
                    "groups times the filter's second size");
  }
  check(p);
  return p;
}

nb::object new_array(const Shape& shape, const std::vector<std::size_t>& order, const char* dtype) {
  Shape stored, back(shape.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    stored.push_back(shape[order[i]]);
    back[order[i]] = static_cast<std::int64_t>(i);
  }
  const nb::object array = nb::module_::import_("numpy").attr("empty")(nb::tuple(nb::cast(stored)), dtype);
  return array.attr("transpose")(nb::tuple(nb::cast(back)));
}

}  // namespace

const ArrayOperands& conv_operands() noexcept {
  static constexpr ArrayOperands kTensors{tensor_buffers, tensor_result};
  return kTensors;
}

FilterCopy::FilterCopy(void* array, Shape shape, Shape strides, std::size_t bytes)
    : array_(static_cast<std::byte*>(array)),
      shape_(std::move(shape)),
      strides_(std::move(strides)),
      bytes_(bytes) {
  std::size_t elements = 1;
  for (const std::int64_t size : shape_) elements *= static_cast<std::size_t>(size);
  copy_.resize(elements * bytes_);
}

template <class Use>
void FilterCopy::for_each_element(Use&& use) const {
  const auto order = memory_order(static_cast<int>(shape_.size()) - 2, true);
  Shape index(shape_.size(), 0);
  for (std::size_t at = 0; at < copy_.size(); at += bytes_) {
    std::int64_t element = 0;
    for (std::size_t i = 0; i < index.size(); ++i) element += index[i] * strides_[i];
    use(array_ + element * static_cast<std::int64_t>(bytes_), at);
    for (std::size_t i = order.size(); i-- > 0 && ++index[order[i]] == shape_[order[i]];) index[order[i]] = 0;
  }
}

void FilterCopy::read() {
  for_each_element(
      [&](const std::byte* element, std::size_t at) { std::copy_n(element, bytes_, copy_.data() + at); });
}

void FilterCopy::write() const {
  for_each_element(
      [&](std::byte* element, std::size_t at) { std::copy_n(copy_.data() + at, bytes_, element); });
}

ArrayConvolution convolution_of(Op direction, int axes, const OfTensors<NamedArray>& given,
                                Shape result_shape, const FilterSteps& steps, const nb::object& out,
                                bool computes) {
  std::optional<OutputArray> written;
  std::optional<InputArray> readable;
  Arrays arrays{direction, axes, given, {}, {"bias", steps.bias}};
  if (!out.is_none()) {
    written = writable("out", out);
    readable.emplace(*written);
    arrays.out = {"out", &*readable};
  }
  check_dimensions(arrays);
  const ConvProblem p = problem_of(arrays, result_shape, steps);
  if (!steps.copy_filter) check_filter_order(arrays);

  const ConvOutput sizes = output_sizes(p);
  const OfTensors<Shape> shapes{logical_shape(p.n, p.c, {p.d, p.h, p.w}, axes),
                                logical_shape(p.k, p.c / p.g, {p.z, p.y, p.x}, axes),
                                logical_shape(p.n, p.k, {sizes.d, sizes.h, sizes.w}, axes)};
  check_shape(p, given.out, shapes.out);
  check_bias(p, arrays.bias);
  const Shape& result = by_operand(direction, shapes.in, shapes.wei, shapes.out).c;
  check_shape(p, arrays.out, result);

  const MemorySpace space = space_of(arrays.first_image().name, *arrays.first_image().array);
  std::vector<NamedArray> all = arrays.all();
  if (arrays.bias.array) all.push_back(arrays.bias);
  for (const NamedArray& one : all) {
    if (space_of(one.name, *one.array) != space)
      refuse_array(one, std::string("is in another memory than ") + arrays.first_image().name);
  }
  const DType stored = signature_of(p).dtype_c;
  if (arrays.out.array && element_type("out", *arrays.out.array) != stored)
    refuse_array(arrays.out, "takes " + std::string(word(stored)) + " results of " + print(p));
  nb::object made = out;
  if (out.is_none() && computes) {
    if (space.kind != MemoryKind::host)
      refuse_array(arrays.first_image(), "is in a GPU's memory: give the array for the result as out");
    const bool last =
        arrays.writes_image() ? p.layout == Layout::nhwgc || p.layout == Layout::ndhwgc : !steps.copy_filter;
    made = new_array(result, memory_order(axes, last), numpy_type(p));
    written = writable("out", made);
    readable.emplace(*written);
    arrays.out = {"out", &*readable};
  }
  const auto pointer = [&](const NamedArray& one) {
    return one.array ? const_cast<void*>(one.array->data()) : written ? written->data() : nullptr;
  };
  ArrayConvolution of{p,
                      {pointer(given.in), pointer(given.wei), pointer(given.out), space,
                       arrays.bias.array ? arrays.bias.array->data() : nullptr},
                      made};
  const NamedArray filter = arrays.writes_image() ? given.wei : arrays.out;
  if (!steps.copy_filter || !filter.array || is_packed(*filter.array, memory_order(axes, true))) return of;
  if (space.kind != MemoryKind::host)
    refuse_array(filter, std::string("is in a GPU's memory, and copy_filter copies in the host's: copy it "
                                     "first, ") +
                             kChannelsLast);
  of.filter = std::make_shared<FilterCopy>(of.tensors.wei, shapes.wei, strides_of(*filter.array),
                                           static_cast<std::size_t>(filter.array->itemsize()));
  if (arrays.writes_image()) of.filter->read();
  of.tensors.wei = of.filter->data();
  return of;
}

ArrayConvolution packed_convolution_of(const Problem& of, int axes, const MemorySpace& space,
                                       const NamedArray& image, const nb::object& out) {
  const ConvProblem p = of.conv();
  const bool last = p.layout == Layout::nhwgc || p.layout == Layout::ndhwgc;
  const bool forward = p.op == Op::conv_fwd;
  const auto order = memory_order(axes, last);
  const ConvOutput sizes = output_sizes(p);
  const Shape in = logical_shape(p.n, p.c, {p.d, p.h, p.w}, axes),
              result = logical_shape(p.n, p.k, {sizes.d, sizes.h, sizes.w}, axes);
  const auto check_array = [&](const NamedArray& one, const Shape& wanted, DType dtype) {
    check_shape(p, one, wanted);
    if (!is_packed(*one.array, order)) {
      refuse_array(one, std::string("is not packed with channels ") + (last ? "last" : "first") +
                            " in memory, as the array that the filter was packed for" + kPack);
    }
    if (element_type(one.name, *one.array) != dtype)
      refuse_array(one, "holds " + std::string(word(element_type(one.name, *one.array))) + "; " + print(p) +
                            " takes " + std::string(word(dtype)) + convert_to(dtype));
    if (space_of(one.name, *one.array) != space)
      refuse_array(one, "is in another memory than the packed filter");
  };
  check_array(image, forward ? in : result, signature_of(p).dtype_a);
  const Shape& wanted = forward ? result : in;
  if (out.is_none() && space.kind != MemoryKind::host)
    refuse_array(image, "is in a GPU's memory: give the array for the result as out");
  nb::object made = out.is_none() ? new_array(wanted, order, numpy_type(p)) : out;
  OutputArray written = writable("out", made);
  const InputArray readable(written);
  check_array({"out", &readable}, wanted, signature_of(p).dtype_c);
  void* const read = const_cast<void*>(image.array->data());
  return {p,
          {.in = forward ? read : written.data(),
           .wei = nullptr,
           .out = forward ? written.data() : read,
           .space = space},
          made};
}

}  // namespace kscout::python
