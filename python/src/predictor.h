#pragma once
/// \file
/// Binds class FolderPredictor: predictions of a model folder.
#include <nanobind/nanobind.h>

namespace kscout::python {

void bind_predictor(nanobind::module_& module);

}  // namespace kscout::python
