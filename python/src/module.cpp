#include <nanobind/nanobind.h>

#include <kscout/version.h>

#include "device.h"
#include "dispatch.h"
#include "errors.h"
#include "kernels.h"
#include "predictor.h"
#include "problem.h"
#include "schema.h"
#include "selector.h"

NB_MODULE(_core, module) {
  module.doc() = "The compiled part of kscout; use it through the package `kscout`.";
  module.attr("__version__") = KSCOUT_VERSION;
  kscout::python::bind_errors(module);
  kscout::python::bind_problem(module);
  kscout::python::bind_device(module);
  kscout::python::bind_kernels(module);
  kscout::python::bind_schema(module);
  kscout::python::bind_selector(module);
  kscout::python::bind_predictor(module);
  kscout::python::bind_dispatch(module);
}
