#pragma once
/// \file
/// Rule sets seen as a whole: their sizes over all signatures, and whether one holds another.
#include <string>

#include <kscout/family.h>

#include "family/ck_builder.h"
#include "table.h"

namespace kscout::cli {

/// A rule set, also one of those that a user's lists of CK Builder hold (`profiler`, `tests`).
struct SetRequest {
  FamilyRequest family;
  std::string builder_configs;  ///< the folder of the lists; empty: none
  bool is_builder_list() const;
};

/// One row per signature that the set is for, and their sum.
void print_signature_counts(const SetRequest& request, Format format);

/// A check: whether the set holds every config of `other`, a set or a file of kernel names (one a line, or
/// JSON as
/// --export-json writes it), over all signatures. Shows up to `most` that are missing and ends with exit code
/// 1 when there are any. Configs of names that do not say everything are covered by any config that agrees
/// with what they say.
void print_coverage(const SetRequest& request, const std::string& other, std::size_t most, Format format);

/// What is done with configs of several signatures: their names, or how many there are, or a JSON file.
struct ListOptions {
  bool count = false;
  std::string export_json;
  Format format = Format::text;
};
/// The configs of a builder list.
void print_builder_list(const SetRequest& request, const ListOptions& options);
/// What a trait file of CK's instance builder asks for.
void print_trait_configs(const FamilyRequest& request, const std::string& file, TraitMode mode,
                         const ListOptions& options);

}  // namespace kscout::cli
