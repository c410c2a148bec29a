#pragma once
/// \file
/// Predicts the speed of given configs from a model folder of KernelScout or of CK Tile's trainer.
///
///     const Predictor predictor("models/grouped_conv_forward_bf16_gfx950");
///     const std::vector<double> tflops = predictor.predict(problem, configs, "tflops");
///     const std::vector<Choice> ranked = predictor.rank(problem, configs);
///
/// Does not evaluate applicability rules; a selector does.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/selector.h>

namespace kscout {

class Predictor {
 public:
  /// A folder that contains model.ksf is a KernelScout model. Any other folder is read as CK Tile's
  /// (feature_spec.json, model_<target>.lgbm or .lgbm.gz); its features are looked up by name in `schema`,
  /// a name or a file (empty: the published schema of exactly these names). `device`: the device whose facts
  /// the features read; default: that of the model, or the one that the folder's features were computed for
  /// (ck_device). Throws not_found, corrupt_data, invalid_argument when no schema has the folder's names,
  /// unsupported when a model.ksf was trained on a device other than `device`, or for another encoding of
  /// features.
  explicit Predictor(const std::filesystem::path& folder, std::string_view schema = "",
                     std::optional<Device> device = {});

  /// The available targets, the usual one first: "tflops", "latency", "bandwidth".
  std::vector<std::string> targets() const;
  /// The name of the schema that computes the features.
  std::string schema() const;

  /// One value per config, in TFLOPS, microseconds or GB/s. Throws not_found for a target that the folder
  /// lacks.
  std::vector<double> predict(ProblemRef problem, const ConfigTable& configs,
                              std::string_view target = "tflops") const;
  /// Ranks all configs by predicted TFLOPS, best first; ties keep their order. Time and bandwidth follow from
  /// the TFLOPS. Throws the errors of predict().
  std::vector<Choice> rank(ProblemRef problem, const ConfigTable& configs) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace kscout
