#include <kscout/backend.h>

#include "sweep/worker.h"

int main(int argc, char** argv) {
  return kscout::run_worker(argc, argv, {kscout::backend, kscout::provider_space});
}
