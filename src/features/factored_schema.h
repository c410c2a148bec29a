#pragma once
/// \file
/// A schema over fixed configs, for one problem after another: every feature once per distinct tuple of the
/// axes and traits that it reads, config-only features when it is made.
///
///     const Schema::Factored fast(schema, device, configs, traits, wanted);   // wanted[f]: feature f is read
///     Schema::Factored::Scratch scratch(fast);                               // one per thread
///     if (!fast.evaluate(problem, scratch)) ...                              // the schema cannot describe it
///     fast.features().values(f, scratch.features)                            // expr/tuples.h
///
/// The values have the bits of Schema::evaluate. Evaluation allocates nothing and takes no lock.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "expr/tuples.h"
#include "features/schema.h"

namespace kscout {

class Schema::Factored {
 public:
  /// Throws as Schema::evaluate does. Keeps nothing of the arguments.
  Factored(const Schema& schema, const Device& device, const ConfigTable& configs,
           std::span<const Traits> traits, std::span<const std::uint8_t> wanted);

  struct Scratch {
    explicit Scratch(const Factored& of);
    expr::TupleProgram::Scratch features;
    std::vector<expr::TupleProgram::Scratch> checks;
  };

  const expr::TupleProgram& features() const noexcept { return features_.program; }
  /// features().partitions() is empty afterwards.
  void forget_rows() noexcept { features_.program.forget_rows(); }
  /// False when a requirement of the schema does not hold for the problem.
  bool evaluate(ProblemRef problem, Scratch& scratch) const noexcept;

 private:
  static constexpr std::size_t kFields = std::max(field_count<GemmProblem>, field_count<ConvProblem>);
  using ProblemValues = std::array<double, kFields>;

  /// A program whose changing inputs are fields of the problem.
  struct Asked {
    expr::TupleProgram program;
    std::vector<std::uint32_t> fields;  ///< of each changing input
    void evaluate(const ProblemValues& values, expr::TupleProgram::Scratch& scratch) const noexcept;
  };
  static Asked ask(const expr::Program& program, const expr::Inputs& inputs, std::size_t rows,
                   std::span<const std::uint8_t> wanted);

  bool of_conv_;
  Asked features_;
  std::vector<Asked> checks_;
};

}  // namespace kscout
