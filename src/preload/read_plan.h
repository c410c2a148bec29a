#pragma once
/// \file
/// Reads the convolution that a plan of cuDNN computes.
///
///     const Cudnn cudnn = Cudnn::found_by(find);
///     ConvProblem problem;
///     if (const Unread why = read_plan(cudnn, plan, problem); why == Unread::none) count(problem);
///
/// The library returns no operation of a finished plan, but the plan as JSON
/// (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION; cuDNN backend API reference), with the graph of
/// operations.
#include <cstdint>
#include <string_view>

#include <kscout/conv_problem.h>

#include "backend/cuda/cudnn_library.h"
#include "preload/calls.h"
#include "preload/read_calls.h"

namespace kscout::preload {

/// Functions of the cuDNN that the program has loaded; null where it lacks one.
struct Cudnn {
  cudnn::Status (*create)(cudnn::Kind, void** descriptor) = nullptr;
  cudnn::Status (*destroy)(void* descriptor) = nullptr;
  cudnn::Status (*get)(void* descriptor, cudnn::Attribute, cudnn::Type, std::int64_t capacity,
                       std::int64_t* count, void* values) = nullptr;
  cudnn::Status (*get_stream)(void* handle, void** stream) = nullptr;

  static Cudnn found_by(kscout_find find) noexcept;
};

/// Sets `problem`, unless a reason is returned. An fp32 convolution is tf32 where the plan's engine converts
/// its inputs. Takes as long as parsing the plan, which may hold code.
Unread read_plan(const Cudnn& cudnn, void* plan, ConvProblem& problem) noexcept;

}  // namespace kscout::preload
