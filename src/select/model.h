#pragma once
/// \file
/// A trained model: everything that a decision needs, read from one `.ksf` file.
///
///     const Model model = Model::load("models/gemm_fp32_zen3-2c");   // a folder, or a .ksf file
///     const Family* family = model.family(signature_of(problem));    // null: not trained for it
///     std::vector<double> scores(family->configs.size());
///     model.score(problem, scores);                                  // higher is better
///     const std::vector<double> tflops = model.predicted_tflops(problem, scores);
///
/// The file holds shortlists, forests, formulas as text, configs with traits and applicability rules, the
/// training device and calibration: the catalogue and the rules of the program may change without breaking an
/// old model. Bytes: docs/formats/ksf.md. Copies share what they hold; all calls are safe in many threads.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/family.h>

#include "forest/forest.h"
#include "forest/shortlist.h"
#include "select/compiled_family.h"
#include "select/confidence.h"

namespace kscout {

/// What a forest was trained to predict.
enum class Target : std::uint8_t {
  tflops,     ///< ln(1 + TFLOPS)
  latency,    ///< ln(1 + microseconds); lower is better
  bandwidth,  ///< ln(1 + GB/s)
  relative,   ///< ln(TFLOPS / best TFLOPS of the problem)
  rank,       ///< order only (lambdarank)
};
template <>
struct EnumWords<Target> {
  static constexpr std::string_view what = "target";
  static constexpr std::array<std::string_view, 5> words = {"tflops", "latency", "bandwidth", "relative",
                                                            "rank"};
};

/// One trained target. Calibration on out-of-fold predictions: ln TFLOPS = offset + slope * x, where x is
/// what the target says about ln TFLOPS (for relative and rank: minus the best, to which
/// ModelData::best_tflops is added).
struct TargetForest {
  Target target = Target::relative;
  Forest forest;
  double offset = 0;
  double slope = 1;  ///< above 0
  bool operator==(const TargetForest&) const = default;
};

/// What a `.ksf` file holds.
struct ModelData {
  std::vector<Family> families;  ///< one per signature; same provider, op, device and rule set
  std::shared_ptr<const Schema> schema;
  std::vector<TargetForest> targets;  ///< distinct; the first is the default
  /// ln of the TFLOPS of the best config, from features that depend on the problem only. Needed by relative
  /// and rank.
  Forest best_tflops;
  std::vector<std::uint32_t> best_features;  ///< their positions in the schema
  /// Which configs of a family of more than kNoShortlistFamily get exact scores; nothing: all do.
  std::optional<Shortlist> shortlist;
  std::string fingerprint;  ///< of the training data
  /// How far choices by the default target may be trusted; nothing when too little was measured to tell.
  std::optional<Confidence> confidence;
};

class Model {
 public:
  /// Checks `data`; throws invalid_argument naming what is wrong.
  explicit Model(ModelData data);

  /// Reads a `.ksf` file, or the one in a model folder. Throws not_found, unsupported (newer format),
  /// corrupt_data.
  static Model load(const std::filesystem::path& folder_or_file);
  /// Same from bytes.
  static Model parse(std::string_view bytes);
  /// The bytes of the `.ksf` file: equal models give equal bytes.
  std::string bytes() const;

  const ModelData& data() const noexcept;
  const Device& device() const noexcept { return data().families.front().device; }
  std::string_view provider() const noexcept { return data().families.front().provider; }
  Target default_target() const noexcept { return data().targets.front().target; }
  bool has(Target target) const noexcept;

  /// The family of a signature (accumulate aside: reading C too changes no choice here); null when not
  /// trained.
  const Family* family(const Signature& signature) const noexcept;

  /// Where one of data().families stands among them.
  std::size_t position(const Family& family) const noexcept;

  /// family(), compiled.
  const CompiledFamily* compiled(const Signature& signature) const noexcept;

