#include "dataset/columns.h"

#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "core/max_tflops.h"
#include "core/names.h"
#include "op/operation.h"
#include "provider/joint.h"

namespace kscout {

namespace {

// Positions of the fixed columns among the specs; fields and axes lie between them.
constexpr std::size_t kOp = 0, kProvider = 1, kDevice = 2, kProblem = 3;

/// Calls use(field, position in the problem) for the fields with a column of their own: the op is stored once
/// per file.
template <class F>
void for_each_problem_field(const ConfigSpace& space, F&& use) {
  const auto fields = problem_space(space.op).fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name != "op") use(fields[i], i);
  }
}

std::size_t config_at(const ConfigSpace& space) {
  std::size_t columns = 0;
  for_each_problem_field(space, [&](const ProblemField&, std::size_t) { ++columns; });
  return kProblem + columns;
}
std::size_t axes_at(const ConfigSpace& space) { return config_at(space) + 1; }
std::size_t measurement_at(const ConfigSpace& space) { return axes_at(space) + space.axes.size(); }
std::size_t derived_at(const ConfigSpace& space) { return measurement_at(space) + field_count<Measurement>; }

ColumnType column_type(FieldType type) {
  constexpr ColumnType kTypes[] = {ColumnType::int64, ColumnType::boolean, ColumnType::text,
                                   ColumnType::float64, ColumnType::text};
  return kTypes[static_cast<std::size_t>(type)];
}

template <class V>
constexpr ColumnType column_type() {
  if constexpr (std::is_same_v<V, bool>) {
    return ColumnType::boolean;
  } else if constexpr (WordEnum<V>) {
    return ColumnType::text;
  } else if constexpr (std::is_floating_point_v<V>) {
    return ColumnType::float64;
  } else {
    return sizeof(V) == 8 ? ColumnType::int64 : ColumnType::int32;
  }
}

/// A column with `rows` copies of one word.
ColumnValues constant_text(std::string_view word, std::size_t rows) {
  ColumnValues values;
  values.words = {std::string(word)};
  values.index.assign(rows, 0);
  return values;
}

/// A column of the values of `value(row)`.
template <class F>
ColumnValues make_column(std::size_t rows, F&& value) {
  using V = std::remove_cvref_t<decltype(value(std::size_t{0}))>;
  ColumnValues values;
  if constexpr (WordEnum<V>) {
    values.words.assign(EnumWords<V>::words.begin(), EnumWords<V>::words.end());
    values.index.resize(rows);
    for (std::size_t r = 0; r < rows; ++r) values.index[r] = static_cast<std::int32_t>(value(r));
  } else if constexpr (std::is_floating_point_v<V>) {
    values.number.resize(rows);
    for (std::size_t r = 0; r < rows; ++r) values.number[r] = value(r);
  } else {
    values.whole.resize(rows);
    for (std::size_t r = 0; r < rows; ++r) values.whole[r] = static_cast<std::int64_t>(value(r));
  }
  return values;
}

/// The texts of the problems' lists.
ColumnValues make_list_column(const MeasurementTable& table) {
  ColumnValues values;
  for (const Problem& problem : table.problems) values.words.push_back(size_list_text(problem.list()));
  for (const auto& row : table.rows) values.index.push_back(static_cast<std::int32_t>(row.problem));
  return values;
}

/// The column of one field of the problems.
ColumnValues make_problem_column(const MeasurementTable& table, const ProblemField& field, std::size_t at) {
  const auto value = [&](std::size_t r) { return table.problems[table.rows[r].problem][at]; };
  if (field.type == FieldType::real)
    return make_column(table.rows.size(), [&](std::size_t r) { return number_of(field, value(r)); });
  if (field.type == FieldType::list) return make_list_column(table);
  ColumnValues values = make_column(table.rows.size(), value);
  if (field.type == FieldType::word) {
    values.words.assign(field.words.begin(), field.words.end());
    values.index.assign(values.whole.begin(), values.whole.end());
    values.whole.clear();
  }
  return values;
}

