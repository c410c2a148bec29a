#pragma once
/// \file
/// Prints properties of whole rule sets: sizes over all signatures, and whether one contains another.
#include <string>
#include <vector>

#include <kscout/family.h>

#include "provider/ck_tile/family/ck_builder.h"
#include "table.h"

namespace kscout::cli {

/// A rule set of a provider, or one translated from CK Builder's lists in a folder (`profiler`, `tests`).
struct SetRequest {
  FamilyRequest family;
  std::string builder_configs;  ///< folder of the builder lists; empty: none
  bool is_builder_list() const;
};

/// The configs of a builder list; reports lines without a config on stderr.
std::vector<SignatureConfigs> listed_by_builder(const SetRequest& request);

/// Prints one row per signature of the set, and the sum.
void print_signature_counts(const SetRequest& request, Format format);

/// Checks whether the set contains every config of `other` over all signatures. `other` is a rule set or a
/// file of kernel names (one a line, or JSON as written by --export-json). Prints up to `most` missing
/// configs; exit code 1 when any is missing. An incomplete name counts as contained when any config of the
/// set agrees with the parts that the name states.
void print_coverage(const SetRequest& request, const std::string& other, std::size_t most, Format format);

/// The output for configs of several signatures: names, their number, or a JSON file.
struct ListOptions {
  bool count = false;
  std::string export_json;
  Format format = Format::text;
};
/// Prints the configs of a builder list.
void print_builder_list(const SetRequest& request, const ListOptions& options);
/// Prints the configs that a trait file of CK's instance builder requests.
void print_trait_configs(const FamilyRequest& request, const std::string& file, TraitMode mode,
                         const ListOptions& options);

}  // namespace kscout::cli
