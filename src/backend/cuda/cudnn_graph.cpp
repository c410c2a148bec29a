#include "backend/cuda/cudnn_graph.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include <kscout/error.h>

#include "backend/cuda/cuda_backend.h"
#include "core/fail.h"

namespace kscout::cudnn {

namespace {

constexpr std::int64_t kAlignment = 16;
constexpr std::int64_t kMaxListed = 1024;
constexpr std::int64_t kMaxKnobs = 64;  // the library has 46 types of knobs
enum TensorId : std::int64_t { kIn = 1, kWei = 2, kOut = 3, kBias = 4, kSums = 5 };

DataType data_type_of(DType dtype) {
  if (dtype == DType::bf16) return DataType::bf16;
  return dtype == DType::fp16 ? DataType::fp16 : DataType::fp32;
}

Kind operation_of(Op op) {
  if (op == Op::conv_bwd_data) return Kind::backward_data;
  return op == Op::conv_bwd_weight ? Kind::backward_weight : Kind::forward;
}

/// The attributes of a direction.
struct OperationAttributes {
  Attribute alpha, beta, convolution, in, wei, out;
};
OperationAttributes attributes_of(Op op) {
  using enum Attribute;
  if (op == Op::conv_bwd_data) return {data_alpha, data_beta, data_convolution, data_dx, data_w, data_dy};
  if (op == Op::conv_bwd_weight)
    return {weight_alpha, weight_beta, weight_convolution, weight_x, weight_dw, weight_dy};
  return {forward_alpha, forward_beta, forward_convolution, forward_x, forward_w, forward_y};
}

/// The values of the spatial axes, outermost first.
std::vector<std::int64_t> spatial(const ConvProblem& p, std::int64_t d, std::int64_t h, std::int64_t w) {
  return spatial_rank(p.layout) == 3 ? std::vector{d, h, w} : std::vector{h, w};
}

/// Dimensions in the library's order: images (or output channels), channels, space. The sums exist inside a
/// kernel only.
Descriptor tensor(TensorId id, DType dtype, std::int64_t first, std::int64_t channels,
                  std::vector<std::int64_t> space, bool channels_last) {
  std::vector<std::int64_t> sizes{first, channels};
  sizes.insert(sizes.end(), space.begin(), space.end());
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t step = 1;
  const auto next = [&](std::size_t axis) {
    strides[axis] = step;
    step *= sizes[axis];
  };
  if (channels_last) next(1);
  for (std::size_t axis = sizes.size() - 1; axis >= 2; --axis) next(axis);
  if (!channels_last) next(1);
  next(0);
  Descriptor made(Kind::tensor);
  const DataType type = data_type_of(dtype);
  made.set(Attribute::tensor_id, id);
  made.set(Attribute::tensor_type, Type::data_type, &type);
  made.set(Attribute::tensor_alignment, kAlignment);
  made.set(Attribute::tensor_dimensions, sizes);
  made.set(Attribute::tensor_strides, strides);
  const bool is_virtual = id == kSums;
  if (is_virtual) made.set(Attribute::tensor_is_virtual, Type::boolean, &is_virtual);
  made.finalize("describing a tensor");
  return made;
}

Descriptor convolution(const ConvProblem& p) {
  Descriptor made(Kind::convolution);
  const DataType sums = DataType::fp32;
  const std::int32_t cross_correlation = 1;
  made.set(Attribute::convolution_compute_type, Type::data_type, &sums);
  made.set(Attribute::convolution_mode, Type::convolution_mode, &cross_correlation);
  made.set(Attribute::convolution_spatial_dims, std::int64_t{spatial_rank(p.layout)});
  made.set(Attribute::convolution_dilations, spatial(p, p.dilation_d, p.dilation_h, p.dilation_w));
  made.set(Attribute::convolution_strides, spatial(p, p.stride_d, p.stride_h, p.stride_w));
  made.set(Attribute::convolution_pre_paddings, spatial(p, p.left_pad_d, p.left_pad_h, p.left_pad_w));
  made.set(Attribute::convolution_post_paddings, spatial(p, p.right_pad_d, p.right_pad_h, p.right_pad_w));
  made.finalize("describing a convolution");
  return made;
}

/// y = x + b, in fp32.
Descriptor addition(const Descriptor& x, const Descriptor& b, const Descriptor& y) {
  Descriptor add(Kind::pointwise);
  const std::int32_t sum = 0;
  const DataType sums = DataType::fp32;
  add.set(Attribute::pointwise_mode, Type::pointwise_mode, &sum);
  add.set(Attribute::pointwise_compute_type, Type::data_type, &sums);
  add.finalize("describing an addition");
  Descriptor made(Kind::pointwise_operation);
  made.set(Attribute::pointwise_descriptor, add);
  made.set(Attribute::pointwise_x, x);
  made.set(Attribute::pointwise_b, b);
  made.set(Attribute::pointwise_y, y);
  made.finalize("describing the addition of a bias");
  return made;
}

/// Descriptors of a list attribute; `room` is how many may come.
std::vector<Descriptor> list_of(const Descriptor& from, Attribute attribute, Kind kind, std::int64_t room,
                                const char* doing) {
  std::vector<Descriptor> list;
  std::vector<void*> raw;
  for (std::int64_t i = 0; i < room; ++i) raw.push_back(list.emplace_back(kind).raw());
  std::int64_t count = 0;
  check(api().BackendGetAttribute(from.raw(), attribute, Type::descriptor, room, &count, raw.data()), doing);
  list.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, room)));
  return list;
}

