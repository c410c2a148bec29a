#pragma once
/// \file
/// A schema: an ordered list of named formulas that turn (problem, config, device) into the numbers a model
/// reads.
///
///     const Schema& schema = Schema::find("gemm");
///     std::vector<double> matrix(configs.size() * schema.size());
///     schema.evaluate(problem, device, configs, traits, matrix);       // row-major: configs x features
///
///     const Schema::Rows rows(schema, device, configs, traits);  // the same for many problems and threads
///     Schema::Rows::Scratch scratch;                             // one per thread
///     rows.evaluate(problem, matrix, scratch);
///
/// Formulas see `p.` (fields of GemmProblem or ConvProblem), `d.` (Device), `t.` (Traits) and, in schemas
/// that name a provider, `c.` (axes of its config space). Schemas are data: families/features_*.toml. A model
/// stores the text, so that training and serving read the same formulas.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/problem.h>
#include <kscout/traits.h>

#include "expr/expr.h"

namespace kscout {

/// One number of a row.
struct Feature {
  std::string id;
  std::string formula;  ///< may use earlier and later features and terms by id
  std::string unit;     ///< "1" when it has none
  std::string meaning;
  bool categorical = false;  ///< a code without order: a tree splits it by sets
  bool operator==(const Feature&) const = default;
};

/// What must hold of a problem or of a config before the formulas mean anything.
struct Requirement {
  std::string formula;  ///< over p. and d. alone, or over c., t. and d. alone
  std::string because;  ///< the limit and the remedy
  bool operator==(const Requirement&) const = default;
};

/// What a schema is made of.
struct SchemaData {
  std::string name;
  std::string summary;
  Op op = Op::gemm;
  std::string provider;  ///< whose axes `c.` names; empty: reads no axes and fits every provider
  std::vector<Requirement> requirements;
  std::vector<Feature> terms;  ///< named helpers, no columns of their own
  std::vector<Feature> features;
  bool operator==(const SchemaData&) const = default;
};

class Schema {
 public:
  /// Throws invalid_argument: a name given twice, a formula that does not compile (names the feature).
  explicit Schema(SchemaData data);

  /// A schema of the catalogue, compiled once; throws invalid_argument naming the nearest. Thread-safe.
  static const Schema& find(std::string_view name);
  /// Names in the catalogue.
  static std::vector<std::string> names();

  /// Reads text() back, or a file of the catalogue; `source` names it in errors. Throws corrupt_data.
  static Schema parse(std::string_view text, std::string_view source);
  /// The whole schema as TOML: what a `.ksf` stores. parse(text()) == *this.
  std::string text() const;
  /// Of ids and formulas, terms included, in order; units and meanings left out. Same value everywhere.
  std::uint64_t hash() const noexcept { return hash_; }

  const SchemaData& data() const noexcept { return data_; }
  const std::string& name() const noexcept { return data_.name; }
  std::span<const Feature> features() const noexcept { return data_.features; }
  std::size_t size() const noexcept { return data_.features.size(); }
  /// Position of a feature; throws invalid_argument naming the nearest.
  std::size_t index(std::string_view id) const;
  /// What a feature depends on: depends(i).problem_only(), .config_only().
  expr::Depends depends(std::size_t feature) const noexcept { return program_->depends(feature); }
  /// The same schema with some of its features only, in this order; what they do not use is not computed.
  /// Throws invalid_argument when a position is out of range or stands twice.
  Schema only(std::span<const std::uint32_t> features) const;
  /// The same formulas about another direction of convolutions, whose problems and axes have the same names.
  /// Throws invalid_argument when one of both is no convolution.
  Schema for_op(Op op) const;
  /// Positions of the categorical features.
  std::vector<std::uint32_t> categorical() const;
  const expr::Program& program() const noexcept { return *program_; }

  /// Writes feature f of config i to out[i * size() + f]. `traits` has one entry per config. Throws
  /// invalid_argument when sizes differ or when the schema reads the axes of another provider, unsupported
  /// when a requirement does not hold (an element type that CK Tile does not know).
  void evaluate(ProblemRef problem, const Device& device, const ConfigTable& configs,
                std::span<const Traits> traits, std::span<double> out) const;
  /// One config: out[f]. The same bits as its row of the call above.
  void evaluate(ProblemRef problem, const Device& device, const KernelConfig& config, const Traits& traits,
                std::span<double> out) const;
  /// Without a config: features that depend on the problem and device only; the others are NaN. out.size() ==
  /// size().
  void evaluate_problem(ProblemRef problem, const Device& device, std::span<double> out) const;

  bool operator==(const Schema& other) const { return data_ == other.data_; }

  class Rows;
  class FewRows;  ///< features/few_rows.h

 private:
  /// A requirement ready to ask.
  struct Check {
    expr::Program program;
    std::string because;
  };

  SchemaData data_;
  std::shared_ptr<const expr::Program> program_;
  std::shared_ptr<const std::vector<Check>> problem_checks_, config_checks_;
  std::uint64_t hash_ = 0;
};

/// A schema over fixed configs and device, ready for many problems and threads: columns of configs and traits
/// are gathered once. The schema must outlive it; the configs need not.
class Schema::Rows {
 public:
  /// Grows on first use, then is reused for any rows.
  struct Scratch {
    expr::Scratch expr;
    expr::ProblemInputs::Memory inputs;
  };

  /// Throws as evaluate does.
  Rows(const Schema& schema, const Device& device, const ConfigTable& configs,
       std::span<const Traits> traits);
  std::size_t size() const noexcept { return rows_; }

  /// Why the schema cannot describe the problem (an element type that CK Tile does not know); null when it
  /// can.
  const std::string* refusal(ProblemRef problem, Scratch& scratch) const;
  /// As Schema::evaluate. Allocates only when `scratch` is smaller than these rows need.
  void evaluate(ProblemRef problem, std::span<double> out, Scratch& scratch) const;

 private:
  friend class FewRows;
  const Schema* schema_;
  std::size_t rows_;
  expr::ProblemInputs inputs_;
  std::vector<expr::ProblemInputs> problem_checks_;
};

/// Which of our own schemas fits an operation on a kind of device: what models are trained with unless one is
/// named.
std::string_view default_schema(Op op, DeviceKind kind) noexcept;

/// Microseconds that each config should take by the analytic model alone: the one feature `analytic_time_us`
/// of schema `gemm` or `conv`. Sensible for ranking without any measurement; NaN where the device's or the
/// config's facts do not suffice.
const Schema& analytic_schema(Op op = Op::gemm);

}  // namespace kscout
