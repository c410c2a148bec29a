// Reads the convolutions of cuDNN's log.
//
// A call is a block of lines that names its arguments as a tree. cudnnBackendExecute shows the plan with its
// graph; the older functions show their descriptors, whose tensors have the same names and fields:
//
//     I! CuDNN (v92600 51) function cudnnConvolutionForward() called:
//     i!     xDesc: type=cudnnTensorDescriptor_t:
//     i!         dataType: type=cudnnDataType_t; val=CUDNN_DATA_HALF (2);
//     i!         dimA: type=int; val=[2,8,14,10];
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/fail.h"
#include "core/numbers.h"
#include "core/split.h"
#include "logs/log_formats.h"
#include "op/conv/strided_conv.h"

namespace kscout {

namespace {

struct CudnnType {
  std::string_view name;
  DType dtype;
};
constexpr CudnnType kCudnnTypes[] = {
    {"CUDNN_DATA_FLOAT", DType::fp32},    {"CUDNN_DATA_HALF", DType::fp16},
    {"CUDNN_DATA_BFLOAT16", DType::bf16}, {"CUDNN_DATA_DOUBLE", DType::fp64},
    {"CUDNN_DATA_INT8", DType::int8},     {"CUDNN_DATA_FP8_E4M3", DType::fp8},
    {"CUDNN_DATA_FP8_E5M2", DType::bf8},  {"CUDNN_DATA_INT32", DType::int32},
};

/// What tells a direction: the older function, and the operation of a graph.
struct CudnnDirection {
  std::string_view function, operation;
  Op op;
};
constexpr CudnnDirection kCudnnDirections[] = {
    {"cudnnConvolutionForward", "CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR", Op::conv_fwd},
    {"cudnnConvolutionBiasActivationForward", "", Op::conv_fwd},
    {"cudnnConvolutionBackwardData", "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR",
     Op::conv_bwd_data},
    {"cudnnConvolutionBackwardFilter", "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR",
     Op::conv_bwd_weight},
};
constexpr std::string_view kExecute = "cudnnBackendExecute", kOperation = "CUDNN_BACKEND_OPERATION_";

/// "name: type=TYPE; val=VALUE;" or "name: type=TYPE:", which its fields follow with a deeper indentation.
struct CudnnField {
  std::size_t depth = 0;  ///< blanks before the name
  std::string_view name, type, value;
};

std::optional<CudnnField> field_of(std::string_view text) {
  CudnnField field;
  field.depth = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(field.depth);
  constexpr std::string_view kType = ": type=";
  const std::size_t colon = text.find(kType);
  if (colon == std::string_view::npos) return std::nullopt;
  field.name = text.substr(0, colon);
  const std::string_view rest = text.substr(colon + kType.size());
  field.type = rest.substr(0, rest.find_first_of(";:"));
  constexpr std::string_view kValue = "; val=";
  if (const std::size_t value = rest.find(kValue); value != std::string_view::npos) {
    field.value = rest.substr(value + kValue.size());
    field.value = field.value.substr(0, field.value.find(';'));
  }
  return field;
}

/// The lines of one call.
class CudnnCall {
 public:
  CudnnCall(std::string_view function, std::size_t number) : function_(function), number_(number) {}

  std::size_t number() const { return number_; }
  void add(std::string_view line) { lines_.emplace_back(line); }
  /// Whether the call shows what follows its descriptors: the time, behind a plan its buffers.
  bool shows_end() const {
    return std::ranges::any_of(lines_, [](std::string_view line) {
      return trimmed(line).starts_with("Time: ") || trimmed(line).starts_with("variantPack: type=");
    });
  }

  /// The convolution; nothing for a call of another function, or for the lines about its end. Throws NotRead.
  std::optional<ConvProblem> convolution() const {
    std::vector<CudnnField> fields;
    for (const std::string& line : lines_) {
      if (const auto field = field_of(line)) fields.push_back(*field);
    }
    const auto op = direction(fields);
    if (!op) return std::nullopt;
    const auto in = subtree(fields, "xDesc", "dxDesc"), wei = subtree(fields, "wDesc", "dwDesc"),
               out = subtree(fields, "yDesc", "dyDesc"), how = subtree(fields, "convDesc", "convDesc");
    if (in.empty() || wei.empty() || out.empty() || how.empty()) throw NotRead{"without descriptors"};
    if (text(how, "mode").find("CUDNN_CROSS_CORRELATION") == std::string_view::npos)
      throw NotRead{"that mirror the filter (CUDNN_CONVOLUTION)"};
    StridedConv conv{.in = tensor(in), .wei = tensor(wei), .out = tensor(out)};
    // The older functions have equal zeros on both sides, and a format instead of the filter's strides.
    conv.pad = numbers(how, text(how, "padA").empty() ? "lowerPadA" : "padA");
    conv.right_pad = numbers(how, text(how, "padA").empty() ? "upperPadA" : "padA");
    conv.stride = numbers(how, "strideA");
    conv.dilation = numbers(how, "dilationA");
    if (conv.in.sizes.size() < 2 || conv.wei.sizes.size() < 2 || conv.wei.sizes[1] < 1)
      throw NotRead{"without sizes"};
    conv.groups = conv.in.sizes[1] / conv.wei.sizes[1];
    const DType type = dtype(in);
    if (dtype(wei) != type) throw NotRead{"of mixed types"};
    ConvProblem problem = make_conv(*op, type);
    if (dtype(out) != problem.dtype_out) throw NotRead{"of mixed types"};
    // The older functions call it dataType.
    const std::string_view sums =
        text(how, "computeType").empty() ? text(how, "dataType") : text(how, "computeType");
    if (dtype_named(sums) != problem.dtype_acc) throw NotRead{fmt::format("with sums of {}", sums)};
    const auto layout = layout_of(conv);
    if (!layout) throw NotRead{"of tensors with gaps or of different layouts"};
    problem.layout = *layout;
    set_sizes(problem, conv);
    return problem;
  }

