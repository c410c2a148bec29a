#pragma once
/// \file
/// Writes C++ source: numbers with all their bits, tables, string literals, and formulas as expressions.
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/traits.h>

#include "expr/expr.h"

namespace kscout {

/// A double literal that reads back as the same value; NaN becomes `unknown`, infinity `infinity`.
std::string cpp_number(double value);
/// A string literal.
std::string cpp_text(std::string_view text);

/// `inline constexpr TYPE NAME[...] = {...};`. An empty array gets one element, since C++ has no empty
/// arrays.
std::string cpp_array(std::string_view type, std::string_view name, std::span<const double> values);
std::string cpp_array(std::string_view type, std::string_view name, std::span<const std::int64_t> values);
std::string cpp_array(std::string_view type, std::string_view name, std::span<const std::string> literals);
template <std::integral T>
std::string cpp_array(std::string_view type, std::string_view name, const std::vector<T>& values) {
  const std::vector<std::int64_t> wide(values.begin(), values.end());
  return cpp_array(type, name, std::span<const std::int64_t>(wide));
}

/// The enums of a problem and `struct Problem`: the fields of the operation's problems, with the op, types
/// and layout of `usual` as defaults. Throws unsupported for problems with a list.
std::string cpp_problem_types(const Signature& usual);

/// Statements that set the sizes of a problem `name`, for examples.
std::string cpp_example_sizes(std::string_view name, ProblemRef problem);

/// Throws invalid_argument unless `name` is a valid namespace (such as a::b).
void check_namespace(std::string_view name);
/// Replaces every character that is invalid in a name by '_': "gemm_fp32_zen3-2c" gives "gemm_fp32_zen3_2c".
std::string cpp_name(std::string_view text);

// ---- Translates formulas to C++, which the exported header compiles instead of interpreting them.
//
//     const Translation features(schema.program(), wanted, device, Signature{});
//     header += features.code("features");   // features_of_problem(p, q) and features(q, t, out)
//     const std::vector<double> t = features.config_rows(family.configs, family.traits);
//
// Splits a program's operations by their inputs. Device facts become constants. Operations that read only the
// config become a table. Operations that read only the problem run once per call, all others once per config.
// Each operation remains one operation on doubles, so the results equal the library's bit for bit.

class Translation {
 public:
  /// `wanted`: formulas of the program, in output order. `op` is the value of `s.op`. The program must
  /// outlive the translation. Throws unsupported for inputs that belong neither to problem, config nor
  /// device.
  Translation(const expr::Program& program, std::span<const std::uint32_t> wanted, const Device& device,
              Op op);

  /// Number of doubles that NAME_of_problem writes and NAME reads.
  std::size_t problem_values() const noexcept { return problem_slots_; }
  /// Columns of config_rows(): number of doubles that NAME reads of a config.
  std::size_t config_values() const noexcept { return config_slots_; }

  /// One row of config_values() numbers per config, row-major.
  std::vector<double> config_rows(const ConfigTable& configs, std::span<const Traits> traits) const;

  /// The functions `void NAME_of_problem(const Problem& p, double* q)` and `void NAME(const double* q, const
  /// double* t, double* out)`. They use names of runtime-inl.h.
  std::string code(std::string_view name) const;

 private:
  /// Bits for the inputs of a value besides the device.
  static constexpr std::uint8_t kProblem = 1, kConfig = 2;
  static constexpr std::uint32_t kNone = UINT32_MAX;

  /// How the code computes an operation.
  struct Step {
    std::uint8_t reads = 0;
    bool live = false;
    double value = 0;  ///< for steps that read nothing
    /// The step that replaces this one: the chosen branch of an `if` with a constant condition.
    std::uint32_t same_as = kNone;
    std::uint32_t slot = kNone;  ///< position in q (problem) or t (config)
  };

  void read_operation(std::uint32_t at, const expr::Inputs& fixed, Op op);
  std::uint32_t resolved(std::uint32_t at) const;
  void mark_live(std::uint32_t at);
  void need_slot(std::uint32_t at);
  std::string operand(std::uint32_t at, bool with_config) const;
  std::string expression(std::uint32_t at, bool with_config) const;

  const expr::Program& program_;
  std::vector<std::uint32_t> outputs_;  ///< operations, with `same_as` resolved
  Device device_;
  std::vector<Step> steps_;
  std::uint32_t problem_slots_ = 0, config_slots_ = 0;
};

}  // namespace kscout
