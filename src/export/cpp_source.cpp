
#include "export/cpp_source.h"

#include <algorithm>
#include <cmath>

#include <kscout/config.h>

#include "core/fail.h"
#include "expr/operations.h"
#include "expr/syntax.h"
#include "op/operation.h"

namespace kscout {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Wraps lines at 110 columns.
std::string array_of(std::string_view type, std::string_view name, std::span<const std::string> literals) {
  constexpr std::size_t kLine = 110;
  std::string out =
      fmt::format("inline constexpr {} {}[{}] = {{\n", type, name, std::max<std::size_t>(literals.size(), 1));
  std::string line = "   ";
  for (const std::string& literal : literals) {
    if (line.size() + literal.size() + 2 > kLine && line.size() > 3) {
      out += line + "\n";
      line = "   ";
    }
    line += " " + literal + ",";
  }
  return out + (line.size() > 3 ? line + "\n" : "") + "};\n";
}

template <class E>
std::string enum_text(std::string_view name) {
  std::string words;
  for (const auto word : EnumWords<E>::words) words += (words.empty() ? "" : ", ") + std::string(word);
  return fmt::format("enum class {} : std::uint8_t {{ {} }};\n", name, words);
}

/// The C++ type of a field.
std::string type_name(const ProblemField& field) {
  switch (field.type) {
    case FieldType::word: {
      if (field.what == EnumWords<DType>::what) return "DType";
      std::string name(field.what);  // "layout": Layout
      name.front() = static_cast<char>(name.front() - 'a' + 'A');
      return name;
    }
    case FieldType::flag:
      return "bool";
    case FieldType::real:
      return "double";
    case FieldType::whole:
    case FieldType::list:
      break;
  }
  return "std::int64_t";
}

std::string literal_of(const ProblemField& field, std::int64_t value) {
  if (field.type == FieldType::word) return fmt::format("{}::{}", type_name(field), value_text(field, value));
  if (field.type == FieldType::flag) return value != 0 ? "true" : "false";
  return value_text(field, value);
}

}  // namespace

std::string cpp_number(double value) {
  if (std::isnan(value)) return "unknown";
  if (std::isinf(value)) return value > 0 ? "infinity" : "-infinity";
  std::string text = fmt::format("{}", value);  // the shortest text that reads back as the same double
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string cpp_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '?' && out.back() == '?') {
      out += "\\?";  // no trigraph
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\{:03o}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string cpp_array(std::string_view type, std::string_view name, std::span<const double> values) {
  std::vector<std::string> literals;
  for (const double value : values) literals.push_back(cpp_number(value));
  return array_of(type, name, literals);
}

std::string cpp_array(std::string_view type, std::string_view name, std::span<const std::int64_t> values) {
  std::vector<std::string> literals;
  for (const std::int64_t value : values) {
    // C++ reads -2147483648 as minus 2147483648, which is not an int.
    literals.push_back(value == KernelConfig::unknown ? "-2147483647 - 1" : fmt::format("{}", value));
  }
  return array_of(type, name, literals);
}

std::string cpp_array(std::string_view type, std::string_view name, std::span<const std::string> literals) {
  return array_of(type, name, literals);
}

std::string cpp_problem_types(const Signature& usual) {
  const Operation& of = operation(usual.op);
  if (std::ranges::find(of.space.fields, FieldType::list, &ProblemField::type) != of.space.fields.end()) {
    fail(Errc::unsupported, "a C++ header cannot hold {}, which have a list of sizes: link the library",
         of.plural);
  }
  std::string out = enum_text<DType>("DType") + enum_text<Layout>("Layout") + enum_text<Epilogue>("Epilogue");
  if (of.ops.size() > 1) out += enum_text<Op>("Op");
  out += fmt::format("\n// {}\nstruct Problem {{\n", of.meaning);
  const Problem plain = of.make(usual.op, usual.dtype_a, usual.layout);
  for (std::size_t i = 0; i < of.space.fields.size(); ++i) {
    const ProblemField& field = of.space.fields[i];
    out += fmt::format("  {} {} = {};  // {}\n", type_name(field), field.name, literal_of(field, plain[i]),
                       field.help);
  }
  return out + "};\n";
}

std::string cpp_example_sizes(std::string_view name, ProblemRef problem) {
  std::string out;
  const Problem whole = problem.value();
  const auto fields = problem.space().fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].type == FieldType::whole && whole[i] != fields[i].initial)
      out += fmt::format("{}{}.{} = {}", out.empty() ? "" : ", ", name, fields[i].name, whole[i]);
  }
  return out;
}

