#pragma once
/// \file
/// Lets a model choose what a sweep measures: a table of few measurements instead of a whole family.
///
///     request.narrow = guided_by({.model = "models/mine", .top = 8, .also = "c.tile_m == 64"}, request, device);
#include <string>

#include "sweep/plan.h"

namespace kscout {

struct GuidedBy {
  std::string model;
  std::size_t top = 8;  ///< configs per problem: those that the model expects to be the fastest
  std::string also;     ///< formula over `c. d. s.`: configs that are measured besides; empty: none
};

/// For PlanRequest::narrow. Throws the errors of Selector::load, invalid_argument when the model is of
/// another provider than the request.
Narrow guided_by(const GuidedBy& by, const PlanRequest& request, const Device& device);

}  // namespace kscout
