#include "gpu_table.h"

#include <fmt/format.h>

#include "backend/cuda/cuda_backend.h"
#include "core/fail.h"
#include "dispatch/padding.h"
#include "measure/samples.h"
#include "measure/verified_launch.h"

namespace kscout::bench {

GpuTable::GpuTable(const Problem& problem) : operands_(cuda::gpu_instruments()) {
  operands_.make(problem, 1);
  reference_ = make_reference(problem, operands_);
}

double GpuTable::time(std::vector<Player>& players, std::optional<std::size_t> padded) {
  constexpr int kRounds = 9, kCopies = 5;
  std::vector<std::unique_ptr<VerifiedLaunch>> launches;
  for (Player& one : players)
    launches.push_back(std::make_unique<VerifiedLaunch>(std::move(one.launch), operands_));
  for (std::size_t i = 0; i < players.size(); ++i) {
    if (!is_right(players[i].name, *launches[i])) launches[i].reset();
  }
  const auto sample_us = [&](VerifiedLaunch& whole, Launch& part) {
    whole.evict_from_caches();
    return whole.time_us(part, 1);
  };
  std::vector<std::vector<double>> samples(players.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < players.size(); ++i) {
      if (launches[i]) samples[i].push_back(sample_us(*launches[i], launches[i]->launch()));
    }
  }
  for (std::size_t i = 0; i < players.size(); ++i) {
    if (!samples[i].empty()) players[i].us = summarise(samples[i]).median;
  }
  if (!padded || !launches[*padded]) return 0;
  CopiesLaunch copies(dynamic_cast<PaddedLaunch&>(launches[*padded]->launch()));
  std::vector<double> of_copies;
  for (int i = 0; i < kCopies; ++i) of_copies.push_back(sample_us(*launches[*padded], copies));
  return summarise(of_copies).median;
}

bool GpuTable::is_right(const std::string& name, VerifiedLaunch& one) {
  const Verification found = one.verify(*reference_);
  if (found.error <= 1) return true;
  fmt::print("WRONG {}: {}\n", name, found.where);
  return false;
}

std::unique_ptr<Launch> prepared(const Problem& problem, const KernelConfig& config) {
  try {
    return cuda_backend().prepare(problem, config);
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) throw;
    return nullptr;
  }
}

}  // namespace kscout::bench
