#pragma once
/// \file
/// The order in which files keep rows: by signature, then by kernel, then by problem.
///
///     write(rows_in_file_order(table, provider));
///
/// Columns of one kernel then change a few hundred times in a file, and sizes come in ascending order, which
/// zstd shortens further than the order of measuring (docs/formats/dataset.md). And equal rows give
/// equal files, whatever order they came in.
#include <kscout/measurement.h>
#include <kscout/provider.h>

namespace kscout {

/// Signatures and kernels by their words and names; problems by the shape of their weights (n, k of a GEMM),
/// then by their other sizes.
MeasurementTable rows_in_file_order(const MeasurementTable& table, const Provider& provider);

}  // namespace kscout
