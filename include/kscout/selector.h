#pragma once
/// \file
/// Ranks the configs for a problem without running any. A problem is a GemmProblem, a ConvProblem or a
/// Problem.
///
///     const auto selector = kscout::Selector::load("models/gemm_fp32_any_cpu");
///     const kscout::GemmProblem problem = kscout::make_gemm(16, 4096, 4096);
///     const kscout::Choice choice = selector.select(problem);
///     std::printf("%s, about %.1f us\n", Selector::name(problem, choice).c_str(), choice.time_us);
///
/// A fallback chain of sources answers: ChoiceSource lists the sources, Choice::source names the one that
/// answered. docs/selecting.md describes when each source answers, the environment variables, and how to
/// replace a model. The candidates are the configs of the model's family or, without a model for the
/// problem's signature, those that the rules admit.
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/limits.h>

namespace kscout {

struct Family;
struct Verdict;

/// The source of the fallback chain that answered.
enum class ChoiceSource : std::uint8_t {
  cache,     ///< an earlier decision, kept in memory
  db,        ///< the fastest config of those timed for this problem on this device
  model,     ///< predicted by the model
  analytic,  ///< lowest analytic cost
  fallback,  ///< the family's default config: nothing is known
  forced,    ///< named by KSCOUT_FORCE
  any_cpu,   ///< predicted by a model for every CPU: nobody measured this one, and `kscout tune` finds better
};
template <>
struct EnumWords<ChoiceSource> {
  static constexpr std::string_view what = "source";
  static constexpr std::array<std::string_view, 7> words = {"cache",   "db",     "model",  "analytic",
                                                            "default", "forced", "any_cpu"};
};

/// The goal of a ranking. A model supports the goals that it was trained for.
enum class By : std::uint8_t { best, tflops, latency, bandwidth };
template <>
struct EnumWords<By> {
  static constexpr std::string_view what = "order";
  static constexpr std::array<std::string_view, 4> words = {"best", "tflops", "latency", "bandwidth"};
};

/// One config for one problem. A plain value; Selector::name() prints the config's name.
struct Choice {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  KernelConfig config;
  double time_us = unknown;  ///< predicted (for db: measured) time of the whole call
  double tflops = unknown;   ///< predicted, 10^12 operations per second
  double gb_s = unknown;     ///< predicted, min_bytes over the time
  /// Extra time of the next config, as a fraction of this config's time; with SelectorRequest::calls, both
  /// times include their share of the set-up.
  double margin = unknown;
  /// Probability that the config is within 3 % of the family's best; unknown without calibration.
  double confidence = unknown;
  double score = unknown;  ///< the ranking's sort key, higher is better; comparable within one problem
  /// Expected time, in microseconds, that the config needs once before its runs: building a plan, compiling
  /// it, packing a filter; not part of time_us. Unknown where the model has no such times. A float, like the
  /// next one, so that a cached decision stays small.
  float setup_us = std::numeric_limits<float>::quiet_NaN();
  /// Time that the model expects of the first suggestion of the kernels' library, in microseconds: what a
  /// program takes that does not choose. Unknown for other sources, libraries without suggestions, and
  /// choices that are not the first of a ranking.
  float suggestion_us = std::numeric_limits<float>::quiet_NaN();
  ChoiceSource source = ChoiceSource::fallback;  ///< which source answered
  /// Like `source`; for `cache`: the source that made the cached decision.
  ChoiceSource decided_by = ChoiceSource::fallback;
};
static_assert(std::is_trivially_copyable_v<Choice>);

/// How a select call ended.
enum class SelectStatus : std::uint8_t {
  ok,
  bad_problem,  ///< check(problem) refuses it
  bad_order,    ///< the model was not trained for this By
  no_config,    ///< no config can take the problem
  failed,       ///< no memory to compile the family of a new signature
};

/// Which models may answer for a device that they were not trained on.
enum class DevicePolicy : std::uint8_t {
  exact,      ///< none: the device must have the name of the model's device
  same_arch,  ///< models for the same kind, architecture and instruction set; on a CPU also for the same
              ///< number of cores, because configs divide the work among them. With a warning
  any,        ///< models for the same kind. With a warning
};
template <>
struct EnumWords<DevicePolicy> {
  static constexpr std::string_view what = "device policy";
  static constexpr std::array<std::string_view, 3> words = {"exact", "same_arch", "any"};
};

/// The scope of a selector, and its fallbacks when no model answers.
struct SelectorRequest {
  std::string provider = {};  ///< empty: default_provider of the problem's operation and the device
  Device device;
  std::string rules = "default";
  DevicePolicy devices = DevicePolicy::same_arch;
  /// File of decisions that were found by timing (docs/selecting.md); empty: the file of KSCOUT_DB, else
  /// none.
  std::filesystem::path db = {};
  std::string driver = {};  ///< driver version that the decisions in `db` were found with; empty for cpu
  /// Backend that the decisions in `db` must have been found on; empty: any backend, the fastest decision of
  /// each problem.
  std::string backend = {};
  /// Returns why this machine cannot run a config of the model, whatever the problem's sizes; empty when it
  /// can (Backend::absence). Null: all configs can run. Called once per config when the model is read.
  /// Configs that cannot run are never chosen, and warnings() states their number.
  std::function<std::string(const Signature&, const KernelConfig&)> absence = {};
  /// Returns the first configs of so many that the kernels' library names for a problem, best first
  /// (Backend::suggestions). A model that was trained with the library's lists then chooses among these and
  /// its own kernels, whatever release the library is of. Called once for each problem that is decided anew.
  /// Null: such a model puts the library's first suggestion first.
  std::function<std::vector<KernelConfig>(ProblemRef, std::size_t count)> suggestions = {};
  /// Maximum number of threads of one kernel on the CPU; configs that need more do not apply. 0:
  /// KSCOUT_THREADS, else, when `device` is this machine's CPU, the minimum of OMP_NUM_THREADS, the CPUs that
  /// the process may use and its CPU quota.
  int threads = 0;
  /// Charges the set-up of a config (Choice::setup_us) over this many calls: the model's choice has the
  /// lowest time_us + setup_us / calls among the shortlist. An unknown set-up time counts as 0. 0: set-up is
  /// not charged.
  std::int64_t calls = 0;
  /// Limits of all choices; a call may add stricter ones.
  Limits limits = {};
  /// Returns why a config breaks limits for a problem; empty when it keeps them. Null: what the family file
  /// states and, in the memory of this machine's CPU, what the kernel needs. A config of which that is not
  /// known is never chosen.
  std::function<std::string(ProblemRef, const KernelConfig&, const Limits&)> breaks = {};
  /// File of classes for Limits::batch_invariant (docs/batch_invariant.md); empty: the file of
  /// KSCOUT_CLASSES, else the user's. Read at the first such choice.
  std::filesystem::path classes = {};
  /// Release of the library with which the classes must have been measured, as `kscout classes` prints it;
  /// empty: not compared.
  std::string library = {};
};

/// Counts of the decision cache since the selector was made.
struct CacheStatistics {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;  ///< decisions dropped to make room
};

/// Copies of a selector share everything, the cache included. All calls may run in many threads at once.
class Selector {
 public:
  /// Loads a model folder or `.ksf` file, for the device that the model was trained on. Throws not_found,
  /// corrupt_data, unsupported (newer format), and invalid_argument when an environment variable is wrong.
  static Selector load(const std::filesystem::path& model);
  /// Loads a model for another device. Throws unsupported when `request.devices` does not allow the model for
  /// request.device. Problems that the model does not cover are answered as by a selector without a model.
  static Selector load(const std::filesystem::path& model, const SelectorRequest& request);
  /// Makes a selector without a model: analytic costs, then the default config.
  static Selector analytic(const SelectorRequest& request);
  /// The same for families that no rules enumerate (a kernel library's): `make` is called once per signature
  /// and throws unsupported when there is no family. Provider and rules of the request are not read.
  static Selector analytic(SelectorRequest request, std::function<Family(const Signature&)> make);
  /// load() of find_model(...), or analytic() when there is no model.
  static Selector find(Op op, DType dtype, const SelectorRequest& request);

