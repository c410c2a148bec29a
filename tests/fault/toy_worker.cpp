#include "fault/toy.h"
#include "sweep/worker.h"

int main(int argc, char** argv) {
  return kscout::run_worker(argc, argv, {kscout::toy::backend, kscout::toy::space});
}
