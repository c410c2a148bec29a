#include "core/toml_reader.h"

namespace kscout {

namespace {

/// Parts of one key. toml++ limits the nesting of lists and inline tables, and neither that of the tables of
/// a dotted key nor the stack that destroys them.
constexpr std::size_t kMaxKeyParts = 16;

/// Finds the first key of too many parts: dots that are separated by a bare or quoted word each. The numbers
/// of a list have a comma between two dots.
class KeyParts {
 public:
  KeyParts(std::string_view text, std::string_view file) : rest_(text), file_(file) {}

  void check() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '"' || c == '\'') {
        quoted(c);
        continue;
      }
      rest_.remove_prefix(1);
      if (c == '#') rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      if (c == '.' && ++dots_ >= kMaxKeyParts) {
        fail(Errc::corrupt_data, "{}:{}: a key of more than {} parts; shorten it", file_, line_,
             kMaxKeyParts);
      }
      if (c == '\n') ++line_;
      if (std::string_view(",=[]{}\n").find(c) != std::string_view::npos) dots_ = 0;
    }
  }

 private:
  void quoted(char quote) {
    const std::string three(3, quote);
    const bool lines = rest_.starts_with(three);
    const std::string_view end = lines ? std::string_view(three) : std::string_view(three).substr(0, 1);
    rest_.remove_prefix(end.size());
    while (!rest_.empty() && !rest_.starts_with(end)) {
      if (rest_.front() == '\n') {
        if (!lines) return;  // no TOML: the parser names the line
        ++line_;
      }
      rest_.remove_prefix(rest_.front() == '\\' && quote == '"' && rest_.size() > 1 ? 2 : 1);
    }
    rest_.remove_prefix(std::min(end.size(), rest_.size()));
    if (lines && rest_.starts_with(quote)) rest_.remove_prefix(1);  // a text may end with its own quotes
    if (lines && rest_.starts_with(quote)) rest_.remove_prefix(1);
  }

  std::string_view rest_, file_;
  std::size_t line_ = 1, dots_ = 0;
};

}  // namespace

toml::table parse_toml(std::string_view text, std::string_view file) {
  KeyParts(text, file).check();
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    fail(Errc::corrupt_data, "{}:{}: {}", file, std::max<std::uint32_t>(1, error.source().begin.line),
         error.description());
  }
}

}  // namespace kscout
