// Reads the matrix products and convolutions of a trace of PyTorch's profiler.
//
// The trace is a list of Chrome's trace events. With record_shapes=True, an event of an operator names its
// inputs:
//
//     {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "args": {"Input Dims": [[32, 48], [48, 96]],
//      "Input type": ["float", "float"], "Input Strides": [[48, 1], [1, 48]], "Concrete Inputs": ["", ""]}}
//
// Operators call each other: aten::linear calls aten::addmm. Only those count that call no other of these.
#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/fail.h"
#include "core/json_fields.h"
#include "core/numbers.h"
#include "core/split.h"
#include "logs/log_formats.h"
#include "op/conv/strided_conv.h"
#include "op/gemm/strided_gemm.h"

namespace kscout {

namespace {

struct TorchType {
  std::string_view name;
  DType dtype;
};
constexpr TorchType kTorchTypes[] = {
    {"float", DType::fp32},         {"double", DType::fp64},          {"c10::Half", DType::fp16},
    {"c10::BFloat16", DType::bf16}, {"signed char", DType::int8},     {"c10::Float8_e4m3fn", DType::fp8},
    {"int", DType::int32},          {"c10::Float8_e5m2", DType::bf8},
};

/// What Python and C++ print for doubles that JSON does not have.
constexpr std::string_view kNoNumbers[] = {"NaN",      "-NaN",      "nan", "-nan",
                                           "Infinity", "-Infinity", "inf", "-inf"};

/// The inputs of an event's operator.
class TorchInputs {
 public:
  explicit TorchInputs(const Json& args)
      : sizes_(list(args, "Input Dims")),
        types_(list(args, "Input type")),
        strides_(list(args, "Input Strides")),
        values_(list(args, "Concrete Inputs")) {
    if (sizes_->empty()) throw NotRead{"without Input Dims (record_shapes=True records them)"};
    if (strides_->empty()) throw NotRead{"without Input Strides (PyTorch 2.1 and newer record them)"};
  }

  StridedTensor tensor(std::size_t at) const {
    StridedTensor one{numbers(*sizes_, at), numbers(*strides_, at)};
    if (one.sizes.size() != one.strides.size()) throw NotRead{"of tensors with other strides than axes"};
    return one;
  }
  DType dtype(std::size_t at) const {
    const std::string name = text(*types_, at);
    const auto* const known = std::ranges::find(kTorchTypes, name, &TorchType::name);
    if (known == std::end(kTorchTypes)) throw NotRead{fmt::format("of type '{}'", name)};
    return known->dtype;
  }
  /// A scalar or a list of scalars as Python prints it: "False", "[2, 2]".
  std::string value(std::size_t at) const {
    if (values_->size() <= at) throw NotRead{"without Concrete Inputs (PyTorch 2.1 and newer record them)"};
    return text(*values_, at);
  }
  TensorSizes list_value(std::size_t at) const {
    TensorSizes numbers;
    for (const std::string& one : words_value(at)) {
      const auto number = number_in<std::int64_t>(one);
      if (!number) throw NotRead{fmt::format("with the argument '{}'", value(at))};
      numbers.push_back(*number);
    }
    return numbers;
  }
  /// The words of "[True, False]".
  std::vector<std::string> words_value(std::size_t at) const {
    const std::string given = value(at);
    std::vector<std::string> words;
    for (const std::string_view one : parts_in(given, "[], ")) words.emplace_back(one);
    return words;
  }
  std::int64_t number_value(std::size_t at) const {
    const TensorSizes numbers = list_value(at);
    if (numbers.size() != 1) throw NotRead{fmt::format("with the argument '{}'", value(at))};
    return numbers.front();
  }
  /// Whether the factor of an operand is not 0. Traces leave out what they do not record.
  bool has_factor(std::size_t at) const {
    const std::string text = values_->size() > at ? this->text(*values_, at) : "";
    const auto number = number_in<double>(text);
    return !number || *number != 0;
  }

 private:
  static const Json* list(const Json& args, const char* name) {
    static const Json kNone = Json::array();
    const auto found = args.find(name);
    return found != args.end() && found->is_array() ? &*found : &kNone;
  }
  static TensorSizes numbers(const Json& list, std::size_t at) {
    TensorSizes numbers;
    if (list.size() <= at || !list[at].is_array()) throw NotRead{"without a tensor where one belongs"};
    for (const Json& one : list[at]) {
      if (!one.is_number_integer()) throw NotRead{"of lists of tensors"};
      numbers.push_back(one.get<std::int64_t>());
    }
    return numbers;
  }
  static std::string text(const Json& list, std::size_t at) {
    return list.size() > at && list[at].is_string() ? list[at].get<std::string>() : "";
  }

