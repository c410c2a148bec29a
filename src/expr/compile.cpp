
#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "core/fail.h"
#include "core/hash.h"
#include "core/names.h"
#include "expr/expr.h"
#include "expr/operations.h"
#include "expr/syntax.h"

namespace kscout::expr {

double text_code(std::string_view text) noexcept {
  if (text.empty()) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(mix_hash(0, text_hash(text)) >> 11);
}

std::size_t Scope::begin_group(std::string_view prefix, const void* record, const ConfigSpace* space) {
  for (const Group& group : groups_) {
    if (group.prefix == prefix) fail(Errc::invalid_argument, "scope: prefix '{}' is taken", prefix);
  }
  groups_.push_back({std::string(prefix), record, space});
  return groups_.size() - 1;
}

void Scope::add(std::size_t group, std::string_view field, Source source, std::uint32_t axes, ValueKind kind,
                std::span<const std::string_view> words, std::optional<std::size_t> field_at) {
  std::size_t position = 0;
  for (auto input = inputs_.rbegin(); input != inputs_.rend() && input->group == group; ++input) ++position;
  position = field_at.value_or(position);
  const std::string& prefix = groups_[group].prefix;
  inputs_.push_back({.name = prefix.empty() ? std::string(field) : fmt::format("{}.{}", prefix, field),
                     .depends = {1u << static_cast<int>(source), axes},
                     .kind = kind,
                     .words = words,
                     .group = group,
                     .field = position});
}

void Scope::add_axes(const ConfigSpace& space, std::string_view prefix) {
  const std::size_t group = begin_group(prefix, nullptr, &space);
  for (std::size_t i = 0; i < space.axes.size(); ++i) {
    const Axis& axis = space.axes[i];
    add(group, axis.name, Source::config, 1u << i, axis.words.empty() ? ValueKind::number : ValueKind::words,
        axis.words);
  }
}

void Scope::add_value(std::string_view name, Source source, std::span<const std::string_view> words) {
  for (const Input& input : inputs_) {
    if (input.name == name) fail(Errc::invalid_argument, "scope: name '{}' is taken", name);
  }
  // A group without a prefix: its names are already qualified.
  groups_.push_back({});
  add(groups_.size() - 1, name, source, 0, words.empty() ? ValueKind::number : ValueKind::words, words);
}

void Scope::add_problem(const ProblemSpace& space, std::string_view prefix) {
  const std::size_t group = begin_group(prefix, space.fields.data(), nullptr);
  for (std::size_t i = 0; i < space.fields.size(); ++i) {
    const ProblemField& field = space.fields[i];
    if (field.type == FieldType::list) continue;  // no number that means anything
    const bool words = field.type == FieldType::word;
    add(group, field.name, Source::problem, 0, words ? ValueKind::words : ValueKind::number, field.words, i);
  }
}

void Scope::add_formulas(std::span<const Formula> formulas) {
  for (const Formula& formula : formulas) {
    for (const Formula& known : formulas_) {
      if (known.name == formula.name)
        fail(Errc::invalid_argument, "scope: formula '{}' is taken", formula.name);
    }
    formulas_.push_back(formula);
  }
}

std::optional<std::size_t> Program::input_of(std::size_t group, std::size_t field) const noexcept {
  if (group >= places_.size() || field >= places_[group].size() || places_[group][field] == 0)
    return std::nullopt;
  return places_[group][field] - 1;
}

Inputs::Inputs(const Program& program) : program_(&program) {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  values_.resize(program.inputs().size());
  columns_.assign(program.inputs().size(), Column{&kUnknown, 0});
}

std::size_t Inputs::find_group(std::string_view prefix, const void* record, const ConfigSpace* space) {
  const auto groups = program_->groups();
  std::vector<std::string_view> prefixes;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].prefix.empty()) continue;
    if (groups[i].prefix == prefix) {
      if (groups[i].record == record && groups[i].space == space) return i;
      fail(Errc::invalid_argument, "inputs: '{}' holds another type in this program's scope", prefix);
    }
    prefixes.push_back(groups[i].prefix);
  }
  throw Error(Errc::invalid_argument, unknown_name_message("scope prefix", prefix, prefixes));
}

