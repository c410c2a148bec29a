// A cuDNN whose GPU is this machine's CPU: the functions of its backend API that backend cuda uses, with
// seven engines, which also add a bias to a forward convolution. Code above the API can so be tested without
// the library and without a GPU.
//
//   engine  knobs                   what it does
//   0       -                       computes every convolution (fallback list)
//   1       tile_size 0..3, tilek   computes; refuses problems whose channels per group are odd (modes a, b)
//   2       -                       sums in a narrow type (note 2), listed first by mode a
//   3       -                       forgets the last image when there are several (listed by mode b)
//   4       -                       nondeterministic (note 4), listed by modes a and fallback
//   5       kernel_cfg 0..5         compiles at run time; refuses odd values
//   6       swizzle                 a knob without an axis (listed by mode b)
//   64-1=63                         only its number matters: rule sums-in-accumulator names it for 9.19
//
// STAND_IN_CUDNN=old makes it release 8.9; with STAND_IN_CUDNN=wrong mode a lists engine 3, too. Mode a
// announces two results more than it delivers.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "backend/cuda/cudnn_library.h"
#include "instruments/elements.h"

#define KSCOUT_STAND_IN extern "C" __attribute__((visibility("default")))

namespace kscout::cudnn {
namespace {

constexpr Status kBadParam = 2000, kRefused = 3000, kFailed = 5000;

struct Object {
  Kind kind{};
  bool final = false;
  std::map<Attribute, std::vector<std::int64_t>> numbers;
  std::map<Attribute, float> floats;
  std::map<Attribute, std::vector<std::shared_ptr<Object>>> objects;
  std::map<Attribute, std::vector<void*>> pointers;