std::int64_t count_of(const Descriptor& from, Attribute attribute, const char* doing) {
  std::int64_t count = 0;
  check(api().BackendGetAttribute(from.raw(), attribute, Type::descriptor, 0, &count, nullptr), doing);
  return std::clamp<std::int64_t>(count, 0, kMaxListed);
}

std::int32_t word_of(const Descriptor& from, Attribute attribute, Type type) {
  std::int32_t value = 0;
  std::int64_t count = 0;
  check(api().BackendGetAttribute(from.raw(), attribute, type, 1, &count, &value), "reading a config");
  return value;
}

/// Handles of threads that ended, by GPU. Never destroyed: the driver may be gone by then.
struct HandlePool {
  std::mutex mutex;
  std::vector<std::pair<int, void*>> free;
};
HandlePool& handles() {
  static HandlePool* const pool = new HandlePool;
  return *pool;
}

/// The handle of one thread.
class ThreadHandle {
 public:
  ThreadHandle() = default;
  ThreadHandle(const ThreadHandle&) = delete;
  ThreadHandle& operator=(const ThreadHandle&) = delete;
  ~ThreadHandle() { give_back(); }

  void* of_gpu(int gpu) {
    if (handle_ && gpu_ == gpu) return handle_;
    give_back();
    gpu_ = gpu;
    {
      HandlePool& pool = handles();
      const std::scoped_lock lock(pool.mutex);
      const auto found = std::ranges::find(pool.free, gpu, &std::pair<int, void*>::first);
      if (found != pool.free.end()) {
        handle_ = found->second;
        pool.free.erase(found);
      }
    }
    if (!handle_) check(api().Create(&handle_), "opening the library on the GPU");
    return handle_;
  }

 private:
  void give_back() {
    if (!handle_) return;
    const std::scoped_lock lock(handles().mutex);
    handles().free.emplace_back(gpu_, handle_);
    handle_ = nullptr;
  }

  void* handle_ = nullptr;
  int gpu_ = 0;
};

void* thread_handle() {
  static thread_local ThreadHandle own;
  return own.of_gpu(used_cuda_device());
}

}  // namespace

Descriptor::Descriptor(Kind kind) {
  check(api().BackendCreateDescriptor(kind, &raw_), "creating a descriptor");
}

Descriptor::~Descriptor() {
  if (raw_) api().BackendDestroyDescriptor(raw_);
}

void Descriptor::set(Attribute attribute, Type type, const void* values, std::int64_t count) {
  const Status status = api().BackendSetAttribute(raw_, attribute, type, count, values);
  if (status != kSuccess)
    check(status, fmt::format("setting attribute {}", static_cast<int>(attribute)).c_str());
}

void Descriptor::finalize(const char* what) { check(api().BackendFinalize(raw_), what); }

std::int64_t Descriptor::number(Attribute attribute) const {
  std::int64_t value = 0, count = 0;
  check(api().BackendGetAttribute(raw_, attribute, Type::int64, 1, &count, &value), "reading a number");
  return value;
}

std::uint32_t Descriptor::notes(Attribute attribute, Type type) const {
  std::array<std::int32_t, 32> list{};
  std::int64_t count = 0;
  check(api().BackendGetAttribute(raw_, attribute, type, list.size(), &count, list.data()), "reading notes");
  std::uint32_t bits = 0;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(count, list.size()); ++i)
    bits |= 1u << (list[static_cast<std::size_t>(i)] & 31);
  return bits;
}

Target Target::gpu() {
  Target target;
  target.handle_ = thread_handle();
  return target;
}

Target Target::described(const std::string& json) {
  Target target;
  Descriptor& device = target.device_.emplace(Kind::device);
  device.set(Attribute::device_json, Type::character, json.data(), static_cast<std::int64_t>(json.size()));
  device.finalize("reading the description of a GPU");
  return target;
}