  /// Fills `best` with applicable, allowed configs (empty: all), best first: the family's shortlist by
  /// exact scores, then the others by theirs, lowered as score() tells; ties keep family order. How many: 0
  /// also when the schema cannot describe the problem. The model has the target. Allocates only when
  /// `scratch` is smaller than this family needs.
  std::size_t rank(const CompiledFamily& family, ProblemRef problem, Target target,
                   std::span<const std::uint8_t> allowed, std::span<Ranked> best,
                   SelectScratch& scratch) const;

  /// Writes one score per config of family(signature_of(problem)), higher is better; configs that an
  /// applicability rule keeps from the problem get -infinity. Configs that are not on the shortlist are
  /// lowered by one amount so that they stand behind it: the highest score is that of the choice. Throws
  /// unsupported when there is no family, invalid_argument for a target that the model lacks.
  void score(ProblemRef problem, std::span<double> scores) const;
  void score(ProblemRef problem, Target target, std::span<double> scores) const;

  /// The same as the forest says it: no config is lowered.
  void exact_scores(ProblemRef problem, Target target, std::span<double> scores) const;

  /// 1 for each config of family(signature_of(problem)) that gets an exact score when a choice is made: those
  /// on the shortlist, or all that can take the problem. Throws unsupported when there is no family.
  std::vector<std::uint8_t> candidates(ProblemRef problem) const;

  /// Scores of any configs of the provider's space, traits taken from the provider: also configs outside the
  /// family, and signatures that were not trained. Applicability rules are not asked.
  std::vector<double> score_configs(ProblemRef problem, const ConfigTable& configs) const;
  std::vector<double> score_configs(ProblemRef problem, const ConfigTable& configs, Target target) const;

  /// Predicted TFLOPS for scores of one problem as the functions above wrote them (all of one family or
  /// table: a rank counts from the best of them). -infinity gives 0.
  std::vector<double> predicted_tflops(ProblemRef problem, std::span<const double> scores) const;
  std::vector<double> predicted_tflops(ProblemRef problem, Target target,
                                       std::span<const double> scores) const;

  /// The probability that the first of a ranking of one of data().families by `target` runs within 3 % of the
  /// best config. `tflops`: predicted, best first, Confidence::top of them where there are so many. NaN when
  /// the model cannot tell.
  double confidence(const Family& family, ProblemRef problem, Target target,
                    std::span<const double> tflops) const noexcept;

 private:
  struct Compiled;
  const TargetForest& forest_of(Target target) const;
  /// Scores of rows; the schema can describe the problem.
  static void score_rows(const Schema::Rows& rows, ProblemRef problem, const TargetForest& forest,
                         SelectScratch& scratch);
  /// Marks in scratch.kept the configs to score exactly, of those that can take the problem and are allowed
  /// (empty: all); how many. Leaves scratch.applicable incomplete.
  std::size_t shortlist_family(const CompiledFamily& family, ProblemRef problem,
                               std::span<const std::uint8_t> allowed, SelectScratch& scratch) const;
  /// Scores of some configs of a family into scratch.scores, higher is better; false when the schema cannot
  /// describe the problem.
  bool score_some(const CompiledFamily& family, ProblemRef problem, const TargetForest& forest,
                  std::span<const std::uint32_t> configs, SelectScratch& scratch) const;
  /// ln of the TFLOPS from which a target counts; 0 when it counts from nothing.
  double base_log_tflops(ProblemRef problem, Target target) const;

  std::shared_ptr<const Compiled> compiled_;
};

/// The device a model was trained on, without the rest of the model. Throws as Model::load does.
Device model_device(const std::filesystem::path& folder_or_file);

/// ln TFLOPS that a score (higher is better) claims before calibration: absolute for tflops, latency and
/// bandwidth, against the best config for relative, against `top_score` for rank.
double claimed_log_tflops(Target target, double score, double top_score, ProblemRef problem) noexcept;

/// Microseconds of a problem at a speed; NaN when it has no floating-point operations or the speed is 0.
double time_us_of(ProblemRef problem, double tflops) noexcept;

}  // namespace kscout
