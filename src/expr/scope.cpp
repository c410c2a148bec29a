#include <limits>

#include "core/fail.h"
#include "core/hash.h"
#include "core/names.h"
#include "expr/expr.h"

namespace kscout::expr {

double text_code(std::string_view text) noexcept {
  if (text.empty()) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(mix_hash(0, text_hash(text)) >> 11);
}

std::size_t Scope::begin_group(std::string_view prefix, const void* record, const ConfigSpace* space) {
  for (const Group& group : groups_) {
    if (group.prefix == prefix) fail(Errc::invalid_argument, "scope: prefix '{}' is taken", prefix);
  }
  groups_.push_back({std::string(prefix), record, space});
  return groups_.size() - 1;
}

void Scope::add(std::size_t group, std::string_view field, Source source, std::uint32_t axes, ValueKind kind,
                std::span<const std::string_view> words) {
  std::size_t position = 0;
  for (auto input = inputs_.rbegin(); input != inputs_.rend() && input->group == group; ++input) ++position;
  const std::string& prefix = groups_[group].prefix;
  inputs_.push_back({.name = prefix.empty() ? std::string(field) : fmt::format("{}.{}", prefix, field),
                     .depends = {1u << static_cast<int>(source), axes},
                     .kind = kind,
                     .words = words,
                     .group = group,
                     .field = position});
}

void Scope::add_axes(const ConfigSpace& space, std::string_view prefix) {
  const std::size_t group = begin_group(prefix, nullptr, &space);
  for (std::size_t i = 0; i < space.axes.size(); ++i) {
    const Axis& axis = space.axes[i];
    add(group, axis.name, Source::config, 1u << i, axis.words.empty() ? ValueKind::number : ValueKind::words,
        axis.words);
  }
}

void Scope::add_value(std::string_view name, Source source, std::span<const std::string_view> words) {
  for (const Input& input : inputs_) {
    if (input.name == name) fail(Errc::invalid_argument, "scope: name '{}' is taken", name);
  }
  // A group of its own, without prefix: the name is complete.
  groups_.push_back({});
  add(groups_.size() - 1, name, source, 0, words.empty() ? ValueKind::number : ValueKind::words, words);
}

void Scope::add_formulas(std::span<const Formula> formulas) {
  for (const Formula& formula : formulas) {
    for (const Formula& known : formulas_) {
      if (known.name == formula.name)
        fail(Errc::invalid_argument, "scope: formula '{}' is taken", formula.name);
    }
    formulas_.push_back(formula);
  }
}

Inputs::Inputs(const Program& program) : program_(&program) {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  values_.resize(program.inputs().size());
  columns_.assign(program.inputs().size(), Column{&kUnknown, 0});
}

std::size_t Inputs::find_group(std::string_view prefix, const void* record, const ConfigSpace* space) {
  const auto groups = program_->groups();
  std::vector<std::string_view> prefixes;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].prefix.empty()) continue;
    if (groups[i].prefix == prefix) {
      if (groups[i].record == record && groups[i].space == space) return i;
      fail(Errc::invalid_argument, "inputs: '{}' holds another type in this program's scope", prefix);
    }
    prefixes.push_back(groups[i].prefix);
  }
  throw Error(Errc::invalid_argument, unknown_name_message("scope prefix", prefix, prefixes));
}

double* Inputs::storage(std::size_t group, std::size_t field, std::size_t rows) {
  const auto inputs = program_->inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].group != group || inputs[i].field != field) continue;
    values_[i].resize(rows);
    columns_[i] = {values_[i].data(), rows == 1 ? 0u : 1u};
    return values_[i].data();
  }
  return nullptr;
}

void Inputs::set(std::string_view prefix, const KernelConfig& config) {
  const std::size_t group = find_group(prefix, nullptr, config.space);
  for (std::size_t axis = 0; axis < config.space->axes.size(); ++axis) {
    if (double* to = storage(group, axis, 1)) *to = axis_number(config[axis]);
  }
}

void Inputs::set_rows(std::string_view prefix, const ConfigTable& configs) {
  const std::size_t group = find_group(prefix, nullptr, &configs.space());
  for (std::size_t axis = 0; axis < configs.space().axes.size(); ++axis) {
    if (double* to = storage(group, axis, configs.size())) {
      for (const std::int32_t value : configs.column(axis)) *to++ = axis_number(value);
    }
  }
}

void Inputs::set_value(std::string_view name, double value) {
  const auto inputs = program_->inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].name != name) continue;
    values_[i].assign(1, value);
    columns_[i] = {values_[i].data(), 0};
  }
}

void Inputs::set_column(std::string_view name, std::span<const double> values) {
  const auto inputs = program_->inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].name == name) columns_[i] = {values.data(), 1};
  }
}

}  // namespace kscout::expr