namespace {

/// Keywords of C++20 and its alternative spellings, namespace std, and names that usual headers or compilers
/// define as macros.
constexpr std::string_view kReserved[] = {
    "alignas",     "alignof",  "and",        "and_eq",    "asm",       "auto",         "bitand",
    "bitor",       "bool",     "break",      "case",      "catch",     "char",         "char16_t",
    "char32_t",    "char8_t",  "class",      "co_await",  "co_return", "co_yield",     "compl",
    "concept",     "const",    "const_cast", "consteval", "constexpr", "constinit",    "continue",
    "decltype",    "default",  "delete",     "do",        "double",    "dynamic_cast", "else",
    "enum",        "explicit", "export",     "extern",    "false",     "float",        "for",
    "friend",      "goto",     "if",         "inline",    "int",       "long",         "mutable",
    "namespace",   "new",      "noexcept",   "not",       "not_eq",    "nullptr",      "operator",
    "or",          "or_eq",    "private",    "protected", "public",    "register",     "reinterpret_cast",
    "requires",    "return",   "short",      "signed",    "sizeof",    "static",       "static_assert",
    "static_cast", "struct",   "switch",     "template",  "this",      "thread_local", "throw",
    "true",        "try",      "typedef",    "typeid",    "typename",  "union",        "unsigned",
    "using",       "virtual",  "void",       "volatile",  "wchar_t",   "while",        "xor",
    "xor_eq",      "std",      "linux",      "unix",      "i386",      "assert",       "errno",
    "NULL",        "EOF",      "NAN",        "INFINITY",  "stdin",     "stdout",       "stderr"};

}  // namespace

void check_namespace(std::string_view name) {
  std::size_t at = 0;
  while (true) {
    const std::size_t begin = at;
    if (at >= name.size() || !is_letter(name[at])) break;
    while (at < name.size() && (is_letter(name[at]) || is_digit(name[at]))) ++at;
    const std::string_view part = name.substr(begin, at - begin);
    if (std::ranges::find(kReserved, part) != std::end(kReserved)) {
      fail(Errc::invalid_argument,
           "'{}' cannot be a C++ namespace: '{}' is a word of the language; give another", name, part);
    }
    if (part.find("__") != std::string_view::npos) break;
    if (at == name.size()) return;
    if (name.substr(at, 2) != "::") break;
    at += 2;
  }
  fail(Errc::invalid_argument,
       "'{}' cannot be a C++ namespace: give letters, digits and single '_', parts joined by '::'", name);
}

std::string cpp_name(std::string_view text) {
  std::string out;
  for (const char c : text) out += is_letter(c) || is_digit(c) ? c : '_';
  return out.empty() || is_digit(out.front()) ? "_" + out : out;
}

namespace {

using expr::Code;
using expr::Source;

bool has_group(const expr::Program& program, std::string_view prefix) {
  return std::ranges::any_of(program.groups(), [&](const auto& group) { return group.prefix == prefix; });
}

bool reads(const expr::Input& input, Source source) { return input.depends.on(source); }

/// "m" of "p.m".
std::string_view field_of(const expr::Input& input) {
  return std::string_view(input.name).substr(input.name.rfind('.') + 1);
}

std::string_view function_of(Code code) {
  switch (code) {
    case Code::logical_not:
      return "logical_not";
    case Code::ceil:
      return "std::ceil";
    case Code::floor:
      return "std::floor";
    case Code::abs:
      return "std::fabs";
    case Code::log2:
      return "log2";
    case Code::ln:
      return "ln";
    case Code::known:
      return "known";
    case Code::remainder:
      return "remainder";
    case Code::minimum:
      return "minimum";
    case Code::maximum:
      return "maximum";
    case Code::ceil_div:
      return "ceil_div";
    case Code::equal:
      return "equal";
    case Code::not_equal:
      return "not_equal";
    case Code::less:
      return "less";
    case Code::less_equal:
      return "less_equal";
    case Code::logical_and:
      return "logical_and";
    case Code::logical_or:
      return "logical_or";
    case Code::choose:
      return "choose";
    default:
      return {};
  }
}

std::string_view infix_of(Code code) {
  switch (code) {
    case Code::add:
      return "+";
    case Code::subtract:
      return "-";
    case Code::multiply:
      return "*";
    case Code::divide:
      return "/";
    default:
      return {};
  }
}

}  // namespace

