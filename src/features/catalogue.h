#pragma once
/// \file
/// Schemas as pages for people.
///
///     std::string page = catalogue_markdown();    // docs/features.md
#include <string>

#include "features/schema.h"

namespace kscout {

/// A section of a Markdown page: what the schema is for, then its features and terms as tables.
std::string schema_markdown(const Schema& schema);

/// The page docs/features.md: every schema of the catalogue.
std::string catalogue_markdown();

}  // namespace kscout
