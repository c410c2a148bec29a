#pragma once
/// \file
/// Chooses the backend, config and form of a problem among what the backends offer (dispatch/offers.h). Runs
/// nothing.
///
///     const Solution solution = choose(offers, problem, {.space = space, .limits = limits});
#include <cstdint>
#include <span>

#include <kscout/dispatcher.h>

#include "dispatch/offers.h"

namespace kscout {

/// Whether each run gets the packable operand (Operation::packable), or it is packed once for many runs.
enum class Packable : std::uint8_t { as_given, packed_once };

struct ChooseRequest {
  MemorySpace space;
  Limits limits = {};
  std::span<const Refused> refused = {};  ///< configs to pass over
  Packable packable = Packable::as_given;
};

/// See Dispatcher::get_solution. Throws invalid_argument when no backend reaches the memory, unsupported when
/// no config takes the problem in any form.
Solution choose(Offers& offers, ProblemRef problem, const ChooseRequest& request);

/// What the copies of a form leave of the limits; nothing when they need more.
std::optional<Limits> within_form(ProblemRef problem, const ExecutionForm& form, Limits limits);

}  // namespace kscout
