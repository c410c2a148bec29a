#pragma once
/// \file
/// Problem in, ranked configs out, without running any. A problem is a GemmProblem, a ConvProblem or a
/// Problem.
///
///     const auto selector = kscout::Selector::load("models/gemm_fp32_zen3-2c");
///     const kscout::GemmProblem problem = kscout::make_gemm(16, 4096, 4096);
///     const kscout::Choice choice = selector.select(problem);
///     std::printf("%s, about %.1f us\n", Selector::name(problem, choice).c_str(), choice.time_us);
///
/// Who answers: ChoiceSource lists the sources, Choice::source says which one did. docs/selecting.md: when
/// each of them answers, the environment variables, replacing a model. The family is that of the model, or
/// the one that the rules admit where there is no model for the problem's signature.
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

namespace kscout {

struct Family;

/// Which source of the fallback chain answered.
enum class ChoiceSource : std::uint8_t {
  cache,     ///< a decision of before, kept in memory
  db,        ///< the fastest of those that were timed for this problem on this device
  model,     ///< predicted by the model
  analytic,  ///< least analytic cost
  fallback,  ///< the family's default config: nothing is known
  forced,    ///< named by KSCOUT_FORCE
};
template <>
struct EnumWords<ChoiceSource> {
  static constexpr std::string_view what = "source";
  static constexpr std::array<std::string_view, 6> words = {"cache",    "db",      "model",
                                                            "analytic", "default", "forced"};
};

/// What to be best in. A model answers for what it was trained on.
enum class By : std::uint8_t { best, tflops, latency, bandwidth };
template <>
struct EnumWords<By> {
  static constexpr std::string_view what = "order";
  static constexpr std::array<std::string_view, 4> words = {"best", "tflops", "latency", "bandwidth"};
};

/// One config for one problem. A plain value: Selector::name() prints its config when somebody reads it.
struct Choice {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  KernelConfig config;
  double time_us = unknown;  ///< predicted (db: measured), of the whole call
  double tflops = unknown;   ///< predicted, 10^12 operations per second
  double gb_s = unknown;     ///< predicted, min_bytes over the time
  double margin = unknown;   ///< how much longer the next config takes, as a fraction of this one's time
  /// Probability of being within 3 % of the family's best; unknown without calibration.
  double confidence = unknown;
  double score = unknown;  ///< what the ranking sorts by, higher is better; comparable within one problem
  ChoiceSource source = ChoiceSource::fallback;      ///< which source answered
  ChoiceSource decided_by = ChoiceSource::fallback;  ///< same; behind `cache`: the source that decided then
};
static_assert(std::is_trivially_copyable_v<Choice>);

/// How a call of the hot path ended.
enum class SelectStatus : std::uint8_t {
  ok,
  bad_problem,  ///< check(problem) refuses it
  bad_order,    ///< the model was not trained for this By
  no_config,    ///< no config can take the problem
  failed,       ///< no memory to make the family of a new signature ready
};

/// Which models may answer for a device that they were not trained on.
enum class DevicePolicy : std::uint8_t {
  exact,      ///< none: the device's name must be the model's
  same_arch,  ///< of the same kind, architecture and instruction set; on a CPU of as many cores, since
              ///< configs divide the work among them. With a warning
  any,        ///< of the same kind. With a warning
};
template <>
struct EnumWords<DevicePolicy> {
  static constexpr std::string_view what = "device policy";
  static constexpr std::array<std::string_view, 3> words = {"exact", "same_arch", "any"};
};

/// What a selector answers for, and what it may fall back to when no model answers.
struct SelectorRequest {
  std::string provider = {};  ///< empty: default_provider of the problem's operation and the device
  Device device;
  std::string rules = "default";
  DevicePolicy devices = DevicePolicy::same_arch;
  /// File of decisions that were found by timing (docs/selecting.md); empty: that of KSCOUT_DB, else none.
  std::filesystem::path db = {};
  std::string driver = {};   ///< under which they must have been found; empty for cpu
  std::string backend = {};  ///< on which they must have been found; empty: any, the fastest of each problem
  /// Why a config of the model cannot run here whatever the sizes, empty when it can (Backend::absence);
  /// null: all can. Asked of each once, when the model is read; those that cannot are never chosen, and
  /// warnings() says how many they are.
  std::function<std::string(const Signature&, const KernelConfig&)> absence = {};
  /// Most threads of one kernel on the CPU; configs that need more do not apply. 0: KSCOUT_THREADS, else,
  /// when `device` is this machine's CPU, the fewest of OMP_NUM_THREADS, the CPUs that the process may use
  /// and its CPU quota.
  int threads = 0;
};

/// Counts of the decision cache since the selector was made.
struct CacheStatistics {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;  ///< decisions given up for room
};

/// Copies share everything, the cache included. All calls may run in many threads at once.
class KSCOUT_API Selector {
 public:
  /// From a model folder or `.ksf` file, for the device that it was trained on. Throws not_found,
  /// corrupt_data, unsupported (newer format), and invalid_argument when an environment variable is wrong.
  static Selector load(const std::filesystem::path& model);
  /// The same for another device: throws unsupported when `request.devices` does not let the model answer for
  /// request.device. What the model cannot answer is answered for the request.
  static Selector load(const std::filesystem::path& model, const SelectorRequest& request);
  /// Without a model: analytic costs, then the default config.
  static Selector analytic(const SelectorRequest& request);
  /// The same over families that no rules enumerate (a kernel library's): `make` is called once per signature
  /// and throws unsupported when there is none. Provider and rules of the request are not read.
  static Selector analytic(SelectorRequest request, std::function<Family(const Signature&)> make);
  /// load() of find_model(...), analytic() when there is none.
  static Selector find(Op op, DType dtype, const SelectorRequest& request);

