#pragma once
/// \file
/// Provides families, problems and trained models of bench/select. Measurements are synthetic: the analytic
/// time of a config, distorted by seeded functions of its traits and of the problem, and by noise. Trees then
/// split on problem, config and both in realistic proportions; the models' accuracy means nothing.
#include <filesystem>
#include <random>
#include <string>

#include <kscout/any_problem.h>
#include <kscout/family.h>

namespace kscout::bench {

struct SelectCase {
  const char* name;
  const char* provider;
  const char* device;
  Op op;
  DType dtype;
  Layout layout;
  std::size_t configs;  ///< 0: all
};

/// `configs` configs of the rule set `full`, spaced evenly over those with distinct traits: configs with
/// equal traits would make the benchmark easier.
Family select_family(const SelectCase& of);

/// A random problem of a signature.
Problem select_problem(const Signature& of, std::mt19937_64& random);

/// The folder of a model of 260 trees of 31 leaves, trained by `kscout train`'s code on 200 problems x 200
/// configs on first use, then kept in `folder`.
std::filesystem::path train_select_model(const SelectCase& of, const std::filesystem::path& folder);

}  // namespace kscout::bench
