#pragma once
/// \file
/// Trait files of CK's instance builder: which grouped convolutions to build, as lists of what is allowed.
///
///     {"variant": "forward", "trait_config": {"data_type": {"values": ["bf16"]},
///                                             "pipeline": {"values": ["compv3", "compv4"]}}}
///
/// Keys: data_type, pipeline, scheduler, ndim_spatial, num_groups_to_merge, double_smem_buffer, split_image,
/// explicit_gemm, two_stage. What is left out takes every value for types (of the device), pipelines,
/// schedulers and, for bwd_weight, two_stage; 2 for ndim_spatial, 1 for num_groups_to_merge, false for the
/// others.
#include <string_view>
#include <vector>

#include "family/family_file.h"

namespace kscout {

/// On which of the ten tiles compv4 is listed: `strict` where both buffers fit (CK's rule today), `first` on
/// all (CK's first version, and what the first published benchmarks ran).
enum class TraitMode : std::uint8_t { strict, first };
template <>
struct EnumWords<TraitMode> {
  static constexpr std::string_view what = "trait mode";
  static constexpr std::array<std::string_view, 2> words = {"strict", "first"};
};

/// The configs that a trait file asks for and the rules of set `first` admit: the ten tiles of that set under
/// every combination of traits, by signature, types and ranks as listed. `request` gives device and filter.
/// Throws corrupt_data naming the key and the nearest valid word.
std::vector<SignatureConfigs> trait_configs(std::string_view json, std::string_view file,
                                            const FamilyRequest& request, TraitMode mode);

}  // namespace kscout
