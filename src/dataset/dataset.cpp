#include "dataset/dataset.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "core/name_rules.h"
#include "dataset/columns.h"
#include "dataset/file_order.h"
#include "dataset/parquet.h"
#include "dataset/stream.h"
#include "family/declared.h"

namespace kscout {

namespace {

namespace fs = std::filesystem;
// Keys of the Parquet file's metadata.
constexpr const char* kVersionKey = "kscout.dataset_version";
constexpr const char* kOpKey = "kscout.op";
constexpr const char* kProviderKey = "kscout.provider";
constexpr const char* kDeclarationKey =
    "kscout.declaration";  // of a provider that the program does not have itself
constexpr const char* kDeviceKey = "kscout.device";
constexpr const char* kProvenanceKey = "kscout.provenance";
constexpr const char* kConfigOrderKey = "kscout.config_order";
constexpr const char* kUnitsKey = "kscout.units";

const ConfigSpace& space_of(const MeasurementTable& table) {
  if (table.configs.empty()) {
    fail(Errc::invalid_argument, "a dataset needs at least one config");
  }
  if (table.rows.empty())
    fail(Errc::invalid_argument, "a dataset needs at least one row: nothing was measured yet");
  return *table.configs.front().space;
}

Json parse_json(const std::string& text, const std::string& what) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) fail(Errc::corrupt_data, "{} is no JSON", what);
  return json;
}

std::map<std::string, std::string> file_metadata(const MeasurementTable& table, const ConfigSpace& space,
                                                 const std::vector<KernelConfig>& family_order) {
  Json order = Json::array();
  for (const KernelConfig& config : family_order) order.push_back(config_text(config));
  Json units = Json::object();
  for (const ColumnSpec& column : dataset_columns(space)) {
    if (column.unit != "1") units[column.name] = column.unit;
  }
  std::map<std::string, std::string> metadata = {
      {kVersionKey, std::to_string(kDatasetVersion)},
      {kOpKey, std::string(word(space.op))},
      {kProviderKey, std::string(space.provider)},
      {kDeviceKey, record_json(table.device).dump()},
      {kProvenanceKey, Json(table.metadata).dump(-1, ' ', false, Json::error_handler_t::replace)},
      {kConfigOrderKey, order.dump()},
      {kUnitsKey, units.dump()}};
  if (const auto declaration = declaration_of(space.provider); !declaration.empty())
    metadata[kDeclarationKey] = declaration;
  return metadata;
}

/// The checked header of a Parquet file.
struct Opened {
  Opened(const std::string& source, const ParquetHeader& header, const DatasetOptions& options)
      : source_(source), header_(header) {
    const std::string version = get(kVersionKey);
    if (version != "1" && version != std::to_string(kDatasetVersion)) {
      fail(Errc::unsupported, "{}: dataset version {} but this program reads 1 to {}; use a newer program",
           source, version, kDatasetVersion);
    }
    if (const auto declared = header.metadata.find(kDeclarationKey); declared != header.metadata.end())
      declare_if_unknown(get(kProviderKey), declared->second, source + ": the declaration");
    provider = &options.providers(get(kProviderKey));
    space = &provider->space(parse<Op>(get(kOpKey)));
    device = options.device ? *options.device
                            : device_from_json(parse_json(get(kDeviceKey), source + ": " + kDeviceKey),
                                               source + ": " + kDeviceKey);
    read_provenance();
  }

  const Provider* provider;
  const ConfigSpace* space;
  Device device;
  std::map<std::string, std::string> provenance;
  std::vector<std::string> config_order;

 private:
  std::string get(const char* key) const {
    const auto found = header_.metadata.find(key);
    if (found == header_.metadata.end()) {
      fail(Errc::corrupt_data,
           "{}: the file's metadata lack '{}'; another program may have written it: export it as CSV there "
           "and "
           "use `kscout dataset import`",
           source_, key);
    }
    return found->second;
  }

  void read_provenance() {
    const Json json = parse_json(get(kProvenanceKey), source_ + ": " + kProvenanceKey);
    for (const auto& [key, value] : json.items()) {
      if (!value.is_string())
        fail(Errc::corrupt_data, "{}: {}: '{}' is no text", source_, kProvenanceKey, key);
      provenance[key] = value.get<std::string>();
    }
    for (const auto& text : parse_json(get(kConfigOrderKey), source_ + ": " + kConfigOrderKey)) {
      if (!text.is_string())
        fail(Errc::corrupt_data, "{}: {}: not a list of texts", source_, kConfigOrderKey);
      config_order.push_back(text.get<std::string>());
    }
  }

  const std::string& source_;
  const ParquetHeader& header_;
};

/// The specs of a file's columns, in the file's order. Skips unknown names, which TableBuilder rejects.
std::vector<ColumnSpec> specs_in_order(const ConfigSpace& space, const std::vector<std::string>& names) {
  const auto all = dataset_columns(space);
  std::vector<ColumnSpec> specs;
  for (const auto& name : names) {
    for (const ColumnSpec& spec : all) {
      if (spec.name == name) specs.push_back(spec);
    }
  }
  return specs;
}

/// Any error in a file counts as corrupt data (exit code 4), also where a value breaks a rule of its own.
template <class Use>
auto as_corrupt_data(const fs::path& file, Use&& use) {
  try {
    return use();
  } catch (const Error& error) {
    if (error.code() != Errc::invalid_argument) throw;
    const std::string what = error.what();
    const bool named = what.starts_with(file.string());
    throw Error(Errc::corrupt_data, named ? what : file.string() + ": " + what);
  }
}

