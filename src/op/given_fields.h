#pragma once
/// \file
/// Makes problems of fields that a caller gives by name: the one rule of problem texts, flags, CSV columns
/// and keyword arguments.
///
///     std::vector<GivenField> given = fields_of_line("conv_fwd:8x64x56x56:128x3x3:pad=1");
///     given.push_back({"left_pad_h", "3", GivenAs::flag});
///     const Problem problem = problem_of(given);          // left_pad_h = 3, the other pads 1
///
/// A specific field wins over a general one (left_pad_h over pad_h over pad), in any order. A field that is
/// given twice is an error, and so is a general field without effect.
#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/names.h"
#include "op/operation.h"

namespace kscout {

/// A general name, the fields that it sets, and how.
template <Record P>
struct GeneralField {
  std::string_view name;
  std::vector<std::string_view> of;
  std::function<void(P&, std::string_view value)> set;
};

/// The field as the caller wrote it: "pad=1", or "--pad-h 1".
inline std::string written(const GivenField& field) {
  if (field.as != GivenAs::flag) return fmt::format("{}={}", field.name, field.value);
  std::string flag(field.name);
  std::ranges::replace(flag, '_', '-');
  return fmt::format("--{} {}", flag, field.value);
}

/// Throws invalid_argument, with both values, for a field that is given twice.
inline void refuse_given_twice(std::span<const GivenField> given) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].as == GivenAs::implied) continue;
    for (const GivenField& before : given.first(i)) {
      if (before.name != given[i].name || before.as == GivenAs::implied) continue;
      fail(Errc::invalid_argument, "{} is given twice: {} and {}; leave one out", before.name,
           written(before), written(given[i]));
    }
  }
}

/// The value of a field: the stated one, else the implied one, else null.
inline const GivenField* find_given(std::span<const GivenField> given, std::string_view name) {
  const GivenField* found = nullptr;
  for (const GivenField& one : given) {
    if (one.name == name && (!found || found->as == GivenAs::implied)) found = &one;
  }
  return found;
}

/// Throws invalid_argument for a general field whose every field another given field sets. A type word of a
/// problem text may be needed to reach the layout: it passes.
template <Record P>
void refuse_without_effect(std::span<const GivenField> given, const GeneralField<P>& general,
                           const GivenField& field, std::span<const GeneralField<P>> generals) {
  if (field.as == GivenAs::position || field.as == GivenAs::implied) return;
  std::vector<std::string> winners;
  const auto add = [&](const GivenField& winner) {
    std::string text = written(winner);
    if (std::ranges::find(winners, text) == winners.end()) winners.push_back(std::move(text));
  };
  for (const std::string_view one : general.of) {
    const GivenField* winner = find_given(given, one);
    for (const GeneralField<P>& narrower : generals) {
      if (!winner && narrower.of.size() < general.of.size() &&
          std::ranges::find(narrower.of, one) != narrower.of.end())
        winner = find_given(given, narrower.name);
    }
    if (!winner) return;
    add(*winner);
  }
  fail(Errc::invalid_argument, "{} has no effect: {} set all that it stands for; leave it out",
       written(field), fmt::join(winners, ", "));
}

/// Throws invalid_argument for a name that problems of the operation do not have; names another operation
/// that has it.
void refuse_unknown_name(const Operation& operation, const GivenField& field);

/// Sets fields by the rule above; `generals` in any order.
template <Record P>
void set_given_fields(P& problem, std::span<const GivenField> given, std::vector<GeneralField<P>> generals) {
  for (const GivenField& field : given) refuse_unknown_name(operation(ProblemOf<P>::kind), field);
  refuse_given_twice(given);
  std::ranges::stable_sort(generals, std::ranges::greater{},
                           [](const GeneralField<P>& one) { return one.of.size(); });
  for (const GeneralField<P>& general : generals) {
    const GivenField* const field = find_given(given, general.name);
    if (!field) continue;
    general.set(problem, field->value);
    refuse_without_effect<P>(given, general, *field, generals);
  }
  const auto names = field_names<P>();
  for (const std::string_view name : names) {
    if (const GivenField* const field = find_given(given, name)) set_field(problem, name, field->value);
  }
}

/// The op whose one-line form a line begins like.
std::optional<Op> line_op(std::string_view line) noexcept;

/// The op that a one-line form begins with. Throws invalid_argument that names the nearest op and its syntax.
Op op_of_line(std::string_view line);

/// The fields of a one-line form, `op` and sizes included. Views of `line`. Throws invalid_argument for text
/// of another form; values are checked when they are set.
std::vector<GivenField> fields_of_line(std::string_view line);

/// The problem that these fields describe, of the given `op` (default: gemm). `usual`: element type when none
/// is given. Throws invalid_argument as set_fields and check do.
Problem problem_of(std::span<const GivenField> given, DType usual = DType::fp32);

}  // namespace kscout
