#pragma once
#include <vector>

#include <fmt/format.h>

#include <kscout/provider.h>

namespace kscout::test {

/// Stands for what cuDNN lists for a convolution: engine configs that the shipped models know.
inline std::vector<KernelConfig> cudnn_list(Op op) {
  std::vector<const char*> names;
  if (op == Op::conv_fwd) {
    names = {"e22_tile_size5_tilek1_stages3_idx_mode1_specfilt0",
             "e62_tile_size0_tilek1_idx_mode0_workspace1_cga_m1_cga_n2",
             "e62_tile_size5_tilek1_idx_mode0_workspace1_cga_m1_cga_n4",
             "e58_workspace2",
             "e45_tile_size0_kblock3_stages4",
             "e0"};
  } else if (op == Op::conv_bwd_data) {
    names = {"e57_tile_size5_kblock4_stages4",
             "e67_tile_size0_tilek1_idx_mode0_workspace1_cga_m1_cga_n2",
             "e67_tile_size5_tilek1_idx_mode0_workspace1_cga_m8_cga_n1",
             "e63_workspace2",
             "e73_tile_size3_tilek1_idx_mode1_cga_m2_cga_n1",
             "e0"};
  } else {
    names = {"e49_split_k7_tile_size3_kblock3_stages2",
             "e65_tile_size5_tilek1_idx_mode1_workspace0_cga_m1_cga_n3",
             "e65_tile_size1_tilek1_idx_mode1_workspace0_cga_m1_cga_n5",
             "e62_workspace2",
             "e9_tile_size5_tilek1_stages3_idx_mode1_specfilt0",
             "e0"};
  }
  std::vector<KernelConfig> configs;
  for (const char* const name : names)
    configs.push_back(
        parse_config_name(fmt::format("cudnn_{}_bf16_nhwgc_v91400__{}", word(op), name)).config);
  return configs;
}

}  // namespace kscout::test
