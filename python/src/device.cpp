#include "device.h"

#include <nanobind/stl/vector.h>

#include "fields.h"

namespace kscout::python {

Device device_of(const DeviceArgument& argument) {
  if (const auto* name = std::get_if<std::string>(&argument)) return find_device(*name);
  return std::get<Device>(argument);
}

void bind_device(nb::module_& module) {
  nb::class_<Device> device(module, "Device",
                            "Static facts of one CPU or GPU; None where a fact is unknown. Immutable.\n\n"
                            "    Device()            # this machine's CPU\n"
                            "    Device('gfx950')    # a preset: device_names()");
  device.def(
      "__init__", [](Device* self, std::string_view name) { new (self) Device(find_device(name)); },
      nb::arg("name") = "auto");
  bind_fields<Device>(device, true);
  device.def("as_dict", &fields_dict<Device>, nb::sig("def as_dict(self) -> dict[str, typing.Any]"),
             "Every fact by name.");
  device.def(
      "__eq__", [](const Device& a, const Device& b) { return a == b; }, nb::is_operator(),
      nb::sig("def __eq__(self, other: object, /) -> bool"));
  device.def("__hash__", [](const Device& d) { return fields_hash(d); });
  device.def("__repr__", [](const Device& d) { return "<Device " + d.name + ">"; });
  module.def("device_names", &device_preset_names, "Names of the presets.");
}

}  // namespace kscout::python
