#include "backend/cpu/probe.h"

#include "measure/clock.h"

namespace kscout::cpu {

double probe_core() noexcept {
  constexpr int kRounds = 24, kCells = 96;
  volatile float cells[kCells];  // each round loads what the round before it stored
  const std::int64_t begin = now_ns();
  for (int j = 0; j < kCells; ++j) cells[j] = 1;
  for (int i = 0; i < kRounds; ++i) {
    for (int j = 0; j < kCells; ++j) cells[j] = cells[j] * 0.999F + 0.001F;
  }
  return static_cast<double>(now_ns() - begin) / 1e3;
}

}  // namespace kscout::cpu