  std::int64_t number(Attribute a) const { return numbers.at(a).at(0); }
  const Object& object(Attribute a) const { return *objects.at(a).at(0); }
};
using Shared = std::shared_ptr<Object>;
Shared& shared(void* descriptor) { return *static_cast<Shared*>(descriptor); }

const char* reason = "";
Status refuse(Status status, const char* why) { return reason = why, status; }

constexpr std::int32_t kTile = 2, kTilek = 13, kSwizzle = 1, kKernelCfg = 24;
struct Range {
  std::int32_t type;
  std::int64_t least, most;
};
std::vector<Range> knobs_of(std::int64_t engine) {
  if (engine == 1) return {{kTile, 0, 3}, {kTilek, 0, 1}};
  if (engine == 5) return {{kKernelCfg, 0, 5}};
  return engine == 6 ? std::vector<Range>{{kSwizzle, 0, 1}} : std::vector<Range>{};
}
bool exists(std::int64_t engine) { return (engine >= 0 && engine <= 6) || engine == 63; }

Shared object(Kind kind) {
  auto made = std::make_shared<Object>();
  made->kind = kind;
  return made;
}

Shared config_of(const Shared& graph, std::int64_t engine,
                 std::vector<std::pair<std::int32_t, std::int64_t>> knobs) {
  Shared config = object(Kind::engine_config), its = object(Kind::engine);
  its->numbers[Attribute::engine_index] = {engine};
  its->objects[Attribute::engine_graph] = {graph};
  its->final = config->final = true;
  config->objects[Attribute::config_engine] = {its};
  for (const auto& [type, value] : knobs) {
    Shared choice = object(Kind::knob_choice);
    choice->numbers[Attribute::choice_type] = {type};
    choice->numbers[Attribute::choice_value] = {value};
    choice->final = true;
    config->objects[Attribute::config_knobs].push_back(choice);
  }
  return config;
}

const Object& operation_of(const Object& graph) { return graph.object(Attribute::graph_operations); }
/// The addition of a bias to what the operation computes; null: none.
const Object* addition_of(const Object& graph) {
  const auto& operations = graph.objects.at(Attribute::graph_operations);
  return operations.size() > 1 ? operations[1].get() : nullptr;
}

/// The tensors of an operation.
struct Tensors {
  const Object *in, *wei, *out;
};
Tensors tensors_of(const Object& op) {
  using enum Attribute;
  if (op.kind == Kind::backward_data) return {&op.object(data_dx), &op.object(data_w), &op.object(data_dy)};
  if (op.kind == Kind::backward_weight)
    return {&op.object(weight_x), &op.object(weight_dw), &op.object(weight_dy)};
  return {&op.object(forward_x), &op.object(forward_w), &op.object(forward_y)};
}
const Object& convolution_of(const Object& op) {
  using enum Attribute;
  return op.object(op.kind == Kind::backward_data     ? data_convolution
                   : op.kind == Kind::backward_weight ? weight_convolution
                                                      : forward_convolution);
}

bool takes(const Object& graph, std::int64_t engine) {
  const std::int64_t channels =
      tensors_of(operation_of(graph)).wei->numbers.at(Attribute::tensor_dimensions)[1];
  return exists(engine) && (engine != 1 || channels % 2 == 0);
}

bool asked_to_be(const char* word) {
  const char* const asked = std::getenv("STAND_IN_CUDNN");
  return asked && std::strcmp(asked, word) == 0;
}

std::vector<Shared> list_of(const Shared& graph, HeuristicMode mode) {
  std::vector<Shared> list;
  const auto add = [&](std::int64_t engine, std::vector<std::pair<std::int32_t, std::int64_t>> knobs = {}) {
    if (takes(*graph, engine)) list.push_back(config_of(graph, engine, std::move(knobs)));
  };
  if (mode == HeuristicMode::a) {
    add(2), add(63), add(1, {{kTile, 2}, {kTilek, 1}}), add(1, {{kTile, 0}, {kTilek, 1}});
    if (asked_to_be("wrong")) add(3);
  } else if (mode == HeuristicMode::b) {
    add(1, {{kTile, 3}, {kTilek, 0}}), add(3), add(6, {{kSwizzle, 1}});
  } else {
    add(4), add(0);
  }
  return list;
}

DType dtype_of(const Object& tensor) {
  const auto type = static_cast<DataType>(tensor.number(Attribute::tensor_type));
  return type == DataType::bf16 ? DType::bf16 : type == DataType::fp16 ? DType::fp16 : DType::fp32;
}
/// All values of a tensor, by their offsets.
std::vector<double> values_of(const Object& tensor, const void* data) {
  const auto& sizes = tensor.numbers.at(Attribute::tensor_dimensions);
  const auto& strides = tensor.numbers.at(Attribute::tensor_strides);
  std::int64_t last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  std::vector<double> values(static_cast<std::size_t>(last) + 1);
  with_element(dtype_of(tensor), [&]<class E>() {
    for (std::int64_t i = 0; i <= last; ++i) values[static_cast<std::size_t>(i)] = E::load(data, i);
  });
  return values;
}

/// Calls `use(in, wei, out)` with the offsets of every product.
template <class Use>
void for_each_product(const Object& op, std::int64_t images, Use&& use) {
  const auto [in, wei, out] = tensors_of(op);
  const Object& conv = convolution_of(op);
  const auto& is = in->numbers.at(Attribute::tensor_dimensions);
  const auto& ws = wei->numbers.at(Attribute::tensor_dimensions);
  const auto& os = out->numbers.at(Attribute::tensor_dimensions);
  const auto& it = in->numbers.at(Attribute::tensor_strides);
  const auto& wt = wei->numbers.at(Attribute::tensor_strides);
  const auto& ot = out->numbers.at(Attribute::tensor_strides);
  const auto& strides = conv.numbers.at(Attribute::convolution_strides);
  const auto& pads = conv.numbers.at(Attribute::convolution_pre_paddings);
  const auto& dilations = conv.numbers.at(Attribute::convolution_dilations);
  const std::size_t rank = is.size() - 2;
  const std::int64_t groups = is[1] / ws[1], k_group = ws[0] / groups;
  std::vector<std::int64_t> pixel(rank), tap(rank);
  const auto next = [&](std::vector<std::int64_t>& at, const std::vector<std::int64_t>& sizes) {
    for (std::size_t i = rank; i-- > 0;) {
      if (++at[i] < sizes[i + 2]) return true;
      at[i] = 0;
    }
    return false;
  };
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t k = 0; k < ws[0]; ++k) {
      do {
        do {
          std::int64_t from = n * it[0], to = n * ot[0] + k * ot[1], by = k * wt[0];
          bool inside = true;
          for (std::size_t i = 0; i < rank; ++i) {
            const std::int64_t at = pixel[i] * strides[i] - pads[i] + tap[i] * dilations[i];
            inside = inside && at >= 0 && at < is[i + 2];
            from += at * it[i + 2], by += tap[i] * wt[i + 2], to += pixel[i] * ot[i + 2];
          }
          for (std::int64_t c = 0; inside && c < ws[1]; ++c)
            use(from + (k / k_group * ws[1] + c) * it[1], by + c * wt[1], to);
        } while (next(tap, ws));
      } while (next(pixel, os));
    }
  }
}

