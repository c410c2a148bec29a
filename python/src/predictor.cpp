#include "predictor.h"

#include <deque>
#include <unordered_map>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <kscout/error.h>
#include <kscout/provider.h>

#include "device.h"
#include "problem.h"
#include "select/predictor.h"
#include "selector.h"

namespace kscout::python {

namespace nb = nanobind;

namespace {

/// Rejects a config of other types than the problem's: it would compute another problem.
void check_same_types(const NamedConfig& config, const Problem& problem) {
  Signature wanted = signature_of(problem);
  wanted.accumulate = config.signature.accumulate;
  if (config.signature == wanted) return;
  throw Error(Errc::invalid_argument, config_name(config.signature, config.config) +
                                          " computes other types or another layout than " + print(problem));
}

ConfigTable table_of(const std::vector<NamedConfig>& configs, const Problem& problem) {
  ConfigTable table(*configs.front().config.space);
  for (const NamedConfig& one : configs) {
    check_same_types(one, problem);
    table.push_back(one.config);
  }
  return table;
}

/// The callers' names of configs. Several names may mean one config; equal configs keep their order in a
/// ranking.
class WrittenNames {
 public:
  WrittenNames(const std::vector<NamedConfig>& configs, const std::vector<std::string>& names) {
    if (names.size() != configs.size()) {
      throw Error(Errc::invalid_argument,
                  std::to_string(names.size()) + " names for " + std::to_string(configs.size()) + " configs");
    }
    for (std::size_t i = 0; i < configs.size(); ++i) left_[configs[i].config].push_back(names[i]);
  }
  std::string next(const KernelConfig& config) {
    std::deque<std::string>& of_config = left_.at(config);
    std::string name = std::move(of_config.front());
    of_config.pop_front();
    return name;
  }

 private:
  std::unordered_map<KernelConfig, std::deque<std::string>> left_;
};

}  // namespace

void bind_predictor(nb::module_& module) {
  nb::class_<Predictor> predictor(
      module, "FolderPredictor",
      "Predictions of a model folder for given configs; kscout.Predictor also takes dicts.");
  predictor.def(
      "__init__",
      [](Predictor* self, const std::filesystem::path& folder, const std::string& schema,
         const std::optional<DeviceArgument>& device) {
        new (self) Predictor(folder, schema, device ? std::optional(device_of(*device)) : std::nullopt);
      },
      nb::arg("folder"), nb::arg("schema") = "", nb::arg("device") = nb::none());
  predictor.def_prop_ro("targets", &Predictor::targets, "What can be asked for.");
  predictor.def_prop_ro("schema", &Predictor::schema, "The schema of the feature rows.");
  predictor.def(
      "predict",
      [](const Predictor& self, const ProblemArgument& argument, const std::vector<NamedConfig>& configs,
         const std::string& target) {
        const Problem problem = problem_of(argument);
        if (configs.empty()) return std::vector<double>();
        const ConfigTable table = table_of(configs, problem);
        const nb::gil_scoped_release unlocked;
        return self.predict(problem, table, target);
      },
      nb::arg("problem"), nb::arg("configs"), nb::arg("target") = "tflops",
      "One value per config, in TFLOPS, microseconds or GB/s.");
  predictor.def(
      "rank",
      [](const Predictor& self, const ProblemArgument& argument, const std::vector<NamedConfig>& configs,
         const std::vector<std::string>& names) {
        const Problem problem = problem_of(argument);
        std::vector<NamedChoice> named;
        if (configs.empty()) return named;
        const ConfigTable table = table_of(configs, problem);
        const nb::gil_scoped_release unlocked;
        WrittenNames written(configs, names);
        for (const Choice& choice : self.rank(problem, table))
          named.push_back({choice, signature_of(problem), written.next(choice.config)});
        return named;
      },
      nb::arg("problem"), nb::arg("configs"), nb::arg("names"),
      "All configs by predicted TFLOPS, best first; `names` are their names in the result.");
}

}  // namespace kscout::python
