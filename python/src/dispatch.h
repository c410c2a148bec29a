#pragma once
/// \file
/// Binds execution on arrays: the classes Registry, Dispatcher and Solution.
#include <nanobind/nanobind.h>

namespace kscout::python {

void bind_dispatch(nanobind::module_& module);

}  // namespace kscout::python