Status compute(const Object& config, const Object& pack) {
  const Object& engine = config.object(Attribute::config_engine);
  const Object& graph = engine.object(Attribute::engine_graph);
  const Object& op = operation_of(graph);
  const Object* const addition = addition_of(graph);
  const Tensors tensors = tensors_of(op);
  const auto& ids = pack.numbers.at(Attribute::pack_ids);
  const auto pointer = [&](const Object& tensor) {
    const auto at = std::ranges::find(ids, tensor.number(Attribute::tensor_id)) - ids.begin();
    return pack.pointers.at(Attribute::pack_pointers).at(static_cast<std::size_t>(at));
  };
  const bool data = op.kind == Kind::backward_data, weight = op.kind == Kind::backward_weight;
  const Object& result = addition ? addition->object(Attribute::pointwise_y)
                         : data   ? *tensors.in
                         : weight ? *tensors.wei
                                  : *tensors.out;
  std::size_t elements = 1;
  for (const std::int64_t size : result.numbers.at(Attribute::tensor_dimensions))
    elements *= static_cast<std::size_t>(size);
  std::vector<double> sums(elements, 0);
  std::int64_t images = tensors.in->numbers.at(Attribute::tensor_dimensions)[0];
  if (engine.number(Attribute::engine_index) == 3) images -= images > 1;
  const Object &of_a = weight ? *tensors.out : *tensors.wei, &of_b = data ? *tensors.out : *tensors.in;
  const std::vector<double> a = values_of(of_a, pointer(of_a)), b = values_of(of_b, pointer(of_b));
  for_each_product(op, images, [&](std::int64_t i, std::int64_t w, std::int64_t o) {
    const std::int64_t to = data ? i : weight ? w : o;
    sums[static_cast<std::size_t>(to)] +=
        a[static_cast<std::size_t>(weight ? o : w)] * b[static_cast<std::size_t>(data ? o : i)];
  });
  if (addition) {
    const Object& of_bias = addition->object(Attribute::pointwise_b);
    const std::vector<double> bias = values_of(of_bias, pointer(of_bias));
    const auto step = static_cast<std::size_t>(result.numbers.at(Attribute::tensor_strides)[1]);
    for (std::size_t i = 0; i < elements; ++i) sums[i] += bias[i / step % bias.size()];
  }
  with_element(dtype_of(result), [&]<class E>() {
    for (std::size_t i = 0; i < elements; ++i)
      E::store(pointer(result), static_cast<std::int64_t>(i), sums[i]);
  });
  return kSuccess;
}

bool of_words(Type type) {
  return type != Type::int64 && type != Type::descriptor && type != Type::pointer && type != Type::handle &&
         type != Type::float32 && type != Type::character;
}

Status finalize(Object& it) {
  if (it.kind == Kind::engine &&
      !takes(it.object(Attribute::engine_graph), it.number(Attribute::engine_index)))
    return refuse(kRefused, "not for this problem");
  if (it.kind == Kind::engine_config) {
    const std::int64_t engine = it.object(Attribute::config_engine).number(Attribute::engine_index);
    for (const Shared& choice : it.objects[Attribute::config_knobs]) {
      const auto ranges = knobs_of(engine);
      const auto known = std::ranges::find(ranges, choice->number(Attribute::choice_type), &Range::type);
      const std::int64_t value = choice->number(Attribute::choice_value);
      if (known == ranges.end() || value < known->least || value > known->most ||
          (known->type == kKernelCfg && value % 2 != 0))
        return refuse(kRefused, "no such knob or value");
    }
  }
  // A tensor inside a kernel has no memory of its own.
  if (it.kind == Kind::graph && addition_of(it) &&
      !operation_of(it).object(Attribute::forward_y).numbers.contains(Attribute::tensor_is_virtual))
    return refuse(kBadParam, "the convolution's result is not virtual");
  if (it.kind == Kind::plan && !it.pointers.contains(Attribute::plan_handle))
    return refuse(kBadParam, "a plan needs a handle");
  it.final = true;
  return kSuccess;
}

}  // namespace

KSCOUT_STAND_IN std::size_t cudnnGetVersion() { return asked_to_be("old") ? 8907 : 91900; }
KSCOUT_STAND_IN const char* cudnnGetErrorString(Status status) {
  return status == kRefused ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}