  /// Selects the config to run. Throws invalid_argument for a bad problem or an order that the model lacks,
  /// unsupported when no config can take the problem, or none that can keeps `limits`. Under limits, the
  /// choice is the first config of the ranking that keeps them. Thread-safe.
  Choice select(ProblemRef problem, By by = By::best, const Limits& limits = {}) const;
  /// select() without exceptions; writes `choice` only when it returns ok. Takes no lock. Allocates only when
  /// a signature is new, when more threads select at once than ever before, or when a choice under limits is
  /// not cached.
  SelectStatus try_select(ProblemRef problem, Choice& choice, By by = By::best,
                          const Limits& limits = {}) const noexcept;

  /// Fills `best` with configs, best first; ties keep family order. Returns how many: fewer than best.size()
  /// when fewer can take the problem. Throws the errors of select().
  std::size_t rank(ProblemRef problem, std::span<Choice> best, By by = By::best,
                   const Limits& limits = {}) const;
  /// rank() without exceptions; writes `count` when it returns ok.
  SelectStatus try_rank(ProblemRef problem, std::span<Choice> best, std::size_t& count, By by = By::best,
                        const Limits& limits = {}) const noexcept;
  /// rank() that returns a vector of at most `count` choices.
  std::vector<Choice> rank(ProblemRef problem, std::size_t count, By by = By::best,
                           const Limits& limits = {}) const;