std::string numerical_refusal(const EngineConfig& config, DType dtype, bool deterministic) {
  if ((config.notes & kSumsNarrow) != 0) return "the engine sums in a narrower type than fp32";
  if (dtype == DType::fp32 && (config.notes & (kTensorCores | kConvertsInputs)) != 0)
    return "the engine computes fp32 in TF32; dtype tf32 allows that";
  if (deterministic && (config.notes & kNondeterministic) != 0)
    return "the engine may give other bits in each run, and KSCOUT_CUDNN_DETERMINISTIC is set";
  if (config.workspace_bytes > kCudnnWorkspace) {
    // The message omits the missing bytes, so that equal refusals have equal texts.
    return fmt::format("it needs more than the {} MiB of workspace that a config may use",
                       kCudnnWorkspace >> 20);
  }
  return {};
}

bool deterministic_asked() {
  const char* const value = std::getenv("KSCOUT_CUDNN_DETERMINISTIC");
  return value && std::string_view(value) == "1";
}

ConvGraph::ConvGraph(const ConvProblem& p, const Target& target) : target_(target) {
  const bool last = p.layout == Layout::nhwgc || p.layout == Layout::ndhwgc;
  const ConvOutput out = output_sizes(p);
  parts_.push_back(tensor(kIn, p.dtype_in, p.n, p.c, spatial(p, p.d, p.h, p.w), last));
  parts_.push_back(tensor(kWei, p.dtype_wei, p.k, p.c / p.g, spatial(p, p.z, p.y, p.x), true));
  parts_.push_back(tensor(kOut, p.dtype_out, p.n, p.k, spatial(p, out.d, out.h, out.w), last));
  parts_.push_back(convolution(p));
  const bool biased = has_bias(p.epilogue);
  if (biased) {
    parts_.push_back(tensor(kSums, DType::fp32, p.n, p.k, spatial(p, out.d, out.h, out.w), last));
    parts_.push_back(tensor(kBias, p.dtype_out, 1, p.k, spatial(p, 1, 1, 1), last));
  }
  const OperationAttributes names = attributes_of(p.op);
  Descriptor operation(operation_of(p.op));
  const float one = 1, zero = 0;
  operation.set(names.alpha, Type::float32, &one);
  operation.set(names.beta, Type::float32, &zero);
  operation.set(names.convolution, parts_[3]);
  operation.set(names.in, parts_[0]);
  operation.set(names.wei, parts_[1]);
  operation.set(names.out, parts_[biased ? 4 : 2]);
  operation.finalize("describing the operation");
  std::vector<void*> operations{operation.raw()};
  if (biased) operations.push_back(parts_.emplace_back(addition(parts_[4], parts_[5], parts_[2])).raw());
  graph_ = Descriptor(Kind::graph);
  graph_.set(Attribute::graph_operations, Type::descriptor, operations.data(),
             static_cast<std::int64_t>(operations.size()));
  if (void* const handle = target.handle()) graph_.set(Attribute::graph_handle, Type::handle, &handle);
  graph_.finalize("the library has no engine for such a convolution");
  parts_.push_back(std::move(operation));
}

Descriptor ConvGraph::engine(std::int64_t index) const {
  Descriptor made(Kind::engine);
  made.set(Attribute::engine_graph, graph_);
  made.set(Attribute::engine_index, index);
  if (target_.device()) made.set(Attribute::engine_device, *target_.device());
  made.finalize("the engine does not take the problem");
  return made;
}

std::optional<EngineConfig> ConvGraph::read(Descriptor config) {
  EngineConfig found;
  found.engine =
      std::move(list_of(config, Attribute::config_engine, Kind::engine, 1, "reading a config").at(0));
  found.named.engine = static_cast<std::int32_t>(found.engine.number(Attribute::engine_index)) + 1;
  for (const Descriptor& choice :
       list_of(config, Attribute::config_knobs, Kind::knob_choice, kMaxKnobs, "reading a config")) {
    const std::size_t knob = cudnn_knob(word_of(choice, Attribute::choice_type, Type::knob_type));
    const std::int64_t value = choice.number(Attribute::choice_value);
    if (knob == kCudnnKnobs || value < 0 || value > INT32_MAX - 1) return std::nullopt;
    found.named.knob[knob] = static_cast<std::int32_t>(value) + 1;
  }
  found.workspace_bytes = config.number(Attribute::config_workspace);
  found.notes = found.engine.notes(Attribute::engine_numerical_notes, Type::numerical_note);
  found.behavior = found.engine.notes(Attribute::engine_behavior_notes, Type::behavior_note);
  found.config = std::move(config);
  return found;
}

