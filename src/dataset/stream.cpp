#include "dataset/stream.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/fail.h"
#include "core/numbers.h"
#include "dataset/file_order.h"
#include "family/family_file.h"
#include "measure/samples.h"

namespace kscout {

namespace {

namespace fs = std::filesystem;
using Row = MeasurementTable::Row;

/// Computes the median of numbers that are at least 0, which come twice: first all of them are counted by
/// their leading bits, then those with the leading bits of the median are counted one by one.
class TwicePassedMedian {
 public:
  TwicePassedMedian() : counts_(kBuckets) {}

  void count(double value) {
    ++counts_[bucket(value)];
    ++total_;
  }
  /// Before the second time.
  void begin_again() {
    if (total_ == 0) return;
    low_ = (total_ - 1) / 2;
    high_ = total_ / 2;
    std::size_t before = 0;
    for (std::size_t b = 0; b < kBuckets; before += counts_[b++]) {
      const bool has_low = low_ >= before && low_ < before + counts_[b];
      const bool has_high = high_ >= before && high_ < before + counts_[b];
      if (has_low) first_bucket_ = b, before_first_ = before;
      if (has_high) last_bucket_ = b;
    }
  }
  void count_again(double value) {
    const std::size_t b = bucket(value);
    if (b == first_bucket_ || b == last_bucket_) ++near_[value];
  }
  double median() const {
    if (total_ == 0) return Measurement::unknown;
    return quantile({at(low_), at(high_)}, 0.5);
  }

 private:
  // Sign, exponent and nine bits of the fraction: numbers of one bucket differ by 0.2 % at most.
  static constexpr int kShift = 43;
  static constexpr std::size_t kBuckets = std::size_t{1} << (63 - kShift);
  static std::size_t bucket(double value) { return std::bit_cast<std::uint64_t>(std::fabs(value)) >> kShift; }

  double at(std::size_t position) const {
    std::size_t before = before_first_;
    for (const auto& [value, count] : near_) {
      before += count;
      if (position < before) return value;
    }
    return Measurement::unknown;
  }

  std::vector<std::size_t> counts_;
  std::size_t total_ = 0, low_ = 0, high_ = 0;
  std::size_t first_bucket_ = 0, last_bucket_ = 0, before_first_ = 0;
  std::map<double, std::size_t> near_;
};

/// Throws NotInFileOrder unless each place comes after the one before.
class AscendingPlaces {
 public:
  void check(const FileOrder& order, const FileOrder::Place& place) {
    if (last_ && order.compare(*last_, place) >= 0) throw NotInFileOrder{};
    last_ = place;
  }

 private:
  std::optional<FileOrder::Place> last_;
};

/// Calls `use` for the spread of each row with status ok, without checking the file again.
template <class Use>
void for_each_spread(const fs::path& file, Use&& use) {
  ParquetReader reader(file.string(), file.string());
  ColumnSpec status{"status", "", ""}, spread{"spread", "", "", ColumnType::float64};
  while (const auto block = reader.next({status, spread})) {
    const ColumnValues& words = block->columns[0];
    const auto ok = std::ranges::find(words.words, word(Status::ok)) - words.words.begin();
    for (std::size_t r = 0; r < block->rows; ++r) {
      const double value = block->columns[1].number[r];
      if (words.index[r] == ok && !std::isnan(value)) use(value);
    }
  }
}

DescribedFile describe_sorted(const fs::path& file, const DatasetOptions& options) {
  RowStream stream(file, options);
  FileOrder order(stream.table(), stream.provider());
  AscendingPlaces ascending;
  Describer describer;
  TwicePassedMedian spread;
  while (stream.next()) {
    for (const Row& row : stream.table().rows) {
      ascending.check(order, order.place(row));
      describer.add(row);
      if (row.measured.status == Status::ok && !std::isnan(row.measured.spread))
        spread.count(row.measured.spread);
    }
  }
  spread.begin_again();
  for_each_spread(file, [&](double value) { spread.count_again(value); });
  DescribedFile described{stream.table(), {}};
  described.description = describer.finish(described.table, stream.family_places(), spread.median());
  return described;
}

}  // namespace

std::optional<DescribedFile> describe_file(const fs::path& file, const DatasetOptions& options) {
  try {
    return describe_sorted(file, options);
  } catch (const NotInFileOrder&) {
    return std::nullopt;
  }
}

namespace {

/// By what the times of a file are divided before they are averaged with those of earlier files: for each
/// problem, the value of each pass. 1 for problems that are absent.
using Levels = std::unordered_map<Problem, std::array<double, 2>>;

/// Merges streams row by row. Problems and configs of all files are in one table.
class StreamMerger {
 public:
  /// `levels`: of the first files.
  StreamMerger(std::span<const std::string> files, const fs::path& out, const MergeOptions& merge,
               const DatasetOptions& options, std::span<const Levels> levels)
      : merge_(merge), options_(options), out_(out) {
    for (const std::string& file : files) sources_.emplace_back(RowStream(file, options));
    for (std::size_t s = 0; s < levels.size(); ++s) sources_[s].levels = &levels[s];
    std::vector<MeasurementTable> heads;  // without rows
    for (Source& source : sources_) {
      source.open = source.stream.next();
      MeasurementTable& head = heads.emplace_back();
      const MeasurementTable& table = source.stream.table();
      head.configs = table.configs;
      head.metadata = table.metadata;
      if (!merge.mixed_devices) check_same_device(sources_.front().stream.table().device, table.device);
    }
    space_ = common_space(heads);
    if (!space_) fail(Errc::invalid_argument, "a dataset needs at least one config");
    table_.device = sources_.front().stream.table().device;
    table_.metadata = merge_metadata(heads);
    const Provider& provider = options.providers(space_->provider);
    order_.emplace(table_, provider);
    reducer_.emplace(table_, provider, merge.reduction);
  }

