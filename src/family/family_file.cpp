#include "family/family_file.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/fail.h"
#include "core/files.h"
#include "core/names.h"
#include "core/toml_reader.h"
#include "op/operation.h"
#include "provider/native/native.h"

namespace kscout {
namespace {

/// A family's text without its rule sets, which come last in every file (tests check that no rule follows).
std::string_view before_rule_sets(std::string_view text) { return text.substr(0, text.find("\n[rule_set.")); }

/// Reads one parsed file.
class Reader : private TomlReader {
 public:
  Reader(std::string_view file, const ConfigSpace& space) : TomlReader(file), space_(space) {}

  /// Reads a file that contains rule sets only; they are added after those of a family.
  FamilyFile read_more(const toml::table& root, const FamilyFile& family) {
    family_ = family;
    check_keys(root, "key of a file of rule sets", {"provider", "op", "rule_set"});
    check_identity(root, "provider", space_.provider);
    check_identity(root, "op", word(space_.op));
    scope_ = family_scope(space_, family_.formulas, false);
    const toml::node* const sets = root.get("rule_set");
    if (sets == nullptr) complain(root, "no [rule_set.NAME] is given");
    read_rule_sets(table_of(*sets, "rule_set"));
    return std::move(family_);
  }

  FamilyFile read(const toml::table& root) {
    family_.space = &space_;
    family_.name = file();
    check_keys(root, "key",
               {"provider", "op", "include", "formula", "table", "axes", "rule", "rule_set", "signatures",
                "releases", "limits", "compiled",
                // of a declared provider (family/declared.cpp)
                "help", "runs_on", "axis", "traits", "members"});
    check_identity(root, "provider", space_.provider);
    check_identity(root, "op", word(space_.op));
    read_terms(root);
    scope_ = family_scope(space_, family_.formulas, false);
    // Applicability rules are stored in models, without the formulas of this file.
    problem_scope_ = family_scope(space_, {}, true);
    check_formulas();
    if (const auto* node = root.get("axes")) common_ = &table_of(*node, "axes");
    for (const auto& included : included_) within(included.name, [&] { read_rules(included.table); });
    read_rules(root);
    read_releases(root);
    read_limits(root);
    read_compiled(root);
    if (const auto* node = root.get("signatures")) read_signatures(table_of(*node, "signatures"));
    read_rule_sets_of(root);
    for (const auto& included : included_) within(included.name, [&] { read_rule_sets_of(included.table); });
    if (family_.rule_sets.empty()) complain(root, "no [rule_set.NAME] is given");
    return std::move(family_);
  }

  /// Reads terms and rules of an embedded family, which need no check.
  FamilyFile read_rules_only(const toml::table& root) {
    rules_only_ = true;
    family_.space = &space_;
    family_.name = file();
    read_terms(root);
    for (const auto& included : included_) read_rules(included.table);
    read_rules(root);
    read_releases(root);
    read_limits(root);
    return std::move(family_);
  }

 private:
  /// Checks that the file is for this provider and op, or for a list that contains them.
  void check_identity(const toml::table& root, std::string_view key, std::string_view expected) const {
    const toml::node* const node = root.get(key);
    if (const auto* list = node ? node->as_array() : nullptr) {
      for (const toml::node& one : *list) {
        if (text_of(one, key) == expected) return;
      }
      complain(*node, fmt::format("{} '{}' is not in the list", key, expected));
    }
    const std::string& text = required_text(root, key, "the file");
    if (text != expected) {
      complain(*root.get(key), fmt::format("{} '{}' in a file of {} '{}'", key, text, key, expected));
    }
  }

  // ---- contents shared by several files

  struct Included {
    std::string name;
    toml::table table;
  };
  /// Inserts formulas, tables and rules of other files before the file's own, and their rule sets after its
  /// own.
  void read_includes(const toml::array& names) {
    for (const toml::node& name : names) {
      const std::string path = "families/" + text_of(name, "include");
      if (!find_word(path, embedded_file_names("families/")))
        complain(name, fmt::format("there is no {}", path));
      const std::string_view text = embedded_file(path);
      included_.push_back({path, parse_toml(rules_only_ ? before_rule_sets(text) : text, path)});
      within(path, [&] {
        check_keys(included_.back().table, "key of an included file",
                   {"formula", "table", "rule", "rule_set"});
        read_facts(included_.back().table);
      });
    }
  }

  void read_terms(const toml::table& root) {
    if (const auto* node = root.get("include")) read_includes(array_of(*node, "include"));
    if (space_.provider == native_provider().name() && native_kernels_of(space_).has_register_tiles) {
      for (const auto& [name, text] : register_tile_terms()) add_formula(name, text, root);
    }
    read_facts(root);
  }

