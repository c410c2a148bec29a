#pragma once
/// \file
/// Compiles and evaluates the formula language of features, rules and filters.
///
///     expr::Scope scope;
///     scope.add_problem(problem_space(Op::gemm));
///     scope.add_axes(space, "c");
///     const auto program = expr::Program::compile({{"tiles", "ceil_div(p.m, c.tile_m)"},
///                                                  {"fits", "tiles <= 4 and c.pipeline == 'compv5'"}},
///                                                  scope);
///     expr::Inputs inputs(program);
///     inputs.set("p", problem);             // one value for all rows
///     inputs.set_rows("c", configs);        // one value per row
///     std::vector<double> out(program.size() * configs.size());
///     expr::Scratch scratch;
///     program.evaluate(inputs.columns(), configs.size(), out, scratch);  // out[formula * rows + row]
///
/// The language (docs/formats/expr.md) has numbers, names, 'words', + - * / %, comparisons, and or not, x in
/// [a, b], x not in [..], min max ceil_div ceil floor abs log2 ln known if(cond, a, b). Values are doubles;
/// true is 1, false is 0. NaN is "unknown": arithmetic, min, max, ceil, floor, abs, log2, ln return NaN for
/// it; every comparison with it (also != and `not in`) is 0; as a condition it counts as false; known(x)
/// tests for it. x % y is the non-negative remainder; division by 0 follows IEEE 754. log2 and ln give the
/// same bits on every machine (expr/formula-inl.h); log2 is exact for powers of two.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/fields.h>
#include <kscout/traits.h>

namespace kscout::expr {

/// Limits that bound the compile time of a hostile text.
inline constexpr std::size_t kMaxTextBytes = 64 * 1024;  ///< of one formula
inline constexpr std::size_t kMaxDepth = 64;             ///< nested brackets and prefix operators
inline constexpr std::size_t kMaxOperations = 4096;      ///< of one program; equal operations count once

/// The origin of a value.
enum class Source : std::uint8_t { problem, device, signature, config, traits, other };

/// The origins that a value depends on. Nothing set = a constant.
struct Depends {
  std::uint32_t sources = 0;  ///< bit per Source
  std::uint32_t axes = 0;     ///< bit per config axis; not 0 only when on(Source::config)

  constexpr bool on(Source source) const noexcept { return (sources >> static_cast<int>(source)) & 1u; }
  /// Depends neither on the problem nor on `other`: may be computed once per family.
  constexpr bool config_only() const noexcept { return !on(Source::problem) && !on(Source::other); }
  /// Depends neither on config nor traits nor `other`: one value per problem.
  constexpr bool problem_only() const noexcept {
    return !on(Source::config) && !on(Source::traits) && !on(Source::other);
  }
  constexpr Depends operator|(Depends with) const noexcept {
    return {sources | with.sources, axes | with.axes};
  }
  bool operator==(const Depends&) const = default;
};

/// A named expression of the language.
struct Formula {
  std::string name;
  std::string text;
};

/// The meaning of the numbers in a value column.
enum class ValueKind : std::uint8_t {
  number,
  words,  ///< position in a list of words; comparable with 'word'
  text,   ///< text_code of a free text; comparable with 'text' only
};

/// A name that formulas may use.
struct Input {
  std::string name;  ///< qualified: "c.tile_m"
  Depends depends = {};
  ValueKind kind = ValueKind::number;
  std::span<const std::string_view> words = {};
  std::size_t group = 0;  ///< group in the scope, in the order of the add_ calls
  std::size_t field = 0;  ///< position in the group
};

/// The number that represents a free text (arch, isa): 53 bits of a hash; NaN for "" (unknown).
double text_code(std::string_view text) noexcept;

/// A field's value as formulas see it.
template <class V>
double to_number(const V& value) noexcept {
  if constexpr (std::is_same_v<V, std::string>) {
    return text_code(value);
  } else {
    return static_cast<double>(value);
  }
}

/// The fields of a problem as formulas see them, in order.
struct ProblemNumbers {
  explicit ProblemNumbers(ProblemRef problem) noexcept;
  std::span<const double> all() const noexcept { return std::span(number).first(count); }

