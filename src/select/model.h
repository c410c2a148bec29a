#pragma once
/// \file
/// Loads a trained model from one `.ksf` file, which contains everything that a decision needs.
///
///     const Model model = Model::load("models/gemm_fp32_any_cpu");   // a folder, or a .ksf file
///     const Family* family = model.family(signature_of(problem));    // null: not trained for it
///     std::vector<double> scores(family->configs.size());
///     model.score(problem, scores);                                  // higher is better
///     const std::vector<double> tflops = model.predicted_tflops(problem, scores);
///
/// The file contains shortlists, forests, formulas as text, configs with traits and applicability rules, the
/// training device and calibration. The program's catalogue and rules may therefore change without breaking
/// an old model. Bytes: docs/formats/ksf.md. Copies share their data; all calls are safe in many threads.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/family.h>

#include "forest/forest.h"
#include "forest/shortlist.h"
#include "select/algorithm_kind.h"
#include "select/compiled_family.h"
#include "select/confidence.h"
#include "select/region.h"

namespace kscout {

/// The quantity that a forest was trained to predict.
enum class Target : std::uint8_t {
  tflops,     ///< TFLOPS
  latency,    ///< microseconds; lower is better
  bandwidth,  ///< GB/s
  relative,   ///< ln(TFLOPS / best TFLOPS of the problem)
  rank,       ///< order only (lambdarank)
};
template <>
struct EnumWords<Target> {
  static constexpr std::string_view what = "target";
  static constexpr std::array<std::string_view, 5> words = {"tflops", "latency", "bandwidth", "relative",
                                                            "rank"};
};

/// What the forest of target tflops, latency or bandwidth gives for a value.
enum class Scale : std::uint8_t {
  log1p,  ///< ln(1 + value): our trainer, and most of CK Tile's models
  value,  ///< the value itself: others of CK Tile's models
  log,    ///< ln(value): models with an exponential link
};
template <>
struct EnumWords<Scale> {
  static constexpr std::string_view what = "scale";
  static constexpr std::array<std::string_view, 3> words = {"log1p", "value", "log"};
};

/// One trained target. Calibration on out-of-fold predictions: ln TFLOPS = offset + slope * x, where x is the
/// target's prediction of ln TFLOPS. For relative and rank, x is relative to the best config, and
/// ModelData::best_tflops is added.
struct ModelTarget {
  Target target = Target::relative;
  Forest forest;
  double offset = 0;
  double slope = 1;            ///< above 0
  Scale scale = Scale::log1p;  ///< relative and rank have no other
  bool operator==(const ModelTarget&) const = default;
};

/// Mean efficiencies of a model of one device and of the model for any CPU, on the same held-out problems of
/// that device.
struct AgainstAnyCpu {
  double mean = 0, any_cpu_mean = 0;  ///< 0 to 1
  std::uint32_t problems = 0;
  bool operator==(const AgainstAnyCpu&) const = default;
};

/// Mean efficiencies on problems of another GPU than that of the training: of the model, and of the library's
/// first suggestion.
struct OnAnotherGpu {
  std::string device;
  double mean = 0, suggestion_mean = 0;  ///< 0 to 1
  std::uint32_t problems = 0;
  bool operator==(const OnAnotherGpu&) const = default;
};

/// The content of a `.ksf` file.
struct ModelData {
  std::vector<Family> families;  ///< one per signature; same provider, op, device and rule set
  std::shared_ptr<const Schema> schema;
  std::vector<ModelTarget> targets;  ///< distinct; the first is the default
  /// Predicts ln of the TFLOPS of the best config, from features of the problem only. Targets relative and
  /// rank need it.
  Forest best_tflops;
  std::vector<std::uint32_t> best_features;  ///< positions of its features in the schema
  /// Chooses the configs that get exact scores in families of more than kNoShortlistFamily configs. Nothing:
  /// every config gets an exact score, or `first_trees` choose.
  std::optional<Shortlist> shortlist;
  /// Number of trees whose sum chooses the kKeptByFirstTrees configs that get exact scores, for a model
  /// without `shortlist`. 0: every config gets an exact score.
  std::uint32_t first_trees = 0;
  std::string fingerprint;  ///< fingerprint of the training data
  /// Confidence in choices by the default target; nothing when the data did not suffice to fit it.
  std::optional<Confidence> confidence;
  std::optional<Region> region;  ///< of the training problems; older models have none
  /// Of a model of a GPU library with suggestions: when the first suggestion answers. Needs `region`.
  std::optional<Guard> guard;
  /// Of a model that ranks what a library lists: the kinds of algorithms that enough lists of the training
  /// have, in order. An algorithm of another kind is neither chosen over the first suggestion nor, where it
  /// is the first, replaced. Empty: the model does not say, and every kind counts as known.
  std::vector<AlgorithmKind> listed_kinds;
  /// The model answers for every CPU (Model::for_device). Its targets are relative or rank; best_tflops
  /// predicts ln TFLOPS of any_cpu() as if every CPU reached the same share of its peak.
  bool any_cpu = false;
  std::vector<Device> known_devices;  ///< that a model for any CPU was trained on
  /// Of a model of one CPU: selectors take the model for any CPU instead where that one is better.
  std::optional<AgainstAnyCpu> against_any_cpu;
  /// Of a model of a GPU library with suggestions: selectors take it on another GPU only where it is recorded
  /// as clearly better than the first suggestion.
  std::vector<OnAnotherGpu> on_other_gpus;
};

/// Throws invalid_argument naming the error when the content of a model is not valid.
void check(const ModelData& data);

class Model {
 public:
  /// Throws invalid_argument naming the error when `data` is not valid.
  explicit Model(ModelData data);