  void read_facts(const toml::table& root) {
    if (const auto* node = root.get("formula")) read_formulas(table_of(*node, "formula"));
    if (const auto* node = root.get("table")) {
      for (const auto& [name, table] : as_written(table_of(*node, "table")))
        read_table(name, table_of(*table, name));
    }
  }

  /// Adds a formula for the table: 1 when the value is in the key's list; 0 when it is not, or when the key
  /// has no list.
  void read_table(const std::string& name, const toml::table& table) {
    check_keys(table, "key of a table", {"key", "value", "rows"});
    const std::string& key = required_text(table, "key", name);
    const std::string& value = required_text(table, "value", name);
    FactTable facts{.name = name, .rows = {}};
    std::string formula = "0";
    const toml::node* rows = table.get("rows");
    if (rows == nullptr) complain(table, fmt::format("table '{}' has no 'rows'", name));
    for (const auto& [word, node] : as_written(table_of(*rows, "rows"))) {
      std::vector<double> numbers;
      for (const toml::node& number : array_of(*node, word)) {
        const auto one = number.value<double>();
        if (!one || !(std::abs(*one) < 1e15)) complain(number, fmt::format("'{}' holds numbers", word));
        numbers.push_back(*one);
      }
      if (numbers.empty()) complain(*node, fmt::format("'{}' is empty; leave it out", word));
      formula =
          fmt::format("if({} == '{}', {} in [{}], {})", key, word, value, fmt::join(numbers, ", "), formula);
      facts.rows.emplace_back(word, std::move(numbers));
    }
    family_.tables.push_back(std::move(facts));
    add_formula(name, formula, table);
  }

  void read_signatures(const toml::table& table) {
    check_keys(table, "key of signatures", {"dtypes", "layouts"});
    const auto dtypes = words_of<DType>(table, "dtypes");
    for (const Layout layout : words_of<Layout>(table, "layouts")) {
      for (const DType dtype : dtypes) {
        family_.signatures.push_back(signature_of(operation(space_.op).make(space_.op, dtype, layout)));
      }
    }
  }

  void read_releases(const toml::table& root) {
    const toml::node* const node = root.get("releases");
    if (node == nullptr) return;
    if (std::ranges::find(space_.axes, "version", &Axis::name) == space_.axes.end())
      complain(*node, "releases are values of axis 'version', which the provider does not have");
    for (const toml::node& release : array_of(*node, "releases")) {
      const auto number = release.value<std::int32_t>();
      if (!number || *number <= 0) complain(release, "a release is a whole number above 0, such as 130100");
      family_.releases.push_back(*number);
    }
  }

  void read_limits(const toml::table& root) {
    const toml::node* const node = root.get("limits");
    if (node == nullptr) return;
    const toml::table& table = table_of(*node, "limits");
    check_keys(table, "key of limits", {"deterministic", "workspace_bytes"});
    const auto read = [&](std::string_view key, std::string& to) {
      const auto* const text = table.get(key);
      if (text == nullptr) return;
      to = text_of(*text, key);
      if (!rules_only_)
        compile(*text, {fmt::format("limit {}", key), to}, family_scope(space_, family_.formulas, true));
    };
    read("deterministic", family_.deterministic);
    read("workspace_bytes", family_.workspace_bytes);
  }

  void read_compiled(const toml::table& root) {
    const toml::node* const node = root.get("compiled");
    if (node == nullptr) return;
    const toml::table& table = table_of(*node, "compiled");
    check_keys(table, "key of compiled", {"against", "where"});
    family_.compiled_against = required_text(table, "against", "compiled");
    family_.compiled_where = required_text(table, "where", "compiled");
    compile(*table.get("where"), {"compiled where", family_.compiled_where}, scope_);
  }

  // ---- formulas and rules

  void add_formula(const std::string& name, const std::string& text, const toml::node& at) {
    family_.formulas.push_back({name, text});
    formula_places_.push_back(where(at));
  }

  void read_formulas(const toml::table& table) {
    for (const auto& [name, node] : as_written(table)) {
      add_formula(name, text_of(*node, name), *node);
    }
  }

  void check_formulas() {
    for (std::size_t i = 0; i < family_.formulas.size(); ++i) {
      const expr::Formula use{"use of " + family_.formulas[i].name, family_.formulas[i].name};
      compile(formula_places_[i], use, scope_);
    }
  }

