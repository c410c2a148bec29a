#pragma once
/// \file
/// Binds configs and families: the classes Config and KernelList, the function kernels.
#include <nanobind/nanobind.h>

namespace kscout::python {

void bind_kernels(nanobind::module_& module);

}  // namespace kscout::python
