#pragma once
/// \file
/// Binds selection: the classes Choice and Selector.
#include <filesystem>
#include <optional>
#include <string>

#include <nanobind/nanobind.h>

#include <kscout/error.h>
#include <kscout/selector.h>

namespace kscout::python {

/// Arguments `workspace_limit` (None: no limit) and `deterministic`. Throws invalid_argument below 0.
inline Limits limits_of(std::optional<std::int64_t> workspace_limit, bool deterministic,
                        bool batch_invariant) {
  if (workspace_limit && *workspace_limit < 0)
    throw Error(Errc::invalid_argument, "workspace_limit=" + std::to_string(*workspace_limit) +
                                            ": bytes of 0 or more, or None for no limit");
  return {workspace_limit.value_or(Limits::none), deterministic, batch_invariant};
}

/// An optional file argument.
using FileArgument = std::optional<std::filesystem::path>;

/// A choice with the data for printing its name.
struct NamedChoice {
  Choice choice;
  Signature signature;
  std::string written = {};  ///< the name as the caller wrote it; empty: the config's own
};

void bind_selector(nanobind::module_& module);

}  // namespace kscout::python
