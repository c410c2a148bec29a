#pragma once
/// \file
/// Families, problems and trained models of bench/select. Labels are synthetic: the analytic time of a
/// config, bent by seeded functions of its traits and of the problem, and by noise. They give trees the mix
/// of splits (on the problem, on the config, on both) that measurements give; no claim rests on the models'
/// accuracy.
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>

#include <kscout/family.h>

#include "forest/lightgbm.h"

namespace kscout::bench {

struct SelectCase {
  const char* name;
  const char* provider;
  const char* device;
  DType dtype;
  Layout layout;
  std::size_t configs;
  int leaves;
};

/// `configs` configs of the rule set `full`, spread evenly over those with distinct traits, so that nothing
/// is gained from configs that the model cannot tell apart.
Family select_family(const SelectCase& of);

GemmProblem select_problem(const SelectCase& of, std::mt19937_64& random);

/// 500 trees on 200 problems x 200 configs, kept in `folder` as LightGBM text and read back from there.
std::filesystem::path train_select_model(const SelectCase& of, const Family& family,
                                         const std::filesystem::path& folder);

}  // namespace kscout::bench
