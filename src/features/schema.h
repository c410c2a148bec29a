#pragma once
/// \file
/// Computes the features of (problem, config, device) that a model reads. A schema is an ordered list of
/// named formulas, one per feature.
///
///     const Schema& schema = Schema::find("gemm");
///     std::vector<double> matrix(configs.size() * schema.size());
///     schema.evaluate(problem, device, configs, traits, matrix);       // row-major: configs x features
///
///     // for many problems and threads, a few configs at a time (expr/few_rows.h)
///     const expr::FewRows rows = schema.few_rows(device, configs, traits, wanted);
///
/// Formulas may use `p.` (fields of the problem), `d.` (Device), `t.` (Traits) and, in schemas
/// that name a provider, `c.` (axes of its config space). Schemas are data: families/features_*.toml, or a
/// file of the user's. A model stores the text, so training and selection use the same formulas.
#include <cstdint>
#include <filesystem>
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
#include "expr/few_rows.h"

namespace kscout {

/// One number of a row.
struct Feature {
  std::string id;
  std::string formula;  ///< may use earlier and later features and terms by id
  std::string unit;     ///< "1" without a unit
  std::string meaning;
  bool categorical = false;  ///< a code without order: a tree splits by sets of values
  bool operator==(const Feature&) const = default;
};

/// A condition on a problem or a config without which the formulas have no meaning.
struct Requirement {
  std::string formula;  ///< over p. and d. alone, or over c., t. and d. alone
  std::string because;  ///< the limit and the remedy
  bool operator==(const Requirement&) const = default;
};

/// The content of a schema.
struct SchemaData {
  std::string name;
  std::string summary;
  Op op = Op::gemm;
  std::string provider;  ///< provider of the axes `c.`; empty: reads no axes and fits every provider
  std::vector<Requirement> requirements;
  std::vector<Feature> terms;  ///< named helper formulas, without columns of their own
  std::vector<Feature> features;
  bool operator==(const SchemaData&) const = default;
};

class Schema {
 public:
  /// Throws invalid_argument for a repeated name or a formula that does not compile (names the feature).
  explicit Schema(SchemaData data);

  /// A schema of the catalogue, compiled once; throws invalid_argument naming the nearest schema.
  /// Thread-safe.
  static const Schema& find(std::string_view name);
  /// Names in the catalogue.
  static std::vector<std::string> names();
  /// A schema of the catalogue, or of a file: text with a dot or a slash. Throws the errors of find() and
  /// read().
  static Schema named(std::string_view name_or_file);

  /// Inverse of text(); also reads a file of the catalogue. `source` names the text in errors. Throws
  /// corrupt_data.
  static Schema parse(std::string_view text, std::string_view source);
  /// Parses a file. Throws not_found, and the errors of parse().
  static Schema read(const std::filesystem::path& file);
  /// The whole schema as TOML, as a `.ksf` file stores it. parse(text()) == *this.
  std::string text() const;
  /// Hash of ids and formulas, terms included, in order, without units and meanings. The same on every
  /// machine.
  std::uint64_t hash() const noexcept { return hash_; }

  const SchemaData& data() const noexcept { return data_; }
  const std::string& name() const noexcept { return data_.name; }
  std::span<const Feature> features() const noexcept { return data_.features; }
  std::size_t size() const noexcept { return data_.features.size(); }
  /// Position of a feature; throws invalid_argument naming the nearest feature.
  std::size_t index(std::string_view id) const;
  /// The inputs that a feature depends on: depends(i).problem_only(), .config_only().
  expr::Depends depends(std::size_t feature) const noexcept { return program_->depends(feature); }
  /// The same schema with only some of its features, in this order; nothing else is computed. Throws
  /// invalid_argument when a position is out of range or repeated.
  Schema only(std::span<const std::uint32_t> features) const;
  /// The same formulas for another op of the same operation (a direction of convolutions): problems and axes
  /// have the same names. Throws invalid_argument for an op of another operation.
  Schema for_op(Op op) const;
  /// Whether a formula reads an input, like "t.listed".
  bool reads(std::string_view input) const noexcept;
  /// Positions of the categorical features.
  std::vector<std::uint32_t> categorical() const;
  const expr::Program& program() const noexcept { return *program_; }

  /// Writes feature f of config i to out[i * size() + f]. `traits` has one entry per config. Throws
  /// invalid_argument when sizes differ or when the schema reads the axes of another provider, unsupported
  /// when a requirement is violated (an element type that CK Tile does not support).
  void evaluate(ProblemRef problem, const Device& device, const ConfigTable& configs,
                std::span<const Traits> traits, std::span<double> out) const;
  /// Evaluates one config: out[f] is feature f, with the same bits as in the call above.
  void evaluate(ProblemRef problem, const Device& device, const KernelConfig& config, const Traits& traits,
                std::span<double> out) const;
  /// Evaluates the features that depend only on problem and device; the others become NaN. out.size() ==
  /// size().
  void evaluate_problem(ProblemRef problem, const Device& device, std::span<double> out) const;

  bool operator==(const Schema& other) const { return data_ == other.data_; }

  /// Throws the errors of evaluate() that do not depend on the problem.
  void check_configs(const Device& device, const ConfigTable& configs, std::span<const Traits> traits) const;

  /// The features over fixed configs and device, for many problems and threads; wanted[f]: feature f is read.
  /// set_problem() refuses what the schema cannot describe. Throws the errors of evaluate(). Keeps no
  /// reference to the arguments.
  expr::FewRows few_rows(const Device& device, const ConfigTable& configs, std::span<const Traits> traits,
                         std::span<const std::uint8_t> wanted) const;

 private:
  /// Throws what evaluate() throws for a problem that the schema cannot describe.
  void check_problem(ProblemRef problem, const Device& device) const;
  /// The inputs of formulas except the problem.
  expr::Inputs fixed_inputs(const expr::Program& program, const Device& device, const ConfigTable& configs,
                            std::span<const Traits> traits) const;

  SchemaData data_;
  std::shared_ptr<const expr::Program> program_;       ///< the features
  std::shared_ptr<const expr::Program> requirements_;  ///< in the order of data_.requirements
  std::uint64_t hash_ = 0;
};

/// KernelScout's own schema for a provider's configs of an operation on a kind of device: the default for
/// training models.
std::string_view default_schema(Op op, std::string_view provider, DeviceKind kind) noexcept;

/// The schema of models for any CPU: it describes a config relative to the device.
std::string any_cpu_schema(Op op);

/// The schema with the single feature `analytic_time_us` of default_schema() for CPUs: the time of each
/// config in microseconds by the analytic model alone. Suitable for ranking without any measurement; NaN
/// where facts of the device or the config are missing.
const Schema& analytic_schema(Op op = Op::gemm, std::string_view provider = "native");

}  // namespace kscout