  const Json *sizes_, *types_, *strides_, *values_;
};

// ---- Products

/// The last two axes of a tensor with 2 or 3 axes.
StridedMatrix matrix_of(const StridedTensor& tensor, std::size_t axes) {
  const auto& [sizes, strides] = tensor;
  if (sizes.size() != axes) throw NotRead{"of tensors with other axes"};
  return {sizes[axes - 2], sizes[axes - 1], strides[axes - 2], strides[axes - 1]};
}

GemmProblem product_of(const TorchInputs& inputs, std::size_t first) {
  GemmProblem p = make_gemm(0, 0, 0, inputs.dtype(first));
  p.dtype_b = inputs.dtype(first + 1);
  set_matrices(p, matrix_of(inputs.tensor(first), 2), matrix_of(inputs.tensor(first + 1), 2));
  return p;
}

/// aten::mm(A, B)
GemmProblem mm(const TorchInputs& inputs) { return product_of(inputs, 0); }

/// aten::addmm(C or bias, A, B, beta, alpha)
GemmProblem addmm(const TorchInputs& inputs) {
  GemmProblem p = product_of(inputs, 1);
  if (!inputs.has_factor(3)) return p;
  const TensorSizes added = inputs.tensor(0).sizes;
  if (added == TensorSizes{p.n} || (added == TensorSizes{1, p.n} && p.m != 1)) {
    p.epilogue = Epilogue::bias;
  } else {
    p.accumulate = true;
  }
  return p;
}

/// aten::_addmm_activation(bias, A, B, beta, alpha, use_gelu)
GemmProblem addmm_activation(const TorchInputs& inputs) {
  GemmProblem p = addmm(inputs);
  if (p.epilogue != Epilogue::bias) throw NotRead{"of aten::_addmm_activation without a bias"};
  p.epilogue = inputs.value(5) == "True" ? Epilogue::bias_gelu : Epilogue::bias_relu;
  return p;
}

GemmProblem batch_of(const TorchInputs& inputs, std::size_t first) {
  const StridedTensor a = inputs.tensor(first), b = inputs.tensor(first + 1);
  GemmProblem p = make_gemm(0, 0, 0, inputs.dtype(first));
  p.dtype_b = inputs.dtype(first + 1);
  const StridedMatrix item_a = matrix_of(a, 3), item_b = matrix_of(b, 3);
  p.batch = a.sizes[0];
  if (p.batch > 1 && (a.strides[0] == 0 || b.strides[0] == 0))
    throw NotRead{"of batches whose items share an operand"};
  set_matrices(p, item_a, item_b);
  return p;
}

/// aten::bmm(A, B)
GemmProblem bmm(const TorchInputs& inputs) { return batch_of(inputs, 0); }

/// aten::baddbmm(C, A, B, beta, alpha)
GemmProblem baddbmm(const TorchInputs& inputs) {
  GemmProblem p = batch_of(inputs, 1);
  p.accumulate = inputs.has_factor(3);
  return p;
}

struct TorchProduct {
  std::string_view name;
  GemmProblem (*read)(const TorchInputs& inputs);
};
constexpr TorchProduct kTorchProducts[] = {
    {"aten::mm", mm},           {"aten::addmm", addmm},      {"aten::addmm_", addmm},
    {"aten::_int_mm", mm},      {"aten::bmm", bmm},          {"aten::_addmm_activation", addmm_activation},
    {"aten::baddbmm", baddbmm}, {"aten::baddbmm_", baddbmm},
};
/// Products that are counted as left out.
constexpr std::string_view kOtherProducts[] = {"aten::mv", "aten::addbmm", "aten::_scaled_mm",
                                               "aten::_grouped_mm", "aten::_scaled_grouped_mm"};

// ---- Convolutions

/// The arguments of a convolution from its strides on: stride, padding, dilation, transposed, output_padding,
/// groups.
struct TorchConv {
  StridedConv conv;  ///< sizes and strides of the tensors that the operator names
  bool transposed = false;
};

/// A tensor along 1 axis of space as one along 2, of which the first has one element.
void insert_height(StridedTensor& tensor) {
  if (tensor.sizes.empty()) return;
  tensor.sizes.insert(tensor.sizes.begin() + 2, 1);
  if (!tensor.strides.empty()) tensor.strides.insert(tensor.strides.begin() + 2, 1);
}

TorchConv conv_of(const TorchInputs& inputs, std::size_t in, std::size_t wei, std::size_t arguments) {
  TorchConv made{{.in = inputs.tensor(in),
                  .wei = inputs.tensor(wei),
                  .pad = inputs.list_value(arguments + 1),
                  .stride = inputs.list_value(arguments),
                  .dilation = inputs.list_value(arguments + 2),
                  .groups = inputs.number_value(arguments + 5)},
                 inputs.value(arguments + 3) == "True"};
  StridedConv& conv = made.conv;
  const std::size_t axes = conv.in.sizes.size();
  if (axes < 3 || axes > 5 || conv.wei.sizes.size() != axes || conv.groups < 1)
    throw NotRead{"of convolutions with other axes"};
  const std::size_t space = axes - 2;
  for (TensorSizes* const one : {&conv.pad, &conv.stride, &conv.dilation}) {
    if (one->size() == 1) one->resize(space, one->front());
    if (one->size() != space) throw NotRead{"of convolutions with other axes"};
  }
  constexpr std::int64_t kMaxSize = std::int64_t{1} << 30;
  for (const TensorSizes* const list :
       {&conv.in.sizes, &conv.wei.sizes, &conv.pad, &conv.stride, &conv.dilation}) {
    for (const std::int64_t one : *list)
      if (one < 0 || one > kMaxSize || conv.groups > kMaxSize)
        throw NotRead{"of convolutions of other sizes"};
  }
  if (made.transposed) {
    // Its input is the gradient of the output of the convolution whose gradient it computes.
    const TensorSizes more = inputs.list_value(arguments + 4);
    StridedTensor result;
    result.sizes = {conv.in.sizes[0], conv.wei.sizes[1] * conv.groups};
    for (std::size_t axis = 0; axis < space; ++axis) {
      const std::int64_t added = more.size() == 1 ? more[0] : more.size() == space ? more[axis] : 0;
      result.sizes.push_back((conv.in.sizes[axis + 2] - 1) * conv.stride[axis] - 2 * conv.pad[axis] +
                             conv.dilation[axis] * (conv.wei.sizes[axis + 2] - 1) +
                             std::clamp(added, std::int64_t{0}, kMaxSize) + 1);
    }
    conv.out = std::exchange(conv.in, std::move(result));
  }
  if (space == 1) {
    for (StridedTensor* const one : {&conv.in, &conv.wei, &conv.out}) insert_height(*one);
    conv.pad.insert(conv.pad.begin(), 0);
    conv.stride.insert(conv.stride.begin(), 1);
    conv.dilation.insert(conv.dilation.begin(), 1);
  }
  return made;
}

ConvProblem problem_of(Op op, DType dtype, const StridedConv& conv) {
  // The framework copies tensors with gaps: channels first, as its tensors are by default.
  const bool three = conv.in.sizes.size() == 5;
  ConvProblem p = make_conv(op, dtype, layout_of(conv).value_or(three ? Layout::ngcdhw : Layout::ngchw));
  set_sizes(p, conv);
  return p;
}

/// aten::_convolution(input, filter, bias, stride, ...)
void add_convolution(const TorchInputs& inputs, CallLog& log) {
  const TorchConv made = conv_of(inputs, 0, 1, 3);
  log.add(problem_of(made.transposed ? Op::conv_bwd_data : Op::conv_fwd, inputs.dtype(0), made.conv));
}

/// aten::convolution_backward(gradient, input, filter, bias sizes, stride, ..., output_mask)
void add_gradients(const TorchInputs& inputs, CallLog& log) {
  const TorchConv made = conv_of(inputs, 1, 2, 4);
  const auto wanted = inputs.words_value(10);
  if (wanted.size() != 3) throw NotRead{"without output_mask"};
  const Op of_input = made.transposed ? Op::conv_fwd : Op::conv_bwd_data;
  if (wanted[0] == "True") log.add(problem_of(of_input, inputs.dtype(1), made.conv));
  if (wanted[1] == "True") log.add(problem_of(Op::conv_bwd_weight, inputs.dtype(1), made.conv));
}

struct TorchConvolution {
  std::string_view name;
  void (*add)(const TorchInputs& inputs, CallLog& log);
};
constexpr TorchConvolution kTorchConvolutions[] = {{"aten::_convolution", add_convolution},
                                                   {"aten::convolution_backward", add_gradients}};

void read_event(const Json& event, CallLog& log) {
  const auto name_at = event.find("name"), args = event.find("args");
  if (name_at == event.end() || !name_at->is_string() || args == event.end() || !args->is_object()) return;
  const auto& name = name_at->get_ref<const std::string&>();
  if (!name.starts_with("aten::")) return;
  const auto* const product = std::ranges::find(kTorchProducts, name, &TorchProduct::name);
  const auto* const convolution = std::ranges::find(kTorchConvolutions, name, &TorchConvolution::name);
  try {
    if (product != std::end(kTorchProducts)) log.add(product->read(TorchInputs(*args)));
    if (convolution != std::end(kTorchConvolutions)) convolution->add(TorchInputs(*args), log);
    if (std::ranges::find(kOtherProducts, name) != std::end(kOtherProducts))
      throw NotRead{fmt::format("of {}", name)};
  } catch (NotRead& why) {
    log.leave_out(std::move(why.reason), 0);
  } catch (const Error& error) {
    log.leave_out("that are no valid problem", 0, error.what());
  }
}

/// The events of a trace.
struct Events {
  CallLog log = {};
  std::size_t count = 0;
};

/// Throws Json::exception.
Events read_json(std::string_view text) {
  Events events;
  // Events are read and forgotten one by one: a trace may be much larger as a tree than as a text.
  const auto at_end_of_object = [&](int depth, Json::parse_event_t kind, Json& parsed) {
    constexpr int kDepthOfEvents = 2;
    if (kind != Json::parse_event_t::object_end || depth > kDepthOfEvents || depth == 0) return true;
    if (!parsed.contains("ph")) return true;
    ++events.count;
    read_event(parsed, events.log);
    return false;
  };
  const Json rest = Json::parse(text, at_end_of_object);
  return events;
}

// ---- Damaged traces

/// Where the next event begins: PyTorch writes its phase first, {"ph": "X", ... Nothing behind the last
/// event.
std::size_t event_start(std::string_view text, std::size_t from) {
  for (std::size_t at = from; (at = text.find("\"ph\"", at)) != std::string_view::npos; ++at) {
    const std::size_t brace = at == 0 ? at : text.find_last_not_of(" \t\r\n", at - 1);
    if (brace != std::string_view::npos && brace >= from && text[brace] == '{') return brace;
  }
  return std::string_view::npos;
}

/// The text with null for NaN and infinity, and with a mark in strings for what JSON does not allow there.
std::string repaired(std::string_view text) {
  std::string made;
  made.reserve(text.size());
  bool in_string = false;
  while (!text.empty()) {
    const char c = text.front();
    std::size_t taken = 1;
    if (!in_string) {
      const auto* const word =
          std::ranges::find_if(kNoNumbers, [&](std::string_view one) { return text.starts_with(one); });
      if (word != std::end(kNoNumbers)) taken = word->size();
      made += word != std::end(kNoNumbers) ? "null" : std::string_view(&c, 1);
      in_string = c == '"';
    } else if (c == '\\') {
      taken = std::min<std::size_t>(2, text.size());
      const bool known =
          taken == 2 && std::string_view("\"\\/bfnrtu").find(text[1]) != std::string_view::npos;
      made += known ? text.substr(0, taken) : "?";
    } else {
      const auto byte = static_cast<unsigned char>(c);
      made += byte < 0x20 || byte >= 0x80 ? '?' : c;
      in_string = c != '"';
    }
    text.remove_prefix(taken);
  }
  return made;
}

/// Reads the events one by one, and counts those that are no JSON.
Events read_damaged(std::string_view text) {
  Events events;
  std::size_t line = 1, counted = 0;
  bool complete = true;
  for (std::size_t begin = event_start(text, 0); begin != std::string_view::npos;) {
    const std::size_t next = event_start(text, begin + 1);
    line += static_cast<std::size_t>(std::count(text.begin() + counted, text.begin() + begin, '\n'));
    counted = begin;
    ++events.count;
    try {
      // A stream ends behind the event: commas and the end of the trace follow.
      std::istringstream one(repaired(text.substr(begin, next - begin)));
      Json event;
      one >> event;
      read_event(event, events.log);
    } catch (const Json::exception&) {
      events.log.leave_out("of events that are no JSON", line);
      complete = false;
    }
    begin = next;
  }
  if (complete && events.count != 0) events.log.leave_out("of a trace that is damaged or cut short", 0);
  return events;
}

}  // namespace

bool looks_like_json(std::string_view text) noexcept {
  const std::string_view begin = trimmed(text.substr(0, 256));
  if (begin.starts_with('{')) return true;
  return begin.starts_with('[') && trimmed(begin.substr(1)).starts_with('{');
}

void read_profiler_trace(std::string_view text, std::string_view source, CallLog& log) {
  Events events;
  try {
    events = read_json(text);
  } catch (const Json::exception& error) {
    events = read_damaged(text);
    if (events.count == 0)
      fail(Errc::corrupt_data, "{}: begins as JSON and is none: {}", source, reason_of(error));
  }
  if (events.count == 0)
    fail(Errc::corrupt_data,
         "{}: is JSON without trace events; --from-log reads the traces of torch.profiler "
         "(export_chrome_trace)",
         source);
  log = std::move(events.log);
  log.found(kProfilerFormat);
}

}  // namespace kscout
