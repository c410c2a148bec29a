#pragma once
/// \file
/// Writes C++ source: numbers with all their bits, tables, texts, and formulas as expressions.
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/problem.h>
#include <kscout/traits.h>

#include "expr/expr.h"

namespace kscout {

/// A double literal that reads back as the same value; NaN is `unknown`, infinities are `infinity`.
std::string cpp_number(double value);
/// A string literal.
std::string cpp_text(std::string_view text);

/// `inline constexpr TYPE NAME[...] = {...};`, one element more when there is none (C++ has no empty arrays).
std::string cpp_array(std::string_view type, std::string_view name, std::span<const double> values);
std::string cpp_array(std::string_view type, std::string_view name, std::span<const std::int64_t> values);
std::string cpp_array(std::string_view type, std::string_view name, std::span<const std::string> literals);
template <std::integral T>
std::string cpp_array(std::string_view type, std::string_view name, const std::vector<T>& values) {
  const std::vector<std::int64_t> wide(values.begin(), values.end());
  return cpp_array(type, name, std::span<const std::int64_t>(wide));
}

/// The enums of a problem and `struct Problem`, as GemmProblem has them.
std::string cpp_problem_types();

/// Throws invalid_argument unless `name` can be a namespace (a::b counts).
void check_namespace(std::string_view name);
/// `text` with every character that a name cannot hold made '_': "gemm_fp32_zen3-2c" gives
/// "gemm_fp32_zen3_2c".
std::string cpp_name(std::string_view text);

// ---- Formulas as C++: what the exported header computes instead of interpreting.
//
//     const Translation features(schema.program(), wanted, device, Signature{});
//     header += features.code("features");   // features_of_problem(p, q) and features(q, t, out)
//     const std::vector<double> t = features.config_rows(family.configs, family.traits);
//
// A program's operations are split by what they read: device facts are folded away, what a config alone
// decides becomes a table, what the problem alone decides is computed once per call, the rest once per
// config. Each operation stays one operation on doubles, so the results have the library's bits.

class Translation {
 public:
  /// `wanted`: formulas of the program, in the order in which the code writes them. `op` is what `s.op`
  /// reads. The program must outlive it. Throws unsupported for values that neither problem, config nor
  /// device have.
  Translation(const expr::Program& program, std::span<const std::uint32_t> wanted, const Device& device,
              Op op);

  /// Doubles that NAME_of_problem writes and NAME reads.
  std::size_t problem_values() const noexcept { return problem_slots_; }
  /// Columns of config_rows(): doubles that NAME reads of a config.
  std::size_t config_values() const noexcept { return config_slots_; }

  /// One row of config_values() numbers per config, one after another.
  std::vector<double> config_rows(const ConfigTable& configs, std::span<const Traits> traits) const;

  /// `void NAME_of_problem(const Problem& p, double* q)` and `void NAME(const double* q, const double* t,
  /// double* out)`; they use the names of runtime-inl.h.
  std::string code(std::string_view name) const;

 private:
  /// Bits of what a value reads beyond the device.
  static constexpr std::uint8_t kProblem = 1, kConfig = 2;
  static constexpr std::uint32_t kNone = UINT32_MAX;

  /// How an operation is served in the code.
  struct Step {
    std::uint8_t reads = 0;
    bool live = false;
    double value = 0;               ///< when it reads nothing
    std::uint32_t same_as = kNone;  ///< an `if` whose condition is fixed is one of its branches
    std::uint32_t slot = kNone;     ///< position in q (problem) or t (config)
  };

  void read_operation(std::uint32_t at, const expr::Inputs& fixed, Op op);
  std::uint32_t resolved(std::uint32_t at) const;
  void mark_live(std::uint32_t at);
  void need_slot(std::uint32_t at);
  std::string operand(std::uint32_t at, bool with_config) const;
  std::string expression(std::uint32_t at, bool with_config) const;

  const expr::Program& program_;
  std::vector<std::uint32_t> outputs_;  ///< operations, resolved
  Device device_;
  std::vector<Step> steps_;
  std::uint32_t problem_slots_ = 0, config_slots_ = 0;
};

}  // namespace kscout