  std::array<double, kMaxProblemFields> number;
  std::size_t count;
};

/// An axis' value as formulas see it: KernelConfig::unknown is NaN.
inline double axis_number(std::int32_t value) noexcept {
  return value == KernelConfig::unknown ? Traits::unknown : static_cast<double>(value);
}

template <Record T>
constexpr Source source_of() noexcept {
  if constexpr (std::is_same_v<T, Device>) return Source::device;
  if constexpr (std::is_same_v<T, Signature>) return Source::signature;
  if constexpr (std::is_same_v<T, Traits>) return Source::traits;
  return Source::other;
}

/// The names that formulas may use. A bare name (`tile_m` for `c.tile_m`) is valid while only one group has
/// it.
class Scope {
 public:
  /// Adds the fields of a record as "prefix.field".
  template <Record T>
  void add_record(std::string_view prefix, Source source = source_of<T>()) {
    const std::size_t group = begin_group(prefix, &Fields<T>::list, nullptr);
    for_each_field<T>([&](const auto& field) {
      using V = typename std::remove_cvref_t<decltype(field)>::value;
      if constexpr (WordEnum<V>) {
        add(group, field.name, source, 0, ValueKind::words, EnumWords<V>::words);
      } else {
        add(group, field.name, source, 0,
            std::is_same_v<V, std::string> ? ValueKind::text : ValueKind::number);
      }
    });
  }
  /// Adds the fields of an operation's problems as "prefix.field".
  void add_problem(const ProblemSpace& space, std::string_view prefix = "p");
  /// Adds the axes of a config space as "prefix.axis".
  void add_axes(const ConfigSpace& space, std::string_view prefix = "c");
  /// Adds a single named value (a column of a table, a parameter); bare when `name` has no dot.
  void add_value(std::string_view name, Source source = Source::other,
                 std::span<const std::string_view> words = {});
  /// Adds formulas that others may use by name; they are compiled only where they are used. Names must be
  /// new.
  void add_formulas(std::span<const Formula> formulas);

  struct Group {
    std::string prefix;
    const void* record = nullptr;  ///< address of the field list
    const ConfigSpace* space = nullptr;
  };
  std::span<const Group> groups() const noexcept { return groups_; }
  std::span<const Input> inputs() const noexcept { return inputs_; }
  std::span<const Formula> formulas() const noexcept { return formulas_; }

 private:
  std::size_t begin_group(std::string_view prefix, const void* record, const ConfigSpace* space);
  void add(std::size_t group, std::string_view field, Source source, std::uint32_t axes, ValueKind kind,
           std::span<const std::string_view> words = {}, std::optional<std::size_t> field_at = {});

  std::vector<Group> groups_;
  std::vector<Input> inputs_;
  std::vector<Formula> formulas_;
};

/// Values of one input: one per row (stride 1) or one for all rows (stride 0).
struct Column {
  const double* data = nullptr;
  std::size_t stride = 0;
};

/// One step of a program; operands are positions of earlier steps.
enum class Code : std::uint8_t {
  constant,  // value
  input,     // a = position in Program::inputs()
  negate,
  logical_not,
  ceil,
  floor,
  abs,
  log2,
  ln,
  known,  // a
  add,
  subtract,
  multiply,
  divide,
  remainder,
  minimum,
  maximum,  // a, b
  ceil_div,
  equal,
  not_equal,
  less,
  less_equal,
  logical_and,
  logical_or,
  choose,  // a != 0 ? b : c
};

struct Operation {
  Code code = Code::constant;
  std::uint32_t a = 0, b = 0, c = 0;  ///< operands that the code does not take equal `a`
  double value = 0;
  Depends depends = {};
};

/// Memory of an evaluation; grows on first use, then is reused. Each thread needs its own.
struct Scratch {
  std::vector<double> blocks;
  std::vector<double> uniform;
  std::vector<std::uint8_t> is_uniform;
};

/// Compiled formulas: a flat list of operations, with equal operations shared and constants folded.
class Program {
 public:
  Program() = default;

  /// Throws invalid_argument with formula, line, caret and nearest names: syntax, unknown or ambiguous name,
  /// unknown word, a cycle between formulas, an exceeded limit. Formulas may use each other in any order.
  static Program compile(std::span<const Formula> formulas, const Scope& scope);
  static Program compile(std::initializer_list<Formula> formulas, const Scope& scope) {
    return compile(std::span(formulas.begin(), formulas.size()), scope);
  }