double* Inputs::storage(std::size_t group, std::size_t field, std::size_t rows) {
  const auto input = program_->input_of(group, field);
  if (!input) return nullptr;
  values_[*input].resize(rows);
  columns_[*input] = {values_[*input].data(), rows == 1 ? 0u : 1u};
  return values_[*input].data();
}

void Inputs::set(std::string_view prefix, ProblemRef problem) {
  const std::size_t group = find_group(prefix, problem.space().fields.data());
  const ProblemNumbers numbers(problem);
  for (std::size_t field = 0; field < numbers.count; ++field) {
    if (double* to = storage(group, field, 1)) *to = numbers.number[field];
  }
}

void Inputs::set(std::string_view prefix, const KernelConfig& config) {
  const std::size_t group = find_group(prefix, nullptr, config.space);
  for (std::size_t axis = 0; axis < config.space->axes.size(); ++axis) {
    if (double* to = storage(group, axis, 1)) *to = axis_number(config[axis]);
  }
}

void Inputs::set_rows(std::string_view prefix, const ConfigTable& configs) {
  const std::size_t group = find_group(prefix, nullptr, &configs.space());
  for (std::size_t axis = 0; axis < configs.space().axes.size(); ++axis) {
    if (double* to = storage(group, axis, configs.size())) {
      for (const std::int32_t value : configs.column(axis)) *to++ = axis_number(value);
    }
  }
}

void Inputs::set_value(std::string_view name, double value) {
  const auto inputs = program_->inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].name != name) continue;
    values_[i].assign(1, value);
    columns_[i] = {values_[i].data(), 0};
  }
}

void Inputs::set_column(std::string_view name, std::span<const double> values) {
  const auto inputs = program_->inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].name == name) columns_[i] = {values.data(), 1};
  }
}

/// Parses the formulas, resolves their names, orders them, and emits operations.
class Compiler {
 public:
  Compiler(std::span<const Formula> formulas, const Scope& scope)
      : scope_(scope), output_count_(formulas.size()) {
    for (const Formula& formula : formulas) add_formula(formula, true);
    for (const Formula& formula : scope.formulas()) add_formula(formula, false);
    for (std::size_t i = 0; i < scope.inputs().size(); ++i) {
      const std::string_view name = scope.inputs()[i].name;
      input_by_name_.emplace(name, i);
      const std::size_t dot = name.rfind('.');
      if (dot != std::string_view::npos) inputs_by_bare_name_.emplace(name.substr(dot + 1), i);
    }
  }