ColumnValues make_axis_column(const MeasurementTable& table, const Axis& axis, std::size_t at) {
  ColumnValues values;
  const auto value = [&](std::size_t r) { return table.configs[table.rows[r].config][at]; };
  if (axis.words.empty()) {
    return make_column(table.rows.size(), [&](std::size_t r) {
      return value(r) == KernelConfig::unknown ? ColumnValues::null_whole : std::int64_t{value(r)};
    });
  }
  values.words.assign(axis.words.begin(), axis.words.end());
  values.index.resize(table.rows.size());
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    axis_value_text(axis, value(r));  // throws when the value has no word
    values.index[r] = value(r) == KernelConfig::unknown ? ColumnValues::null_word : value(r);
  }
  return values;
}

bool is_needed(const ConfigSpace& space, std::string_view name) {
  const auto needed = operation(space.op).needed_sizes;
  return std::ranges::find(needed, name) != needed.end();
}

bool close(double a, double b) { return std::fabs(a - b) <= 1e-9 * std::fabs(b); }

}  // namespace

bool was_timed(const Measurement& measured) noexcept {
  return (measured.status == Status::ok || measured.status == Status::pruned_early) &&
         std::isfinite(measured.time_us) && measured.time_us > 0;
}

std::vector<ColumnSpec> dataset_columns(const ConfigSpace& space) {
  std::vector<ColumnSpec> specs = {
      {"op", "1", "operation"},
      {"provider", "1", "who describes the kernel"},
      {"device", "1", "name of the device; its facts stand in the file's metadata"},
  };
  for_each_problem_field(space, [&](const ProblemField& field, std::size_t) {
    specs.push_back(
        {std::string(field.name), std::string(field.unit), std::string(field.help), column_type(field.type)});
  });
  specs.push_back({"config", "1", "the kernel's name, as its provider prints it"});
  for (const Axis& axis : space.axes) {
    specs.push_back({std::string(kAxisPrefix) + std::string(axis.name), std::string(axis.unit),
                     std::string(axis.help), axis.words.empty() ? ColumnType::int32 : ColumnType::text,
                     /*nullable=*/true});
  }
  for_each_field<Measurement>([&](const auto& field) {
    using V = typename std::remove_cvref_t<decltype(field)>::value;
    specs.push_back({std::string(field.name), std::string(field.unit), std::string(field.help),
                     column_type<V>(), std::is_floating_point_v<V>});
  });
  specs.push_back({"tflops", "TFLOPS",
                   "10^12 operations per second: flop_count / time_us; ok and raced (pruned early) rows",
                   ColumnType::float64, true});
  specs.push_back(
      {"gb_s", "GB/s",
       "10^9 bytes per second: inputs read once, the output written once; ok and raced (pruned early) rows",
       ColumnType::float64, true});
  return specs;
}

double tflops_of(ProblemRef problem, const Measurement& measured) noexcept {
  return was_timed(measured) ? flop_count(problem) / measured.time_us / 1e6 : Measurement::unknown;
}

double gb_s_of(ProblemRef problem, const Measurement& measured) noexcept {
  return was_timed(measured) ? min_bytes(problem) / measured.time_us / 1e3 : Measurement::unknown;
}

std::string config_text(const KernelConfig& config) {
  std::string text;
  for (std::size_t i = 0; i < config.space->axes.size(); ++i) {
    text += (i ? "," : "") + axis_value_text(config.space->axes[i], config[i]);
  }
  return text;
}

ProblemSignatures signatures_of(std::span<const Problem> problems) {
  ProblemSignatures distinct;
  for (const Problem& problem : problems) {
    const Signature signature = signature_of(problem);
    const auto found = std::ranges::find(distinct.signatures, signature);
    distinct.of_problem.push_back(static_cast<std::uint32_t>(found - distinct.signatures.begin()));
    if (found == distinct.signatures.end()) distinct.signatures.push_back(signature);
  }
  return distinct;
}

ColumnValues kernel_names(const MeasurementTable& table, const Provider& provider) {
  const auto [signatures, of_problem] = signatures_of(table.problems);
  ColumnValues values;
  std::unordered_map<std::uint64_t, std::int32_t> known;
  for (const auto& row : table.rows) {
    const std::uint64_t key = (std::uint64_t{of_problem[row.problem]} << 32) | row.config;
    const auto [at, is_new] = known.try_emplace(key, static_cast<std::int32_t>(values.words.size()));
    if (is_new) {
      values.words.push_back(provider.print(signatures[of_problem[row.problem]], table.configs[row.config]));
    }
    values.index.push_back(at->second);
  }
  return values;
}

