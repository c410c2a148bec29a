#pragma once
/// \file
/// Where a tune installs its model, and which features the model reads; both are checked before it measures.
///
///     const std::filesystem::path folder = checked_target(Op::gemm, request, device);
#include <filesystem>

#include <kscout/device.h>

#include "features/schema.h"
#include "tune/tune.h"

namespace kscout {

/// The schema of --schema for the operation, or its default schema: that of the model for any CPU when the
/// training starts from it (`after_shared`). Throws invalid_argument for a schema of other kernels.
Schema tune_schema(Op op, const TuneRequest& request, bool after_shared);

/// The folder to install to, after all checks that need no measurements. Throws invalid_argument.
std::filesystem::path checked_target(Op op, const TuneRequest& request, const Device& device);

}  // namespace kscout
