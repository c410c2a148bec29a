#pragma once
/// \file
/// Chooses the few configs of a family that get exact scores, from the problem alone.
///
///     const FamilyOutputs outputs = outputs_of(shortlist, family.configs);  // once per family
///     ShortlistScratch scratch;                                             // one per thread
///     const auto ratings = rate(shortlist, outputs, problem, cores, scratch);
///     const std::size_t found = keep_top(ratings, allowed, always, kShortlisted, kept);   // kept[i] = 1 for found configs
///
/// A perceptron with two hidden layers rates every config. Weights have 8 bits, values 16, sums 32; features
/// and their logarithms are integers, too, so the list is the same on every machine. forest/shortlist-inl.h:
/// the text shared with exported headers. train/shortlist.h: training. docs/design/0003-two-steps.md: why a
/// network.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>

namespace kscout {

/// Number of configs that get exact scores.
inline constexpr std::size_t kShortlisted = 32;
/// The same in a model for any CPU, where the forest's first trees choose them (ModelData::first_trees).
inline constexpr std::size_t kKeptByFirstTrees = 16;
/// Families of up to this many configs have no shortlist: every config gets an exact score.
inline constexpr std::size_t kNoShortlistFamily = 64;

/// Features of a problem: describe_product() of forest/shortlist-inl.h.
inline constexpr std::size_t kShortlistFeatures = 62;
using ShortlistFeatures = std::array<std::int32_t, kShortlistFeatures>;
ShortlistFeatures shortlist_features_of(ProblemRef problem, double cores) noexcept;
/// Number of cores for the features: 1 when unknown.
std::int64_t shortlist_cores(double cores) noexcept;

struct Shortlist {
  static constexpr std::size_t max_inputs = 128;  ///< limit for each layer, so that sums fit in 32 bits

  struct Layer {
    std::uint32_t inputs = 0, outputs = 0;
    std::vector<std::int8_t> weights;        ///< outputs x inputs
    std::vector<std::int32_t> bias, factor;  ///< per output
    bool operator==(const Layer&) const = default;
  };

  ShortlistFeatures mean{}, factor{};  ///< scale features to inputs
  std::array<Layer, 3> layers;
  std::vector<KernelConfig> configs;  ///< one per output of the last layer

  bool operator==(const Shortlist&) const = default;
};

/// Throws invalid_argument unless the layers match each other and no sum can overflow.
void check(const Shortlist& shortlist);

/// Convert everything except `configs` to the bytes of a `.ksf` section, and back; parsing throws
/// corrupt_data.
std::string shortlist_bytes(const Shortlist& shortlist);
Shortlist parse_shortlist(std::string_view bytes);

/// For each config of a family: the output of the last layer that rates it, or `none`.
struct FamilyOutputs {
  static constexpr std::uint32_t none = UINT32_MAX;
  std::vector<std::uint32_t> of;
};
FamilyOutputs outputs_of(const Shortlist& shortlist, const ConfigTable& configs);

/// Grows on first use, then is reused for any shortlist.
struct ShortlistScratch {
  std::array<std::int16_t, Shortlist::max_inputs> inputs, hidden;
  std::vector<std::int16_t> totals;
};

/// Rates each config of a family for a problem; higher is better, and configs without an output are last. The
/// result is in memory of `scratch`; allocates only when that is too small.
std::span<std::int16_t> rate(const Shortlist& shortlist, const FamilyOutputs& outputs, ProblemRef problem,
                             double cores, ShortlistScratch& scratch);

/// Marks in `kept` at most `most` of the configs with allowed[i] != 0 and returns their number: first configs
/// of `always`, then those with the highest ratings; ties keep the earlier config. All spans have one length.
/// Modifies the ratings: the only valid use afterwards is another call with fewer allowed configs or a
/// smaller `most`.
std::size_t keep_top(std::span<std::int16_t> ratings, std::span<const std::uint8_t> allowed,
                     std::span<const std::uint8_t> always, std::size_t most,
                     std::span<std::uint8_t> kept) noexcept;

/// Lowers the scores of all allowed configs that are not kept by one common amount, so that they rank after
/// the kept ones. A ranking then begins with the shortlist in its exact order.
void put_behind(std::span<double> scores, std::span<const std::uint8_t> allowed,
                std::span<const std::uint8_t> kept) noexcept;

}  // namespace kscout