  /// Reads a `.ksf` file, or the one in a model folder. A model for any CPU is made for `device` or, when it
  /// is null, for this machine's CPU; other models do not read `device`. Throws not_found, unsupported (newer
  /// format), corrupt_data, and the errors of for_device().
  static Model load(const std::filesystem::path& folder_or_file, const Device* device = nullptr);
  /// Reads a model from the bytes of a `.ksf` file.
  static Model parse(std::string_view bytes);
  /// The bytes of the `.ksf` file: equal models give equal bytes.
  std::string bytes() const;

  /// A model for any CPU, made for one: its families are those that the rule set enumerates for `device`, and
  /// its predicted speeds are shares of the device's peak. Throws unsupported for a GPU, for a rule set that
  /// this program does not have, and for another model of a CPU.
  /// A model of a GPU, made for another one: features and rules read the facts of `device`; its configs stay.
  /// It has no confidence. Throws unsupported for a CPU.
  Model for_device(const Device& device) const;

  const ModelData& data() const noexcept;
  const Device& device() const noexcept { return data().families.front().device; }
  std::string_view provider() const noexcept { return data().families.front().provider; }
  Target default_target() const noexcept { return data().targets.front().target; }
  bool has(Target target) const noexcept;

  /// The family of a signature, or else of its answering_epilogue(); null when the model does not answer for
  /// it. Ignores `accumulate`: whether the kernel also reads C changes no choice here.
  const Family* family(const Signature& signature) const noexcept;

  /// The epilogue whose families answer for a signature that the model has no family of, because the epilogue
  /// changes the order of configs little. Native kernels apply an epilogue to elements that they have just
  /// stored: none answers for all (docs/bench/epilogues_cpu.md). On NVIDIA's GPUs, an activation after a bias
  /// answers for the activation alone. Else the epilogue itself.
  Epilogue answering_epilogue(Epilogue epilogue) const noexcept;

  /// data().families, then their twins: NVIDIA's GPUs multiply fp16 and bf16 at one rate, so a GEMM family of
  /// one type answers for the other where the model has none of that (docs/bench/models_h200.md).
  std::span<const Family* const> families() const noexcept;

  /// Whether the family is a twin and lines of the problem begin at other addresses than multiples of 16
  /// bytes. Libraries have other kernels for such lines in fp16 than in bf16, so the first suggestion
  /// answers.
  bool other_kernels(const Family& family, ProblemRef problem) const;

  /// The signature whose measurements a family's answers come from: of a twin, that of the trained family.
  const Signature& trained_signature(const Family& family) const noexcept;

  /// Position of a family in families().
  std::size_t position(const Family& family) const noexcept;

  /// The compiled family of a signature.
  const CompiledFamily* compiled(const Signature& signature) const noexcept;

