#pragma once
/// \file
/// Parses a kernel name from the left, one part between "_" at a time.
///
///     CkNameReader reader("fp16_rcr_64x64x32");
///     const std::size_t dtype = reader.word("dtype", EnumWords<DType>::words);
///     const auto layout = reader.part("layout");
///     const auto tile = reader.dims("tile", 3);
///
/// Every error is an invalid_argument that quotes the whole name and the part.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/fail.h"
#include "core/names.h"
#include "core/problem_text.h"

namespace kscout {

/// Parses a name from the left.
class CkNameReader {
 public:
  explicit CkNameReader(std::string_view name) : name_(name), rest_(name) {}

  [[noreturn]] void refuse(std::string_view part, std::string_view why) const {
    fail(Errc::invalid_argument, "kernel name '{}': '{}' {}", name_, part, why);
  }
  bool done() const { return rest_.empty() && !open_; }

  bool take_prefix(std::string_view prefix) {
    if (!rest_.starts_with(prefix)) return false;
    rest_.remove_prefix(prefix.size());
    return true;
  }

  /// The text up to the next "_".
  std::string_view part(std::string_view what) {
    if (!open_ || rest_.empty())
      fail(Errc::invalid_argument, "kernel name '{}' ends before its {}", name_, what);
    const std::size_t end = std::min(rest_.find('_'), rest_.size());
    return take(end);
  }

  /// Reads the longest of `words` that comes next (words may contain "_") and returns its position.
  std::size_t word(std::string_view what, std::span<const std::string_view> words) {
    const auto best = longest_here(words);
    if (!best) {
      const std::string_view text = part(what);
      throw Error(Errc::invalid_argument,
                  fmt::format("kernel name '{}': {}", name_, unknown_name_message(what, text, words)));
    }
    take(words[*best].size());
    return *best;
  }

  /// Like word(), but returns nothing when none of the words comes next.
  std::optional<std::size_t> try_word(std::span<const std::string_view> words) {
    const auto best = longest_here(words);
    if (best) take(words[*best].size());
    return best;
  }

  /// The next part, without taking it; empty at the end.
  std::string_view next() const { return rest_.substr(0, rest_.find('_')); }

  /// Reads "AxBxC": `many` numbers of at least 1.
  std::vector<std::int32_t> dims(std::string_view what, std::size_t many) {
    const std::string_view text = part(what);
    const auto parts = split(text, 'x');
    if (parts.size() != many) {
      refuse(text, fmt::format("is not a {} of the form {}", what, many == 3 ? "MxNxK" : "HxW"));
    }
    std::vector<std::int32_t> numbers;
    for (const auto one : parts) numbers.push_back(number(one, what, 1));
    return numbers;
  }

  /// Reads the number after `prefix` in the next part.
  std::int32_t number_after(std::string_view prefix, std::string_view what, std::int32_t least) {
    const std::string_view text = part(what);
    if (!text.starts_with(prefix)) refuse(text, fmt::format("is not a {} ({}N)", what, prefix));
    return number(text.substr(prefix.size()), what, least);
  }

  std::int32_t number(std::string_view text, std::string_view what, std::int32_t least) const {
    std::int32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool plain = !text.empty() && text[0] != '-' && (text[0] != '0' || text.size() == 1);
    if (error != std::errc() || end != text.data() + text.size() || !plain || value < least) {
      refuse(text, fmt::format("is not a whole number for {} (at least {})", what, least));
    }
    return value;
  }

 private:
  std::optional<std::size_t> longest_here(std::span<const std::string_view> words) const {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool here =
          rest_.starts_with(words[i]) && (rest_.size() == words[i].size() || rest_[words[i].size()] == '_');
      if (here && (!best || words[i].size() > words[*best].size())) best = i;
    }
    return best;
  }
  std::string_view take(std::size_t length) {
    const std::string_view text = rest_.substr(0, length);
    rest_.remove_prefix(length);
    open_ = !rest_.empty();
    if (open_) rest_.remove_prefix(1);  // the "_"
    return text;
  }

  std::string_view name_;
  std::string_view rest_;
  bool open_ = true;  ///< another part must follow: at the start, or after "_"
};

}  // namespace kscout