Translation::Translation(const expr::Program& program, std::span<const std::uint32_t> wanted,
                         const Device& device, Op op)
    : program_(program), device_(device), steps_(program.operations().size()) {
  expr::Inputs fixed(program);
  if (has_group(program, "d")) fixed.set("d", device);
  for (std::uint32_t at = 0; at < steps_.size(); ++at) read_operation(at, fixed, op);
  for (const std::uint32_t formula : wanted) outputs_.push_back(resolved(program.outputs()[formula]));
  for (const std::uint32_t output : outputs_) {
    mark_live(output);
    need_slot(output);
  }
  // Inputs of problem and config steps must be available where the step is computed.
  for (std::uint32_t at = 0; at < steps_.size(); ++at) {
    if (!steps_[at].live || steps_[at].reads != (kProblem | kConfig)) continue;
    const expr::Operation& operation = program.operations()[at];
    const std::uint32_t operands[] = {operation.a, operation.b, operation.c};
    for (std::size_t i = 0; i < expr::arity(operation.code); ++i) need_slot(resolved(operands[i]));
  }
}

void Translation::read_operation(std::uint32_t at, const expr::Inputs& fixed, Op op) {
  const expr::Operation& operation = program_.operations()[at];
  Step& step = steps_[at];
  if (operation.code == Code::constant) {
    step.value = operation.value;
  } else if (operation.code == Code::input) {
    const expr::Input& input = program_.inputs()[operation.a];
    const bool is_op = reads(input, Source::signature) && field_of(input) == "op";
    if (is_op) {
      step.value = static_cast<double>(op);
    } else if (reads(input, Source::problem) || reads(input, Source::signature)) {
      step.reads = kProblem;
    } else if (reads(input, Source::config) || reads(input, Source::traits)) {
      step.reads = kConfig;
    } else if (reads(input, Source::device)) {
      step.value = *fixed.columns()[operation.a].data;
    } else {
      fail(Errc::unsupported,
           "formulas with '{}' cannot be exported: it is no fact of problem, config or device", input.name);
    }
  } else {
    const std::uint32_t a = resolved(operation.a), b = resolved(operation.b), c = resolved(operation.c);
    const auto fixed_value = [&](std::uint32_t of) { return steps_[of].reads == 0; };
    if (operation.code == Code::choose && fixed_value(a)) {
      step.same_as = expr::formula::is_true(steps_[a].value) ? b : c;
      step.reads = steps_[step.same_as].reads;
      step.value = steps_[step.same_as].value;
      return;
    }
    step.reads = steps_[a].reads | steps_[b].reads | steps_[c].reads;
    if (step.reads == 0) {
      step.value = expr::apply_code(operation.code, steps_[a].value, steps_[b].value, steps_[c].value);
    }
  }
}

std::uint32_t Translation::resolved(std::uint32_t at) const {
  return steps_[at].same_as == kNone ? at : steps_[at].same_as;
}

void Translation::mark_live(std::uint32_t root) {
  std::vector<std::uint32_t> open = {root};
  while (!open.empty()) {
    const std::uint32_t at = open.back();
    open.pop_back();
    Step& step = steps_[at];
    if (step.live || step.reads == 0) continue;
    step.live = true;
    if (step.reads == kConfig) continue;  // a table column: computed at export, not by the code
    const expr::Operation& operation = program_.operations()[at];
    const std::uint32_t operands[] = {operation.a, operation.b, operation.c};
    for (std::size_t i = 0; i < expr::arity(operation.code); ++i) open.push_back(resolved(operands[i]));
  }
}