Block make_block(const MeasurementTable& table, const Provider& provider, const ConfigSpace& space) {
  for (const KernelConfig& config : table.configs) {
    if (config.space != &space) {
      fail(Errc::invalid_argument,
           "a dataset holds configs of one provider, not of {} and {}: write one file each", space.provider,
           config.space ? config.space->provider : "none");
    }
  }
  const std::size_t rows = table.rows.size();
  Block block{rows, {}};
  auto& columns = block.columns;
  columns.push_back(constant_text(word(space.op), rows));
  columns.push_back(constant_text(space.provider, rows));
  columns.push_back(constant_text(table.device.name, rows));
  for_each_problem_field(space, [&](const ProblemField& field, std::size_t at) {
    columns.push_back(make_problem_column(table, field, at));
  });
  columns.push_back(kernel_names(table, provider));
  for (std::size_t axis = 0; axis < space.axes.size(); ++axis) {
    columns.push_back(make_axis_column(table, space.axes[axis], axis));
  }
  for_each_field<Measurement>([&](const auto& field) {
    columns.push_back(make_column(rows, [&](std::size_t r) { return table.rows[r].measured.*field.member; }));
  });
  const auto derived = [&](auto&& of) {
    columns.push_back(make_column(rows, [&](std::size_t r) {
      return of(table.problems[table.rows[r].problem], table.rows[r].measured);
    }));
  };
  derived(tflops_of);
  derived(gb_s_of);
  return block;
}

TableBuilder::TableBuilder(std::string source, const Provider& provider, const ConfigSpace& space,
                           Device device, std::span<const std::string> names, Columns required,
                           Repeats repeats)
    : source_(std::move(source)),
      provider_(provider),
      space_(space),
      repeats_(repeats),
      specs_(dataset_columns(space)),
      order_(table_, provider) {
  table_.device = std::move(device);
  check_names(names, required);
}

void TableBuilder::bad(std::size_t row, std::string_view column, const std::string& what) const {
  fail(Errc::corrupt_data, "{}: row {}, column '{}': {}", source_, rows_before_ + row + 1, column, what);
}

void TableBuilder::check_names(std::span<const std::string> names, Columns required) {
  std::vector<std::string_view> valid;
  for (const ColumnSpec& spec : specs_) valid.push_back(spec.name);
  position_.assign(specs_.size(), -1);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto at = find_word(names[i], valid);
    if (!at)
      throw Error(Errc::corrupt_data, source_ + ": " + unknown_name_message("column", names[i], valid));
    if (position_[*at] >= 0) {
      fail(Errc::corrupt_data, "{}: column '{}' appears twice; remove one", source_, names[i]);
    }
    position_[*at] = static_cast<int>(i);
  }
  has_axes_ = space_.axes.empty() || position_[axes_at(space_)] >= 0;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const std::string& name = specs_[i].name;
    const bool axis = i >= axes_at(space_) && i < measurement_at(space_);
    // A joint family may have got members since, with axes of their own.
    const bool of_later_member = axis && i > axes_at(space_) && !space_.members.empty();
    if (of_later_member && position_[i] < 0) continue;
    const bool needed =
        (required == Columns::all_required && i < derived_at(space_) && !is_later_column(name)) ||
        (axis ? has_axes_ : is_needed(space_, name) || name == "time_us" || (name == "config" && !has_axes_));
    if (needed && position_[i] < 0) {
      fail(Errc::corrupt_data,
           "{}: column '{}' ({}) is missing; columns are listed in docs/formats/dataset.md", source_, name,
           specs_[i].help);
    }
    if (axis && !has_axes_ && position_[i] >= 0) {
      fail(Errc::corrupt_data, "{}: column '{}' is missing; give all axes, or none and the column 'config'",
           source_, specs_[axes_at(space_)].name);
    }
  }
}

std::vector<const ColumnValues*> TableBuilder::by_spec(const Block& block) const {
  std::vector<const ColumnValues*> columns;
  for (const int position : position_) {
    columns.push_back(position < 0 ? nullptr : &block.columns[static_cast<std::size_t>(position)]);
  }
  return columns;
}

