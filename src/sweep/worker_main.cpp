#include <kscout/backend.h>

#include "backend/callables/callable_backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/library/library_backend.h"
#include "measure/measured_backend.h"
#include "sweep/worker.h"

namespace {

/// A backend that is ready to measure: its threads are tied to the CPUs of this worker, or its GPU is opened.
kscout::Backend& measuring_backend(std::string_view name, int device) {
  if (name.starts_with(kscout::kLibraryPrefix)) {
    static kscout::LibraryBackend library(
        kscout::read_library_index(name.substr(kscout::kLibraryPrefix.size())));
    if (library.index().backend != "cpu") measuring_backend(library.index().backend, device);
    return library;
  }
  kscout::Backend& backend = kscout::backend(name);
  if (auto* const measured = kscout::measured_backend(name)) {
    measured->open_device(device);
  } else if (!name.starts_with(kscout::kCallablesPrefix)) {
    // Counts the cores of this process, so it comes before the first thread is tied to one of them.
    backend.device();
    kscout::pin_cpu_threads(true);
  }
  return backend;
}

}  // namespace

int main(int argc, char** argv) {
  return kscout::run_worker(argc, argv, {measuring_backend, kscout::provider_space});
}
