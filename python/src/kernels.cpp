#include "kernels.h"

#include <memory>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <kscout/family.h>
#include <kscout/provider.h>

#include "device.h"
#include "fields.h"
#include "op/operation.h"
#include "problem.h"

namespace kscout::python {

namespace {

/// The word of an enum axis, the number of other axes, None when unknown.
nb::object axis_value(const Axis& axis, std::int32_t value) {
  if (value == KernelConfig::unknown) return nb::none();
  if (axis.words.empty()) return nb::cast(value);
  return nb::cast(axis_value_text(axis, value));
}

std::string name_of(const NamedConfig& named) {
  return provider(named.config.space->provider).print(named.signature, named.config);
}

NamedConfig config_at(const Family& family, std::int64_t index) {
  const auto count = static_cast<std::int64_t>(family.configs.size());
  if (index < 0) index += count;
  if (index < 0 || index >= count) throw nb::index_error("config index out of range");
  return {family.signature, family.configs[static_cast<std::size_t>(index)]};
}

std::vector<std::string> names_of(const Family& family) {
  std::vector<std::string> names;
  names.reserve(family.configs.size());
  for (std::size_t i = 0; i < family.configs.size(); ++i) names.push_back(family.name(i));
  return names;
}

nb::dict columns_of(const Family& family) {
  nb::dict columns;
  const auto axes = family.configs.space().axes;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    nb::list values;
    for (const std::int32_t value : family.configs.column(axis)) values.append(axis_value(axes[axis], value));
    columns[nb::cast(axes[axis].name)] = values;
  }
  return columns;
}

std::vector<NamedConfig> applicable(const Family& family, const ProblemArgument& argument) {
  const Problem problem = problem_of(argument);
  std::vector<std::uint8_t> applicable;
  applicable_configs(family, problem, applicable);
  std::vector<NamedConfig> configs;
  for (std::size_t i = 0; i < applicable.size(); ++i) {
    if (applicable[i]) configs.push_back({family.signature, family.configs[i]});
  }
  return configs;
}

Signature signature_of_words(Op op, DType dtype, const std::string& layout) {
  const Operation& of = operation(op);
  return signature_of(of.make(op, dtype, layout.empty() ? of.layouts.front() : parse<Layout>(layout)));
}

std::shared_ptr<Family> kernels(std::string_view dtype, const std::string& layout, std::string provider,
                                const DeviceArgument& device, std::string rules, std::string filter,
                                std::string_view op) {
  const Op of = parse<Op>(op);
  const Device described = device_of(device);
  if (provider.empty()) provider = default_provider(of, described);
  FamilyRequest request{.provider = std::move(provider),
                        .signature = signature_of_words(of, parse<DType>(dtype), layout),
                        .device = described,
                        .rules = std::move(rules),
                        .filter = std::move(filter)};
  const nb::gil_scoped_release unlocked;
  return std::make_shared<Family>(enumerate(request));
}

std::shared_ptr<Family> kernels_for(const ProblemArgument& argument, std::string provider,
                                    const DeviceArgument& device, std::string rules) {
  FamilyRequest request{.provider = std::move(provider),
                        .signature = signature_of(problem_of(argument)),
                        .device = device_of(device),
                        .rules = std::move(rules),
                        .filter = {}};
  const nb::gil_scoped_release unlocked;
  return std::make_shared<Family>(enumerate(request));
}

void bind_config(nb::module_& module) {
  nb::class_<NamedConfig> config(
      module, "Config",
      "How a problem is computed: one value per axis of a provider, under a signature. "
      "Immutable.\n\n"
      "    config = Config('native_gemm_fp32_rcr__avx2_tiled_6x16_nopack_b0x0x0_n_s1_t1x1')\n"
      "    config['mr']          # 6\n"
      "    str(config)           # its name");
  config.def(
      "__init__",
      [](NamedConfig* self, std::string_view name) { new (self) NamedConfig(parse_kernel_to_run(name)); },
      nb::arg("name"));
  config.def_prop_ro("name", &name_of, "Unique per signature and config, stable over versions.");
  config.def_prop_ro(
      "provider", [](const NamedConfig& c) { return c.config.space->provider; },
      "Who describes this kernel.");
  config.def_prop_ro(
      "signature", [](const NamedConfig& c) { return fields_dict(c.signature); },
      nb::for_getter(nb::sig("def signature(self) -> dict[str, typing.Any]")),
      "Types and layout that it computes.");
  config.def(
      "__getitem__",
      [](const NamedConfig& c, std::string_view axis) {
        const std::size_t index = c.config.space->axis_index(axis);
        return axis_value(c.config.space->axes[index], c.config[index]);
      },
      nb::arg("axis"), nb::sig("def __getitem__(self, axis: str, /) -> int | str | None"));
  config.def(
      "as_dict",
      [](const NamedConfig& c) {
        nb::dict values;
        const auto axes = c.config.space->axes;
        for (std::size_t i = 0; i < axes.size(); ++i)
          values[nb::cast(axes[i].name)] = axis_value(axes[i], c.config[i]);
        return values;
      },
      nb::sig("def as_dict(self) -> dict[str, int | str | None]"), "Every axis by name.");
  config.def(
      "__eq__", [](const NamedConfig& a, const NamedConfig& b) { return a == b; }, nb::is_operator(),
      nb::sig("def __eq__(self, other: object, /) -> bool"));
  config.def("__hash__", [](const NamedConfig& c) {
    return mix_hash(fields_hash(c.signature), std::hash<KernelConfig>{}(c.config));
  });
  config.def("__str__", &name_of);
  config.def("__repr__", [](const NamedConfig& c) { return "Config('" + name_of(c) + "')"; });
}

void bind_family(nb::module_& module) {
  nb::class_<Family> family(
      module, "KernelList",
      "The configs that a rule set admits for a signature on a device, in a fixed order: a "
      "sequence of Config.\n\n"
      "    found = kernels('fp32', 'rcr', filter=\"c.kind == 'tiled'\")\n"
      "    len(found), found[0].name, found.default");
  family.def_ro("provider", &Family::provider);
  family.def_ro("device", &Family::device);
  family.def_ro("rules", &Family::rules);
  family.def_prop_ro(
      "signature", [](const Family& f) { return fields_dict(f.signature); },
      nb::for_getter(nb::sig("def signature(self) -> dict[str, typing.Any]")));
  family.def_prop_ro(
      "default", [](const Family& f) { return config_at(f, static_cast<std::int64_t>(f.default_config)); },
      "The config that runs when nothing better is known.");
  family.def("__len__", [](const Family& f) { return f.configs.size(); });
  family.def("__getitem__", &config_at, nb::arg("index"));
  family.def("names", &names_of, "Every config's name.");
  family.def("columns", &columns_of, nb::sig("def columns(self) -> dict[str, list[int | str | None]]"),
             "The configs as columns, one per axis, for a data frame.");
  family.def("applicable", &applicable, nb::arg("problem"), "The configs that apply to this problem.");
  family.def("__repr__", [](const Family& f) {
    return "<KernelList of " + std::to_string(f.configs.size()) + " configs: " + f.provider + ", rules " +
           f.rules + ">";
  });
  module.def("_kernels_for", &kernels_for, nb::arg("problem"), nb::arg("provider"), nb::arg("device"),
             nb::arg("rules"), "The configs of a rule set for the signature of a problem.");
  module.def("_op_words", [] { return std::vector(op_words().begin(), op_words().end()); });
  module.def(
      "_declare",
      [](std::string_view toml, std::string_view file) {
        return std::string(declare_provider(toml, file).name());
      },
      nb::arg("toml"), nb::arg("file"),
      "Declares the provider of a family file; returns its name. The same axes may be declared twice.");
  module.def(
      "kernels", &kernels, nb::arg("dtype") = "fp32", nb::arg("layout") = "", nb::kw_only(),
      nb::arg("provider") = "", nb::arg("device") = "auto", nb::arg("rules") = "default",
      nb::arg("filter") = "", nb::arg("op") = "gemm",
      "Returns the configs of a rule set; without a layout in rcr, for convolutions in nhwgc; without a "
      "provider those of the device's (native on a CPU). `filter` is a formula over c.<axis>, d.<device "
      "fact> and s.<signature field>.");
}

}  // namespace

void bind_kernels(nb::module_& module) {
  bind_config(module);
  bind_family(module);
}

}  // namespace kscout::python