std::int64_t TableBuilder::read_whole(const ColumnValues& column, std::string_view name,
                                      std::size_t row) const {
  const std::int64_t value = column.whole[row];
  if (value == ColumnValues::null_whole) bad(row, name, "is null");
  return value;
}

std::size_t TableBuilder::read_word(const ColumnValues& column, std::string_view name, std::string_view what,
                                    std::span<const std::string_view> words, std::size_t row) const {
  const std::int32_t at = column.index[row];
  if (at == ColumnValues::null_word) bad(row, name, "is null");
  try {
    return parse_word(what, column.words[static_cast<std::size_t>(at)], words);
  } catch (const Error& error) {
    bad(row, name, error.what());
  }
}

SizeList TableBuilder::read_list(const ColumnValues& column, std::string_view name, std::size_t row) const {
  const std::int32_t at = column.index[row];
  if (at == ColumnValues::null_word) bad(row, name, "is null");
  try {
    return parse_size_list(column.words[static_cast<std::size_t>(at)]);
  } catch (const Error& error) {
    bad(row, name, error.what());
  }
}

Measurement TableBuilder::read_measurement(std::size_t row) const {
  Measurement measured;
  std::size_t at = measurement_at(space_);
  for_each_field<Measurement>([&](const auto& field) {
    const ColumnValues* const column = current_[at++];
    if (!column) return;
    auto& to = measured.*field.member;
    using V = std::remove_cvref_t<decltype(to)>;
    if constexpr (WordEnum<V>) {
      to = static_cast<V>(read_word(*column, field.name, EnumWords<V>::what, EnumWords<V>::words, row));
    } else if constexpr (std::is_floating_point_v<V>) {
      to = column->number[row];
    } else {
      to = static_cast<V>(read_whole(*column, field.name, row));
    }
  });
  return measured;
}

void TableBuilder::check_constants(std::size_t row) const {
  const auto expect = [&](std::size_t spec, std::string_view wanted, std::string_view remedy) {
    const ColumnValues* const column = current_[spec];
    if (!column) return;
    const std::int32_t at = column->index[row];
    const std::string_view found = at == ColumnValues::null_word
                                       ? "null"
                                       : std::string_view(column->words[static_cast<std::size_t>(at)]);
    if (found != wanted) {
      bad(row, specs_[spec].name, fmt::format("'{}' where the file holds '{}'; {}", found, wanted, remedy));
    }
  };
  expect(kOp, word(space_.op), "keep one op per file");
  expect(kProvider, space_.provider, "keep one provider per file");
  expect(kDevice, table_.device.name, "keep one device per file");
}

const std::string& TableBuilder::name_at(std::size_t row) {
  const std::int32_t at = current_[config_at(space_)]->index[row];
  if (at == ColumnValues::null_word) bad(row, "config", "is null");
  return current_[config_at(space_)]->words[static_cast<std::size_t>(at)];
}

KernelConfig TableBuilder::read_config(std::size_t row, const Problem& problem) {
  KernelConfig config(space_);
  if (!has_axes_) {
    const std::string& name = name_at(row);
    auto known = parsed_names_.find(name);
    try {
      if (known == parsed_names_.end()) known = parsed_names_.emplace(name, provider_.parse(name)).first;
    } catch (const Error& error) {
      bad(row, "config", error.what());
    }
    if (known->second.signature != signature_of(problem)) {
      bad(row, "config",
          fmt::format("'{}' has other types or layouts than its problem {}", name, print(problem)));
    }
    return known->second.config;
  }
  for (std::size_t axis = 0; axis < space_.axes.size(); ++axis) {
    const Axis& description = space_.axes[axis];
    if (!current_[axes_at(space_) + axis]) {
      if (!is_absent_in_member(config, axis))
        bad(row, specs_[axes_at(space_) + axis].name, "the column is missing, and the config has this axis");
      config[axis] = 0;
      continue;
    }
    const ColumnValues& column = *current_[axes_at(space_) + axis];
    if (description.words.empty()) {
      const std::int64_t value = column.whole[row];
      config[axis] =
          value == ColumnValues::null_whole ? KernelConfig::unknown : static_cast<std::int32_t>(value);
      continue;
    }
    const std::int32_t at = column.index[row];
    if (at == ColumnValues::null_word) continue;
    try {
      config[axis] = parse_axis_value(description, column.words[static_cast<std::size_t>(at)]);
    } catch (const Error& error) {
      bad(row, specs_[axes_at(space_) + axis].name, error.what());
    }
  }
  return config;
}

