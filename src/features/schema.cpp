#include "features/schema.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <set>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/fork_mutex.h"
#include "core/hash.h"
#include "core/names.h"
#include "features/schema_text.h"
#include "op/operation.h"

namespace kscout {

namespace {

expr::Scope make_scope(const SchemaData& data) {
  expr::Scope scope;
  scope.add_problem(problem_space(data.op));
  scope.add_record<Device>("d");
  scope.add_record<Traits>("t");
  if (!data.provider.empty()) scope.add_axes(provider(data.provider).space(data.op), "c");
  return scope;
}

std::vector<expr::Formula> formulas_of(const std::vector<Feature>& features) {
  std::vector<expr::Formula> formulas;
  for (const Feature& feature : features) formulas.push_back({feature.id, feature.formula});
  return formulas;
}

void check_names(const SchemaData& data) {
  if (data.features.empty()) fail(Errc::invalid_argument, "schema '{}' has no features", data.name);
  std::set<std::string_view> seen;
  for (const auto* list : {&data.terms, &data.features}) {
    for (const Feature& feature : *list) {
      if (feature.id.empty()) fail(Errc::invalid_argument, "schema '{}': a feature has no id", data.name);
      if (!seen.insert(feature.id).second) {
        fail(Errc::invalid_argument, "schema '{}': '{}' is defined twice", data.name, feature.id);
      }
    }
  }
}

std::uint64_t hash_of(const SchemaData& data) {
  std::uint64_t hash = text_hash("");
  for (const auto* list : {&data.terms, &data.features}) {
    for (const Feature& feature : *list) hash = text_hash(feature.id + "=" + feature.formula + "\n", hash);
    hash = text_hash("\n", hash);
  }
  return hash;
}

[[noreturn]] void refuse(const SchemaData& data, std::string_view subject, const std::string& because) {
  fail(Errc::unsupported, "schema '{}' cannot describe {}: {}", data.name, subject, because);
}

}  // namespace

Schema::Schema(SchemaData data) : data_(std::move(data)) {
  check_names(data_);
  expr::Scope scope = make_scope(data_);
  scope.add_formulas(formulas_of(data_.terms));
  const auto features = formulas_of(data_.features);
  program_ = std::make_shared<const expr::Program>(expr::Program::compile(features, scope));
  scope.add_formulas(features);
  std::vector<expr::Formula> conditions;
  for (const Requirement& requirement : data_.requirements)
    conditions.push_back({fmt::format("requirement {}", conditions.size() + 1), requirement.formula});
  requirements_ = std::make_shared<const expr::Program>(expr::Program::compile(conditions, scope));
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    const expr::Depends depends = requirements_->depends(i);
    if (!depends.problem_only() && !depends.config_only()) {
      fail(Errc::invalid_argument, "schema '{}': requirement '{}' mixes problem and config", data_.name,
           conditions[i].text);
    }
  }
  hash_ = hash_of(data_);
}

std::vector<std::string> Schema::names() { return schema_names(); }

Schema Schema::named(std::string_view name_or_file) {
  return name_or_file.find_first_of("./") == name_or_file.npos ? find(name_or_file) : read(name_or_file);
}

Schema Schema::read(const std::filesystem::path& file) { return parse(read_plain_text(file), file.string()); }

/// Locked before any thread compiles: otherwise a fork could leave a static unfinished for ever that another
/// thread is initialising.
static ForkMutex compiling_schemas(ForkLevel::files);

const Schema& Schema::find(std::string_view name) {
  const std::lock_guard lock(compiling_schemas);
  static std::map<std::string, Schema, std::less<>> compiled;
  if (const auto known = compiled.find(name); known != compiled.end()) return known->second;
  return compiled.emplace(name, Schema(catalogue_schema_data(name))).first->second;
}

Schema Schema::parse(std::string_view text, std::string_view source) {
  SchemaData data = parse_schema_data(text, source);
  try {
    return Schema(std::move(data));
  } catch (const Error& error) {
    fail(Errc::corrupt_data, "{}: {}", source, error.what());
  }
}

std::string Schema::text() const { return schema_text(data_); }

std::size_t Schema::index(std::string_view id) const {
  std::vector<std::string_view> ids;
  for (const Feature& feature : data_.features) ids.push_back(feature.id);
  return index_of_word("feature", id, ids);
}

Schema Schema::only(std::span<const std::uint32_t> features) const {
  SchemaData data = data_;
  data.features.clear();
  for (const std::uint32_t position : features) {
    if (position >= size()) {
      fail(Errc::invalid_argument, "feature {} of schema '{}': it has {}", position, name(), size());
    }
    data.features.push_back(data_.features[position]);
  }
  for (std::uint32_t i = 0; i < size(); ++i) {  // the wanted features may use others
    if (std::ranges::find(features, i) == features.end()) data.terms.push_back(data_.features[i]);
  }
  return Schema(std::move(data));
}

Schema Schema::for_op(Op op) const {
  if (op == data_.op) return *this;
  if (!same_operation(op, data_.op)) {
    fail(Errc::invalid_argument, "schema '{}' is for {}, not for {}: choose another with --schema", name(),
         word(data_.op), word(op));
  }
  SchemaData data = data_;
  data.op = op;
  return Schema(std::move(data));
}

bool Schema::reads(std::string_view input) const noexcept {
  return std::ranges::find(program_->inputs(), input, &expr::Input::name) != program_->inputs().end();
}

std::vector<std::uint32_t> Schema::categorical() const {
  std::vector<std::uint32_t> positions;
  for (std::uint32_t i = 0; i < size(); ++i) {
    if (data_.features[i].categorical) positions.push_back(i);
  }
  return positions;
}

