#pragma once
/// \file
/// Whether a model is good enough: named limits, each met or not.
///
///     const auto asked = target_criteria(Op::conv_fwd, evaluation.overall);
///     if (!all_met(asked)) ...
#include <span>
#include <string>
#include <vector>

#include <kscout/types.h>

#include "evaluate/evaluate.h"

namespace kscout {

struct Criterion {
  std::string what;
  double value;
  std::string limit;  ///< "> 90 %"
  bool met;
};

bool all_met(std::span<const Criterion> criteria) noexcept;

/// Value above a limit, in percent.
Criterion above(std::string what, double value, double limit);

/// What the public CK Tile tools ask of a model of the op. conv_fwd: mean > 90 %, P10 > 75 %, picks that are
/// the oracle > 70 %; backward: mean > 85 %; GEMM: mean >= 90 %, P10 >= 75 %.
std::vector<Criterion> target_criteria(Op op, const Summary& summary);

}  // namespace kscout
