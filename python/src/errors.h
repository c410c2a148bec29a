#pragma once
/// \file
/// Turns the library's errors into Python exceptions, one class per code (kscout/errors.py).
#include <nanobind/nanobind.h>

namespace kscout::python {

/// Registers the translation of kscout::Error to the class of its code.
void bind_errors(nanobind::module_& module);

}  // namespace kscout::python
