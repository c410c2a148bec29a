#include "preload/read_plan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

#include <kscout/error.h>

#include "core/json_fields.h"
#include "core/split.h"
#include "op/conv/strided_conv.h"

namespace kscout::preload {

namespace {

using cudnn::Attribute;
using cudnn::Kind;
using cudnn::Type;

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
  StridedConv conv;
  std::array<std::string, 3> words;  // of the types
  for (const auto& [word_of_type, tensor, name] : {std::tuple{&words[0], &conv.in, direction->in},
                                                   {&words[1], &conv.wei, direction->wei},
                                                   {&words[2], &conv.out, direction->out}}) {
    const Json& wanted = node.at(name);
    const auto found =
        std::ranges::find_if(graph.at("tensors"), [&](const Json& one) { return one.at("name") == wanted; });
    if (found == graph.at("tensors").end()) return Unread::descriptors;
    *word_of_type = found->at("dataType").get<std::string>();
    *tensor = {found->at("dim").get<TensorSizes>(), found->at("stride").get<TensorSizes>()};
  }
  const auto type = dtype_of(words[0]), sums = dtype_of(node.at("mathPrec").get<std::string>());
  if (!type || !sums || words[1] != words[0] || words[2] != words[0]) return Unread::types;
  problem = make_conv(direction->op, *type == DType::fp32 && converts_inputs ? DType::tf32 : *type);
  if (problem.dtype_acc != *sums) return Unread::compute;

  conv.pad = node.at("pad").get<TensorSizes>();
  conv.stride = node.at("stride").get<TensorSizes>();
  conv.dilation = node.at("dilation").get<TensorSizes>();
  conv.groups = node.value("groupCount", std::int64_t{1});
  for (const StridedTensor* const one : {&conv.in, &conv.wei, &conv.out})
    if (one->strides.size() != conv.in.sizes.size()) return Unread::sizes;
  const auto layout = layout_of(conv);
  if (!layout) return Unread::tensors;
  problem.layout = *layout;
  set_sizes(problem, conv);
  return Unread::none;
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
