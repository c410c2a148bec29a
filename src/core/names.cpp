#include "core/names.h"

#include <algorithm>

#include "core/fail.h"
#include "core/printable.h"

namespace kscout {

std::string_view word(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument:
      return "invalid_argument";
    case Errc::not_found:
      return "not_found";
    case Errc::unsupported:
      return "unsupported";
    case Errc::corrupt_data:
      return "corrupt_data";
    case Errc::device_failure:
      return "device_failure";
  }
  return "unknown";
}

namespace {

/// Optimal string alignment distance: an insertion, deletion, substitution or swap of neighbours costs 1.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> cost((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return cost[i * width + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, substituted});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return cost.back();
}

constexpr std::size_t kWordsInAMessage = 12;

}  // namespace

std::optional<std::string_view> nearest_word(std::string_view name, std::span<const std::string_view> words) {
  std::optional<std::string_view> best;
  std::size_t best_distance = std::max<std::size_t>(name.size(), 3) / 3 + 1;
  for (const auto candidate : words) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string unknown_name_message(std::string_view what, std::string_view name,
                                 std::span<const std::string_view> words) {
  constexpr std::size_t kMaxShown = 200;
  const bool is_long = name.size() > kMaxShown;
  std::string message =
      fmt::format("unknown {} '{}'", what, is_long ? shortened(name.substr(0, kMaxShown + 1)) : name);
  if (is_long) return message + fmt::format(" of {} characters", name.size());
  if (const auto near = nearest_word(name, words)) message += fmt::format("; did you mean '{}'?", *near);
  if (words.empty()) return message + " (there are none)";
  const auto shown = words.first(std::min(words.size(), kWordsInAMessage));
  message +=
      fmt::format(" (one of: {}{})", fmt::join(shown, ", "), shown.size() < words.size() ? ", ..." : "");
  return message;
}

std::optional<std::size_t> find_word(std::string_view name,
                                     std::span<const std::string_view> words) noexcept {
  const auto found = std::find(words.begin(), words.end(), name);
  if (found == words.end()) return std::nullopt;
  return static_cast<std::size_t>(found - words.begin());
}

std::size_t index_of_word(std::string_view what, std::string_view name,
                          std::span<const std::string_view> words) {
  const auto found = find_word(name, words);
  if (!found) throw Error(Errc::invalid_argument, unknown_name_message(what, name, words));
  return *found;
}

std::vector<std::string_view> views(std::span<const std::string> words) {
  return {words.begin(), words.end()};
}

}  // namespace kscout
