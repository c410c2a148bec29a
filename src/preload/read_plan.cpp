#include "preload/read_plan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <kscout/error.h>

#include "core/json_fields.h"
#include "core/split.h"

namespace kscout::preload {

namespace {

using cudnn::Attribute;
using cudnn::Kind;
using cudnn::Type;

using Sizes = std::vector<std::int64_t>;

/// A tensor of a plan: elements and strides along images (or output channels), channels, space.
struct Tensor {
  std::string type;
  Sizes sizes, strides;
};

/// What the operation nodes of a plan call a direction and its tensors.
struct Direction {
  std::string_view operation;
  Op op;
  const char *in, *wei, *out;
};
constexpr std::array kDirectionWords = {
    Direction{"CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR", Op::conv_fwd, "X", "W", "Y"},
    Direction{"CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR", Op::conv_bwd_data, "dX", "W",
              "dY"},
    Direction{"CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR", Op::conv_bwd_weight, "X",
              "dW", "dY"},
};

std::optional<DType> dtype_of(std::string_view word) {
  if (word == "CUDNN_DATA_FLOAT") return DType::fp32;
  if (word == "CUDNN_DATA_HALF") return DType::fp16;
  if (word == "CUDNN_DATA_BFLOAT16") return DType::bf16;
  if (word == "CUDNN_DATA_DOUBLE") return DType::fp64;
  return std::nullopt;
}

/// Whether a dense tensor has its axes in this order, outermost first. Axes of one element are anywhere.
bool lies_in_order(const Tensor& tensor, const std::vector<std::size_t>& order) {
  std::int64_t step = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (tensor.sizes[*axis] != 1 && tensor.strides[*axis] != step) return false;
    step *= tensor.sizes[*axis];
  }
  return true;
}

/// The layout of three tensors with so many spatial axes.
std::optional<Layout> layout_of(const std::array<Tensor, 3>& tensors, std::size_t rank) {
  std::vector<std::size_t> channels_first(rank + 2);
  for (std::size_t axis = 0; axis < channels_first.size(); ++axis) channels_first[axis] = axis;
  std::vector<std::size_t> channels_last = channels_first;
  std::rotate(channels_last.begin() + 1, channels_last.begin() + 2, channels_last.end());
  const auto lie = [&](const auto& order) {
    return std::ranges::all_of(tensors, [&](const Tensor& one) { return lies_in_order(one, order); });
  };
  if (lie(channels_last)) return rank == 3 ? Layout::ndhwgc : Layout::nhwgc;
  if (lie(channels_first)) return rank == 3 ? Layout::ngcdhw : Layout::ngchw;
  return std::nullopt;
}

/// Values of the spatial axes as fields of the problem: depth (where there is one), height, width.
void set_axes(const Sizes& values, std::int64_t& d, std::int64_t& h, std::int64_t& w) {
  if (values.size() == 3) d = values[0];
  h = values[values.size() - 2];
  w = values[values.size() - 1];
}

/// Throws Json::exception and std::out_of_range where the plan is none that is known.
Unread read_graph(const Json& graph, bool converts_inputs, ConvProblem& problem) {
  const Json& nodes = graph.at("nodes");
  if (nodes.size() != 1) return Unread::graph;
  const Json& node = nodes[0];
  const auto& word = node.at("operation").get_ref<const std::string&>();
  const auto* const direction = std::ranges::find(kDirectionWords, word, &Direction::operation);
  if (direction == kDirectionWords.end() || node.at("mode") != "CUDNN_CROSS_CORRELATION" ||
      node.at("alpha") != 1 || node.at("beta") != 0)
    return Unread::graph;
  std::array<Tensor, 3> tensors;
  for (const auto& [tensor, name] : {std::pair{&tensors[0], direction->in},
                                     {&tensors[1], direction->wei},
                                     {&tensors[2], direction->out}}) {
    const auto found = std::ranges::find_if(graph.at("tensors"),
                                            [&](const Json& one) { return one.at("name") == node.at(name); });
    if (found == graph.at("tensors").end()) return Unread::descriptors;
    *tensor = {found->at("dataType").get<std::string>(), found->at("dim").get<Sizes>(),
               found->at("stride").get<Sizes>()};
  }
  const auto& [in, wei, out] = tensors;
  const auto type = dtype_of(in.type), sums = dtype_of(node.at("mathPrec").get<std::string>());
  if (!type || !sums || wei.type != in.type || out.type != in.type) return Unread::types;
  problem = make_conv(direction->op, *type == DType::fp32 && converts_inputs ? DType::tf32 : *type);
  if (problem.dtype_acc != *sums) return Unread::compute;

  const std::size_t axes = in.sizes.size();
  if (axes != 4 && axes != 5) return Unread::sizes;
  const auto pad = node.at("pad").get<Sizes>(), stride = node.at("stride").get<Sizes>(),
             dilation = node.at("dilation").get<Sizes>();
  for (const Tensor& one : tensors)
    if (one.sizes.size() != axes || one.strides.size() != axes) return Unread::sizes;
  for (const Sizes* const one : {&pad, &stride, &dilation})
    if (one->size() != axes - 2) return Unread::sizes;
  const auto layout = layout_of(tensors, axes - 2);
  if (!layout) return Unread::tensors;
  problem.layout = *layout;
  problem.n = in.sizes[0];
  problem.c = in.sizes[1];
  problem.k = wei.sizes[0];
  problem.g = node.value("groupCount", std::int64_t{1});
  const auto space = [](const Tensor& of) { return Sizes(of.sizes.begin() + 2, of.sizes.end()); };
  set_axes(space(in), problem.d, problem.h, problem.w);
  set_axes(space(wei), problem.z, problem.y, problem.x);
  set_axes(stride, problem.stride_d, problem.stride_h, problem.stride_w);
  set_axes(dilation, problem.dilation_d, problem.dilation_h, problem.dilation_w);
  set_axes(pad, problem.left_pad_d, problem.left_pad_h, problem.left_pad_w);
  set_axes(pad, problem.right_pad_d, problem.right_pad_h, problem.right_pad_w);
  check(problem);
  ConvOutput given{1, 1, 1};
  set_axes(space(out), given.d, given.h, given.w);
  const ConvOutput own = output_sizes(problem);
  const bool fits = own.d == given.d && own.h == given.h && own.w == given.w && out.sizes[0] == problem.n &&
                    out.sizes[1] == problem.k && wei.sizes[1] * problem.g == problem.c;
  return fits ? Unread::none : Unread::sizes;
}

/// A descriptor that another one refers to.
class Part {
 public:
  Part(const Cudnn& cudnn, void* from, Attribute attribute, Kind kind) : cudnn_(cudnn) {
    std::int64_t count = 0;
    if (!from || cudnn.create(kind, &raw_) != cudnn::kSuccess) return;
    found_ = cudnn.get(from, attribute, Type::descriptor, 1, &count, &raw_) == cudnn::kSuccess && count == 1;
  }
  ~Part() {
    if (raw_) cudnn_.destroy(raw_);
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  void* get() const noexcept { return found_ ? raw_ : nullptr; }

 private:
  const Cudnn& cudnn_;
  void* raw_ = nullptr;
  bool found_ = false;
};

/// Whether the plan's engine says that it uses tensor cores or converts its inputs; false where it cannot be
/// asked.
bool converts_inputs(const Cudnn& cudnn, void* plan) {
  const Part config(cudnn, plan, Attribute::plan_config, Kind::engine_config);
  const Part engine(cudnn, config.get(), Attribute::config_engine, Kind::engine);
  std::array<std::int32_t, 32> notes{};
  std::int64_t count = 0;
  if (!engine.get() || cudnn.get(engine.get(), Attribute::engine_numerical_notes, Type::numerical_note,
                                 notes.size(), &count, notes.data()) != cudnn::kSuccess)
    return false;
  const auto end = notes.begin() + std::clamp<std::int64_t>(count, 0, std::ssize(notes));
  return std::any_of(notes.begin(), end, [](std::int32_t note) {
    return (1U << note & (cudnn::kTensorCores | cudnn::kConvertsInputs)) != 0;
  });
}

}  // namespace

Cudnn Cudnn::found_by(kscout_find find) noexcept {
  Cudnn library;
  const auto set = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find("libcudnn", name));
  };
  set(library.create, "cudnnBackendCreateDescriptor");
  set(library.destroy, "cudnnBackendDestroyDescriptor");
  set(library.get, "cudnnBackendGetAttribute");
  set(library.get_stream, "cudnnGetStream");
  return library;
}

Unread read_plan(const Cudnn& cudnn, void* plan, ConvProblem& problem) noexcept try {
  constexpr std::int64_t kMaxBytes = std::int64_t{64} << 20;
  if (!cudnn.create || !cudnn.destroy || !cudnn.get) return Unread::descriptors;
  std::int64_t bytes = 0;
  if (cudnn.get(plan, Attribute::plan_json, Type::character, 0, &bytes, nullptr) != cudnn::kSuccess ||
      bytes <= 0 || bytes > kMaxBytes)
    return Unread::descriptors;
  std::string text(static_cast<std::size_t>(bytes), '\0');
  if (cudnn.get(plan, Attribute::plan_json, Type::character, bytes, &bytes, text.data()) != cudnn::kSuccess)
    return Unread::descriptors;
  const Json json = Json::parse(text.c_str());
  return read_graph(json.at("operationGraph"), converts_inputs(cudnn, plan), problem);
} catch (const Error&) {
  return Unread::sizes;
} catch (const std::exception&) {
  return Unread::descriptors;
}

}  // namespace kscout::preload
