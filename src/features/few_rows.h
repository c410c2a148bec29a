#pragma once
/// \file
/// Evaluates a schema for a few of many fixed configs, for one problem after another.
///
///     const Schema::FewRows fast(schema, device, configs, traits, wanted);   // wanted[f]: feature f is read
///     expr::FewRowsProgram::Scratch scratch;                                // one per thread
///     if (!fast.set_problem(problem, scratch)) ...                          // the schema cannot describe it
///     fast.features().set_rows(picked, scratch);                            // at most 32 configs
///     fast.features().values(f, scratch)                                    // expr/few_rows.h
///
/// The values have the same bits as those of Schema::evaluate. Calls take no lock, and allocate only
/// when the scratch is smaller than needed.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "expr/few_rows.h"
#include "features/schema.h"

namespace kscout {

class Schema::FewRows {
 public:
  /// Throws the errors of Schema::evaluate. Keeps no reference to the arguments.
  FewRows(const Schema& schema, const Device& device, const ConfigTable& configs,
          std::span<const Traits> traits, std::span<const std::uint8_t> wanted);

  const expr::FewRowsProgram& features() const noexcept { return features_.program(); }
  void forget_fixed() noexcept { features_.forget_fixed(); }
  /// False when the problem violates a requirement of the schema.
  bool set_problem(ProblemRef problem, expr::FewRowsProgram::Scratch& scratch) const;
  /// Writes the only feature of a schema for some of the configs; false as for set_problem().
  /// out.size() == configs.size(). Not after forget_fixed().
  bool evaluate(ProblemRef problem, std::span<const std::uint32_t> configs, std::span<double> out,
                expr::FewRowsProgram::Scratch& scratch) const;

 private:
  Op kind_;  ///< of the operation whose problems the formulas read
  expr::ProblemRows features_;
  std::vector<expr::ProblemRows> checks_;
};

}  // namespace kscout
