#pragma once
/// \file
/// Words that the config spaces of CK Tile share, and what they mean for every op.
#include <array>
#include <span>
#include <string_view>

namespace kscout::ck_tile {

// The first entries keep the order of CK's own feature encoding, so that positions can be read beside its
// tables.
inline constexpr std::array<std::string_view, 16> kPipelineWords = {
    "compv3",   "compv4",      "compv5",         "mem",          "preshufflev2", "basic_v1",
    "compv6",   "compv1",      "compv2",         "preshufflev1", "wavelet",      "comp_async",
    "comp_tdm", "comp_tdm_v2", "basic_async_v1", "depthwise"};
/// GEMMs have no depthwise kernels.
inline constexpr std::span<const std::string_view> kGemmPipelineWords = std::span(kPipelineWords).first<15>();
inline constexpr std::array<std::string_view, 3> kSchedulerWords = {"intrawave", "interwave", "auto"};
inline constexpr std::array<std::string_view, 7> kEpilogueWords = {
    "default", "cshuffle", "none", "bias", "activation", "bias_activation", "tdm"};

/// Pipelines that keep two copies of the staged tiles (dispatcher, LDS budget).
inline constexpr std::array<std::string_view, 3> kDoubleBuffered = {"compv4", "preshufflev2", "comp_async"};
/// Pipelines of which only one work-group fits a compute unit by design.
inline constexpr std::array<std::string_view, 2> kAlone = {"compv4", "comp_async"};
/// What older tools call scheduler `auto`.
inline constexpr std::string_view kAutoAlias = "default";

}  // namespace kscout::ck_tile