  /// Number of formulas, which is the number of values per row.
  std::size_t size() const noexcept { return outputs_.size(); }
  std::string_view name(std::size_t formula) const noexcept { return names_[formula]; }
  Depends depends(std::size_t formula) const noexcept { return operations_[outputs_[formula]].depends; }
  /// The used inputs: evaluate() takes their columns in this order.
  std::span<const Input> inputs() const noexcept { return inputs_; }
  std::span<const Scope::Group> groups() const noexcept { return groups_; }
  /// The position of a group's field among inputs(); nothing when no formula uses it.
  std::optional<std::size_t> input_of(std::size_t group, std::size_t field) const noexcept;
  /// The steps in order, each with its Depends, and the step that computes each formula's value. A caller can
  /// use them to fold the parts that stay constant.
  std::span<const Operation> operations() const noexcept { return operations_; }
  std::span<const std::uint32_t> outputs() const noexcept { return outputs_; }

  /// Writes formula f of row r to out[f * rows + r]. `inputs` has one column per element of inputs();
  /// out.size() == size() * rows. Steps whose inputs all have stride 0 are computed once. The bits of a row
  /// do not depend on `rows`. Allocates only when `scratch` is smaller than this program needs.
  void evaluate(std::span<const Column> inputs, std::size_t rows, std::span<double> out,
                Scratch& scratch) const;
  /// The same, with formula f of row r at out[r * row_stride + f * formula_stride].
  void evaluate(std::span<const Column> inputs, std::size_t rows, double* out, std::size_t row_stride,
                std::size_t formula_stride, Scratch& scratch) const;

 private:
  friend class Compiler;
  std::vector<Operation> operations_;
  std::vector<std::uint32_t> outputs_;
  std::vector<std::string> names_;
  std::vector<Input> inputs_;
  std::vector<Scope::Group> groups_;
  std::vector<std::vector<std::uint32_t>> places_;  ///< by group and field: 1 + position in inputs_, or 0
};

/// Collects the values of a program's inputs through the field lists that built its scope. Values that are
/// not set are unknown. The program must outlive this object.
class Inputs {
 public:
  explicit Inputs(const Program& program);

  /// Sets one record for all rows. Throws invalid_argument when the scope has another type under `prefix`.
  template <Record T>
  requires(!ProblemStruct<T>) void set(std::string_view prefix, const T& record) {
    set_rows(prefix, std::span<const T>(&record, 1));
  }
  /// Sets one record per row (1 record = all rows).
  template <Record T>
  void set_rows(std::string_view prefix, std::span<const T> records) {
    const std::size_t group = find_group(prefix, &Fields<T>::list);
    std::size_t position = 0;
    for_each_field<T>([&](const auto& field) {
      if (double* to = storage(group, position++, records.size())) {
        for (const T& record : records) *to++ = to_number(record.*field.member);
      }
    });
  }
  void set(std::string_view prefix, ProblemRef problem);
  void set(std::string_view prefix, const KernelConfig& config);
  void set_rows(std::string_view prefix, const ConfigTable& configs);
  /// Sets a value of Scope::add_value; ignored when no formula uses it. Columns are not copied and must
  /// outlive the evaluation.
  void set_value(std::string_view name, double value);
  void set_column(std::string_view name, std::span<const double> values);

  std::span<const Column> columns() const noexcept { return columns_; }

 private:
  /// Position among the program's groups; npos when no formula uses the group.
  std::size_t find_group(std::string_view prefix, const void* record, const ConfigSpace* space = nullptr);
  /// Space for `rows` values of a field; null when no formula uses the field.
  double* storage(std::size_t group, std::size_t field, std::size_t rows);

  const Program* program_;
  std::vector<std::vector<double>> values_;
  std::vector<Column> columns_;
};

/// The values of all formulas, formula f of row r at [f * rows + r]; for callers that need them once, because
/// Program::evaluate can reuse memory.
std::vector<double> values_of(const Program& program, const Inputs& inputs, std::size_t rows = 1);

}  // namespace kscout::expr