 private:
  using Fields = std::vector<CudnnField>;

  std::optional<Op> direction(const Fields& fields) const {
    if (function_ != kExecute) {
      const auto* const known = std::ranges::find(kCudnnDirections, function_, &CudnnDirection::function);
      const bool has_arguments = std::ranges::find(fields, "convDesc", &CudnnField::name) != fields.end();
      return known == std::end(kCudnnDirections) || !has_arguments ? std::nullopt : std::optional(known->op);
    }
    std::vector<std::string_view> operations;
    for (const CudnnField& field : fields) {
      if (field.type.starts_with(kOperation)) operations.push_back(field.type);
    }
    if (operations.empty()) return std::nullopt;
    if (operations.size() > 1) throw NotRead{"of graphs of several operations"};
    const auto* const known =
        std::ranges::find(kCudnnDirections, operations.front(), &CudnnDirection::operation);
    if (known == std::end(kCudnnDirections)) throw NotRead{fmt::format("of {}", operations.front())};
    return known->op;
  }

  /// The fields below the first field of either name.
  static Fields subtree(const Fields& fields, std::string_view name, std::string_view gradient) {
    const auto top = std::ranges::find_if(
        fields, [&](const CudnnField& one) { return one.name == name || one.name == gradient; });
    if (top == fields.end()) return {};
    const auto end =
        std::find_if(top + 1, fields.end(), [&](const CudnnField& one) { return one.depth <= top->depth; });
    return {top + 1, end};
  }
  static std::string_view text(const Fields& fields, std::string_view name) {
    const auto found = std::ranges::find(fields, name, &CudnnField::name);
    return found == fields.end() ? std::string_view() : found->value;
  }
  /// "[2,8,14,10]"; empty where there is no such field.
  static TensorSizes numbers(const Fields& fields, std::string_view name) {
    std::string_view value = text(fields, name);
    if (!value.starts_with('[') || !value.ends_with(']')) return {};
    TensorSizes sizes;
    for (const std::string_view one : parts_in(value.substr(1, value.size() - 2), ", ")) {
      const auto number = number_in<std::int64_t>(one);
      if (!number) throw NotRead{fmt::format("with {}={}", name, value)};
      sizes.push_back(*number);
    }
    return sizes;
  }
  static StridedTensor tensor(const Fields& fields) {
    StridedTensor one{numbers(fields, "dimA"), numbers(fields, "strideA")};
    if (!one.strides.empty() || one.sizes.size() < 3) return one;
    // A filter of the older functions: the strides that its format stands for.
    one.strides.assign(one.sizes.size(), 1);
    std::int64_t step = 1;
    const bool channels_last = text(fields, "format").find("NHWC") != std::string_view::npos;
    const auto take = [&](std::size_t axis) {
      one.strides[axis] = step;
      if (__builtin_mul_overflow(step, one.sizes[axis], &step)) throw NotRead{"without sizes"};
    };
    if (channels_last) take(1);
    for (std::size_t axis = one.sizes.size() - 1; axis >= 2; --axis) take(axis);
    if (!channels_last) take(1);
    take(0);
    return one;
  }
  static DType dtype(const Fields& fields) {
    return dtype_named(text(fields, text(fields, "dataType").empty() ? "type" : "dataType"));
  }
  /// "CUDNN_DATA_HALF (2)"
  static DType dtype_named(std::string_view given) {
    const std::string_view name = given.substr(0, given.find(' '));
    const auto* const known = std::ranges::find(kCudnnTypes, name, &CudnnType::name);
    if (known == std::end(kCudnnTypes)) throw NotRead{fmt::format("of type {}", name)};
    return known->dtype;
  }

  std::string function_;
  std::size_t number_;
  std::vector<std::string> lines_;
};

class CudnnLogReader : public LineReader {
 public:
  std::string_view format() const override { return "cuDNN's log"; }
  bool take(const LogLine& whole, CallLog& log) override {
    const std::string_view line = whole.text;
    constexpr std::string_view kMark = "! CuDNN (", kFunction = ") function ";
    if (line.size() > 2 && (line.starts_with("i!") || line.starts_with("e!") || line.starts_with("w!"))) {
      if (call_) call_->add(line.substr(2));
      return true;
    }
    const bool begins = line.size() > 1 && line.substr(1).starts_with(kMark);
    end_call(log);
    if (!begins) return false;
    const std::size_t function = line.find(kFunction);
    if (line[0] != 'I' || function == std::string_view::npos) return true;
    const std::string_view rest = line.substr(function + kFunction.size());
    call_.emplace(rest.substr(0, rest.find('(')), whole.number);
    return true;
  }
  void finish(CallLog& log) override { end_call(log); }

 private:
  void end_call(CallLog& log) {
    if (!call_) return;
    const CudnnCall call = *std::exchange(call_, std::nullopt);
    try {
      if (const auto problem = call.convolution()) {
        require_end(call.shows_end());
        log.add(*problem);
      }
    } catch (NotRead& why) {
      log.leave_out(std::move(why.reason), call.number());
    } catch (const Error& error) {
      log.leave_out("that are no valid problem", call.number(), error.what());
    }
  }

  std::optional<CudnnCall> call_;
};

}  // namespace

std::unique_ptr<LineReader> cudnn_log_reader() { return std::make_unique<CudnnLogReader>(); }

}  // namespace kscout