std::vector<EngineConfig> ConvGraph::suggestions(CudnnMode mode, std::size_t* unnamed) const {
  constexpr HeuristicMode kModes[] = {HeuristicMode::a, HeuristicMode::b, HeuristicMode::fallback};
  const HeuristicMode asked = kModes[static_cast<std::size_t>(mode)];
  Descriptor heuristic(Kind::heuristic);
  heuristic.set(Attribute::heuristic_graph, graph_);
  heuristic.set(Attribute::heuristic_mode, Type::heuristic_mode, &asked);
  if (target_.device()) heuristic.set(Attribute::heuristic_device, *target_.device());
  std::vector<EngineConfig> found;
  std::vector<Descriptor> listed;
  try {
    heuristic.finalize("asking the heuristic");
    const std::int64_t announced = count_of(heuristic, Attribute::heuristic_results, "asking the heuristic");
    listed = list_of(heuristic, Attribute::heuristic_results, Kind::engine_config, announced,
                     "asking the heuristic");
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) throw;
    return found;  // a mode may have nothing for a problem that the library computes
  }
  for (Descriptor& one : listed) {
    std::optional<EngineConfig> config;
    try {
      config = read(std::move(one));
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      continue;  // the heuristic announces more results than it delivers
    }
    if (config) {
      found.push_back(std::move(*config));
    } else if (unnamed) {
      ++*unnamed;
    }
  }
  return found;
}

EngineConfig ConvGraph::configure(const CudnnConfig& named) const {
  EngineConfig made;
  made.named = named;
  made.named.version = 0;
  made.engine = engine(named.engine - 1);
  std::vector<Descriptor> choices;
  std::vector<void*> raw;
  for (std::size_t i = 0; i < kCudnnKnobs; ++i) {
    if (named.knob[i] == 0) continue;
    Descriptor& choice = choices.emplace_back(Kind::knob_choice);
    choice.set(Attribute::choice_type, Type::knob_type, &kCudnnKnobTypes[i]);
    choice.set(Attribute::choice_value, std::int64_t{named.knob[i] - 1});
    choice.finalize("a knob's value");
    raw.push_back(choice.raw());
  }
  made.config = Descriptor(Kind::engine_config);
  made.config.set(Attribute::config_engine, made.engine);
  if (!raw.empty())
    made.config.set(Attribute::config_knobs, Type::descriptor, raw.data(),
                    static_cast<std::int64_t>(raw.size()));
  made.config.finalize("the engine refuses these knobs for the problem");
  made.workspace_bytes = made.config.number(Attribute::config_workspace);
  made.notes = made.engine.notes(Attribute::engine_numerical_notes, Type::numerical_note);
  made.behavior = made.engine.notes(Attribute::engine_behavior_notes, Type::behavior_note);
  return made;
}

ConvPlan::ConvPlan(const Target& target, EngineConfig config)
    : config_(std::move(config)), plan_(Kind::plan) {
  void* const handle = target.handle();
  plan_.set(Attribute::plan_handle, Type::handle, &handle);
  plan_.set(Attribute::plan_config, config_.config);
  plan_.finalize("building the plan");
  workspace_bytes_ = plan_.number(Attribute::plan_workspace);
  if (workspace_bytes_ > kCudnnWorkspace) {
    config_.workspace_bytes = workspace_bytes_;
    fail(Errc::unsupported, "cuDNN: {}", numerical_refusal(config_, DType::bf16, false));
  }
}

void ConvPlan::run(const ConvTensors& tensors, void* workspace, void* stream) {
  const auto execute = [](Status status) {
    if (status == kSuccess) return;
    fail(Errc::device_failure, "cuDNN: running a plan: {}", api().GetErrorString(status));
  };
  const std::array<const void*, 5> now{tensors.in, tensors.wei, tensors.out, tensors.bias, workspace};
  if (!pack_.raw() || now != last_) {
    for (const void* const tensor : std::span(now).first(4)) {
      if (reinterpret_cast<std::uintptr_t>(tensor) % kAlignment != 0)
        fail(Errc::invalid_argument, "cuDNN: tensors must be aligned to {} bytes", kAlignment);
    }
    Descriptor pack(Kind::variant_pack);
    const std::int64_t ids[] = {kIn, kWei, kOut, kBias}, count = tensors.bias ? 4 : 3;
    pack.set(Attribute::pack_ids, Type::int64, ids, count);
    pack.set(Attribute::pack_pointers, Type::pointer, now.data(), count);
    pack.set(Attribute::pack_workspace, Type::pointer, &now.back());
    pack.finalize("naming the tensors of a call");
    pack_ = std::move(pack);
    last_ = now;
  }
  void* const handle = thread_handle();
  execute(api().SetStream(handle, stream));
  execute(api().BackendExecute(handle, plan_.raw(), pack_.raw()));
}

}  // namespace kscout::cudnn