  MergedFile run() {
    const auto kept = [this](const Row& row) { write(row); };
    for_each_group([&](std::span<const RowOfSource> group) {
      Row row = group.front().row;
      row.measured = merged_of(group);
      if (is_average(merge_.keep)) shorten(row.measured, kTimeDigits);
      reducer_->add(row, kept);
    });
    reducer_->finish(kept);
    return finish();
  }

  /// The level of the last file above the merged files before it.
  Levels level_of_last() {
    std::vector<std::array<std::vector<double>, 2>> ratios;  // by problem and pass
    for_each_group([&](std::span<const RowOfSource> group) {
      if (group.size() < 2 || group.back().source + 1 != sources_.size()) return;
      const Measurement& last = group.back().row.measured;
      // Keep::median compares with the first measurement.
      const Measurement known =
          merge_.keep == Keep::median ? group.front().row.measured : merged_of(group.first(group.size() - 1));
      if (last.status != Status::ok || known.status != Status::ok) return;
      ratios.resize(table_.problems.size());
      ratios[group.front().row.problem][static_cast<std::size_t>(last.pass - 1)].push_back(last.time_us /
                                                                                           known.time_us);
    });
    Levels levels;
    for (std::size_t p = 0; p < ratios.size(); ++p) {
      auto& level = levels.try_emplace(table_.problems[p], std::array{1.0, 1.0}).first->second;
      for (std::size_t pass = 0; pass < level.size(); ++pass) {
        if (!ratios[p][pass].empty()) level[pass] = summarise(ratios[p][pass]).median;
      }
    }
    return levels;
  }

 private:
  struct Source {
    explicit Source(RowStream opened) : stream(std::move(opened)) {}
    RowStream stream;
    bool open = false;
    std::size_t next = 0;                              ///< position in the stream's batch
    std::vector<std::uint32_t> problem_of, config_of;  ///< in the merged table, of those of the stream
    const Levels* levels = nullptr;                    ///< by which times are divided
    std::vector<std::array<double, 2>> level;          ///< of the stream's problems by pass
    Row row{};
    FileOrder::Place place{};
    AscendingPlaces ascending;
  };

  struct RowOfSource {
    Row row;
    std::size_t source;
  };

  /// Calls `use` with the rows of each (problem, config, pass), one of each file that has it, in the order of
  /// the files.
  template <class Use>
  void for_each_group(Use&& use) {
    const auto later = [this](std::size_t a, std::size_t b) {
      const auto order = order_->compare(sources_[a].place, sources_[b].place);
      return order == 0 ? a > b : order > 0;
    };
    std::vector<std::size_t> heap;  // the source with the first row is in front
    std::vector<RowOfSource> group;
    FileOrder::Place place{};
    const auto put_back = [&](std::size_t source) {
      if (!advance(source)) return;
      heap.push_back(source);
      std::ranges::push_heap(heap, later);
    };
    const auto take_first = [&] {
      std::ranges::pop_heap(heap, later);
      const std::size_t source = heap.back();
      heap.pop_back();
      place = sources_[source].place;
      group.push_back({sources_[source].row, source});
      put_back(source);
    };
    for (std::size_t s = 0; s < sources_.size(); ++s) put_back(s);
    while (!heap.empty()) {
      group.clear();
      take_first();
      while (!heap.empty() && sources_[heap.front()].place == place) take_first();
      use(group);
    }
  }

  /// What merge() makes of the rows of a group.
  Measurement merged_of(std::span<const RowOfSource> group) const {
    if (group.size() > 1 && merge_.keep == Keep::median) {
      std::vector<Measurement> all;
      for (const RowOfSource& one : group) all.push_back(one.row.measured);
      return median_of(all);
    }
    Row row = group.front().row;
    for (const RowOfSource& other : group.subspan(1)) keep_one(merge_.keep, table_, row, other.row.measured);
    return row.measured;
  }

