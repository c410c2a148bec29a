#pragma once
/// \file
/// The library's errors as Python classes, one per code (kscout/errors.py).
#include <nanobind/nanobind.h>

namespace kscout::python {

/// From here on kscout::Error arrives in Python as the class of its code.
void bind_errors(nanobind::module_& module);

}  // namespace kscout::python
