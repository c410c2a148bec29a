#pragma once
/// \file
/// Parses the text of a formula into a tree, the input of compile.cpp.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "expr/expr.h"

namespace kscout::expr {

/// One node; arguments are positions of earlier nodes, so a walk by position visits arguments first.
struct Node {
  enum class Kind : std::uint8_t { number, word, name, operation };
  Kind kind = Kind::number;
  Code code = Code::constant;       ///< of an operation
  std::uint32_t arguments[3] = {};  ///< of an operation; unused ones are 0
  double number = 0;
  std::string_view text = {};  ///< of a name or a word: a view of the formula's text
  std::uint32_t offset = 0;    ///< in the formula's text, for messages
};

/// Number of operands of an operation.
std::size_t arity(Code code) noexcept;

/// Parses a formula; the last node is the root. Throws invalid_argument with line and caret. `formula.text`
/// must outlive the nodes.
std::vector<Node> parse(const Formula& formula);

/// Throws invalid_argument: "formula 'name': message", the line, and a caret under `offset`.
[[noreturn]] void fail_at(const Formula& formula, std::size_t offset, const std::string& message);

}  // namespace kscout::expr