  static void compile(const std::string& place, const expr::Formula& formula, const expr::Scope& scope) {
    try {
      expr::Program::compile({formula}, scope);
    } catch (const Error& error) {
      fail(Errc::corrupt_data, "{}: {}", place, error.what());
    }
  }
  void compile(const toml::node& at, const expr::Formula& formula, const expr::Scope& scope) const {
    compile(where(at), formula, scope);
  }

  void read_rules(const toml::table& root) {
    const toml::node* const node = root.get("rule");
    if (node == nullptr) return;
    for (const toml::node& rule : array_of(*node, "rule")) read_rule(table_of(rule, "rule"));
  }

  void read_rule(const toml::table& table) {
    check_keys(table, "key of a rule", {"name", "kind", "admits", "because", "suggested", "slow", "since"});
    Rule rule;
    rule.name = required_text(table, "name", "a rule");
    const std::string what = fmt::format("rule '{}'", rule.name);
    const std::string& kind = required_text(table, "kind", what);
    // Old family files call applicability rules by their old kind.
    const auto position = find_word(kind == "serves" ? "applicability" : kind, EnumWords<RuleKind>::words);
    if (!position) {
      complain(*table.get("kind"), unknown_name_message("rule kind", kind, EnumWords<RuleKind>::words));
    }
    rule.kind = static_cast<RuleKind>(*position);
    rule.admits = required_text(table, "admits", what);
    rule.because = required_text(table, "because", what);
    const auto applicability_flag = [&](std::string_view key, std::string_view use) {
      const bool on = flag(table, key);
      if (on && rule.kind != RuleKind::applicability)
        complain(*table.get(key),
                 fmt::format("{} is of kind {}; only applicability rules can {}", what, kind, use));
      return on;
    };
    rule.suggested = applicability_flag("suggested", "check a library's suggestions");
    rule.slow = applicability_flag("slow", "be slow");
    if (const auto* node = table.get("since")) rule.since = text_of(*node, "since");
    if (!rule.since.empty() && rule.kind == RuleKind::worth)
      complain(*table.get("since"), fmt::format("{} is of kind worth; errata exclude wrong results", what));
    for (const Rule& known : family_.rules) {
      if (known.name == rule.name) complain(table, fmt::format("{} is given twice", what));
    }
    if (!rules_only_)
      compile(*table.get("admits"), {rule.name, rule.admits},
              rule.kind == RuleKind::applicability ? problem_scope_ : scope_);
    family_.rules.push_back(std::move(rule));
  }

  // ---- rule sets

  void read_rule_sets_of(const toml::table& root) {
    if (const auto* node = root.get("rule_set")) read_rule_sets(table_of(*node, "rule_set"));
  }

  void read_rule_sets(const toml::table& table) {
    for (const auto& [name, node] : as_written(table)) {
      const toml::table& set = table_of(*node, "rule_set." + name);
      if (std::ranges::find(family_.rule_sets, name, &RuleSet::name) != family_.rule_sets.end())
        complain(set, fmt::format("rule set '{}' exists already", name));
      check_keys(set, "key of a rule set",
                 {"help", "extends", "default_config", "block", "from", "sample", "thin", "without"});
      family_.rule_sets.push_back(read_rule_set(name, set));
    }
  }

  RuleSet read_rule_set(const std::string& name, const toml::table& table) {
    RuleSet set;
    const RuleSet* base = nullptr;
    set.name = name;
    set.help = required_text(table, "help", fmt::format("rule set '{}'", name));
    if (const auto* node = table.get("extends")) {
      const std::string& other = text_of(*node, "extends");
      const auto found = std::ranges::find(family_.rule_sets, other, &RuleSet::name);
      if (found == family_.rule_sets.end()) {
        complain(*node, fmt::format("'{}' extends '{}', which is not a rule set above it", name, other));
      }
      if (!found->sample.of.empty())
        complain(*node, fmt::format("'{}' extends '{}', which is a sample: extend '{}'", name, other,
                                    found->sample.of));
      base = &*found;
      set.default_config = found->default_config;
    }
    if (const auto* node = table.get("default_config")) set.default_config = read_default(*node);
    if (const auto* node = table.get("without")) {
      set.without = texts_of(*node, "without");
      for (const std::string& rule : set.without) {
        if (std::ranges::find(family_.rules, rule, &Rule::name) == family_.rules.end())
          complain(*node, fmt::format("there is no rule '{}'", rule));
      }
    }
    if (const auto* node = table.get("from")) set.from = text_of(*node, "from");
    const auto* const old_name = table.get("thin");  // key of old family files
    if (old_name && table.contains("sample"))
      complain(*old_name, "'thin' is the old name of 'sample': give one");
    if (const auto* node = old_name ? old_name : table.get("sample"))
      set.sample = read_sample(table_of(*node, "sample"));
    if (const auto* node = table.get("block")) {
      for (const toml::node& block : array_of(*node, "block")) {
        set.blocks.push_back(read_block(name, table_of(block, "block")));
      }
    }
    const int sources = !set.blocks.empty() + !set.from.empty() + !set.sample.of.empty();
    if (sources == 0 && !base) complain(table, fmt::format("rule set '{}' has no block", name));
    if (sources > 1)
      complain(table, fmt::format("rule set '{}' needs exactly one of block, from and sample", name));
    if (base && set.blocks.empty() && sources > 0)
      complain(table,
               fmt::format("'{}' extends '{}' by blocks only, not by from or sample", name, base->name));
    if (base) {
      set.from = base->from;
      set.blocks.insert(set.blocks.begin(), base->blocks.begin(), base->blocks.end());
    }
    return set;
  }

