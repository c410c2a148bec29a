#pragma once
#include <vector>

#include <fmt/format.h>

#include <kscout/provider.h>

namespace kscout::test {

/// Stands for what cuBLASLt lists for a problem: a slow algorithm of small tiles first.
inline std::vector<KernelConfig> cublaslt_list(DType dtype = DType::bf16) {
  std::vector<KernelConfig> configs;
  // Of kinds that the shipped models know (select/algorithm_kind.h).
  if (dtype == DType::fp8) {
    for (const char* const name :
         {"a66_128x128x128_st0_s1_none_w0_o1_any_c2x1", "a66_64x32x128_st0_s2_acc_w0_o1_any_c1x2",
          "a66_64x64x128_st0_s1_none_w0_o0_any_c1x4", "a66_128x256x128_st0_s1_none_w0_o1_any_c2x4"})
      configs.push_back(parse_config_name(fmt::format("cublaslt_gemm_fp8_rcr_v130100__{}", name)).config);
    return configs;
  }
  for (const char* const name :
       {"a24_16x16x0_st0_s1_none_w0_o0_any_c0x0", "a66_128x128x64_st0_s1_none_w0_o1_any_c2x1",
        "a66_64x32x64_st0_s2_acc_w0_o1_any_c1x2", "a23_64x64x64_st6_s1_none_w0_o0_any_c0x0",
        "a23_256x128x32_st3_s4_acc_w0_o0_any_c0x0", "a13_0x0x0_st0_s1_none_w0_o75_any_c0x0"})
    configs.push_back(parse_config_name(fmt::format("cublaslt_gemm_bf16_rcr_v130100__{}", name)).config);
  return configs;
}

}  // namespace kscout::test
