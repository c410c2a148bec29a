#include "expr/syntax.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/fail.h"
#include "core/names.h"

namespace kscout::expr {
namespace {

struct Function {
  std::string_view name;
  Code code;
};
constexpr std::array kFunctions = {
    Function{"min", Code::minimum}, Function{"max", Code::maximum}, Function{"ceil_div", Code::ceil_div},
    Function{"ceil", Code::ceil},   Function{"floor", Code::floor}, Function{"abs", Code::abs},
    Function{"log2", Code::log2},   Function{"ln", Code::ln},       Function{"known", Code::known},
    Function{"if", Code::choose},
};

enum class Token : std::uint8_t { end, number, name, word, symbol };

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A recursive-descent parser: one function per precedence level, lowest first.
class Parser {
 public:
  explicit Parser(const Formula& formula) : formula_(formula), text_(formula.text) {}

  std::vector<Node> run() {
    if (text_.size() > kMaxTextBytes) {
      fail(Errc::invalid_argument, "formula '{}': {} bytes; the limit is {}", formula_.name, text_.size(),
           kMaxTextBytes);
    }
    advance();
    if (token_ == Token::end) error("the formula is empty");
    disjunction();  // each level returns the node that it added last
    if (token_ != Token::end) error(fmt::format("unexpected '{}'", shown_token()));
    return std::move(nodes_);
  }

 private:
  [[noreturn]] void error(const std::string& message) const { fail_at(formula_, start_, message); }

  std::string shown_token() const {
    return token_ == Token::end ? "end of formula" : std::string(text_.substr(start_, at_ - start_));
  }

  void advance() {
    while (at_ < text_.size() && (text_[at_] == ' ' || (text_[at_] >= '\t' && text_[at_] <= '\r'))) ++at_;
    start_ = at_;
    if (at_ == text_.size()) {
      token_ = Token::end;
    } else if (is_letter(text_[at_])) {
      read_name();
    } else if (is_digit(text_[at_]) ||
               (text_[at_] == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
      read_number();
    } else if (text_[at_] == '\'' || text_[at_] == '"') {
      read_word();
    } else {
      read_symbol();
    }
  }

  void read_name() {
    token_ = Token::name;
    const auto part = [&] {
      while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    };
    part();
    while (at_ + 1 < text_.size() && text_[at_] == '.' && is_letter(text_[at_ + 1])) {
      ++at_;
      part();
    }
    content_ = text_.substr(start_, at_ - start_);
  }

  void read_number() {
    token_ = Token::number;
    const char* const last = text_.data() + text_.size();
    const auto [end, code] = std::from_chars(text_.data() + at_, last, number_);
    at_ = static_cast<std::size_t>(end - text_.data());
    if (code != std::errc()) error("this number does not fit a double");
    if (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '.')) {
      error("a number runs into what follows; names do not begin with a digit");
    }
  }

  void read_word() {
    token_ = Token::word;
    const std::size_t close = text_.find(text_[at_], at_ + 1);
    if (close == std::string_view::npos) error("this quote is never closed");
    content_ = text_.substr(at_ + 1, close - at_ - 1);
    at_ = close + 1;
  }

  void read_symbol() {
    token_ = Token::symbol;
    static constexpr std::string_view kDouble[] = {"==", "!=", "<=", ">="};
    static constexpr std::string_view kSingle = "+-*/%<>()[],";
    const std::string_view rest = text_.substr(at_);
    if (std::ranges::find(kDouble, rest.substr(0, 2)) != std::end(kDouble)) {
      at_ += 2;
    } else if (kSingle.find(rest[0]) != std::string_view::npos) {
      at_ += 1;
    } else if (rest[0] == '=') {
      error("'=' is not an operator; compare with '=='");
    } else if (rest[0] == '&' || rest[0] == '|' || rest[0] == '!') {
      error("write 'and', 'or', 'not'");
    } else {
      error("no formula contains this character");
    }
    content_ = text_.substr(start_, at_ - start_);
  }

  bool is(Token token, std::string_view content) const { return token_ == token && content_ == content; }
  bool take(Token token, std::string_view content) {
    if (!is(token, content)) return false;
    advance();
    return true;
  }
  void expect(std::string_view symbol) {
    if (!take(Token::symbol, symbol)) {
      error(fmt::format("expected '{}', found '{}'", symbol, shown_token()));
    }
  }