  RuleSetSample read_sample(const toml::table& table) {
    check_keys(table, "key of sample", {"of", "by", "every", "represent", "round", "least"});
    RuleSetSample sample;
    sample.of = required_text(table, "of", "sample");
    if (std::ranges::find(family_.rule_sets, sample.of, &RuleSet::name) == family_.rule_sets.end())
      complain(*table.get("of"), fmt::format("'{}' is not a rule set above it", sample.of));
    sample.by = required_text(table, "by", "sample");
    if (const auto* node = table.get("every")) sample.every = count_of(*node, "every");
    if (const auto* node = table.get("represent")) sample.represent = text_of(*node, "represent");
    if (const auto* node = table.get("round")) sample.round = text_of(*node, "round");
    if (const auto* node = table.get("least")) sample.least = count_of(*node, "least");
    for (const std::string& formula : {sample.by, sample.represent, sample.round}) {
      if (!formula.empty()) compile(table, {"sample", formula}, scope_);
    }
    if (sample.round.empty() != (sample.least == 0))
      complain(table, "'round' and 'least' must be given together");
    return sample;
  }

  std::vector<std::string> read_default(const toml::node& node) {
    std::vector<std::string> formulas;
    const auto add = [&](const toml::node& one) {
      formulas.push_back(text_of(one, "default_config"));
      compile(one, {"default_config", formulas.back()}, scope_);
    };
    if (const auto* list = node.as_array()) {
      for (const toml::node& one : *list) add(one);
    } else {
      add(node);
    }
    return formulas;
  }

  ConfigBlock read_block(const std::string& set, const toml::table& table) {
    ConfigBlock block;
    block.where = where(table);
    block.values.resize(space_.axes.size());
    std::vector<std::string_view> names;
    for (const Axis& axis : space_.axes) names.push_back(axis.name);
    std::vector<std::string_view> keys = names;
    keys.insert(keys.end(), {"when", "axes", "configs"});
    check_keys(table, "axis", keys);
    if (common_) check_keys(*common_, "axis", names);
    if (const auto* node = table.get("when")) {
      block.when = text_of(*node, "when");
      compile(*node, {"when", block.when}, scope_);
    }
    if (const auto* node = table.get("axes")) read_rows(*node, table, block);
    for (std::size_t i = 0; i < space_.axes.size(); ++i) {
      const Axis& axis = space_.axes[i];
      const toml::node* node = table.get(axis.name);
      if (std::ranges::find(block.row_axes, i) != block.row_axes.end()) {
        if (node) complain(*node, fmt::format("axis '{}' has its values in 'configs'", axis.name));
        continue;
      }
      if (node == nullptr && common_) node = common_->get(axis.name);
      if (node == nullptr && i > 0 && !space_.members.empty()) {
        block.values[i].push_back({0, {}});  // an axis of another member
        continue;
      }
      if (node == nullptr) {
        complain(table, fmt::format("a block of rule set '{}' leaves out axis '{}'", set, axis.name));
      }
      block.values[i] = read_values(axis, *node);
    }
    return block;
  }

