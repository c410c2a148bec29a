#pragma once
/// \file
/// Binds selection: the classes Choice and Selector.
#include <filesystem>
#include <optional>
#include <string>

#include <nanobind/nanobind.h>

#include <kscout/selector.h>

namespace kscout::python {

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