  /// Takes the next row of a source; false at the end.
  bool advance(std::size_t at) {
    Source& source = sources_[at];
    while (source.open && source.next == source.stream.table().rows.size()) {
      source.open = source.stream.next();
      source.next = 0;
    }
    if (!source.open) return false;
    add_new(source);
    source.row = source.stream.table().rows[source.next++];
    if (source.levels)
      source.row.measured.time_us /=
          source.level[source.row.problem][static_cast<std::size_t>(source.row.measured.pass - 1)];
    source.row.problem = source.problem_of[source.row.problem];
    source.row.config = source.config_of[source.row.config];
    source.place = order_->place(source.row);
    source.ascending.check(*order_, source.place);
    return true;
  }

  void add_new(Source& source) {
    const MeasurementTable& table = source.stream.table();
    while (source.problem_of.size() < table.problems.size()) {
      const Problem& problem = table.problems[source.problem_of.size()];
      const auto [known, is_new] =
          problems_.try_emplace(problem, static_cast<std::uint32_t>(table_.problems.size()));
      if (is_new) table_.problems.push_back(problem);
      // The weight of the first file counts, and rows may be written already.
      if (table_.problems[known->second].weight() != problem.weight()) throw NotInFileOrder{};
      source.problem_of.push_back(known->second);
      if (!source.levels) continue;
      const auto level = source.levels->find(problem);
      source.level.push_back(level == source.levels->end() ? std::array{1.0, 1.0} : level->second);
    }
    while (source.config_of.size() < table.configs.size()) {
      const auto own = in_space(table.configs[source.config_of.size()], *space_);
      if (!own) fail(Errc::invalid_argument, "a table holds configs of several providers or ops");
      const auto [known, is_new] =
          configs_.try_emplace(*own, static_cast<std::uint32_t>(table_.configs.size()));
      if (is_new) table_.configs.push_back(*own);
      source.config_of.push_back(known->second);
    }
  }

  void write(const Row& row) {
    if (!writer_) writer_.emplace(out_, *space_, options_);
    table_.rows.push_back(row);
    written_problems_.insert(row.problem);
    written_configs_.insert(row.config);
    ++merged_.rows;
    writer_->take_groups(table_);
  }

  /// The written configs, in the family order of the first file, then of the second, ...
  std::vector<KernelConfig> configs_in_order() const {
    std::vector<KernelConfig> ordered;
    std::unordered_set<std::uint32_t> taken;
    for (const Source& source : sources_) {
      const std::vector<std::uint32_t> places = source.stream.family_places();
      std::vector<std::uint32_t> by_place(places.size());
      for (std::size_t c = 0; c < places.size(); ++c) by_place[places[c]] = source.config_of[c];
      for (const std::uint32_t config : by_place) {
        if (written_configs_.contains(config) && taken.insert(config).second)
          ordered.push_back(table_.configs[config]);
      }
    }
    return ordered;
  }

  MergedFile finish() {
    const std::string& rules = merge_.reduction.rules;
    if (!writer_ && !rules.empty())
      fail(Errc::invalid_argument, "no config of rule set '{}' was measured; give the set of the sweep",
           rules);
    if (!writer_) fail(Errc::invalid_argument, "a dataset needs at least one config: no row is left");
    if (!rules.empty()) table_.metadata["rules"] = rules_name(rules);
    writer_->finish(table_, configs_in_order());
    merged_.problems = written_problems_.size();
    merged_.configs = written_configs_.size();
    if (!rules.empty()) merged_.unmeasured = reducer_->unmeasured();
    return merged_;
  }

  MergeOptions merge_;
  DatasetOptions options_;
  fs::path out_;
  std::vector<Source> sources_;
  const ConfigSpace* space_ = nullptr;
  MeasurementTable table_;  ///< its rows are those of the group that is being filled
  std::unordered_map<Problem, std::uint32_t> problems_;
  std::unordered_map<KernelConfig, std::uint32_t> configs_;
  std::optional<FileOrder> order_;
  std::optional<RowReducer> reducer_;
  std::optional<DatasetWriter> writer_;
  std::unordered_set<std::uint32_t> written_problems_, written_configs_;
  MergedFile merged_;
};

}  // namespace

std::optional<MergedFile> merge_files(std::span<const std::string> files, const fs::path& out,
                                      const MergeOptions& merge, const DatasetOptions& options) {
  try {
    std::vector<Levels> levels;  // each one needs those before it
    if (is_average(merge.keep) && files.size() > 1) levels.emplace_back();
    while (!levels.empty() && levels.size() < files.size()) {
      levels.push_back(
          StreamMerger(files.first(levels.size() + 1), out, merge, options, levels).level_of_last());
    }
    return StreamMerger(files, out, merge, options, levels).run();
  } catch (const NotInFileOrder&) {
    return std::nullopt;
  }
}

}  // namespace kscout
