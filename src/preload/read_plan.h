#pragma once
/// \file
/// Reads the convolution that a plan of cuDNN computes, and how and on which tensors it does.
///
///     const Cudnn cudnn = Cudnn::found_by(find);
///     PlanCall plan;
///     if (const Unread why = read_plan(cudnn, descriptor, plan); why == Unread::none) count(plan.problem);
///
/// The library returns no operation of a finished plan, but the plan as JSON
/// (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION; cuDNN backend API reference), with the graph of
/// operations.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include <kscout/conv_problem.h>

#include "backend/cuda/cudnn_library.h"
#include "preload/calls.h"
#include "preload/read_calls.h"
#include "provider/cudnn/cudnn.h"

namespace kscout::preload {

/// Functions of the cuDNN that the program has loaded; null where it lacks one.
struct Cudnn {
  cudnn::Status (*create)(cudnn::Kind, void** descriptor) = nullptr;
  cudnn::Status (*destroy)(void* descriptor) = nullptr;
  cudnn::Status (*get)(void* descriptor, cudnn::Attribute, cudnn::Type, std::int64_t capacity,
                       std::int64_t* count, void* values) = nullptr;
  cudnn::Status (*get_stream)(void* handle, void** stream) = nullptr;
  std::size_t (*get_version)() = nullptr;

  static Cudnn found_by(kscout_find find) noexcept;
};

struct PlanCall {
  ConvProblem problem;
  /// By which variant packs name a tensor. Another name than a number: kNoName.
  static constexpr std::int64_t kNoName = std::numeric_limits<std::int64_t>::min();
  std::int64_t in = kNoName, wei = kNoName, out = kNoName;
  std::size_t workspace_bytes = 0;
  CudnnConfig config = {};  ///< engine 0: the plan does not name its engine, or has knobs without an axis
};

/// Sets `found`, unless a reason is returned. An fp32 convolution is tf32 where the plan's engine converts
/// its inputs. Takes as long as parsing the plan, which may hold code.
Unread read_plan(const Cudnn& cudnn, void* plan, PlanCall& found) noexcept;

}  // namespace kscout::preload
