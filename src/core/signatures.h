#pragma once
/// \file
/// Lists the distinct signatures of problems.
///
///     for (const Signature& signature : signatures_of(table.problems)) use(enumerate({... signature ...}));
#include <algorithm>
#include <ranges>
#include <vector>

#include <kscout/any_problem.h>

namespace kscout {

/// Each signature once, in the order in which it first occurs. Takes a range of any kind of problem.
template <std::ranges::input_range Problems>
std::vector<Signature> signatures_of(Problems&& problems) {
  std::vector<Signature> out;
  for (const auto& problem : problems) {
    const Signature signature = signature_of(problem);
    if (std::ranges::find(out, signature) == out.end()) out.push_back(signature);
  }
  return out;
}

}  // namespace kscout