  /// Fills `best` with applicable configs that `allowed` (empty: all) does not exclude, best first. The
  /// family's shortlist comes first, by exact scores; then the others by scores lowered as in score(). Ties
  /// keep family order. `calls` > 0 orders both parts by Ranked::cost_us(calls) where the family has set-up
  /// times; the score is then minus that cost, lowered in the second part. Returns the number of configs: 0
  /// also when the schema cannot describe the problem. The model must have the target. Allocates only when
  /// `scratch` is smaller than this family needs, and for `listed`: configs that the kernels' library names
  /// for the problem (ranks_listed()). These belong to the shortlist, in place of the family's suggestions.
  /// Leaves the library's first suggestion, and the prediction for it, in `scratch`.
  std::size_t rank(const CompiledFamily& family, ProblemRef problem, Target target,
                   std::span<const std::uint8_t> allowed, std::span<Ranked> best, SelectScratch& scratch,
                   std::int64_t calls = 0, std::span<const KernelConfig> listed = {}) const;

  /// Whether the model chooses among what the kernels' library names for a problem: it was trained with the
  /// place in the library's list (trait `listed`).
  bool ranks_listed() const noexcept;

  /// Changes the scores of a library's algorithms whose kind the training has not seen
  /// (ModelData::listed_kinds): the best score is then that of the first suggestion, and the others get
  /// -infinity.
  void leave_unknown_kinds(std::span<const Traits> traits, std::span<double> scores) const;

  /// Writes one score per config of family(signature_of(problem)); higher is better. Configs that an
  /// applicability rule refuses for the problem get -infinity. Configs that are not on the shortlist are
  /// lowered by one common amount so that they rank after it; the highest score is therefore that of the
  /// choice. Throws unsupported when there is no family, invalid_argument for a target that the model lacks.
  void score(ProblemRef problem, std::span<double> scores) const;
  void score(ProblemRef problem, Target target, std::span<double> scores) const;

  /// Like score(), but no config is lowered: the forest's own scores.
  void exact_scores(ProblemRef problem, Target target, std::span<double> scores) const;

  /// 1 for each config of family(signature_of(problem)) that a choice scores exactly: the shortlist, or all
  /// configs that can take the problem. Throws unsupported when there is no family, invalid_argument for a
  /// target that the model lacks.
  std::vector<std::uint8_t> candidates(ProblemRef problem) const;
  std::vector<std::uint8_t> candidates(ProblemRef problem, Target target) const;

  /// Scores any configs of the provider's space, with traits from the provider, even configs outside the
  /// family and signatures without training. Does not evaluate applicability rules.
  std::vector<double> score_configs(ProblemRef problem, const ConfigTable& configs) const;
  std::vector<double> score_configs(ProblemRef problem, const ConfigTable& configs, Target target) const;

  /// Predicted TFLOPS for scores of one problem from the functions above. The scores must cover one whole
  /// family or table, because scores of target rank are compared with the best of them. -infinity gives 0.
  std::vector<double> predicted_tflops(ProblemRef problem, std::span<const double> scores) const;
  std::vector<double> predicted_tflops(ProblemRef problem, Target target,
                                       std::span<const double> scores) const;

  /// The probability that the first config of a ranking runs within 3 % of the best config; `family` is one
  /// of families(). `tflops`: the first Confidence::top predictions (or all, when there are fewer), best
  /// first. NaN when the model has no confidence.
  double confidence(const Family& family, ProblemRef problem, Target target,
                    std::span<const double> tflops) const noexcept;

  /// Distance of a problem to the trained ones in octaves (Region::distance); NaN for a model without Region.
  /// `family` is one of families().
  double distance(const Family& family, ProblemRef problem) const noexcept;

  /// Whether the library's first suggestion answers in place of the first config of a ranking by the default
  /// target: the model's guard or other_kernels() applies. `lead`: predicted ln of (speed of the first config
  /// / speed of the suggestion). A lead that is not finite says that the suggestion cannot run or is
  /// excluded; then it never answers.
  bool guarded(const Family& family, ProblemRef problem, Target target, double lead) const;

