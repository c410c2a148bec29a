#pragma once
/// \file
/// Binds class Device and the functions that find devices by name.
#include <string>
#include <variant>

#include <nanobind/nanobind.h>
#include <nanobind/stl/variant.h>

#include <kscout/device.h>

namespace kscout::python {

/// A device argument: a Device, a preset's name or "auto".
using DeviceArgument = std::variant<Device, std::string>;
Device device_of(const DeviceArgument& argument);

void bind_device(nanobind::module_& module);

}  // namespace kscout::python