  std::uint32_t add(Node node) {
    nodes_.push_back(node);
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  std::uint32_t operation(Code code, std::size_t offset, std::uint32_t a, std::uint32_t b = 0,
                          std::uint32_t c = 0) {
    return add({.kind = Node::Kind::operation,
                .code = code,
                .arguments = {a, b, c},
                .offset = static_cast<std::uint32_t>(offset)});
  }

  /// Counts nesting during its lifetime.
  struct Nested {
    explicit Nested(Parser& of) : parser(of) {
      if (++parser.depth_ > kMaxDepth) parser.error(fmt::format("nested deeper than {} levels", kMaxDepth));
    }
    ~Nested() { --parser.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    Parser& parser;
  };

  std::uint32_t disjunction() {
    std::uint32_t left = conjunction();
    for (std::size_t at = start_; take(Token::name, "or"); at = start_) {
      left = operation(Code::logical_or, at, left, conjunction());
    }
    return left;
  }

  std::uint32_t conjunction() {
    std::uint32_t left = negation();
    for (std::size_t at = start_; take(Token::name, "and"); at = start_) {
      left = operation(Code::logical_and, at, left, negation());
    }
    return left;
  }

  std::uint32_t negation() {
    const std::size_t at = start_;
    if (!take(Token::name, "not")) return comparison();
    const Nested nested(*this);
    return operation(Code::logical_not, at, negation());
  }

  std::uint32_t comparison() {
    const std::uint32_t left = sum();
    const std::size_t at = start_;
    std::uint32_t result = left;
    if (take(Token::name, "in")) {
      result = membership(left, at, Code::equal, Code::logical_or);
    } else if (take(Token::name, "not")) {
      if (!take(Token::name, "in")) error("'not' after a value begins 'not in'");
      result = membership(left, at, Code::not_equal, Code::logical_and);
    } else if (is_comparison()) {
      const std::string_view symbol = content_;
      advance();
      result = compare(symbol, at, left, sum());
    } else {
      return left;
    }
    if (is_comparison() || is(Token::name, "in"))
      error("comparisons do not chain; join two of them with 'and'");
    return result;
  }

  bool is_comparison() const {
    return token_ == Token::symbol &&
           (content_ == "==" || content_ == "!=" || content_[0] == '<' || content_[0] == '>');
  }

  std::uint32_t compare(std::string_view symbol, std::size_t at, std::uint32_t left, std::uint32_t right) {
    if (symbol == "==") return operation(Code::equal, at, left, right);
    if (symbol == "!=") return operation(Code::not_equal, at, left, right);
    if (symbol == "<") return operation(Code::less, at, left, right);
    if (symbol == "<=") return operation(Code::less_equal, at, left, right);
    return operation(symbol == ">" ? Code::less : Code::less_equal, at, right, left);
  }

  /// `x in [a, b]` is `x == a or x == b`; `x not in [a, b]` is `x != a and x != b`.
  std::uint32_t membership(std::uint32_t left, std::size_t at, Code test, Code join) {
    expect("[");
    const Nested nested(*this);
    std::uint32_t result = operation(test, at, left, sum());
    while (take(Token::symbol, ",")) {
      if (is(Token::symbol, "]")) break;  // a trailing comma is allowed
      const std::uint32_t next = operation(test, at, left, sum());
      result = operation(join, at, result, next);
    }
    expect("]");
    return result;
  }

  std::uint32_t sum() {
    std::uint32_t left = product();
    for (std::size_t at = start_; token_ == Token::symbol; at = start_) {
      if (take(Token::symbol, "+")) {
        left = operation(Code::add, at, left, product());
      } else if (take(Token::symbol, "-")) {
        left = operation(Code::subtract, at, left, product());
      } else {
        break;
      }
    }
    return left;
  }

  std::uint32_t product() {
    std::uint32_t left = signed_value();
    for (std::size_t at = start_; token_ == Token::symbol; at = start_) {
      if (take(Token::symbol, "*")) {
        left = operation(Code::multiply, at, left, signed_value());
      } else if (take(Token::symbol, "/")) {
        left = operation(Code::divide, at, left, signed_value());
      } else if (take(Token::symbol, "%")) {
        left = operation(Code::remainder, at, left, signed_value());
      } else {
        break;
      }
    }
    return left;
  }

  std::uint32_t signed_value() {
    const std::size_t at = start_;
    if (!is(Token::symbol, "-") && !is(Token::symbol, "+")) return value();
    const bool negative = content_ == "-";
    advance();
    const Nested nested(*this);
    const std::uint32_t of = signed_value();
    return negative ? operation(Code::negate, at, of) : of;
  }

  std::uint32_t value() {
    const auto offset = static_cast<std::uint32_t>(start_);
    if (token_ == Token::number) {
      const double number = number_;
      advance();
      return add({.kind = Node::Kind::number, .number = number, .offset = offset});
    }
    if (token_ == Token::word) {
      const std::string_view word = content_;
      advance();
      return add({.kind = Node::Kind::word, .text = word, .offset = offset});
    }
    if (take(Token::symbol, "(")) {
      const Nested nested(*this);
      const std::uint32_t inner = disjunction();
      expect(")");
      return inner;
    }
    if (is(Token::name, "not")) error("put '(not ...)' in brackets here");
    if (token_ != Token::name || is(Token::name, "and") || is(Token::name, "or") || is(Token::name, "in")) {
      error(fmt::format("expected a number, a name, a word or '(', found '{}'", shown_token()));
    }
    const std::string_view name = content_;
    advance();
    if (is(Token::symbol, "(")) return call(name, offset);
    return add({.kind = Node::Kind::name, .text = name, .offset = offset});
  }

  std::uint32_t call(std::string_view name, std::uint32_t offset) {
    const auto function = std::ranges::find(kFunctions, name, &Function::name);
    if (function == kFunctions.end()) {
      std::vector<std::string_view> names;
      for (const auto& known : kFunctions) names.push_back(known.name);
      fail_at(formula_, offset, unknown_name_message("function", name, names));
    }
    advance();
    const Nested nested(*this);
    std::uint32_t arguments[3] = {};
    std::size_t count = 0;
    const std::size_t wanted = arity(function->code);
    const bool variadic = function->code == Code::minimum || function->code == Code::maximum;
    if (!is(Token::symbol, ")")) {
      do {
        const std::uint32_t argument = disjunction();
        if (variadic && count == 2) {  // min(a, b, c) is min(min(a, b), c)
          arguments[0] = operation(function->code, offset, arguments[0], arguments[1]);
          arguments[1] = argument;
        } else if (count < wanted) {
          arguments[count++] = argument;
        } else {
          count = wanted + 1;
          break;
        }
      } while (take(Token::symbol, ","));
    }
    if (count != wanted) {
      fail_at(formula_, offset,
              fmt::format("{}() takes {}{} value{}", name, wanted, variadic ? " or more" : "",
                          wanted == 1 ? "" : "s"));
    }
    expect(")");
    return operation(function->code, offset, arguments[0], arguments[1], arguments[2]);
  }

  const Formula& formula_;
  std::string_view text_;
  std::size_t at_ = 0;     ///< position after the current token
  std::size_t start_ = 0;  ///< position of the current token
  Token token_ = Token::end;
  std::string_view content_;  ///< text of a name, a symbol, or a word without quotes
  double number_ = 0;
  std::size_t depth_ = 0;
  std::vector<Node> nodes_;
};

}  // namespace

std::size_t arity(Code code) noexcept {
  if (code <= Code::input) return 0;
  if (code <= Code::known) return 1;
  return code == Code::choose ? 3 : 2;
}

std::vector<Node> parse(const Formula& formula) { return Parser(formula).run(); }

void fail_at(const Formula& formula, std::size_t offset, const std::string& message) {
  constexpr std::size_t kBefore = 60, kAfter = 40;  // characters shown of a long line
  const std::string& text = formula.text;
  offset = std::min(offset, text.size());
  const std::size_t newline_before = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
  std::size_t begin = newline_before == std::string::npos ? 0 : newline_before + 1;
  std::size_t end = std::min(text.find('\n', offset), text.size());
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin), '\n');
  if (offset - begin > kBefore) begin = offset - kBefore;
  if (end - offset > kAfter) end = offset + kAfter;
  std::string shown = text.substr(begin, end - begin);
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = c == '\t' ? ' ' : '?';
  }
  const std::string where = line == 1 ? "" : fmt::format(" line {}", line);
  fail(Errc::invalid_argument, "formula '{}'{}: {}\n  {}\n  {}^", formula.name, where, message, shown,
       std::string(offset - begin, ' '));
}

}  // namespace kscout::expr
