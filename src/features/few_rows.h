#pragma once
/// \file
/// Evaluates a schema for a few of many fixed configs, for one problem after another.
///
///     const Schema::FewRows fast(schema, device, configs, traits, wanted);   // wanted[f]: feature f is read
///     Schema::FewRows::Scratch scratch(fast);                               // one per thread
///     if (!fast.set_problem(problem, scratch)) ...                          // the schema cannot describe it
///     fast.features().set_rows(picked, scratch.features);                   // at most 32 configs
///     fast.features().values(f, scratch.features)                           // expr/few_rows.h
///
/// The values have the same bits as those of Schema::evaluate. Calls allocate nothing and take no lock.
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

  struct Scratch {
    explicit Scratch(const FewRows& of);
    expr::FewRowsProgram::Scratch features;
    std::vector<expr::FewRowsProgram::Scratch> checks;
  };

  const expr::FewRowsProgram& features() const noexcept { return features_.program(); }
  void forget_fixed() noexcept { features_.forget_fixed(); }
  /// False when the problem violates a requirement of the schema.
  bool set_problem(ProblemRef problem, Scratch& scratch) const;

 private:
  bool of_conv_;
  expr::ProblemRows features_;
  std::vector<expr::ProblemRows> checks_;
};

}  // namespace kscout
