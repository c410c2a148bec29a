#include "export/cpp_text.h"

#include <cmath>

#include <kscout/config.h>

#include "core/fail.h"

namespace kscout {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Lines of at most 110 columns.
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

template <class V>
std::string_view type_name() {
  if constexpr (std::is_same_v<V, DType>) return "DType";
  if constexpr (std::is_same_v<V, Layout>) return "Layout";
  if constexpr (std::is_same_v<V, Epilogue>) return "Epilogue";
  if constexpr (std::is_same_v<V, bool>) return "bool";
  if constexpr (std::is_same_v<V, double>) return "double";
  if constexpr (std::is_same_v<V, std::int64_t>) return "std::int64_t";
}

template <class V>
std::string value_text(const V& value) {
  if constexpr (WordEnum<V>) {
    return fmt::format("{}::{}", type_name<V>(), word(value));
  } else {
    return fmt::format("{}", value);
  }
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
    } else if (static_cast<unsigned char>(c) < 0x20) {
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
    // -2147483648 is minus 2147483648, which is no int.
    literals.push_back(value == KernelConfig::unknown ? "-2147483647 - 1" : fmt::format("{}", value));
  }
  return array_of(type, name, literals);
}

std::string cpp_array(std::string_view type, std::string_view name, std::span<const std::string> literals) {
  return array_of(type, name, literals);
}

std::string cpp_problem_types() {
  std::string out = enum_text<DType>("DType") + enum_text<Layout>("Layout") + enum_text<Epilogue>("Epilogue");
  out += "\n// C(m,n) = alpha * A(m,k) * B(k,n) + beta * C, `batch` times.\nstruct Problem {\n";
  const GemmProblem defaults;
  for_each_field<GemmProblem>([&](const auto& field) {
    const auto& value = defaults.*field.member;
    out += fmt::format("  {} {} = {};  // {}\n", type_name<std::remove_cvref_t<decltype(value)>>(),
                       field.name, value_text(value), field.help);
  });
  return out + "};\n";
}

void check_namespace(std::string_view name) {
  std::size_t at = 0;
  while (true) {
    if (at >= name.size() || !is_letter(name[at])) break;
    while (at < name.size() && (is_letter(name[at]) || is_digit(name[at]))) ++at;
    if (at == name.size()) return;
    if (name.substr(at, 2) != "::") break;
    at += 2;
  }
  fail(Errc::invalid_argument,
       "'{}' cannot be a C++ namespace: give letters, digits and '_', parts joined by '::'", name);
}

std::string cpp_name(std::string_view text) {
  std::string out;
  for (const char c : text) out += is_letter(c) || is_digit(c) ? c : '_';
  return out.empty() || is_digit(out.front()) ? "_" + out : out;
}

}  // namespace kscout
