#pragma once
/// \file
/// Lists of CK Builder: one device operation with its template arguments a line. Rule sets `profiler` and
/// `tests` are such lists, translated.
///
///     for (const auto& [signature, configs] : read_builder_lists("configs", "tests").signatures) ...
///
/// A folder holds {forward,backward_data,backward_weight}/LIST/LAYOUT_DTYPE[_streamk].conf and, for depthwise
/// kernels of every type, forward/LIST/LAYOUT_depthwise.conf. Blank lines and lines that begin with # or ;
/// are skipped. No rule of ours is asked: the lists are what the classic library builds.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "family/family_file.h"

namespace kscout {

/// A line that no config came from.
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

/// One line as a config of the signature; nothing, with the reason, when it has none here.
std::optional<KernelConfig> read_builder_line(std::string_view line, const Signature& signature,
                                              std::string& because);

}  // namespace kscout
