#pragma once
/// \file
/// Declares the kernels for measuring: operands, elements, products with a vector, a flush of the level-2
/// cache. Each function enqueues its kernel on the default stream; cudaGetLastError reports errors.
#include <cstdint>

#include <kscout/types.h>

#include "instruments/instruments.h"

namespace kscout::cuda {

// The functions return false for an element type that they do not support.
bool launch_fill(DType dtype, void* data, std::int64_t count, std::uint32_t operand,
                 const std::uint32_t* flips_on_device);
bool launch_gather(DType dtype, const void* data, const std::int64_t* indices_on_device, std::int64_t count,
                   double* out_on_device);
bool launch_multiply(const MatrixView& view, const void* data, std::int64_t items, const double* x_on_device,
                     bool x_of_each_item, Squares what, double* value_on_device, double* squares_on_device);
void launch_read(const void* data, std::uint64_t bytes, std::uint32_t* sink_on_device);

}  // namespace kscout::cuda
