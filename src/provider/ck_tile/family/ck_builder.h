#pragma once
/// \file
/// Reads lists of CK Builder: one device operation with its template arguments per line. Rule sets `profiler`
/// and `tests` are such lists, translated.
///
///     for (const auto& [signature, configs] : read_builder_lists("configs", "tests").signatures) ...
///
/// A folder contains {forward,backward_data,backward_weight}/LIST/LAYOUT_DTYPE[_streamk].conf and, for
/// depthwise kernels of every type, forward/LIST/LAYOUT_depthwise.conf. Blank lines and lines that begin with
/// # or ; are skipped. KernelScout's rules are not applied: the lists state what CK's classic library (the
/// one before CK Tile) builds.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "family/family_file.h"

namespace kscout {

/// CK Tile's curated grouped convolutions, from families/ck_tile_conv_lists.toml: list "curated-conv".
ConfigTable curated_conv(const FamilyFile& file, const Signature& signature, const Device& device);

/// A line that produced no config.
struct SkippedLine {
  std::string place;  ///< "configs/forward/tests/nhwgc_bf16.conf:12"
  std::string because;
};

struct BuilderLists {
  std::vector<SignatureConfigs> signatures;  ///< each config once, in the order of files and lines
  std::vector<SkippedLine> skipped;
};

/// Throws not_found when there is no such list.
BuilderLists read_builder_lists(const std::filesystem::path& folder, std::string_view list);

/// Translates one line to a config of the signature; returns nothing, with the reason, when there is no such
/// config here.
std::optional<KernelConfig> read_builder_line(std::string_view line, const Signature& signature,
                                              std::string& because);

// ---- Reads trait files of CK's instance builder: the grouped convolutions to build, as lists of allowed
// values.
//
//     {"variant": "forward", "trait_config": {"data_type": {"values": ["bf16"]},
//                                             "pipeline": {"values": ["compv3", "compv4"]}}}
//
// Keys: data_type, pipeline, scheduler, ndim_spatial, num_groups_to_merge, double_smem_buffer, split_image,
// explicit_gemm, two_stage. An omitted key allows every value for types (of the device), pipelines,
// schedulers and, for bwd_weight, two_stage; it means 2 for ndim_spatial, 1 for num_groups_to_merge, false
// for the others.

/// Which of the ten tiles are combined with pipeline compv4: `strict` where both buffers fit (CK's current
/// rule), `first` for all (CK's first version, which the first published benchmarks ran).
enum class TraitMode : std::uint8_t { strict, first };
template <>
struct EnumWords<TraitMode> {
  static constexpr std::string_view what = "trait mode";
  static constexpr std::array<std::string_view, 2> words = {"strict", "first"};
};

/// The configs that a trait file requests and that the rules of set `first` admit: the ten tiles of that set
/// with every combination of the requested traits. One entry per rank and type, in the order of the file's
/// lists. `request` gives device and filter. Throws corrupt_data naming the key and the nearest valid word.
std::vector<SignatureConfigs> trait_configs(std::string_view json, std::string_view file,
                                            const FamilyRequest& request, TraitMode mode);

}  // namespace kscout
