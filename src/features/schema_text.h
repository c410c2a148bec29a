#pragma once
/// \file
/// Reads and writes schemas as TOML (families/features_*.toml, model files), and as pages for people.
///
///     name = "gemm"
///     summary = "..."
///     op = "gemm"
///     provider = "ck_tile"       # omitted: the schema reads no axes
///     requirements = [{ formula = "...", because = "..." }]
///     terms = [{ id = "...", formula = "...", unit = "...", meaning = "..." }]
///     features = [{ id = "...", formula = "...", unit = "...", meaning = "...", categorical = true }]
///
/// A file of the catalogue may extend another: `base = "ck_gemm_55"` takes over its provider, requirements
/// and terms, and `{ first = "M", last = "K" }` among the features stands for a range of the base's features.
#include <string>
#include <string_view>
#include <vector>

#include "features/schema.h"

namespace kscout {

/// Throws invalid_argument unless the id has only letters, digits and _, and no digit first: formulas, tables
/// and LightGBM read it.
void check_feature_id(std::string_view id);

/// Throws corrupt_data naming `source` and the line: invalid TOML, an unknown or missing key, a wrong type,
/// an id that check_feature_id() refuses.
SchemaData parse_schema_data(std::string_view text, std::string_view source);

/// Names of the schemas in the catalogue, families/features_*.toml.
std::vector<std::string> schema_names();
/// A schema of the catalogue, not compiled; throws invalid_argument naming the nearest schema.
SchemaData catalogue_schema_data(std::string_view name);

/// Inverse of parse_schema_data; equal data give equal text.
std::string schema_text(const SchemaData& data);

// ---- Prints schemas as pages for people.
//
//     std::string page = catalogue_markdown();    // docs/features.md

/// A section of a Markdown page: the schema's summary, then its features and terms as tables.
std::string schema_markdown(const Schema& schema);

/// The page docs/features.md: every schema of the catalogue.
std::string catalogue_markdown();

}  // namespace kscout
