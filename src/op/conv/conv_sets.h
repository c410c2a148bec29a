#pragma once
/// \file
/// Makes sets of convolutions, among them those for training and validating the public CK Tile models.
///
///     const auto problems = make_conv_set("ck_conv_train_fwd", DType::bf16);
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/conv_problem.h>

#include "op/problem_sets.h"
#include "op/skipped_lines.h"

namespace kscout {

/// The sets that make_conv_set accepts.
std::span<const ProblemSetInfo> conv_sets() noexcept;

/// The set or the list of a request, in its direction, packing and layouts and within its limits: distinct
/// problems in the order of the set's definition. Throws invalid_argument naming the nearest set or network,
/// and for limits that contain too few random problems.
std::vector<ConvProblem> make_conv_set(const ProblemSetRequest& request);
std::vector<ConvProblem> make_conv_set(std::string_view name, DType dtype);

/// The problem in another direction; `prepacked` is dropped for conv_bwd_weight, which has no filter to pack.
ConvProblem in_direction(ConvProblem problem, Op direction) noexcept;

/// How often the filters of a list of problems are packed.
enum class Packing : std::uint8_t {
  once,      ///< once for many calls, as for inference
  per_call,  ///< in every call, as for training, whose filters change
  both,      ///< each problem in both forms, with half of the calls each
};
template <>
struct EnumWords<Packing> {
  static constexpr std::string_view what = "packing";
  static constexpr std::array<std::string_view, 3> words = {"once", "per_call", "both"};
};
/// Replaces ConvProblem::prepacked, except of conv_bwd_weight, whose filter is the result.
std::vector<ConvProblem> with_packing(std::span<const ConvProblem> problems, Packing packing);

/// Each problem in each of the layouts that have its number of spatial axes; problems for which there is none
/// are left out. Without layouts: the problems as they are. Throws invalid_argument for a layout of GEMMs,
/// and when no problem is left.
std::vector<ConvProblem> in_layouts(std::vector<ConvProblem> problems, std::span<const Layout> layouts);

/// The set with the repetitions of the definition, which upstream's totals include.
std::vector<ConvProblem> repeated_conv_set(const ProblemSetRequest& request);

/// Defined in conv_networks.cpp and conv_drawn.cpp.
std::vector<ConvProblem> convs_of_networks(DType dtype, const std::vector<std::string>& asked);
std::vector<ConvProblem> random_convs(const ProblemSetRequest& request);

// ---- Samples representative convolutions, and adds convolutions of the kinds that a model predicts badly.
//
//     const auto log = miopen_problems(text_of_driver_lines, {.dtype = DType::bf16});
//     const auto fewer = stratified(log.problems, 100, /*seed=*/42);
//     const auto more = top_up(efficiencies_of_shapes, {.count = 200});

struct MiopenRequest {
  Op op = Op::conv_fwd;             ///< direction of all problems, whatever --forw of a line is
  std::optional<DType> dtype = {};  ///< nothing: the type in a line's operation (convbfp16)
  std::size_t count = 300;
  std::uint64_t seed = 42;
};

struct MiopenProblems {
  std::vector<ConvProblem> problems;
  std::size_t lines = 0;  ///< lines with content
  std::vector<SkippedLines> left_out;
};

/// Reads the command lines of MIOpenDriver in a log (MIOPEN_ENABLE_LOGGING_CMD=1), with long or short flags:
/// --batchsize (-n), --in_channels (-c), --in_h (-H), --in_w (-W), --out_channels (-k), --fil_h (-y), --fil_w
/// (-x), in 3-D also --in_d and --fil_d; pads, strides, dilations and groups as the driver's defaults where
/// they are not given. MIOpen writes --time (-t) last: a line of its log without it, and such a last line of
/// a file without a line end, are cut short. Lines without a convolution are left out and counted by reason.
/// Throws corrupt_data, with the reasons, when no line has one.
MiopenProblems read_miopen_log(std::string_view text, const MiopenRequest& request);

/// The convolutions that one command line ran: in the directions of its --forw (-F) and the layout of its
/// --in_layout, which is NCHW where it is not given.
struct MiopenLine {
  std::vector<ConvProblem> problems;
  std::optional<SkippedLines> fault = {};  ///< why there is none
};
MiopenLine read_miopen_line(const LogLine& line);

/// Draws from the problems of read_miopen_log: at most two per kind (channels in steps of 64, image, filter,
/// strides, groups), then `count` of all of them.
MiopenProblems miopen_problems(std::string_view text, const MiopenRequest& request);

/// Draws `count` problems (all, when there are fewer) in which filters, strides, kinds of groups, image sizes
/// and channels have the same shares as in all problems. A kind's quota is its rounded share, at least 1
/// unless there are more kinds than `count`. The result is in drawn order.
std::vector<ConvProblem> stratified(std::span<const ConvProblem> problems, std::size_t count,
                                    std::uint64_t seed);

/// How well a model chose for a held-out problem: speed of its choice over the best speed, 0 to 1.
struct ShapeEfficiency {
  ConvProblem problem;
  double efficiency = 0;
};

struct TopUpRequest {
  std::size_t count = 500;
  double below = 0.9;                  ///< adds problems of the kinds with a mean efficiency below this
  std::vector<std::string> also = {};  ///< additional kinds to add: "n=2,grouped"
  int density = 1;                     ///< 2: a finer grid
};

/// Problems that were not measured yet, of the kinds (images; plain, grouped, depthwise; sizes of image,
/// channels and filter) for which choices were bad. Takes one problem of each kind in turn. Groups have
/// multiples of 8 channels, products are at least 32 x 32 x 32. Throws invalid_argument for an unknown kind.
std::vector<ConvProblem> top_up(std::span<const ShapeEfficiency> measured, const TopUpRequest& request);

}  // namespace kscout
