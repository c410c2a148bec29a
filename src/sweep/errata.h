#pragma once
/// \file
/// Finds which condition wrong results share, and writes it as a rule of a family file.
///
///     const std::vector<Erratum> errata = errata_of(runs);
///     std::puts(errata_toml(errata, "NVIDIA H100", "kscout audit --problems conv_edge").c_str());
///
/// Method: for each algorithm with wrong results, the conjunction of at most two conditions from a fixed list
/// that all wrong runs meet and the fewest right runs do.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>

namespace kscout {

/// A config that computed a problem.
struct AuditedRun {
  Problem problem;
  KernelConfig config;
  std::string library;  ///< "cuBLASLt 13.1.0"
  bool right = true;
};

/// A condition under which an algorithm of a library computes wrong results.
struct Erratum {
  std::string name;  ///< of the rule: "engine 50 of cuDNN 9.14.0, conv_bwd_data"
  std::string library;
  std::string algorithm;       ///< formula over c. and s.: the release, the operation and the algorithm
  std::string condition = {};  ///< formula over p., s. and c.; empty: the algorithm is never right
  std::string in_words = {};   ///< the condition in words; empty like it
  std::string config;          ///< name of a config that was wrong
  std::string problem;         ///< the smallest problem for which one was wrong
  std::size_t wrong = 0;       ///< wrong runs; all meet the condition
  std::size_t right = 0;       ///< right runs that meet it
  std::size_t others = 0;      ///< runs that do not meet it; all are right
};

/// One erratum per library, operation and algorithm (cuBLASLt's `algorithm`, cuDNN's `engine`) with wrong
/// runs. Runs of suggestions whose algorithm is not named are not read. Deterministic.
std::vector<Erratum> errata_of(std::span<const AuditedRun> runs);

/// The errata as rules, which a family file can include; each states its numbers of runs, the device and the
/// command. Empty when there are none.
std::string errata_toml(std::span<const Erratum> errata, const std::string& device,
                        const std::string& command);

}  // namespace kscout
