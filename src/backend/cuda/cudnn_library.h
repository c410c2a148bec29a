#pragma once
/// \file
/// Loads NVIDIA's cuDNN at first use, and declares what its C backend API needs: numbers and functions, as
/// NVIDIA documents them (cuDNN backend API reference). The build needs no header of the library.
///
///     const cudnn::Functions& f = cudnn::api();          // throws unsupported where the library is missing
///     cudnn::Descriptor graph(cudnn::Kind::graph);
///
/// KSCOUT_CUDNN names a file of the library; the default is its usual names and places. A process that only
/// loads the library opens no GPU.
#include <cstddef>
#include <cstdint>
#include <string>

namespace kscout::cudnn {

using Status = std::int32_t;
inline constexpr Status kSuccess = 0;
/// Statuses from here on mean that work on the GPU failed; the ones below, that the library refuses.
inline constexpr Status kExecutionFailed = 5000;

/// Kinds of descriptors.
enum class Kind : std::int32_t {
  pointwise = 0,
  convolution = 1,
  engine = 2,
  engine_config = 3,
  heuristic = 4,
  plan = 5,
  knob_choice = 7,
  forward = 10,
  backward_weight = 11,
  backward_data = 12,
  pointwise_operation = 13,
  graph = 15,
  variant_pack = 16,
  tensor = 17,
  device = 38,  ///< since release 9.8
};

/// Types of attributes.
enum class Type : std::int32_t {
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  float32 = 4,
  pointer = 6,
  convolution_mode = 7,
  heuristic_mode = 8,
  knob_type = 9,
  numerical_note = 11,
  pointwise_mode = 14,
  descriptor = 15,
  behavior_note = 19,
  character = 24,
};

enum class Attribute : std::int32_t {
  pointwise_mode = 0,
  pointwise_compute_type = 1,
  convolution_compute_type = 100,
  convolution_mode = 101,
  convolution_dilations = 102,
  convolution_strides = 103,
  convolution_post_paddings = 104,
  convolution_pre_paddings = 105,
  convolution_spatial_dims = 106,
  heuristic_mode = 200,
  heuristic_graph = 201,
  heuristic_results = 202,
  heuristic_device = 204,
  config_engine = 300,
  config_knobs = 302,
  config_workspace = 303,
  plan_handle = 400,
  plan_config = 401,
  plan_workspace = 402,
  plan_json = 405,
  choice_type = 600,
  choice_value = 601,
  forward_alpha = 700,
  forward_beta = 701,
  forward_convolution = 702,
  forward_w = 703,
  forward_x = 704,
  forward_y = 705,
  data_alpha = 706,
  data_beta = 707,
  data_convolution = 708,
  data_w = 709,
  data_dx = 710,
  data_dy = 711,
  weight_alpha = 712,
  weight_beta = 713,
  weight_convolution = 714,
  weight_dw = 715,
  weight_x = 716,
  weight_dy = 717,
  pointwise_descriptor = 750,
  pointwise_x = 751,
  pointwise_b = 752,
  pointwise_y = 753,
  graph_handle = 800,
  graph_operations = 801,
  graph_engines = 802,
  tensor_alignment = 900,
  tensor_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_id = 906,
  tensor_is_virtual = 907,
  pack_ids = 1000,
  pack_pointers = 1001,
  pack_workspace = 1003,
  knob_type = 1200,
  engine_graph = 1300,
  engine_index = 1301,
  engine_numerical_notes = 1303,
  engine_behavior_notes = 1305,
  engine_device = 1307,
  device_json = 2702,
};

enum class DataType : std::int32_t { fp32 = 0, fp16 = 2, bf16 = 9 };
enum class HeuristicMode : std::int32_t { b = 1, fallback = 2, a = 3 };

/// Bits of an engine's notes: 1 << the library's number.
inline constexpr std::uint32_t kTensorCores = 1 << 0, kConvertsInputs = 1 << 1, kSumsNarrow = 1 << 2,
                               kNondeterministic = 1 << 4;
inline constexpr std::uint32_t kCompilesAtRunTime = 1 << 0;

struct Functions {
  std::size_t (*GetVersion)();
  const char* (*GetErrorString)(Status);
  void (*GetLastErrorString)(char* text, std::size_t size);
  Status (*Create)(void** handle);
  Status (*SetStream)(void* handle, void* stream);
  Status (*BackendCreateDescriptor)(Kind, void** descriptor);
  Status (*BackendDestroyDescriptor)(void* descriptor);
  Status (*BackendFinalize)(void* descriptor);
  Status (*BackendSetAttribute)(void* descriptor, Attribute, Type, std::int64_t count, const void* values);
  Status (*BackendGetAttribute)(void* descriptor, Attribute, Type, std::int64_t capacity, std::int64_t* count,
                                void* values);
  Status (*BackendExecute)(void* handle, void* plan, void* variant_pack);
};

/// Throws unsupported when the library cannot be loaded or is older than release 9.
const Functions& api();
/// Why api() would throw; empty when it would not. Loads the library.
std::string missing();
/// cudnnGetVersion(), e.g. 91900; 0 where the library is missing.
std::int32_t version();

/// Throws unsupported when the library refuses (the text says what was being done, and the library's
/// reason), device_failure when work on the GPU failed.
void check(Status status, const char* doing);

}  // namespace kscout::cudnn