/// An open Parquet dataset.
struct OpenDataset {
  OpenDataset(const fs::path& file, const DatasetOptions& options, Repeats repeats)
      : source(file.string()), reader(source, source), opened(source, reader.header(), options) {
    specs = specs_in_order(*opened.space, reader.header().names);
    builder.emplace(source, *opened.provider, *opened.space, opened.device, reader.header().names,
                    Columns::all_required, repeats);
    builder->table().metadata = opened.provenance;
  }
  /// Adds the next rows to the builder; false at the end.
  bool next() {
    const auto block = reader.next(specs);
    if (block) builder->add(*block);
    return block.has_value();
  }
  /// A damaged number of rows must not ask for more memory than a file of this size fills.
  std::size_t stated_rows() const {
    const auto stated = static_cast<std::uintmax_t>(std::max<std::int64_t>(reader.header().rows, 0));
    return std::min(stated, fs::file_size(source));
  }

  std::string source;
  ParquetReader reader;
  Opened opened;
  std::vector<ColumnSpec> specs;
  std::optional<TableBuilder> builder;
};

MeasurementTable read_parquet_dataset(const fs::path& file, const DatasetOptions& options) {
  OpenDataset dataset(file, options, Repeats::refused);
  dataset.builder->table().rows.reserve(dataset.stated_rows());
  while (dataset.next()) {
  }
  return dataset.builder->finish(dataset.opened.config_order);
}

void check_is_file(const fs::path& file) {
  if (fs::is_directory(file))
    fail(Errc::not_found, "{0}: a folder; name the dataset files in it, such as {0}/*.parquet",
         file.string());
  if (!fs::is_regular_file(file)) fail(Errc::not_found, "{}: no such dataset file", file.string());
}

}  // namespace

bool is_csv_dataset(const fs::path& file) { return file.extension() == ".csv"; }

MeasurementTable read_dataset(const fs::path& file, const DatasetOptions& options) {
  check_is_file(file);
  return as_corrupt_data(file, [&] {
    return is_csv_dataset(file) ? parse_dataset_csv(read_file(file), file.string(), options)
                                : read_parquet_dataset(file, options);
  });
}

struct RowStream::State {
  State(const fs::path& named, const DatasetOptions& options)
      : file(named), dataset(named, options, Repeats::left_to_caller) {}
  fs::path file;
  OpenDataset dataset;
};

RowStream::RowStream(const fs::path& file, const DatasetOptions& options) {
  check_is_file(file);
  state_ = as_corrupt_data(file, [&] { return std::make_unique<State>(file, options); });
}
RowStream::RowStream(RowStream&&) noexcept = default;
RowStream::~RowStream() = default;

bool RowStream::next() {
  state_->dataset.builder->table().rows.clear();
  return as_corrupt_data(state_->file, [&] { return state_->dataset.next(); });
}

std::size_t RowStream::stated_rows() const { return state_->dataset.stated_rows(); }

const MeasurementTable& RowStream::table() const noexcept { return state_->dataset.builder->table(); }

std::vector<std::uint32_t> RowStream::family_places() const {
  return kscout::family_places(table().configs, state_->dataset.opened.config_order);
}

const Provider& RowStream::provider() const noexcept { return *state_->dataset.opened.provider; }

namespace {

std::vector<ColumnSpec> written_columns(const ConfigSpace& space, const DatasetOptions& options) {
  std::vector<ColumnSpec> columns = dataset_columns(space);
  if (!options.derived) columns.resize(columns.size() - kDerivedColumns);
  return columns;
}

}  // namespace

DatasetWriter::DatasetWriter(const fs::path& file, const ConfigSpace& space, const DatasetOptions& options)
    : space_(space),
      provider_(options.providers(space.provider)),
      group_rows_(options.group_rows),
      columns_(written_columns(space, options)),
      file_(file),
      writer_(columns_, [this](std::string_view bytes) { file_.write(bytes); }) {}

void DatasetWriter::write_groups(MeasurementTable& table, std::size_t group_rows, bool all) {
  const auto rows = std::exchange(table.rows, {});
  std::size_t begin = 0;
  while (all ? begin < rows.size() || !begun_ : begin + group_rows <= rows.size()) {
    const std::size_t end = std::min(begin + group_rows, rows.size());
    table.rows.assign(rows.begin() + static_cast<std::ptrdiff_t>(begin),
                      rows.begin() + static_cast<std::ptrdiff_t>(end));
    Block block = make_block(table, provider_, space_);
    block.columns.resize(columns_.size());
    writer_.add(std::move(block));
    begun_ = true;
    begin = end;
  }
  table.rows.assign(rows.begin() + static_cast<std::ptrdiff_t>(begin), rows.end());
}

void DatasetWriter::take_groups(MeasurementTable& table) {
  const std::size_t limit = begun_ ? group_rows_ : 4 * group_rows_;
  if (table.rows.size() > limit) write_groups(table, group_rows_, /*all=*/false);
}

void DatasetWriter::finish(MeasurementTable& table, const std::vector<KernelConfig>& family_order) {
  take_groups(table);
  write_groups(table, begun_ ? group_rows_ : 4 * group_rows_, /*all=*/true);
  writer_.finish(file_metadata(table, space_, family_order));
  file_.commit();
}

void write_dataset(const fs::path& file, const MeasurementTable& table, const DatasetOptions& options) {
  const ConfigSpace& space = space_of(table);
  if (is_csv_dataset(file)) return write_file_atomically(file, dataset_csv(table, options));
  MeasurementTable sorted = rows_in_file_order(table, options.providers(space.provider));
  DatasetWriter(file, space, options).finish(sorted, table.configs);
}

}  // namespace kscout