  /// The config to run. Throws invalid_argument for a bad problem or an order that the model lacks,
  /// unsupported when no config can take the problem. Thread-safe.
  Choice select(ProblemRef problem, By by = By::best) const;
  /// The same without exceptions; writes `choice` only when it returns ok. Takes no lock; allocates only when
  /// a signature is new or more threads ask at once than ever before.
  SelectStatus try_select(ProblemRef problem, Choice& choice, By by = By::best) const noexcept;

  /// Fills `best` with configs, best first; ties keep family order. Returns how many: fewer than asked when
  /// fewer can take the problem. Throws as select does.
  std::size_t rank(ProblemRef problem, std::span<Choice> best, By by = By::best) const;
  /// The same without exceptions; `count` is written when it returns ok.
  SelectStatus try_rank(ProblemRef problem, std::span<Choice> best, std::size_t& count,
                        By by = By::best) const noexcept;
  /// The same as a vector of at most `count`.
  std::vector<Choice> rank(ProblemRef problem, std::size_t count, By by = By::best) const;

  /// The config's name as its provider prints it.
  static std::string name(ProblemRef problem, const Choice& choice);

  /// Reads the model and the environment again, looking for a model as find() did. Threads that select
  /// meanwhile get answers of the old model or of the new one; returns when no thread uses the old one any
  /// more, and the cache is empty then. Throws as load does; the old model stays in that case.
  void reload();

  /// Reads the file of decisions and the environment again, not the model. Throws as reload does.
  void refresh();

  CacheStatistics cache_statistics() const noexcept;
  void clear_cache() noexcept;

  /// Where the model was read from; empty without one.
  std::filesystem::path model_path() const;
  /// What a person should know of the model: the other device that it was trained on, configs left out.
  std::vector<std::string> warnings() const;
  /// The device for which choices are made.
  const Device& device() const noexcept;

 private:
  struct Impl;
  explicit Selector(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

/// The folder models/<op>_<dtype>_<device>: "gemm_fp32_zen3-2c".
KSCOUT_API std::string model_folder_name(Op op, DType dtype, const Device& device);

/// Folders that are searched for models, in order: KSCOUT_MODEL_PATH (separated by ':'; an entry may also be
/// a model folder itself), the user's tuned models ($XDG_DATA_HOME/kscout/models or
/// ~/.local/share/kscout/models), the models that came with the program.
KSCOUT_API std::vector<std::filesystem::path> model_search_path();
/// Where `kscout tune` installs: the user's entry of model_search_path().
KSCOUT_API std::filesystem::path user_model_folder();
/// The first model for (op, dtype, device) on the search path.
KSCOUT_API std::optional<std::filesystem::path> find_model(Op op, DType dtype, const Device& device);

/// The same, and where there is none: among the models that the policy lets answer, the one whose device is
/// nearest in cores, clock and memory bandwidth. Damaged models are passed over.
KSCOUT_API std::optional<std::filesystem::path> find_model(Op op, DType dtype, const Device& device,
                                                           DevicePolicy policy);

/// Why a policy keeps a model trained on `trained` from answering for `device`; empty when it does not.
KSCOUT_API std::string device_refusal(const Device& trained, const Device& device, DevicePolicy policy);
/// What a person should know of a model that answers for another device; empty when it is the same.
KSCOUT_API std::string foreign_device_warning(const Device& trained, const Device& device);

}  // namespace kscout
