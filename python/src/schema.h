#pragma once
/// \file
/// Binds feature schemas: the class Schema.
#include <nanobind/nanobind.h>

namespace kscout::python {

void bind_schema(nanobind::module_& module);

}  // namespace kscout::python
