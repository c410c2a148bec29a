#pragma once
/// \file
/// The members of a generated struct that holds a kernel's config.
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace kscout {

/// Lines of a struct, one member each.
class Members {
 public:
  /// `index`: the type of whole numbers.
  explicit Members(std::string_view index) : index_(index) {}

  Members& type(std::string_view name, std::string_view value) {
    text_ += fmt::format("  using {} = {};\n", name, value);
    return *this;
  }
  Members& number(std::string_view name, std::int64_t value) {
    text_ += fmt::format("  static constexpr {} {} = {};\n", index_, name, value);
    return *this;
  }
  Members& flag(std::string_view name, bool value) {
    text_ += fmt::format("  static constexpr bool {} = {};\n", name, value);
    return *this;
  }
  Members& constant(std::string_view name, std::string_view value) {
    text_ += fmt::format("  static constexpr auto {} = {};\n", name, value);
    return *this;
  }
  Members& alias(std::string_view parameters, std::string_view name, std::string_view value) {
    text_ += fmt::format("  template <{}>\n  using {} = {};\n", parameters, name, value);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string_view index_;
  std::string text_;
};

}  // namespace kscout
