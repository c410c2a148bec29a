#pragma once
/// \file
/// A model as the objective of a search.
///
///     const SearchSpace space(servable_configs(family, problem));
///     searcher.search(space, model_objective(model, problem, space), {.top = 5});
#include "search/search.h"
#include "select/model.h"

namespace kscout {

/// The configs of a family that can take the problem. Throws unsupported when none can.
ConfigTable servable_configs(const Family& family, ProblemRef problem);

/// Scores of the model's default target. Model, problem and space must outlive it.
Objective model_objective(const Model& model, ProblemRef problem, const SearchSpace& space);

}  // namespace kscout
