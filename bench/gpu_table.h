#pragma once
/// \file
/// Verifies and times launches on the operands of one problem on a GPU.
///
///     std::vector<Player> players;
///     players.push_back({"the dispatcher", solver.make_ready(problem, solution)});
///     GpuTable(problem).time(players);
///     use(players[0].us);
///
/// Caches are cold, samples interleaved, and the GPU's events count: the median of nine. Every result is
/// verified against float64, with guard zones around the operands and the workspace.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kscout/backend.h>

#include "bench_program.h"
#include "op/operands.h"
#include "op/reference.h"

namespace kscout {
class VerifiedLaunch;
}

namespace kscout::bench {

/// Something to time: a launch, and the median of its samples.
struct Player {
  std::string name;
  std::unique_ptr<Launch> launch;
  double us = kUnknown;
};

/// Operands of one problem on the GPU.
class GpuTable {
 public:
  /// Throws the errors of GemmOperands::make.
  explicit GpuTable(const Problem& problem);

  /// Verifies each player and times those that are right, and the copies of player `padded`. The others keep
  /// NaN. Prints what is wrong. Returns the microseconds of the copies.
  double time(std::vector<Player>& players, std::optional<std::size_t> padded = {});

 private:
  bool is_right(const std::string& name, VerifiedLaunch& one);

  GemmOperands operands_;
  std::unique_ptr<Reference> reference_;
};

/// A launch of backend cuda; null when the config cannot run the problem.
std::unique_ptr<Launch> prepared(const Problem& problem, const KernelConfig& config);

}  // namespace kscout::bench
