#pragma once
/// \file
/// Writes tables of fused mixture-of-experts kernels that serving engines read (vLLM, SGLang): for each
/// number of tokens the tile of the kernel. An engine takes the row whose number is nearest.
///
///     const MoeTable table = moe_table(choices, {.top_k = 8, .device_name = "NVIDIA H100 80GB HBM3"});
///     write_out(folder / table.name, table.text);       // E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3.json
#include <cstdint>
#include <span>
#include <string>

#include "export/header.h"

namespace kscout {

struct MoeNaming {
  std::int64_t top_k = 0;  ///< experts of each token
  std::string device_name;
  std::string block_shape;  ///< of quantised weights, "128,128"; empty: none
};

struct MoeTable {
  std::string name;  ///< of the file for which engines look
  std::string text;  ///< JSON
};

/// The problems are grouped GEMMs of the first projection: groups are the experts, n is twice the
/// intermediate size (gate and up). The configs have the axes block_size_m, block_size_n, block_size_k,
/// group_size_m, num_warps and num_stages, and may have split_k. Throws invalid_argument for other problems
/// and axes, rows that top_k does not divide, a number of tokens that occurs twice.
MoeTable moe_table(std::span<const ShapeChoice> choices, const MoeNaming& naming);

}  // namespace kscout
