#include "fault/toy.h"
#include "sweep/worker.h"

int main(int argc, char** argv) {
  const auto backend = [](std::string_view name, int) -> kscout::Backend& {
    return kscout::toy::backend(name);
  };
  return kscout::run_worker(argc, argv, {backend, kscout::toy::space});
}
