#pragma once
/// \file
/// Predictions of a model folder: the class FolderPredictor.
#include <nanobind/nanobind.h>

namespace kscout::python {

void bind_predictor(nanobind::module_& module);

}  // namespace kscout::python
