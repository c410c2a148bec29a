#include "preload/read_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <vector>

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
Unread read_graph(const Json& graph, bool converts_inputs, PlanCall& call) {
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
  for (const auto& [word_of_type, tensor, id, name] :
       {std::tuple{&words[0], &conv.in, &call.in, direction->in},
        {&words[1], &conv.wei, &call.wei, direction->wei},
        {&words[2], &conv.out, &call.out, direction->out}}) {
    const Json& wanted = node.at(name);
    const auto found =
        std::ranges::find_if(graph.at("tensors"), [&](const Json& one) { return one.at("name") == wanted; });
    if (found == graph.at("tensors").end()) return Unread::descriptors;
    const auto& digits = wanted.get_ref<const std::string&>();
    if (std::from_chars(digits.data(), digits.data() + digits.size(), *id).ec != std::errc())
      *id = PlanCall::kNoName;
    *word_of_type = found->at("dataType").get<std::string>();
    *tensor = {found->at("dim").get<TensorSizes>(), found->at("stride").get<TensorSizes>()};
  }
  const auto type = dtype_of(words[0]), sums = dtype_of(node.at("mathPrec").get<std::string>());
  if (!type || !sums || words[1] != words[0] || words[2] != words[0]) return Unread::types;
  ConvProblem& problem = call.problem;
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

/// Descriptors to which another one refers; none where the library refuses.
class Parts {
 public:
  Parts(const Cudnn& cudnn, void* from, Attribute attribute, Kind kind, std::size_t room) : cudnn_(cudnn) {
    if (!from) return;
    raw_.reserve(room);
    for (void* made = nullptr; raw_.size() < room && cudnn.create(kind, &made) == cudnn::kSuccess;)
      raw_.push_back(made);
    std::int64_t count = 0;
    if (raw_.size() == room && cudnn.get(from, attribute, Type::descriptor, static_cast<std::int64_t>(room),
                                         &count, raw_.data()) == cudnn::kSuccess)
      size_ = static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, std::ssize(raw_)));
  }
  ~Parts() {
    for (void* const one : raw_) cudnn_.destroy(one);
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  void* first() const noexcept { return size_ ? raw_.front() : nullptr; }
  std::span<void* const> all() const noexcept { return std::span(raw_).first(size_); }

 private:
  const Cudnn& cudnn_;
  std::vector<void*> raw_;
  std::size_t size_ = 0;
};

template <class V>
bool read_value(const Cudnn& cudnn, void* from, Attribute attribute, Type type, V& value) {
  std::int64_t count = 0;
  return from && cudnn.get(from, attribute, type, 1, &count, &value) == cudnn::kSuccess && count == 1;
}

/// Whether an engine says that it uses tensor cores or converts its inputs; false where it cannot be asked.
bool converts_inputs(const Cudnn& cudnn, void* engine) {
  std::array<std::int32_t, 32> notes{};
  std::int64_t count = 0;
  if (!engine || cudnn.get(engine, Attribute::engine_numerical_notes, Type::numerical_note, notes.size(),
                           &count, notes.data()) != cudnn::kSuccess)
    return false;
  const auto end = notes.begin() + std::clamp<std::int64_t>(count, 0, std::ssize(notes));
  return std::any_of(notes.begin(), end, [](std::int32_t note) {
    return (1U << note & (cudnn::kTensorCores | cudnn::kConvertsInputs)) != 0;
  });
}

/// See PlanCall::config.
CudnnConfig named_config(const Cudnn& cudnn, void* config, void* engine) {
  constexpr std::size_t kMaxKnobs = 64;  // the library has 46 types of knobs
  std::int64_t number = 0;
  if (!cudnn.get_version || !read_value(cudnn, engine, Attribute::engine_index, Type::int64, number))
    return {};
  CudnnConfig named{.version = static_cast<std::int32_t>(cudnn.get_version()),
                    .engine = static_cast<std::int32_t>(number) + 1};
  const Parts choices(cudnn, config, Attribute::config_knobs, Kind::knob_choice, kMaxKnobs);
  for (void* const choice : choices.all()) {
    std::int32_t type = 0;
    std::int64_t value = 0;
    if (!read_value(cudnn, choice, Attribute::choice_type, Type::knob_type, type) ||
        !read_value(cudnn, choice, Attribute::choice_value, Type::int64, value) ||
        cudnn_knob(type) == kCudnnKnobs)
      return {};
    named.knob[cudnn_knob(type)] = static_cast<std::int32_t>(value) + 1;
  }
  return named;
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
  set(library.get_version, "cudnnGetVersion");
  return library;
}

Unread read_plan(const Cudnn& cudnn, void* plan, PlanCall& found) noexcept try {
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
  const Parts config(cudnn, plan, Attribute::plan_config, Kind::engine_config, 1);
  const Parts engine(cudnn, config.first(), Attribute::config_engine, Kind::engine, 1);
  found.config = named_config(cudnn, config.first(), engine.first());
  std::int64_t workspace_bytes = 0;
  if (read_value(cudnn, plan, Attribute::plan_workspace, Type::int64, workspace_bytes) && workspace_bytes > 0)
    found.workspace_bytes = static_cast<std::size_t>(workspace_bytes);
  return read_graph(json.at("operationGraph"), converts_inputs(cudnn, engine.first()), found);
} catch (const Error&) {
  return Unread::sizes;
} catch (const std::exception&) {
  return Unread::descriptors;
}

}  // namespace kscout::preload