  /// Says whether rules refuse a config for a problem, so that a program with choices of its own can leave
  /// out configs that are known to compute wrong results (Verdict in kscout/family.h):
  ///
  ///     const Verdict verdict = selector.verdict(problem, parse_config_name(name).config);
  ///     if (verdict.status == VerdictStatus::refused && !verdict.since.empty()) use_another_config();
  ///
  /// Evaluates rule_verdict() for the selector's device, then the applicability rules that only the
  /// selector's own family has (of a kernel library). The config need not be in that family. Runs nothing;
  /// takes microseconds. Throws the errors of rule_verdict(). Thread-safe.
  Verdict verdict(ProblemRef problem, const KernelConfig& config) const;

  /// The config's name as its provider prints it.
  static std::string name(ProblemRef problem, const Choice& choice);

  /// Reads the model and the environment again; looks for a model as find() did. Threads that select at the
  /// same time get answers of the old or the new model. Returns when no thread uses the old model any more;
  /// the cache is empty then. Throws the errors of load(); the old model stays in that case.
  void reload();

  /// Reads the decision file and the environment again, but not the model. Throws the errors of reload().
  void refresh();

  CacheStatistics cache_statistics() const noexcept;
  void clear_cache() noexcept;

  /// The path that the model was read from; empty without a model.
  std::filesystem::path model_path() const;
  /// The path of the model that answers a problem: for a batch of GEMMs, that of the model's folder
  /// `batches`, where there is one.
  std::filesystem::path model_path(ProblemRef problem) const;
  /// Warnings about the model for the user: the other device that it was trained on, configs left out.
  std::vector<std::string> warnings() const;
  /// The device for which choices are made.
  const Device& device() const noexcept;

 private:
  struct Impl;
  explicit Selector(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

/// The folder models/<op>_<dtype>_<device>: "gemm_fp32_zen3-2c".
std::string model_folder_name(Op op, DType dtype, const Device& device);

/// Folders that are searched for models, in order: KSCOUT_MODEL_PATH (separated by ':'; an entry may also be
/// a model folder itself), the user's tuned models ($XDG_DATA_HOME/kscout/models or
/// ~/.local/share/kscout/models), the models installed with the program.
std::vector<std::filesystem::path> model_search_path();
/// Where `kscout tune` installs: the user's entry of model_search_path().
std::filesystem::path user_model_folder();
/// The first model for (op, dtype, device) on the search path; for a GEMM in fp16 on an NVIDIA GPU without
/// one, that of bf16, and the reverse, which answers for both.
std::optional<std::filesystem::path> find_model(Op op, DType dtype, const Device& device);

/// The first model for the device or, if there is none and the device is a CPU, the first model for any CPU
/// (Device any_cpu()); also where that one is better on the held-out problems of both (kscout tune and kscout
/// compare --store record it).
std::optional<std::filesystem::path> find_model_or_any_cpu(Op op, DType dtype, const Device& device);

/// The first model for the device or, if there is none, a model that the policy allows: the one of the same
/// architecture, instruction set and number of cores whose clock, caches and memory bandwidth are closest,
/// then the model for any CPU (before the device's own where it is better, as above), then
/// (DevicePolicy::any) the one of the closest device. Damaged models are skipped.
std::optional<std::filesystem::path> find_model(Op op, DType dtype, const Device& device,
                                                DevicePolicy policy);

/// Why a policy forbids a model trained on `trained` for `device`; empty when it allows the model.
std::string device_refusal(const Device& trained, const Device& device, DevicePolicy policy);
/// A warning about a model that answers for another device; empty when the device is the same.
std::string foreign_device_warning(const Device& trained, const Device& device);

}  // namespace kscout
