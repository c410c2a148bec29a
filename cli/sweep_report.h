#pragma once
/// \file
/// Prints the state of a sweep.
#include "core/json_fields.h"
#include "sweep/journal.h"
#include "sweep/sweep.h"
#include "table.h"

namespace kscout::cli {

/// The state as JSON; `report` (of this command's session) may be null.
Json status_json(const SweepStatus& status, const SweepReport* report);
void print_json(const Json& json);
void print_status(const SweepStatus& status, const SweepReport* report, Format format);

}  // namespace kscout::cli
