#pragma once
/// \file
/// A model as what a search maximises, and what its formulas say before it is asked.
///
///     const SearchSpace space(servable_configs(family, problem));
///     const auto prior = analytic_prior(model, problem, space.configs());
///     searcher.search(space, model_objective(model, problem, space), {.budget = 64, .prior = prior});
#include <vector>

#include "search/search.h"
#include "select/model.h"

namespace kscout {

/// The configs of a family that can take the problem. Throws unsupported when none can.
ConfigTable servable_configs(const Family& family, ProblemRef problem);

/// Scores of the model's default target. Model, problem and space must outlive it.
Objective model_objective(const Model& model, ProblemRef problem, const SearchSpace& space);

/// Minus the logarithm of the schema's feature `analytic_time_us`, or the logarithm of `analytic_share`, by
/// the model's own formulas and without asking its trees; empty when the schema has neither.
std::vector<double> analytic_prior(const Model& model, ProblemRef problem, const ConfigTable& configs);

}  // namespace kscout
