#pragma once
/// \file
/// Describes an operation whose problems have a struct, by the functions for that struct.
///
///     class GemmOperation final : public StructOperation<GemmProblem> { ... };
#include <kscout/any_problem.h>

#include "core/fail.h"
#include "op/operation.h"

namespace kscout {

/// Throws invalid_argument when a bias is given that the epilogue does not add.
inline void refuse_bias_without_epilogue(ProblemRef problem, Epilogue epilogue, const Buffers& buffers) {
  if (has_bias(epilogue) || !buffers.operand[kBias]) return;
  fail(Errc::invalid_argument,
       "{}: a bias is given, but the epilogue is {}; set epilogue=bias, or leave it out", print(problem),
       word(epilogue));
}

/// The fields of P as data.
template <ProblemStruct P>
std::span<const ProblemField> problem_fields() {
  static const auto fields = [] {
    std::array<ProblemField, field_count<P>> all;
    const Problem plain{P{}};
    std::size_t at = 0;
    for_each_field<P>([&](const auto& field) {
      using V = typename std::remove_cvref_t<decltype(field)>::value;
      ProblemField& one = all[at];
      one = {.name = field.name,
             .unit = field.unit,
             .help = field.help,
             .initial = plain[at],
             .role = field.role};
      if constexpr (WordEnum<V>) {
        one.type = FieldType::word;
        one.what = EnumWords<V>::what;
        one.words = EnumWords<V>::words;
      } else if constexpr (std::is_same_v<V, bool>) {
        one.type = FieldType::flag;
      } else if constexpr (std::is_floating_point_v<V>) {
        one.type = FieldType::real;
      } else if constexpr (std::is_same_v<V, SizeList>) {
        one.type = FieldType::list;
      }
      ++at;
    });
    return all;
  }();
  return fields;
}

template <ProblemStruct P>
class StructOperation : public Operation {
 public:
  using Operation::Operation;

  Signature signature(ProblemRef problem) const noexcept override {
    return with(problem, [](const P& of) { return signature_of(of); });
  }
  double flops(ProblemRef problem) const noexcept override {
    return with(problem, [](const P& of) { return flop_count(of); });
  }
  double bytes(ProblemRef problem) const noexcept override {
    return with(problem, [](const P& of) { return min_bytes(of); });
  }
  void check(ProblemRef problem) const override {
    with(problem, [](const P& of) { kscout::check(of); });
  }
  bool is_valid(ProblemRef problem) const noexcept override {
    return with(problem, [](const P& of) { return kscout::is_valid(of); });
  }
  std::string print(ProblemRef problem) const override {
    return with(problem, [](const P& of) { return kscout::print(of); });
  }
  Problem with_fields(const Problem& problem, std::span<const GivenField> given) const override {
    P of = problem.as<P>();
    set_fields(of, given);
    return of;
  }

 protected:
  /// Calls use(struct), without a copy where the reference was made from one.
  template <class F>
  static decltype(auto) with(ProblemRef problem, F&& use) {
    if (const P* const known = problem.struct_of<P>()) return use(*known);
    return use(problem.as<P>());
  }
};

}  // namespace kscout