void Translation::need_slot(std::uint32_t at) {
  Step& step = steps_[at];
  if (step.slot != kNone) return;
  if (step.reads == kProblem) step.slot = problem_slots_++;
  if (step.reads == kConfig) step.slot = config_slots_++;
}

std::vector<double> Translation::config_rows(const ConfigTable& configs,
                                             std::span<const Traits> traits) const {
  expr::Inputs inputs(program_);
  if (has_group(program_, "t")) inputs.set_rows("t", traits);
  if (has_group(program_, "c") && !configs.empty()) inputs.set_rows("c", configs);
  std::vector<double> rows(configs.size() * config_slots_), value(steps_.size());
  for (std::size_t config = 0; config < configs.size(); ++config) {
    for (std::size_t at = 0; at < steps_.size(); ++at) {
      const Step& step = steps_[at];
      const expr::Operation& operation = program_.operations()[at];
      if (step.reads == 0) {
        value[at] = step.value;
      } else if (step.reads != kConfig) {
        continue;
      } else if (step.same_as != kNone) {
        value[at] = value[step.same_as];
      } else if (operation.code == Code::input) {
        const expr::Column column = inputs.columns()[operation.a];
        value[at] = column.data[config * column.stride];
      } else {
        value[at] =
            expr::apply_code(operation.code, value[operation.a], value[operation.b], value[operation.c]);
      }
      if (step.slot != kNone) rows[config * config_slots_ + step.slot] = value[at];
    }
  }
  return rows;
}

std::string Translation::operand(std::uint32_t position, bool with_config) const {
  const std::uint32_t at = resolved(position);
  const Step& step = steps_[at];
  if (step.reads == 0) return cpp_number(step.value);
  if (with_config && step.reads == kProblem) return fmt::format("q[{}]", step.slot);
  if (with_config && step.reads == kConfig) return fmt::format("t[{}]", step.slot);
  return fmt::format("v{}", at);
}

std::string Translation::expression(std::uint32_t at, bool with_config) const {
  const expr::Operation& operation = program_.operations()[at];
  const auto of = [&](std::uint32_t position) { return operand(position, with_config); };
  if (operation.code == Code::input) {
    const expr::Input& input = program_.inputs()[operation.a];
    const std::string_view record = reads(input, Source::signature) ? "signature_of(p)" : "p";
    return fmt::format("static_cast<double>({}.{})", record, field_of(input));
  }
  if (operation.code == Code::negate) return fmt::format("-({})", of(operation.a));
  if (const auto infix = infix_of(operation.code); !infix.empty()) {
    return fmt::format("{} {} {}", of(operation.a), infix, of(operation.b));
  }
  const std::size_t arity = expr::arity(operation.code);
  std::string arguments = of(operation.a);
  if (arity > 1) arguments += ", " + of(operation.b);
  if (arity > 2) arguments += ", " + of(operation.c);
  const std::string_view function = function_of(operation.code);
  return fmt::format("{}{}({})", function.starts_with("std::") ? "" : "formula::", function, arguments);
}

std::string Translation::code(std::string_view name) const {
  std::string of_problem, of_both;
  for (std::uint32_t at = 0; at < steps_.size(); ++at) {
    const Step& step = steps_[at];
    if (!step.live || step.reads == kConfig) continue;
    const bool both = step.reads != kProblem;
    (both ? of_both : of_problem) += fmt::format("  const double v{} = {};\n", at, expression(at, both));
    if (!both && step.slot != kNone) of_problem += fmt::format("  q[{}] = v{};\n", step.slot, at);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    of_both += fmt::format("  out[{}] = {};\n", i, operand(outputs_[i], true));
  }
  return fmt::format(
      "inline void {0}_of_problem([[maybe_unused]] const Problem& p, [[maybe_unused]] double* q) {{\n{1}}}\n"
      "inline void {0}([[maybe_unused]] const double* q, [[maybe_unused]] const double* t,\n"
      "{3:{4}}[[maybe_unused]] double* out) {{\n{2}}}\n",
      name, of_problem, of_both, "", name.size() + 13);
}

}  // namespace kscout
