// toy_sweep FOLDER WORKER PROBLEMS CONFIGS: the sweep that the kill tests run.
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <kscout/error.h>

#include "fault/toy.h"

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const auto plan = kscout::toy::quick_plan(std::atoi(argv[3]), std::atoi(argv[4]));
    kscout::run_sweep(plan, {.folder = argv[1], .worker = argv[2]});
    return 0;
  } catch (const kscout::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 4;
  }
}