  /// axes = [names], configs = [[values], ...]
  void read_rows(const toml::node& axes, const toml::table& table, ConfigBlock& block) {
    for (const toml::node& one : array_of(axes, "axes")) {
      std::vector<std::string_view> names;
      for (const Axis& axis : space_.axes) names.push_back(axis.name);
      const auto position = find_word(text_of(one, "axes"), names);
      if (!position) complain(one, unknown_name_message("axis", text_of(one, "axes"), names));
      if (!block.row_axes.empty() && *position <= block.row_axes.back())
        complain(one, fmt::format("axis '{}' comes before the previous axis in the config space",
                                  space_.axes[*position].name));
      block.row_axes.push_back(*position);
    }
    const toml::node* const configs = table.get("configs");
    if (configs == nullptr) complain(table, "a block with 'axes' has no 'configs'");
    for (const toml::node& config : array_of(*configs, "configs")) {
      const toml::array& values = array_of(config, "a config");
      if (values.size() != block.row_axes.size())
        complain(config, fmt::format("{} values for {} axes", values.size(), block.row_axes.size()));
      std::vector<AxisValue>& row = block.rows.emplace_back();
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::vector<AxisValue> one;
        read_value(space_.axes[block.row_axes[i]], values[i], one);
        if (one.size() != 1) complain(values[i], "a config must have one value per axis");
        check_row_formula(values[i], one.front().formula, block.row_axes);
        row.push_back(std::move(one.front()));
      }
    }
    if (block.rows.empty() || block.row_axes.empty())
      complain(*configs, "'axes' and 'configs' must not be empty");
  }

  void check_row_formula(const toml::node& at, const std::string& formula,
                         std::span<const std::size_t> row_axes) const {
    if (formula.empty()) return;
    const std::uint32_t read = expr::Program::compile({{"value", formula}}, scope_).depends(0).axes;
    for (const std::size_t axis : row_axes) {
      if (read >> axis & 1)
        complain(at,
                 fmt::format("'{}' reads axis '{}' of the same config; read axes that 'axes' does not name",
                             formula, space_.axes[axis].name));
    }
  }

  std::vector<AxisValue> read_values(const Axis& axis, const toml::node& node) {
    std::vector<AxisValue> values;
    if (const auto* list = node.as_array()) {
      for (const toml::node& one : *list) read_value(axis, one, values);
    } else {
      read_value(axis, node, values);
    }
    if (values.empty()) complain(node, fmt::format("axis '{}' has no value", axis.name));
    return values;
  }

  void read_value(const Axis& axis, const toml::node& node, std::vector<AxisValue>& values) {
    const auto add = [&](AxisValue value) {
      const bool known = std::ranges::any_of(values, [&](const AxisValue& other) {
        return other.number == value.number && other.formula == value.formula;
      });
      if (!known) values.push_back(std::move(value));
    };
    if (const auto* text = node.as_string()) {
      if (axis.words.empty()) {
        compile(node, {std::string(axis.name), text->get()}, scope_);
        add({0, text->get()});
      } else if (text->get() == "*") {
        for (std::size_t i = 0; i < axis.words.size(); ++i) add({static_cast<std::int32_t>(i), {}});
      } else if (const auto position = find_word(text->get(), axis.words)) {
        add({static_cast<std::int32_t>(*position), {}});
      } else {
        complain(node, unknown_name_message(fmt::format("word of {}", axis.name), text->get(), axis.words));
      }
      return;
    }
    if (!axis.words.empty())
      complain(node, fmt::format("axis '{}' takes words: {}", axis.name, fmt::join(axis.words, ", ")));
    if (const auto* flag = node.as_boolean()) return add({flag->get() ? 1 : 0, {}});
    const auto* number = node.as_integer();
    if (number == nullptr || number->get() <= KernelConfig::unknown ||
        number->get() > std::numeric_limits<std::int32_t>::max()) {
      complain(node,
               fmt::format("axis '{}' takes whole numbers below 2^31, or a formula in quotes", axis.name));
    }
    add({static_cast<std::int32_t>(number->get()), {}});
  }

  const ConfigSpace& space_;
  bool rules_only_ = false;
  FamilyFile family_;
  std::vector<std::string> formula_places_;
  std::vector<Included> included_;
  expr::Scope scope_, problem_scope_;
  const toml::table* common_ = nullptr;
};

}  // namespace

expr::Scope family_scope(const ConfigSpace& space, std::span<const expr::Formula> formulas,
                         bool for_problems) {
  expr::Scope scope;
  scope.add_axes(space, "c");
  scope.add_record<Device>("d");
  scope.add_record<Signature>("s");
  if (for_problems) {
    scope.add_problem(problem_space(space.op));
    scope.add_record<Traits>("t");
  }
  scope.add_formulas(formulas);
  return scope;
}

FamilyFile parse_family(std::string_view text, std::string_view file, const ConfigSpace& space) {
  return Reader(file, space).read(parse_toml(text, file));
}

FamilyFile parse_family_rules(std::string_view text, std::string_view file, const ConfigSpace& space) {
  return Reader(file, space).read_rules_only(parse_toml(before_rule_sets(text), file));
}

FamilyFile add_rule_sets(const FamilyFile& family, std::string_view text, std::string_view file) {
  return Reader(file, *family.space).read_more(parse_toml(text, file), family);
}

}  // namespace kscout