KSCOUT_STAND_IN void cudnnGetLastErrorString(char* text, std::size_t size) {
  std::strncpy(text, reason, size - 1);
  text[size - 1] = '\0';
}
KSCOUT_STAND_IN Status cudnnCreate(void** handle) {
  static int gpu;
  *handle = &gpu;
  return kSuccess;
}
KSCOUT_STAND_IN Status cudnnSetStream(void*, void*) { return kSuccess; }
KSCOUT_STAND_IN Status cudnnBackendCreateDescriptor(Kind kind, void** descriptor) {
  *descriptor = new Shared(object(kind));
  return kSuccess;
}
KSCOUT_STAND_IN Status cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<Shared*>(descriptor);
  return kSuccess;
}
KSCOUT_STAND_IN Status cudnnBackendFinalize(void* descriptor) { return finalize(*shared(descriptor)); }

KSCOUT_STAND_IN Status cudnnBackendSetAttribute(void* descriptor, Attribute attribute, Type type,
                                                std::int64_t count, const void* values) {
  Object& it = *shared(descriptor);
  if (it.final) return refuse(kBadParam, "it is final");
  const auto size = static_cast<std::size_t>(count);
  if (type == Type::int64) {
    const auto* const list = static_cast<const std::int64_t*>(values);
    it.numbers[attribute].assign(list, list + size);
  } else if (type == Type::descriptor) {
    for (std::size_t i = 0; i < size; ++i) {
      const Shared& other = shared(static_cast<void* const*>(values)[i]);
      if (!other->final) return refuse(kBadParam, "what it refers to is not final");
      it.objects[attribute].push_back(other);
    }
  } else if (type == Type::pointer || type == Type::handle) {
    it.pointers[attribute].assign(static_cast<void* const*>(values),
                                  static_cast<void* const*>(values) + size);
  } else if (type == Type::float32) {
    it.floats[attribute] = *static_cast<const float*>(values);
  } else if (type == Type::character) {
    it.numbers[attribute] = {count};
  } else {
    it.numbers[attribute] = {type == Type::boolean ? *static_cast<const bool*>(values)
                                                   : *static_cast<const std::int32_t*>(values)};
  }
  return kSuccess;
}

KSCOUT_STAND_IN Status cudnnBackendGetAttribute(void* descriptor, Attribute attribute, Type type,
                                                std::int64_t capacity, std::int64_t* count, void* values) {
  const Shared& of = shared(descriptor);
  Object& it = *of;
  if (attribute == Attribute::heuristic_results) {
    const Shared& graph = it.objects.at(Attribute::heuristic_graph)[0];
    const auto mode = static_cast<HeuristicMode>(it.number(Attribute::heuristic_mode));
    it.objects[attribute] = list_of(graph, mode);
    if (capacity == 0 && mode == HeuristicMode::a) {
      *count = static_cast<std::int64_t>(it.objects[attribute].size()) + 2;
      return kSuccess;
    }
  }
  if (type == Type::descriptor) {
    const auto& list = it.objects[attribute];
    *count = static_cast<std::int64_t>(list.size());
    for (std::int64_t i = 0; i < std::min(*count, capacity); ++i)
      shared(static_cast<void**>(values)[i]) = list[static_cast<std::size_t>(i)];
    return kSuccess;
  }
  const auto give = [&](std::vector<std::int32_t> notes) {
    *count = static_cast<std::int64_t>(notes.size());
    std::ranges::copy(notes, static_cast<std::int32_t*>(values));
    return kSuccess;
  };
  if (attribute == Attribute::engine_numerical_notes) {
    const std::int64_t engine = it.number(Attribute::engine_index);
    return give(engine == 2 ? std::vector{2} : engine == 4 ? std::vector{4} : std::vector<std::int32_t>{});
  }
  if (attribute == Attribute::engine_behavior_notes)
    return give(it.number(Attribute::engine_index) == 5 ? std::vector{0} : std::vector<std::int32_t>{});
  std::int64_t value = 0;
  if (attribute == Attribute::config_workspace || attribute == Attribute::plan_workspace) {
    value = 256;
  } else if (attribute == Attribute::graph_engines) {
    value = 64;
  } else if (it.numbers.contains(attribute)) {
    value = it.number(attribute);
  } else {
    return refuse(kBadParam, "it has no such attribute");
  }
  *count = 1;
  if (of_words(type)) {
    *static_cast<std::int32_t*>(values) = static_cast<std::int32_t>(value);
  } else {
    *static_cast<std::int64_t*>(values) = value;
  }
  return kSuccess;
}

KSCOUT_STAND_IN Status cudnnBackendExecute(void*, void* plan, void* pack) {
  const Object& of = *shared(plan);
  if (!of.final || !shared(pack)->final) return kFailed;
  return compute(of.object(Attribute::plan_config), *shared(pack));
}

}  // namespace kscout::cudnn
