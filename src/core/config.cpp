#include <algorithm>
#include <array>
#include <string>

#include <kscout/config.h>
#include <kscout/fields.h>

#include "core/fail.h"
#include "core/names.h"
#include "core/numbers.h"

namespace kscout {

std::size_t ConfigSpace::axis_index(std::string_view name) const {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == name) return i;
  }
  std::vector<std::string_view> names;
  for (const Axis& axis : axes) names.push_back(axis.name);
  throw Error(Errc::invalid_argument, unknown_name_message(fmt::format("axis of {}", provider), name, names));
}

KernelConfig::KernelConfig(const ConfigSpace& of) : space(&of) {
  std::fill_n(value.begin(), of.axes.size(), unknown);
}

bool is_complete(const KernelConfig& config) noexcept {
  const auto axes = std::span(config.value).first(config.space->axes.size());
  return std::ranges::find(axes, KernelConfig::unknown) == axes.end();
}

bool agree(const KernelConfig& a, const KernelConfig& b) noexcept {
  if (a.space != b.space) return false;
  return std::ranges::equal(a.value, b.value, [](std::int32_t x, std::int32_t y) {
    return x == y || x == KernelConfig::unknown || y == KernelConfig::unknown;
  });
}

std::string axis_value_text(const Axis& axis, std::int32_t value) {
  if (value == KernelConfig::unknown) return "?";
  if (axis.words.empty()) return std::to_string(value);
  if (value < 0 || static_cast<std::size_t>(value) >= axis.words.size()) {
    fail(Errc::invalid_argument, "axis {}: value {} has no word (0 to {})", axis.name, value,
         axis.words.size() - 1);
  }
  return std::string(axis.words[static_cast<std::size_t>(value)]);
}

std::int32_t parse_axis_value(const Axis& axis, std::string_view text) {
  if (text == "?") return KernelConfig::unknown;
  if (!axis.words.empty()) return static_cast<std::int32_t>(index_of_word(axis.name, text, axis.words));
  const auto value = number_in<std::int32_t>(text);
  if (!value || *value == KernelConfig::unknown)
    fail(Errc::invalid_argument, "axis {}: '{}' is not a whole number below 2^31", axis.name, text);
  return *value;
}

KernelConfig ConfigTable::operator[](std::size_t row) const noexcept {
  KernelConfig config;
  config.space = space_;
  for (std::size_t axis = 0; axis < columns_.size(); ++axis) config.value[axis] = columns_[axis][row];
  return config;
}

void ConfigTable::push_back(const KernelConfig& config) {
  if (config.space != space_) {
    fail(Errc::invalid_argument, "a config of {} cannot join a table of {}",
         config.space ? config.space->provider : "no space", space_ ? space_->provider : "no space");
  }
  for (std::size_t axis = 0; axis < columns_.size(); ++axis) columns_[axis].push_back(config.value[axis]);
}

void ConfigTable::reserve(std::size_t rows) {
  for (auto& column : columns_) column.reserve(rows);
}

}  // namespace kscout

std::size_t std::hash<kscout::KernelConfig>::operator()(const kscout::KernelConfig& config) const noexcept {
  // A sum of products, because its terms do not wait for each other as a chain of mixes does: tables of
  // measurements look up every row's config.
  static constexpr auto kFactors = [] {
    std::array<std::uint64_t, kscout::kMaxAxes> factors{};
    for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = kscout::mix_hash(i, 1) | 1;
    return factors;
  }();
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kscout::kMaxAxes; ++i)
    sum += kFactors[i] * static_cast<std::uint32_t>(config.value[i]);
  return kscout::mix_hash(reinterpret_cast<std::uintptr_t>(config.space), sum);
}
