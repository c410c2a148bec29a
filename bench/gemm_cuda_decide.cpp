#include <vector>

#include <fmt/format.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/matmul_launch.h"
#include "gemm_cuda.h"
#include "gpu_match.h"
#include "provider/cublaslt/cublaslt.h"

namespace kscout::bench {

void compare_deciding(Selector& selector, std::span<const GemmProblem> problems) {
  cuda::Module& module = cuda::open_module();
  // A choice asks the heuristic, which remembers problems: every second one is asked before.
  Times cold{"kscout, new problem", {}}, after{"kscout, the heuristic knows it", {}},
      cached{"kscout, cached", {}};
  Times asked{"cuBLASLt's heuristic, first time", {}}, again{"cuBLASLt's heuristic, again", {}};
  const auto ask = [&](const GemmProblem& problem) {
    CublasLtConfig algorithm;
    std::int32_t count = 0;
    (void)module.suggest(cuda::shape_of(problem), kCublasLtWorkspace, &algorithm, 1, &count);
  };
  Choice choice;
  (void)selector.try_select(problems.front(), choice);  // prepares the family of the signature
  ask(problems.front());
  selector.clear_cache();
  for (std::size_t at = 0; at < problems.size(); ++at) {
    const GemmProblem& problem = problems[at];
    const bool ask_before = at % 2 == 0;
    if (ask_before) asked.us.push_back(microseconds([&] { ask(problem); }));
    Times& choosing = ask_before ? after : cold;
    choosing.us.push_back(microseconds([&] { (void)selector.try_select(problem, choice); }));
    // A cache hit is shorter than the clock's resolution, so a thousand are timed together.
    cached.us.push_back(microseconds([&] {
                          for (int i = 0; i < 1000; ++i) (void)selector.try_select(problem, choice);
                        }) /
                        1000);
    again.us.push_back(microseconds([&] {
                         for (int i = 0; i < 10; ++i) ask(problem);
                       }) /
                       10);
  }
  fmt::print(
      "\nmicroseconds to decide, one core, {} problems (cuBLASLt: descriptors made for each call)\n{:34} "
      "{:>10} {:>10} {:>10}\n",
      problems.size(), "", "p50", "p99", "max");
  if (cold.us.empty()) cold.us = after.us;  // of a single problem
  for (Times* times : {&cold, &after, &cached, &asked, &again}) times->print();
  fmt::print("RESULT gemm_cuda.cold_us {:.1f} us\n", cold.at(0.5));
  fmt::print("RESULT gemm_cuda.cached_ns {:.1f} ns\n", 1000 * cached.at(0.5));
  fmt::print("RESULT gemm_cuda.cublaslt_cold_us {:.1f} us\n", asked.at(0.5));
  fmt::print("RESULT gemm_cuda.cublaslt_again_us {:.2f} us\n", again.at(0.5));
}

}  // namespace kscout::bench
