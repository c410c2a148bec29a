#include "features/catalogue.h"

#include <fmt/format.h>

namespace kscout {

namespace {

/// A table's cell: '|' would end it.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string_view reads(const expr::Depends& depends) {
  const bool config = depends.on(expr::Source::config) || depends.on(expr::Source::traits);
  const bool problem = depends.on(expr::Source::problem);
  return problem ? (config ? "both" : "problem") : config ? "config" : "device";
}

}  // namespace

std::string schema_markdown(const Schema& schema) {
  const SchemaData& data = schema.data();
  std::string out = fmt::format("## {}\n\n{}.\n\n", data.name, data.summary);
  out += fmt::format("{} features of op {}, for {}. Hash {:016x}.\n\n", schema.size(), word(data.op),
                     data.provider.empty() ? "every provider" : fmt::format("provider {}", data.provider),
                     schema.hash());
  for (const Requirement& requirement : data.requirements) {
    out += fmt::format("* Needs `{}`: {}.\n", requirement.formula, requirement.because);
  }
  if (!data.requirements.empty()) out += '\n';
  out += "| # | feature | unit | of | meaning | formula |\n|---|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < schema.size(); ++i) {
    const Feature& feature = data.features[i];
    out += fmt::format("| {} | {}{} | {} | {} | {} | `{}` |\n", i, feature.id,
                       feature.categorical ? " (categorical)" : "", feature.unit, reads(schema.depends(i)),
                       cell(feature.meaning), cell(feature.formula));
  }
  if (data.terms.empty()) return out;
  out += "\nTerms that the formulas use:\n\n| term | unit | meaning | formula |\n|---|---|---|---|\n";
  for (const Feature& term : data.terms) {
    out +=
        fmt::format("| {} | {} | {} | `{}` |\n", term.id, term.unit, cell(term.meaning), cell(term.formula));
  }
  return out;
}

std::string catalogue_markdown() {
  std::string out =
      "# Features\n\n"
      "Written by `kscout features --format markdown`; do not edit. The schemas are data: "
      "`families/features_*.toml`.\n"
      "Formulas read `p.` (problem), `c.` (axes of the config), `t.` (traits of the config), `d.` (device), "
      "and each "
      "other by name.\n"
      "The language: `docs/formats/expr.md`.\n";
  for (const std::string& name : Schema::names()) out += '\n' + schema_markdown(Schema::find(name));
  return out;
}

}  // namespace kscout
