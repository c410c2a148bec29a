#pragma once
/// \file
/// Problem in, ranked configs out, without running any.
///
///     const auto selector = kscout::Selector::load("models/gemm_fp32_zen3-2c");
///     const kscout::Choice choice = selector.select(kscout::make_gemm(16, 4096, 4096));
///     std::printf("%s, about %.1f us\n", choice.name.c_str(), choice.time_us);
///
/// Who answers: the model; the analytic cost of the family's configs when there is no model for the problem's
/// signature; the family's default config when costs cannot be computed. Choice::source tells.
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/problem.h>

namespace kscout {

/// Which link of the chain answered.
enum class ChoiceSource : std::uint8_t { model, analytic, fallback };
template <>
struct EnumWords<ChoiceSource> {
  static constexpr std::string_view what = "source";
  static constexpr std::array<std::string_view, 3> words = {"model", "analytic", "default"};
};

/// What to be best in. A model answers for what it was trained on.
enum class By : std::uint8_t { best, tflops, latency, bandwidth };
template <>
struct EnumWords<By> {
  static constexpr std::string_view what = "order";
  static constexpr std::array<std::string_view, 4> words = {"best", "tflops", "latency", "bandwidth"};
};

/// One config for one problem.
struct Choice {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  KernelConfig config;
  std::string name;          ///< as the provider prints it
  double time_us = unknown;  ///< predicted, of the whole call
  double tflops = unknown;   ///< predicted, 10^12 operations per second
  double gb_s = unknown;     ///< predicted, least_bytes over the time
  double margin = unknown;   ///< how much longer the next config takes, as a fraction of this one's time
  double score = unknown;    ///< what the ranking sorts by, higher is better; comparable within one problem
  ChoiceSource source = ChoiceSource::fallback;
};

/// What a selector may fall back to when no model answers.
struct SelectorRequest {
  std::string provider = "native";
  Device device;
  std::string rules = "default";
};

class KSCOUT_API Selector {
 public:
  /// From a model folder or `.ksf` file. Throws not_found, corrupt_data, unsupported (newer format).
  static Selector load(const std::filesystem::path& model);
  /// Without a model: analytic costs, then the default config.
  static Selector analytic(const SelectorRequest& request);
  /// load() of find_model(...), analytic() when there is none.
  static Selector find(Op op, DType dtype, const SelectorRequest& request);

  /// The config to run. Throws unsupported when no config of the family can take the problem. Thread-safe.
  Choice select(const GemmProblem& problem, By by = By::best) const;
  /// The best `count` configs, best first; ties keep family order. Fewer when fewer can take the problem.
  std::vector<Choice> rank(const GemmProblem& problem, std::size_t count, By by = By::best) const;

  /// Where the model was read from; empty without one.
  const std::filesystem::path& model_path() const noexcept;
  /// The device for which choices are made.
  const Device& device() const noexcept;

 private:
  struct Impl;
  explicit Selector(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

/// The folder models/<op>_<dtype>_<device>: "gemm_fp32_zen3-2c".
KSCOUT_API std::string model_folder_name(Op op, DType dtype, const Device& device);

/// Folders that are searched for models, in order: KSCOUT_MODEL_PATH (parted by ':'; an entry may also be a
/// model folder itself), the user's tuned models ($XDG_DATA_HOME/kscout/models or
/// ~/.local/share/kscout/models), the models that came with the program.
KSCOUT_API std::vector<std::filesystem::path> model_search_path();
/// Where `kscout tune` installs: the user's entry of model_search_path().
KSCOUT_API std::filesystem::path user_model_folder();
/// The first model for (op, dtype, device) on the search path.
KSCOUT_API std::optional<std::filesystem::path> find_model(Op op, DType dtype, const Device& device);

}  // namespace kscout