void TableBuilder::check_name(std::size_t row, const Problem& problem, std::uint32_t config) {
  const KernelConfig& value = table_.configs[config];
  if (!has_axes_ || !current_[config_at(space_)]) return;
  const std::string& name = name_at(row);
  const Signature signature = signature_of(problem);
  std::string key = fmt::format("{} {} {}", fields_hash(signature), config, name);
  if (!checked_names_.insert(std::move(key)).second) return;
  // A name from elsewhere may leave axes out; only a complete config has one name.
  const auto axes = std::span(value.value).first(space_.axes.size());
  if (std::ranges::find(axes, KernelConfig::unknown) != axes.end()) return;
  std::string expected;
  try {
    expected = provider_.print(signature, value);
  } catch (const Error& error) {
    bad(row, "config", error.what());
  }
  if (expected != name) {
    bad(row, "config", fmt::format("'{}' does not match the axes, which give '{}'", name, expected));
  }
}

std::uint32_t TableBuilder::problem_id(const Problem& problem, std::size_t row) {
  const auto [at, is_new] =
      problem_ids_.try_emplace(problem, static_cast<std::uint32_t>(table_.problems.size()));
  if (is_new) {
    try {
      check(problem);
    } catch (const Error& error) {
      bad(row, specs_[kProblem].name, error.what());
    }
    table_.problems.push_back(problem);
  } else if (const double weight = table_.problems[at->second].weight(); weight != problem.weight()) {
    bad(row, "weight",
        fmt::format("{} where an earlier row of the same problem has {}; give it one weight",
                    problem.weight(), weight));
  }
  return at->second;
}

std::uint32_t TableBuilder::config_id(const KernelConfig& config) {
  const auto [at, is_new] =
      config_ids_.try_emplace(config, static_cast<std::uint32_t>(table_.configs.size()));
  if (is_new) table_.configs.push_back(config);
  return at->second;
}

void TableBuilder::check_measurement(const Measurement& m, std::size_t row) const {
  const bool timed = m.status == Status::ok || m.status == Status::pruned_early;
  if (timed && !std::isfinite(m.time_us)) {
    bad(row, "time_us",
        fmt::format("{} in a row with status '{}'; a row without a time needs another status", m.time_us,
                    word(m.status)));
  }
  if (m.time_us < kMinTimeUs)
    bad(row, "time_us", fmt::format("{}: must be above 0, at least {} us", m.time_us, kMinTimeUs));
  if (m.pass != 1 && m.pass != 2) bad(row, "pass", fmt::format("{}: must be 1 or 2", m.pass));
  if (m.repeats < 0) bad(row, "repeats", fmt::format("{}: must be at least 0", m.repeats));
  if (m.spread < 0 || std::isinf(m.spread)) {
    bad(row, "spread", fmt::format("{}: must be finite and at least 0", m.spread));
  }
  if (m.setup_us < 0 || std::isinf(m.setup_us))
    bad(row, "setup_us", fmt::format("{}: must be finite and at least 0", m.setup_us));
  if (m.workspace_bytes < 0 || std::isinf(m.workspace_bytes))
    bad(row, "workspace_bytes", fmt::format("{}: must be finite and at least 0", m.workspace_bytes));
  if (m.error < 0) bad(row, "error", fmt::format("{}: must be at least 0", m.error));
}

void TableBuilder::check_derived(const Problem& problem, const Measurement& measured, std::size_t row) const {
  const auto expect = [&](std::size_t spec, double wanted) {
    if (!current_[spec]) return;
    const double found = current_[spec]->number[row];
    if (same_value(found, wanted) || close(found, wanted)) return;
    bad(row, specs_[spec].name,
        fmt::format("{} but sizes, status and time_us give {}; write the row again from its time", found,
                    wanted));
  };
  const std::size_t first = derived_at(space_);
  expect(first, tflops_of(problem, measured));
  expect(first + 1, gb_s_of(problem, measured));
}