void Schema::evaluate(ProblemRef problem, const Device& device, const ConfigTable& configs,
                      std::span<const Traits> traits, std::span<double> out) const {
  if (!data_.requirements.empty()) check_configs(device, configs, traits);
  if (out.size() != configs.size() * size()) {
    fail(Errc::invalid_argument, "room for {} values; {} configs x {} features need {}", out.size(),
         configs.size(), size(), configs.size() * size());
  }
  if (!same_operation(problem.op(), data_.op))
    fail(Errc::unsupported, "{}: the formulas read problems of another operation", print(problem));
  if (!data_.requirements.empty()) check_problem(problem, device);
  expr::Inputs inputs = fixed_inputs(*program_, device, configs, traits);
  inputs.set("p", problem);
  expr::Scratch scratch;
  program_->evaluate(inputs.columns(), configs.size(), out.data(), size(), 1, scratch);
}

void Schema::check_problem(ProblemRef problem, const Device& device) const {
  expr::Inputs conditions(*requirements_);
  conditions.set("d", device);
  conditions.set("p", problem);
  const std::vector<double> holds = expr::values_of(*requirements_, conditions);
  for (std::size_t i = 0; i < holds.size(); ++i) {
    if (requirements_->depends(i).problem_only() && holds[i] == 0)
      refuse(data_, print(problem), data_.requirements[i].because);
  }
}

void Schema::evaluate(ProblemRef problem, const Device& device, const KernelConfig& config,
                      const Traits& traits, std::span<double> out) const {
  ConfigTable one(*config.space);
  one.push_back(config);
  evaluate(problem, device, one, std::span(&traits, 1), out);
}

void Schema::evaluate_problem(ProblemRef problem, const Device& device, std::span<double> out) const {
  if (out.size() != size()) fail(Errc::invalid_argument, "room for {} features; need {}", out.size(), size());
  expr::Inputs inputs(*program_);
  inputs.set("p", problem);
  inputs.set("d", device);
  const std::vector<double> all = expr::values_of(*program_, inputs);
  for (std::size_t i = 0; i < size(); ++i)
    out[i] = depends(i).problem_only() ? all[i] : std::numeric_limits<double>::quiet_NaN();
}

namespace {

/// Names a config for an error: the axes that have words, `?` for unknown values.
std::string known_words(const ConfigTable& configs, std::size_t row) {
  std::string text;
  const KernelConfig config = configs[row];
  for (std::size_t i = 0; i < configs.space().axes.size(); ++i) {
    const Axis& axis = configs.space().axes[i];
    if (axis.words.empty()) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis.name, axis_value_text(axis, config[i]));
  }
  return text;
}

}  // namespace

expr::Inputs Schema::fixed_inputs(const expr::Program& program, const Device& device,
                                  const ConfigTable& configs, std::span<const Traits> traits) const {
  if (traits.size() != configs.size()) {
    fail(Errc::invalid_argument, "{} traits for {} configs", traits.size(), configs.size());
  }
  expr::Inputs inputs(program);
  inputs.set("d", device);
  inputs.set_rows("t", traits);
  if (data_.provider.empty() || configs.empty()) return inputs;
  if (&configs.space() != &provider(data_.provider).space(data_.op)) {
    fail(Errc::invalid_argument, "schema '{}' reads the axes of provider '{}'; these configs are of '{}'",
         data_.name, data_.provider, configs.space().provider);
  }
  inputs.set_rows("c", configs);
  return inputs;
}

void Schema::check_configs(const Device& device, const ConfigTable& configs,
                           std::span<const Traits> traits) const {
  fixed_inputs(*program_, device, configs, traits);
  const std::size_t rows = configs.size();
  const auto inputs = fixed_inputs(*requirements_, device, configs, traits);
  const std::vector<double> holds = expr::values_of(*requirements_, inputs, rows);
  for (std::size_t i = 0; i < holds.size(); ++i) {
    if (!requirements_->depends(i / rows).problem_only() && holds[i] == 0)
      refuse(data_, "a config with " + known_words(configs, i % rows), data_.requirements[i / rows].because);
  }
}

expr::FewRows Schema::few_rows(const Device& device, const ConfigTable& configs,
                               std::span<const Traits> traits, std::span<const std::uint8_t> wanted) const {
  check_configs(device, configs, traits);
  expr::FewRows rows(*program_, fixed_inputs(*program_, device, configs, traits).columns(), configs.size(),
                     wanted);
  if (data_.requirements.empty()) return rows;
  expr::Inputs inputs(*requirements_);
  inputs.set("d", device);
  rows.require(*requirements_, inputs.columns());
  return rows;
}

std::string_view default_schema(Op op, std::string_view provider, DeviceKind kind) noexcept {
  return operation(op).schema(provider, kind);
}

std::string any_cpu_schema(Op op) { return fmt::format("{}_any_cpu", operation(op).space.operation); }

const Schema& analytic_schema(Op op, std::string_view provider) {
  static std::map<std::pair<Op, std::string>, Schema> compiled;
  const std::pair key(op, std::string(operation(op).schema(provider, DeviceKind::cpu)));
  {
    const std::lock_guard lock(compiling_schemas);
    if (const auto known = compiled.find(key); known != compiled.end()) return known->second;
  }
  const Schema whole = Schema::find(key.second).for_op(op);
  const std::array kept = {static_cast<std::uint32_t>(whole.index("analytic_time_us"))};
  const std::lock_guard lock(compiling_schemas);
  return compiled.emplace(key, whole.only(kept)).first->second;
}

}  // namespace kscout
