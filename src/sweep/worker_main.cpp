#include <kscout/backend.h>

#include "backend/cpu/cpu_backend.h"
#include "sweep/worker.h"

namespace {

/// The machine's own backend, with its threads tied to the CPUs that the sweep gave this worker.
kscout::Backend& pinned_backend(std::string_view name) {
  kscout::Backend& backend = kscout::backend(name);
  backend.device();  // counts the cores of this process: before its first thread is tied to one of them
  if (backend.name() == "cpu") kscout::pin_cpu_threads(true);
  return backend;
}

}  // namespace

int main(int argc, char** argv) {
  return kscout::run_worker(argc, argv, {pinned_backend, kscout::provider_space});
}
