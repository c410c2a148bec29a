#pragma once
/// \file
/// Declares the kernels for measuring (operands, elements, products with a vector, a flush of the level-2
/// cache), and the copies of operands. Each function enqueues its kernel on the default stream unless a
/// stream is given; cudaGetLastError reports errors.
#include <cstdint>

#include <kscout/launch.h>
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
/// Implements Memory::copy. Reads no byte outside the aligned 16 bytes that hold a byte of `copy.from`.
void launch_copy(const MatrixCopy& copy, void* stream);
void launch_read(const void* data, std::uint64_t bytes, std::uint32_t* sink_on_device);

}  // namespace kscout::cuda