Problem TableBuilder::read_problem(std::size_t row) const {
  Problem problem = operation(space_.op).make(space_.op);
  std::size_t spec = kProblem;
  for_each_problem_field(space_, [&](const ProblemField& field, std::size_t at) {
    const ColumnValues* const column = current_[spec++];
    if (!column || field.role == FieldRole::derived) return;
    if (field.type == FieldType::list) {
      problem.set_list(at, read_list(*column, field.name, row));
    } else if (field.type == FieldType::word) {
      const std::size_t word = read_word(*column, field.name, field.what, field.words, row);
      problem.set(at, static_cast<std::int64_t>(word));
    } else if (field.type == FieldType::real) {
      problem.set(at, std::bit_cast<std::int64_t>(column->number[row]));
    } else {
      const std::int64_t value = read_whole(*column, field.name, row);
      problem.set(at, field.type == FieldType::flag ? value != 0 : value);
    }
  });
  operation(space_.op).derive(problem);
  return problem;
}

void TableBuilder::read_row(std::size_t row) {
  check_constants(row);
  const Problem problem = read_problem(row);
  const Measurement measured = read_measurement(row);
  check_measurement(measured, row);
  const std::uint32_t problem_at = problem_id(problem, row);
  const std::uint32_t config_at = config_id(read_config(row, problem));
  check_name(row, problem, config_at);
  check_derived(problem, measured, row);
  const MeasurementTable::Row added{problem_at, config_at, measured};
  if (repeats_ == Repeats::refused) check_repeat(added, row);
  table_.rows.push_back(added);
}

void TableBuilder::check_repeat(const MeasurementTable::Row& added, std::size_t row) {
  const auto key_of = [](const MeasurementTable::Row& of) {
    return (std::uint64_t{of.problem} << 32) | (of.config << 2) |
           static_cast<std::uint32_t>(of.measured.pass);
  };
  if (ascending_ && is_complete(table_.configs[added.config])) {
    try {
      const FileOrder::Place place = order_.place(added);
      if (!last_ || order_.compare(*last_, place) < 0) {
        last_ = place;
        return;
      }
    } catch (const NotInFileOrder&) {
    }
  }
  if (ascending_) {
    ascending_ = false;
    for (std::size_t r = 0; r < table_.rows.size(); ++r) first_row_.emplace(key_of(table_.rows[r]), r + 1);
  }
  const auto [first, is_new] = first_row_.try_emplace(key_of(added), rows_before_ + row + 1);
  if (!is_new) {
    bad(row, "config",
        fmt::format("row {} has the same problem, config and pass; keep one of them", first->second));
  }
}

void TableBuilder::add(const Block& block) {
  current_ = by_spec(block);
  for (std::size_t row = 0; row < block.rows; ++row) read_row(row);
  rows_before_ += block.rows;
}

std::vector<std::uint32_t> family_places(std::span<const KernelConfig> configs,
                                         const std::vector<std::string>& config_order) {
  std::unordered_map<std::string_view, std::size_t> known;
  for (std::size_t i = 0; i < config_order.size(); ++i) known.emplace(config_order[i], i);
  // A list may be older than the last members of a joint family, and then ends before the axes of those.
  const auto stated = config_order.empty() ? 0 : std::ranges::count(config_order[0], ',') + 1;
  const auto text_of = [&](const KernelConfig& config) {
    std::string text = config_text(config);
    for (std::size_t axis = config.space->axes.size(); axis-- > static_cast<std::size_t>(stated);) {
      if (!is_absent_in_member(config, axis)) break;
      text.resize(text.rfind(','));
    }
    return text;
  };
  std::vector<std::pair<std::size_t, std::uint32_t>> order;
  for (std::uint32_t i = 0; i < configs.size(); ++i) {
    const auto found = known.find(text_of(configs[i]));
    order.emplace_back(found == known.end() ? config_order.size() : found->second, i);
  }
  std::ranges::sort(order);
  std::vector<std::uint32_t> places(order.size());
  for (std::uint32_t place = 0; place < order.size(); ++place) places[order[place].second] = place;
  return places;
}

MeasurementTable TableBuilder::finish(const std::vector<std::string>& config_order) {
  const std::vector<std::uint32_t> places = family_places(table_.configs, config_order);
  std::vector<KernelConfig> configs(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) configs[places[i]] = table_.configs[i];
  table_.configs = std::move(configs);
  for (auto& row : table_.rows) row.config = places[row.config];
  return std::move(table_);
}

}  // namespace kscout
