#include "dataset/compact_table.h"

#include <numeric>
#include <tuple>
#include <unordered_map>

#include "core/fail.h"
#include "dataset/stream.h"

namespace kscout {

namespace {

void check_sizes(std::size_t rows, std::size_t configs) {
  if (rows > CompactTable::max_rows || configs > CompactTable::max_configs)
    fail(Errc::invalid_argument, "{} rows and {} configs in one table: at most {} and {}; split the dataset",
         rows, configs, CompactTable::max_rows, CompactTable::max_configs);
}

}  // namespace

CompactTable::CompactTable(const MeasurementTable& table)
    : device(table.device), problems(table.problems), configs(table.configs), metadata(table.metadata) {
  check_sizes(table.rows.size(), configs.size());
  rows_.reserve(table.rows.size());
  for (const MeasurementTable::Row& row : table.rows) add(row);
  sort_rows();
}

void CompactTable::add(const MeasurementTable::Row& row) {
  const Measurement& m = row.measured;
  Row added{};
  added.time_us = m.time_us;
  added.problem = row.problem;
  added.config = row.config & (max_configs - 1);
  added.status = static_cast<std::uint32_t>(m.status) & 15U;
  added.pass = static_cast<std::uint32_t>(m.pass) & 3U;
  added.cache = static_cast<std::uint32_t>(m.cache) & 1U;
  added.noisy = m.noisy;
  added.repeats = m.repeats;
  added.number = static_cast<std::uint32_t>(rows_.size());
  if (added.number % 64 == 0) with_spread_.push_back({0, spreads_.size()});
  if (m.status == Status::ok) {
    with_spread_.back().bits |= std::uint64_t{1} << added.number % 64;
    spreads_.push_back(m.spread);
  }
  rows_.push_back(added);
  if (m.setup_us >= 0) setups_.push_back({row.problem, row.config, m.setup_us});
}

bool CompactTable::sort_rows() {
  const auto key = [](const Row& row) {
    return (std::uint64_t{row.problem} << 32) | (std::uint64_t{row.config} << 2) | (3U - row.pass);
  };
  std::ranges::sort(rows_, {}, key);
  find_first_rows();
  return std::ranges::adjacent_find(rows_, {}, key) == rows_.end();
}

void CompactTable::find_first_rows() {
  first_.assign(problems.size() + 1, 0);
  for (const Row& row : rows_) ++first_[row.problem + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
}

std::vector<FinalRow> CompactTable::final_rows(std::size_t problem) const {
  std::vector<FinalRow> rows;
  for_each_final(problem, [&](std::uint32_t config, const Measurement& measured) {
    rows.push_back({config, measured});
  });
  return rows;
}

std::optional<Measurement> CompactTable::final_row(std::size_t problem, std::uint32_t config) const {
  const std::span rows(rows_.data() + first_[problem], rows_.data() + first_[problem + 1]);
  const auto found = std::ranges::lower_bound(rows, config, {}, [](const Row& row) { return row.config; });
  if (found == rows.end() || found->config != config) return std::nullopt;
  return at(*found);
}

void CompactTable::keep_rows(const std::function<bool(std::uint32_t problem, std::uint32_t config)>& keep) {
  const auto dropped = [&](const auto& row) { return !keep(row.problem, row.config); };
  std::erase_if(rows_, dropped);
  std::erase_if(setups_, dropped);
  find_first_rows();
}

void CompactTable::keep_problems(const std::function<bool(const Problem&)>& keep) {
  std::vector<std::uint32_t> moved(problems.size(), 0);
  std::vector<bool> kept(problems.size());
  std::uint32_t end = 0;
  for (std::size_t p = 0; p < problems.size(); ++p) {
    if (!keep(problems[p])) continue;
    kept[p] = true;
    moved[p] = end;
    if (end != p) problems[end] = std::move(problems[p]);
    ++end;
  }
  problems.erase(problems.begin() + end, problems.end());
  const auto renumber = [&](auto& rows) {
    std::erase_if(rows, [&](const auto& row) { return !kept[row.problem]; });
    for (auto& row : rows) row.problem = moved[row.problem];
  };
  renumber(rows_);
  renumber(setups_);
  find_first_rows();
}

CompactTable CompactTable::of_problems(const std::function<bool(const Problem&)>& keep) const {
  CompactTable part;
  part.device = device;
  part.configs = configs;
  part.metadata = metadata;
  std::vector<std::optional<std::uint32_t>> moved(problems.size());
  std::vector<Row> rows;
  for (std::size_t p = 0; p < problems.size(); ++p) {
    if (!keep(problems[p])) continue;
    moved[p] = static_cast<std::uint32_t>(part.problems.size());
    part.problems.push_back(problems[p]);
    rows.insert(rows.end(), rows_.begin() + static_cast<std::ptrdiff_t>(first_[p]),
                rows_.begin() + static_cast<std::ptrdiff_t>(first_[p + 1]));
  }
  std::ranges::sort(rows, {}, &Row::number);
  part.rows_.reserve(rows.size());
  for (const Row& row : rows) part.add({*moved[row.problem], row.config, at(row)});
  for (const Setup& setup : setups_) {
    if (const auto problem = moved[setup.problem])
      part.setups_.push_back({*problem, setup.config, setup.setup_us});
  }
  part.sort_rows();
  return part;
}

bool in_one_space(std::span<CompactTable> tables) {
  std::vector<MeasurementTable> heads = heads_of(tables);
  const bool one = in_one_space(std::span(heads));
  for (std::size_t t = 0; t < tables.size() && one; ++t) tables[t].configs = std::move(heads[t].configs);
  return one;
}

std::vector<MeasurementTable> heads_of(std::span<const CompactTable> tables) {
  std::vector<MeasurementTable> heads;
  for (const CompactTable& table : tables)
    heads.push_back({table.device, {}, table.configs, {}, table.metadata});
  return heads;
}

/// Collects the rows of files. Problems and configs are in the order of merge().
class CompactReader {
 public:
  explicit CompactReader(const DatasetOptions& options) : options_(options) {}

  /// Nothing when a row is there twice.
  std::optional<CompactTable> read(std::span<const std::string> files) {
    std::vector<RowStream> streams;
    std::size_t rows = 0;
    for (const std::string& file : files) rows += streams.emplace_back(file, options_).stated_rows();
    table_.rows_.reserve(rows);
    std::vector<MeasurementTable> heads;  // without problems and rows
    std::vector<End> begins;              // of each file
    for (RowStream& opened : streams) {
      begins.push_back(end());
      RowStream stream = std::move(opened);
      heads.push_back(add_rows(stream));
      check_same_device(heads.front().device, heads.back().device);
    }
    begins.push_back(end());
    const ConfigSpace* const space = common_space(heads);
    for (std::size_t f = 0; f < heads.size(); ++f) {
      const std::vector<std::uint32_t> config_of = add_configs(heads[f].configs, space);
      renumber_configs(begins[f], begins[f + 1], config_of);
    }
    table_.device = heads.front().device;
    table_.metadata = heads.size() == 1 ? heads.front().metadata : merge_metadata(heads);
    if (!table_.sort_rows()) return std::nullopt;
    return std::move(table_);
  }

 private:
  /// The numbers of rows and of set-up times so far.
  struct End {
    std::size_t rows, setups;
  };
  End end() const { return {table_.rows_.size(), table_.setups_.size()}; }

  void renumber_configs(const End& begin, const End& end, std::span<const std::uint32_t> to) {
    for (std::size_t r = begin.rows; r < end.rows; ++r) {
      CompactTable::Row& row = table_.rows_[r];
      row.config = to[row.config] & (CompactTable::max_configs - 1);
    }
    for (std::size_t s = begin.setups; s < end.setups; ++s)
      table_.setups_[s].config = to[table_.setups_[s].config];
  }

  /// Adds the rows of a file, with its own numbers of configs. Returns its device, metadata and configs.
  MeasurementTable add_rows(RowStream& stream) {
    const End begin = end();
    std::vector<std::uint32_t> problem_of;
    while (stream.next()) {
      const MeasurementTable& read = stream.table();
      check_sizes(table_.rows_.size() + read.rows.size(), read.configs.size());
      while (problem_of.size() < read.problems.size())
        problem_of.push_back(id_of(read.problems[problem_of.size()], table_.problems, problems_));
      for (MeasurementTable::Row row : read.rows) {
        row.problem = problem_of[row.problem];
        table_.add(row);
      }
    }
    const MeasurementTable& read = stream.table();
    const std::vector<std::uint32_t> places = stream.family_places();
    renumber_configs(begin, end(), places);
    MeasurementTable head{read.device, {}, read.configs, {}, read.metadata};
    for (std::size_t c = 0; c < places.size(); ++c) head.configs[places[c]] = read.configs[c];
    return head;
  }

  /// The position of each config of a file in the table.
  std::vector<std::uint32_t> add_configs(const std::vector<KernelConfig>& of_file, const ConfigSpace* space) {
    std::vector<std::uint32_t> config_of;
    for (const KernelConfig& config : of_file) {
      const auto own = in_space(config, *space);
      if (!own) fail(Errc::invalid_argument, "a table holds configs of several providers or ops");
      config_of.push_back(id_of(*own, table_.configs, configs_));
    }
    check_sizes(table_.rows_.size(), table_.configs.size());
    return config_of;
  }

  const DatasetOptions& options_;
  CompactTable table_;
  std::unordered_map<Problem, std::uint32_t> problems_;
  std::unordered_map<KernelConfig, std::uint32_t> configs_;
};

CompactTable read_compact(std::span<const std::string> files, const DatasetOptions& options) {
  if (files.empty()) fail(Errc::invalid_argument, "nothing to read: no dataset given");
  const bool csv = std::ranges::any_of(files, is_csv_dataset);
  if (auto table = csv ? std::nullopt : CompactReader(options).read(files)) return std::move(*table);
  std::vector<MeasurementTable> tables;
  for (const std::string& file : files) tables.push_back(read_dataset(file, options));
  return tables.size() == 1 ? tables.front() : merge(tables, Keep::error);
}

}  // namespace kscout
