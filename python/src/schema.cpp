#include "schema.h"

#include <filesystem>
#include <vector>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <kscout/provider.h>

#include "core/hash.h"
#include "device.h"
#include "features/schema_text.h"
#include "problem.h"

namespace kscout::python {

namespace nb = nanobind;

namespace {

std::vector<std::string> ids_of(const Schema& schema, bool categorical_only) {
  std::vector<std::string> ids;
  for (const Feature& feature : schema.features()) {
    if (!categorical_only || feature.categorical) ids.push_back(feature.id);
  }
  return ids;
}

/// One row of features per config.
std::vector<std::vector<double>> rows_of(const Schema& whole, const ProblemArgument& argument,
                                         const std::vector<NamedConfig>& configs,
                                         const DeviceArgument& device_argument) {
  const Problem problem = problem_of(argument);
  const Device device = device_of(device_argument);
  const Schema schema = whole.for_op(problem.op());
  std::vector<std::vector<double>> rows;
  for (const NamedConfig& named : configs) {
    const Traits traits =
        provider(named.config.space->provider).traits(signature_of(problem), named.config, device);
    std::vector<double>& row = rows.emplace_back(schema.size());
    schema.evaluate(problem, device, named.config, traits, row);
  }
  return rows;
}

/// `base` with further features, under another name.
Schema extended(std::string name, const Schema& base, const nb::dict& formulas, std::string summary) {
  SchemaData data = base.data();
  data.summary = summary.empty() ? "Schema " + base.name() + " with further features" : std::move(summary);
  data.name = std::move(name);
  for (const auto& [id, formula] : formulas) {
    check_feature_id(nb::cast<std::string>(id));
    data.features.push_back({nb::cast<std::string>(id), nb::cast<std::string>(formula), "1", "own feature"});
  }
  return Schema(std::move(data));
}

}  // namespace

void bind_schema(nb::module_& module) {
  nb::class_<Schema> schema(
      module, "Schema",
      "Features of (problem, config, device): an ordered list of named formulas. Immutable.\n\n"
      "    Schema('gemm')                                        # of the catalogue: kscout features\n"
      "    Schema.read('mine.toml')                              # a file, as kscout features --schema takes "
      "it\n"
      "    Schema('gemm').extended('mine', {'k_per_m': 'p.k / p.m'})\n\n"
      "kscout.train(data, out, schema=schema) trains with it; the model carries the formulas.");
  schema.def(
      "__init__", [](Schema* self, std::string_view name) { new (self) Schema(Schema::find(name)); },
      nb::arg("name"));
  schema.def_static("parse", &Schema::parse, nb::arg("text"), nb::arg("source") = "the text",
                    "The schema of a TOML text. CorruptData names the line, `source` the text.");
  schema.def_static("read", &Schema::read, nb::arg("file"), "The schema of a TOML file.");
  schema.def(
      "extended",
      [](const Schema& self, std::string name, const nb::dict& formulas, std::string summary) {
        return extended(std::move(name), self, formulas, std::move(summary));
      },
      nb::arg("name"), nb::arg("features"), nb::arg("summary") = "",
      nb::sig("def extended(self, name: str, features: dict[str, str], summary: str = '') -> Schema"),
      "The same schema with further features, by id: formulas over p. (problem), t. (traits), d. (device), "
      "c. (axes, where the "
      "schema names a provider) and other features by id. InvalidArgument names a formula that does not "
      "compile.");
  schema.def("text", &Schema::text, "The whole schema as TOML; parse() reads it.");
  schema.def_prop_ro("name", &Schema::name);
  schema.def_prop_ro(
      "op", [](const Schema& s) { return word(s.data().op); }, "The operation, or one direction of it.");
  schema.def_prop_ro(
      "provider", [](const Schema& s) { return s.data().provider; },
      "Whose axes the formulas read; empty: none.");
  schema.def_prop_ro(
      "features", [](const Schema& s) { return ids_of(s, false); }, "Ids in order.");
  schema.def_prop_ro(
      "categorical", [](const Schema& s) { return ids_of(s, true); }, "Ids of codes without order.");
  schema.def_prop_ro(
      "hash", [](const Schema& s) { return hash_digits(s.hash()); }, "Of ids and formulas, in order.");
  schema.def("rows", &rows_of, nb::arg("problem"), nb::arg("configs"), nb::arg("device") = "auto",
             "One row of features per config.");
  schema.def_static("names", &Schema::names, "Names in the catalogue.");
  schema.def(
      "__eq__", [](const Schema& a, const Schema& b) { return a == b; }, nb::is_operator(),
      nb::sig("def __eq__(self, other: object, /) -> bool"));
  schema.def("__hash__", &Schema::hash);
  schema.def("__repr__", [](const Schema& s) {
    return "<Schema " + s.name() + ", " + std::to_string(s.size()) + " features of " +
           std::string(word(s.data().op)) + ">";
  });
}

}  // namespace kscout::python