  Program run() {
    for (std::size_t i = 0; i < output_count_; ++i) compile_with_references(i);
    return finish();
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  /// What a name refers to.
  struct Target {
    bool is_formula = false;
    std::size_t index = 0;
  };

  struct Unit {
    const Formula* formula = nullptr;
    enum class State : std::uint8_t { untouched, waiting, done } state = State::untouched;
    std::vector<Node> nodes;
    std::vector<Target> targets;  ///< by node; only names have a target
    std::size_t next_node = 0;    ///< first node whose references are not compiled yet
    std::uint32_t operation = kNone;
  };

  void add_formula(const Formula& formula, bool output) {
    const auto [known, fresh] = formula_by_name_.emplace(formula.name, units_.size());
    if (!fresh) {
      if (output) fail(Errc::invalid_argument, "formula '{}' is given twice", formula.name);
      return;  // an output hides the scope's formula of the same name
    }
    units_.emplace_back().formula = &formula;
  }

  // ---- names

  std::optional<Target> find_formula(std::string_view name, const Unit& user) const {
    const std::string& own = user.formula->name;
    const std::size_t dot = own.rfind('.');
    if (dot != std::string::npos) {  // `tiles` in `gemm.waves` refers to `gemm.tiles` first
      const auto sibling = formula_by_name_.find(own.substr(0, dot + 1) + std::string(name));
      if (sibling != formula_by_name_.end()) return Target{true, sibling->second};
    }
    const auto found = formula_by_name_.find(std::string(name));
    if (found != formula_by_name_.end()) return Target{true, found->second};
    return std::nullopt;
  }

  std::optional<Target> find_input(std::string_view name, const Unit& user, const Node& node) const {
    const auto exact = input_by_name_.find(name);
    if (exact != input_by_name_.end()) return Target{false, exact->second};
    const auto [first, last] = inputs_by_bare_name_.equal_range(name);
    if (first == last) return std::nullopt;
    if (std::next(first) == last) return Target{false, first->second};
    std::string candidates;
    for (auto it = first; it != last; ++it) {
      candidates += (candidates.empty() ? "" : ", ") + scope_.inputs()[it->second].name;
    }
    fail_at(*user.formula, node.offset, fmt::format("'{}' is ambiguous: write one of {}", name, candidates));
  }

  Target resolve(const Unit& user, const Node& node) const {
    const auto formula = find_formula(node.text, user);
    const bool itself = formula && units_[formula->index].formula == user.formula;
    if (formula && !itself) return *formula;
    if (const auto input = find_input(node.text, user, node)) return *input;
    if (itself) return *formula;  // reported as a cycle
    fail_unknown(user, node);
  }

  /// Suggests names of the same group when the group is known, else every name.
  [[noreturn]] void fail_unknown(const Unit& user, const Node& node) const {
    std::vector<std::string_view> near, all;
    const std::string_view prefix = node.text.substr(0, node.text.find('.') + 1);  // "" for a bare name
    for (const Input& input : scope_.inputs()) {
      const std::string_view name = input.name;
      all.push_back(name);
      if (prefix.empty() && name.find('.') != std::string_view::npos)
        all.push_back(name.substr(name.find('.') + 1));
      if (!prefix.empty() && name.starts_with(prefix)) near.push_back(name);
    }
    for (const auto& [name, index] : formula_by_name_) {
      if (index >= output_count_ || units_[index].formula != user.formula) all.push_back(name);
    }
    fail_at(*user.formula, node.offset, unknown_name_message("name", node.text, near.empty() ? all : near));
  }

  // ---- order

  void open(std::size_t index) {
    Unit& unit = units_[index];
    unit.state = Unit::State::waiting;
    unit.nodes = parse(*unit.formula);
    unit.targets.resize(unit.nodes.size());
    for (std::size_t i = 0; i < unit.nodes.size(); ++i) {
      if (unit.nodes[i].kind == Node::Kind::name) unit.targets[i] = resolve(unit, unit.nodes[i]);
    }
    open_.push_back(index);
  }

  /// Depth-first search over references with an explicit stack: chains of formulas may have any length.
  void compile_with_references(std::size_t wanted) {
    if (units_[wanted].state == Unit::State::done) return;
    open(wanted);
    while (!open_.empty()) {
      Unit& unit = units_[open_.back()];
      std::optional<std::size_t> needed;
      for (; unit.next_node < unit.nodes.size() && !needed; ++unit.next_node) {
        const Target target = unit.targets[unit.next_node];
        if (!target.is_formula || units_[target.index].state == Unit::State::done) continue;
        if (units_[target.index].state == Unit::State::waiting)
          fail_cycle(unit, unit.nodes[unit.next_node], target.index);
        needed = target.index;
      }
      if (needed) {
        open(*needed);
      } else {
        emit(unit);
        unit.state = Unit::State::done;
        unit.nodes = {};
        unit.targets = {};
        open_.pop_back();
      }
    }
  }

  [[noreturn]] void fail_cycle(const Unit& user, const Node& node, std::size_t back_to) const {
    std::string path;
    bool inside = false;
    for (const std::size_t index : open_) {
      inside = inside || index == back_to;
      if (inside) path += units_[index].formula->name + " -> ";
    }
    fail_at(
        *user.formula, node.offset,
        fmt::format("formulas depend on each other in a cycle: {}{}", path, units_[back_to].formula->name));
  }

  // ---- operations

  void emit(Unit& unit) {
    std::vector<std::uint32_t> value(unit.nodes.size(), kNone);
    for (std::size_t i = 0; i < unit.nodes.size(); ++i) {
      const Node& node = unit.nodes[i];
      switch (node.kind) {
        case Node::Kind::number:
          value[i] = constant(unit, node, node.number);
          break;
        case Node::Kind::word:
          break;  // the enclosing comparison knows the list of words
        case Node::Kind::name:
          value[i] = unit.targets[i].is_formula ? units_[unit.targets[i].index].operation
                                                : input(unit, node, unit.targets[i].index);
          break;
        case Node::Kind::operation:
          value[i] = operation(unit, node, value);
          break;
      }
    }
    if (value.back() == kNone) fail_word_alone(unit, unit.nodes.back());
    unit.operation = value.back();
  }

  [[noreturn]] static void fail_word_alone(const Unit& unit, const Node& node) {
    fail_at(*unit.formula, node.offset,
            fmt::format("'{}' stands alone; compare a word by ==, != or in with a name that holds words",
                        node.text));
  }

  const Input* input_of(std::uint32_t position) const {
    const Operation& operation = operations_[position];
    return operation.code == Code::input ? &scope_.inputs()[operation.a] : nullptr;
  }

  std::uint32_t operation(const Unit& unit, const Node& node, std::span<const std::uint32_t> value) {
    std::uint32_t at[3] = {};
    const std::size_t count = arity(node.code);
    const bool equality = node.code == Code::equal || node.code == Code::not_equal;
    for (std::size_t i = 0; i < count; ++i) {
      at[i] = value[node.arguments[i]];
      if (at[i] != kNone) continue;
      const Node& word = unit.nodes[node.arguments[i]];
      const std::uint32_t other = equality ? value[node.arguments[1 - i]] : kNone;
      if (other == kNone) fail_word_alone(unit, word);
      at[i] = word_constant(unit, word, other);
    }
    check_kinds(unit, node, std::span(at, count), equality);
    return emit_operation(unit, node, at);
  }

  /// The number of a word in the word list of the value that it is compared with.
  std::uint32_t word_constant(const Unit& unit, const Node& word, std::uint32_t other) {
    const Input* of = input_of(other);
    if (of == nullptr || of->kind == ValueKind::number) fail_word_alone(unit, word);
    if (of->kind == ValueKind::text) return constant(unit, word, text_code(word.text));
    const auto position = find_word(word.text, of->words);
    if (!position) {
      fail_at(*unit.formula, word.offset,
              unknown_name_message(fmt::format("word of {}", of->name), word.text, of->words));
    }
    return constant(unit, word, static_cast<double>(*position));
  }

  /// Free texts have neither order nor arithmetic; values of different word lists cannot be compared.
  void check_kinds(const Unit& unit, const Node& node, std::span<const std::uint32_t> at,
                   bool equality) const {
    const Input* first_words = nullptr;
    for (const std::uint32_t position : at) {
      const Input* of = input_of(position);
      if (of == nullptr || of->kind == ValueKind::number) continue;
      if (of->kind == ValueKind::text && !equality && node.code != Code::known) {
        fail_at(*unit.formula, node.offset,
                fmt::format("{} is a text: compare it by ==, != or in only", of->name));
      }
      if (equality && first_words &&
          (of->kind != first_words->kind || of->words.data() != first_words->words.data())) {
        fail_at(*unit.formula, node.offset,
                fmt::format("{} and {} hold different words", first_words->name, of->name));
      }
      first_words = of;
    }
  }

  std::uint32_t emit_operation(const Unit& unit, const Node& node, std::uint32_t (&at)[3]) {
    for (std::size_t i = arity(node.code); i < 3; ++i) at[i] = at[0];
    Operation made{node.code, at[0], at[1], at[2], 0, {}};
    bool folds = true;
    for (std::size_t i = 0; i < arity(node.code); ++i) {
      made.depends = made.depends | operations_[at[i]].depends;
      folds = folds && operations_[at[i]].code == Code::constant;
    }
    if (!folds) return share(unit, node, made);
    return constant(
        unit, node,
        apply_code(node.code, operations_[at[0]].value, operations_[at[1]].value, operations_[at[2]].value));
  }

  std::uint32_t constant(const Unit& unit, const Node& node, double value) {
    return share(unit, node, {Code::constant, 0, 0, 0, value, {}});
  }
  std::uint32_t input(const Unit& unit, const Node& node, std::size_t index) {
    return share(unit, node,
                 {.code = Code::input,
                  .a = static_cast<std::uint32_t>(index),
                  .depends = scope_.inputs()[index].depends});
  }

  /// Equal operations are emitted once.
  std::uint32_t share(const Unit& unit, const Node& node, const Operation& made) {
    const auto key = std::tuple(made.code, made.a, made.b, made.c, std::bit_cast<std::uint64_t>(made.value));
    const auto [found, fresh] = shared_.emplace(key, static_cast<std::uint32_t>(operations_.size()));
    if (!fresh) return found->second;
    if (operations_.size() == kMaxOperations) {
      fail_at(*unit.formula, node.offset,
              fmt::format("a program holds at most {} operations", kMaxOperations));
    }
    operations_.push_back(made);
    return found->second;
  }

  // ---- the program

  /// Removes operations that constant folding left unused, and numbers the used inputs.
  Program finish() {
    std::vector<std::uint8_t> used(operations_.size(), 0);
    for (std::size_t i = 0; i < output_count_; ++i) used[units_[i].operation] = 1;
    for (std::size_t i = operations_.size(); i-- > 0;) {
      const Operation& operation = operations_[i];
      if (used[i] == 0 || arity(operation.code) == 0) continue;
      used[operation.a] = used[operation.b] = used[operation.c] = 1;
    }
    Program program;
    program.groups_.assign(scope_.groups().begin(), scope_.groups().end());
    program.places_.resize(program.groups_.size());
    std::vector<std::uint32_t> renamed(operations_.size(), kNone);
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (used[i] == 0) continue;
      Operation operation = operations_[i];
      if (operation.code == Code::input) {
        program.inputs_.push_back(scope_.inputs()[operation.a]);
        operation.a = static_cast<std::uint32_t>(program.inputs_.size() - 1);
        const Input& input = program.inputs_.back();
        auto& places = program.places_[input.group];
        if (places.size() <= input.field) places.resize(input.field + 1);
        places[input.field] = operation.a + 1;
      } else if (operation.code != Code::constant) {
        for (std::uint32_t* const operand : {&operation.a, &operation.b, &operation.c})
          *operand = renamed[*operand];
      }
      renamed[i] = static_cast<std::uint32_t>(program.operations_.size());
      program.operations_.push_back(operation);
    }
    for (std::size_t i = 0; i < output_count_; ++i) {
      program.outputs_.push_back(renamed[units_[i].operation]);
      program.names_.push_back(units_[i].formula->name);
    }
    return program;
  }

  const Scope& scope_;
  std::size_t output_count_;
  std::vector<Unit> units_;  ///< outputs come first
  std::unordered_map<std::string, std::size_t> formula_by_name_;
  std::unordered_map<std::string_view, std::size_t> input_by_name_;
  std::multimap<std::string_view, std::size_t> inputs_by_bare_name_;
  std::vector<std::size_t> open_;
  std::vector<Operation> operations_;
  std::map<std::tuple<Code, std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t>, std::uint32_t>
      shared_;
};

Program Program::compile(std::span<const Formula> formulas, const Scope& scope) {
  return Compiler(formulas, scope).run();
}

}  // namespace kscout::expr
