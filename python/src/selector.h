#pragma once
/// \file
/// Selection: the classes Choice and Selector.
#include <filesystem>
#include <optional>

#include <nanobind/nanobind.h>

#include <kscout/selector.h>

namespace kscout::python {

/// A file that may be left out.
using FileArgument = std::optional<std::filesystem::path>;

/// A choice with what is needed to print its name.
struct NamedChoice {
  Choice choice;
  Signature signature;
};

void bind_selector(nanobind::module_& module);

}  // namespace kscout::python
