
#include "features/schema_text.h"

#include <fmt/format.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/names.h"
#include "core/toml_reader.h"

namespace kscout {

namespace {

constexpr std::string_view kFilePrefix = "families/features_";
constexpr std::string_view kFileSuffix = ".toml";

/// Keys of a catalogue's tables.
class Reader : public TomlReader {
 public:
  using TomlReader::TomlReader;

  std::string text(const toml::table& table, std::string_view key, bool required = true) const {
    const toml::node* const node = table.get(key);
    if (!node && !required) return {};
    if (!node) complain(table, fmt::format("'{}' is missing", key));
    const auto* const value = node->as_string();
    if (!value) complain(*node, fmt::format("'{}' must be a text", key));
    return value->get();
  }
  /// Calls fn(table) for each table of the list `key`, which may be missing.
  template <class F>
  void each(const toml::table& table, std::string_view key, F&& fn) const {
    const toml::node* const node = table.get(key);
    if (!node) return;
    const auto* const list = node->as_array();
    if (!list) complain(*node, fmt::format("'{}' must be a list of tables", key));
    for (const toml::node& entry : *list) {
      if (!entry.is_table()) complain(entry, fmt::format("'{}' must be a list of tables", key));
      fn(*entry.as_table());
    }
  }
};

Feature read_feature(const Reader& reader, const toml::table& table) {
  reader.check_keys(table, "key", {"id", "formula", "unit", "meaning", "categorical"});
  const std::string id = reader.text(table, "id");
  try {
    check_feature_id(id);
  } catch (const Error& error) {
    reader.complain(table, error.what());
  }
  return {id, reader.text(table, "formula"), reader.text(table, "unit"), reader.text(table, "meaning"),
          reader.flag(table, "categorical")};
}

Requirement read_requirement(const Reader& reader, const toml::table& table) {
  reader.check_keys(table, "key", {"formula", "because"});
  return {reader.text(table, "formula"), reader.text(table, "because")};
}

/// Appends features `first` to `last` of the base schema.
void take_range(const Reader& reader, const toml::table& entry, const std::vector<Feature>& from,
                std::vector<Feature>& to) {
  reader.check_keys(entry, "key", {"first", "last"});
  const auto position = [&](std::string_view key) {
    const std::string id = reader.text(entry, key);
    std::vector<std::string_view> ids;
    for (const Feature& feature : from) ids.push_back(feature.id);
    const auto found = find_word(id, ids);
    if (!found) reader.complain(entry, unknown_name_message("feature of the base", id, ids));
    return *found;
  };
  const std::size_t first = position("first"), last = position("last");
  for (std::size_t i = first; i <= last; ++i) to.push_back(from[i]);
}

/// Makes features of the base that the schema names as `hidden` terms: formulas may use them, rows lack them.
void hide(const Reader& reader, const toml::table& table, SchemaData& data) {
  const toml::node* const hidden = table.get("hidden");
  if (!hidden) return;
  for (const std::string& id : reader.texts_of(*hidden, "hidden")) {
    const auto found = std::ranges::find(data.features, id, &Feature::id);
    if (found == data.features.end()) {
      std::vector<std::string_view> ids;
      for (const Feature& feature : data.features) ids.push_back(feature.id);
      reader.complain(*hidden, unknown_name_message("feature", id, ids));
    }
    data.terms.push_back(std::move(*found));
    data.features.erase(found);
  }
}

/// The schemas that `base` names: one, or a list.
std::vector<std::string> bases_of(const Reader& reader, const toml::table& table) {
  const toml::node* const node = table.get("base");
  if (!node) return {};
  const auto bases =
      node->is_array() ? reader.texts_of(*node, "base") : std::vector{reader.text(table, "base")};
  const auto all = schema_names();
  for (const std::string& base : bases) {
    if (!find_word(base, views(all)))
      reader.complain(*node, unknown_name_message("schema", base, views(all)));
  }
  return bases;
}

SchemaData read_schema(const Reader& reader, const toml::table& table) {
  reader.check_keys(
      table, "key",
      {"name", "summary", "op", "provider", "base", "hidden", "requirements", "terms", "features"});
  SchemaData data;
  std::vector<Feature> inherited;
  for (const std::string& base : bases_of(reader, table)) {
    SchemaData of = catalogue_schema_data(base);
    if (!of.provider.empty()) data.provider = of.provider;
    std::ranges::move(of.requirements, std::back_inserter(data.requirements));
    std::ranges::move(of.terms, std::back_inserter(data.terms));
    std::ranges::move(of.features, std::back_inserter(inherited));
  }
  data.name = reader.text(table, "name");
  data.summary = reader.text(table, "summary");
  if (table.contains("provider")) data.provider = reader.text(table, "provider");
  const std::string op = reader.text(table, "op");
  const auto known = find_word(op, EnumWords<Op>::words);
  if (!known) reader.complain(*table.get("op"), unknown_name_message("op", op, EnumWords<Op>::words));
  data.op = static_cast<Op>(*known);
  reader.each(table, "requirements", [&](const toml::table& entry) {
    data.requirements.push_back(read_requirement(reader, entry));
  });
  reader.each(table, "terms",
              [&](const toml::table& entry) { data.terms.push_back(read_feature(reader, entry)); });
  reader.each(table, "features", [&](const toml::table& entry) {
    if (entry.contains("first")) return take_range(reader, entry, inherited, data.features);
    data.features.push_back(read_feature(reader, entry));
  });
  hide(reader, table, data);
  return data;
}

/// Quotes a text as a TOML basic string.
std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

void write_features(std::string& out, std::string_view key, const std::vector<Feature>& features) {
  if (features.empty()) return;
  out += fmt::format("{} = [\n", key);
  for (const Feature& feature : features) {
    out += fmt::format("  {{ id = {}, formula = {}, unit = {}, meaning = {}{} }},\n", toml_text(feature.id),
                       toml_text(feature.formula), toml_text(feature.unit), toml_text(feature.meaning),
                       feature.categorical ? ", categorical = true" : "");
  }
  out += "]\n";
}

}  // namespace

void check_feature_id(std::string_view id) {
  constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
  if (id.empty() || id.find_first_not_of(kLetters) != id.npos || id.front() <= '9')
    fail(Errc::invalid_argument, "'{}' is no id of a feature: letters, digits and _, and no digit first", id);
}

std::vector<std::string> schema_names() {
  std::vector<std::string> names;
  for (std::string_view file : embedded_file_names(kFilePrefix)) {
    file.remove_prefix(kFilePrefix.size());
    file.remove_suffix(kFileSuffix.size());
    names.emplace_back(file);
  }
  return names;
}

SchemaData catalogue_schema_data(std::string_view name) {
  const auto all = schema_names();
  index_of_word("schema", name, views(all));
  const std::string file = fmt::format("{}{}{}", kFilePrefix, name, kFileSuffix);
  return parse_schema_data(embedded_file(file), file);
}

SchemaData parse_schema_data(std::string_view text, std::string_view source) {
  const Reader reader(source);
  return read_schema(reader, parse_toml(text, source));
}

std::string schema_text(const SchemaData& data) {
  std::string out = fmt::format("name = {}\nsummary = {}\nop = {}\n", toml_text(data.name),
                                toml_text(data.summary), toml_text(word(data.op)));
  if (!data.provider.empty()) out += fmt::format("provider = {}\n", toml_text(data.provider));
  if (!data.requirements.empty()) {
    out += "requirements = [\n";
    for (const Requirement& requirement : data.requirements) {
      out += fmt::format("  {{ formula = {}, because = {} }},\n", toml_text(requirement.formula),
                         toml_text(requirement.because));
    }
    out += "]\n";
  }
  write_features(out, "terms", data.terms);
  write_features(out, "features", data.features);
  return out;
}

namespace {

/// Escapes a table cell: '|' would end it.
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
      "The language: `docs/formats/expr.md`. A schema of your own: `docs/own_features.md`.\n";
  for (const std::string& name : Schema::names()) out += '\n' + schema_markdown(Schema::find(name));
  return out;
}

}  // namespace kscout