 private:
  struct Compiled;
  Model for_other_gpu(const Device& device) const;
  const ModelTarget& forest_of(Target target) const;
  /// Position in data().families of a family or of the one whose twin it is.
  std::size_t trained(const Family& family) const noexcept;
  /// Scores configs one after the other. Throws the errors of Schema::evaluate.
  void score_rows(const ConfigTable& configs, std::span<const Traits> traits, ProblemRef problem,
                  const ModelTarget& forest, SelectScratch& scratch) const;
  /// Marks in scratch.kept the configs to score exactly, among the applicable configs that `allowed` (empty:
  /// all) does not exclude; returns their number. Leaves scratch.applicable incomplete.
  std::size_t shortlist_family(const CompiledFamily& family, ProblemRef problem, const ModelTarget& forest,
                               std::span<const std::uint8_t> allowed, SelectScratch& scratch) const;
  /// The same for a model without a network: the configs that the forest's first trees score best.
  std::size_t shortlist_by_first_trees(const CompiledFamily& family, ProblemRef problem,
                                       const ModelTarget& forest, std::span<const std::uint8_t> allowed,
                                       SelectScratch& scratch) const;
  /// Scores some configs of a family into scratch.scores; higher is better. False when the schema cannot
  /// describe the problem.
  bool score_some(const CompiledFamily& family, ProblemRef problem, const ModelTarget& forest,
                  std::span<const std::uint32_t> configs, SelectScratch& scratch) const;
  /// Puts listed configs, with their scores, in place of the family's suggestions among the configs of
  /// scratch.able and scratch.scores; applies leave_unknown_kinds().
  void replace_suggestions(const CompiledFamily& family, ProblemRef problem, const ModelTarget& forest,
                           std::span<const KernelConfig> listed, SelectScratch& scratch) const;
  /// ln of the TFLOPS that a target is relative to; 0 for an absolute target.
  double base_log_tflops(ProblemRef problem, Target target) const;

  std::shared_ptr<const Compiled> compiled_;
};

/// The device that a model answers for when none is named: the device that it was trained on, or this
/// machine's CPU for a model for any CPU. Reads only a part of the file. Throws the errors of Model::load.
Device model_device(const std::filesystem::path& folder_or_file);

/// The provider of a model, which is known from then on. Reads only a part of the file. Throws the errors of
/// Model::load.
std::string model_provider(const std::filesystem::path& folder_or_file);

/// find_model_or_any_cpu() among the models whose provider `executes` admits: a backend passes over the
/// models of kernels that another one runs. Damaged models are admitted: loading them reports the error.
std::optional<std::filesystem::path> find_model_or_any_cpu(
    Op op, DType dtype, const Device& device, const std::function<bool(std::string_view provider)>& executes);

/// What a model's file says about its rank before the model for any CPU. Reads only a part of the file.
/// Throws the errors of Model::load.
std::optional<AgainstAnyCpu> model_against_any_cpu(const std::filesystem::path& folder_or_file);

/// Records the comparison in a model's file. Throws the errors of Model::load, and io when the file cannot be
/// written.
void store_against_any_cpu(const std::filesystem::path& folder_or_file, const AgainstAnyCpu& against);

/// Records a result on another GPU in a model's file; replaces that of the same device. Throws as
/// store_against_any_cpu().
void store_on_another_gpu(const std::filesystem::path& folder_or_file, const OnAnotherGpu& result);

/// Why the library's first suggestion answers on a GPU instead of this model of another GPU: no result there
/// is recorded, or it is not better by `kClearlyBetter`. Empty when the model answers: it is recorded as
/// better, or its provider has no suggestions. Reads only a part of the file. Throws the errors of
/// Model::load.
constexpr double kClearlyBetter = 0.01;
std::string suggestion_preferred(const std::filesystem::path& folder_or_file, const Device& device);

/// What a model for any CPU, trained on `known`, knows about `device`: that it was measured, or how the
/// nearest measured device differs. Begins with "any_cpu: ".
std::string any_cpu_note(std::span<const Device> known, const Device& device);

/// The warning of a selector without a model on a GPU when find_model() leaves out a model of another GPU;
/// empty when it leaves out none. Begins with "library_first: ".
std::string library_first_note(Op op, DType dtype, const Device& device);

/// A GPU's model made for `device` where that is another GPU (Model::for_device); other models as they are.
Model with_facts_of(Model model, const Device& device);

/// Peak TFLOPS of a CPU in fp32; unknown facts get the defaults of schema `gemm`.
double assumed_peak_tflops(Device device) noexcept;

/// The ln TFLOPS that a score (higher is better) stands for before calibration: absolute for tflops, latency
/// and bandwidth, relative to the best config for relative, relative to `top_score` for rank.
double claimed_log_tflops(const ModelTarget& target, double score, double top_score,
                          ProblemRef problem) noexcept;

/// The family's set-up times where the problem needs them: on a CPU, set-up is the packing of a filter, which
/// only a problem with a prepacked filter has. Empty: unknown for all configs.
std::span<const double> setup_times(const Family& family, ProblemRef problem) noexcept;

/// Microseconds of a problem at a given speed; NaN when the problem has no floating-point operations or the
/// speed is 0.
double time_us_of(ProblemRef problem, double tflops) noexcept;

}  // namespace kscout
