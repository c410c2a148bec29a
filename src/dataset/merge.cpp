#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include <kscout/provider.h>

#include "core/device_facts.h"
#include "core/fail.h"
#include "core/numbers.h"
#include "dataset/columns.h"
#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "dataset/reduce.h"
#include "measure/samples.h"

namespace kscout {

namespace {

constexpr std::string_view kBetween = "; ", kTo = " to ";

std::vector<std::string_view> split_at(std::string_view text, std::string_view between) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(between);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + between.size());
  }
}

/// Adds the entries of `values` that the list lacks.
void add_to_list(std::vector<std::string_view>& list, std::span<const std::string_view> values) {
  for (const std::string_view value : values) {
    if (std::ranges::find(list, value) == list.end()) list.push_back(value);
  }
}

/// The values of a table under a key. A table without the key `filter` was measured without a filter.
std::vector<std::string_view> values_of(const MeasurementTable& table, const std::string& key) {
  const auto found = table.metadata.find(key);
  if (found != table.metadata.end()) return split_list(found->second);
  if (key == "filter") return {""};
  return {};
}

/// The number at the beginning of the text.
double number_or(std::string_view text, double otherwise) {
  std::from_chars(text.data(), text.data() + text.size(), otherwise);  // unchanged where there is none
  return otherwise;
}

/// The span from the first to the last of all times; each value is a time or "first to last".
std::string time_span(std::span<const std::string_view> values) {
  std::vector<std::string_view> times;
  for (const std::string_view value : values) add_to_list(times, split_at(value, kTo));
  const auto [first, last] = std::ranges::minmax(times);  // ISO 8601 in UTC sorts as text
  return first == last ? std::string(first) : fmt::format("{}{}{}", first, kTo, last);
}

/// Joins the values of a key into one text: a list, except for keys where one value or a span is enough.
std::string one_text(std::string_view key, std::span<const std::string_view> values) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto or_infinity = [](std::string_view text) { return number_or(text, kInfinity); };
  const auto or_less = [](std::string_view text) { return number_or(text, -kInfinity); };
  if (key == "clock_mhz_min") return std::string(std::ranges::min(values, {}, or_infinity));
  if (key == "clock_mhz_max") return std::string(std::ranges::max(values, {}, or_less));
  if (key == "created") return time_span(values);
  return fmt::format("{}", fmt::join(values, kBetween));
}

}  // namespace

std::vector<std::string_view> split_list(std::string_view list) { return split_at(list, kBetween); }

std::map<std::string, std::string> merge_metadata(std::span<const MeasurementTable> tables) {
  std::map<std::string, std::vector<std::string_view>> lists;
  for (const MeasurementTable& table : tables) {
    for (const auto& [key, value] : table.metadata) lists[key];
  }
  std::map<std::string, std::string> merged;
  for (auto& [key, list] : lists) {
    for (const MeasurementTable& table : tables) add_to_list(list, values_of(table, key));
    merged[key] = one_text(key, list);
  }
  return merged;
}

namespace {

bool better(const Measurement& a, const Measurement& b) {
  const auto rank = [](const Measurement& m) {
    return std::tuple(m.status != Status::ok, m.status != Status::pruned_early,
                      std::isnan(m.time_us) ? std::numeric_limits<double>::infinity() : m.time_us);
  };
  return rank(a) < rank(b);
}

bool right(const Measurement& m) { return m.status == Status::ok || m.status == Status::pruned_early; }

/// Chooses between two rows of the same (problem, config, pass): a failed row wins, then an ok row over one
/// pruned early, whose time is coarse. Nothing when both have times of the same status.
const Measurement* decisive(const Measurement& a, const Measurement& b) {
  if (!right(a) || !right(b)) return right(a) ? &b : &a;
  if (a.status != b.status) return a.status == Status::ok ? &a : &b;
  return nullptr;
}

/// Adds everything but the time. A value that one row lacks comes from the other.
void add_to(Measurement& sum, const Measurement& one) {
  sum.spread = std::fmax(sum.spread, one.spread);
  sum.error = std::fmax(sum.error, one.error);
  sum.setup_us = std::fmin(sum.setup_us, one.setup_us);
  sum.workspace_bytes = std::fmax(sum.workspace_bytes, one.workspace_bytes);
  sum.repeats += one.repeats;
  sum.noisy = sum.noisy && one.noisy;
}

Measurement mean_of(const Measurement& a, const Measurement& b) {
  if (const Measurement* const one = decisive(a, b)) return *one;
  const double of_a = std::max(a.repeats, 1), of_b = std::max(b.repeats, 1);  // foreign files may lack them
  Measurement mean = a;
  add_to(mean, b);
  mean.time_us = std::exp((of_a * std::log(a.time_us) + of_b * std::log(b.time_us)) / (of_a + of_b));
  return mean;
}

}  // namespace

Measurement median_of(std::span<const Measurement> all) {
  Measurement median = all.front();
  std::vector<double> logs = {std::log(median.time_us)};
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (const Measurement* const one = decisive(median, all[i])) {
      if (one == &median) continue;
      median = *one;
      logs.clear();
    } else {
      add_to(median, all[i]);
    }
    logs.push_back(std::log(all[i].time_us));
  }
  if (right(median)) median.time_us = std::exp(summarise(logs).median);
  return median;
}

std::optional<KernelConfig> in_space(const KernelConfig& config, const ConfigSpace& space) {
  if (config.space == &space) return config;
  auto own = provider(space.provider).own(config);
  if (own && own->space != &space) own.reset();  // of another op
  return own;
}

namespace {

/// The first table's space that can hold every table's configs; null when there is none.
const ConfigSpace* space_of_all(std::span<const MeasurementTable> tables) {
  for (const MeasurementTable& candidate : tables) {
    if (candidate.configs.empty()) continue;
    const ConfigSpace* const space = candidate.configs.front().space;
    const auto holds = [space](const MeasurementTable& table) {
      return table.configs.empty() || in_space(table.configs.front(), *space);
    };
    if (std::all_of(tables.begin(), tables.end(), holds)) return space;
  }
  return nullptr;
}

}  // namespace

const ConfigSpace* common_space(std::span<const MeasurementTable> tables) {
  const ConfigSpace* const space = space_of_all(tables);
  const bool none = std::ranges::all_of(tables, [](const auto& table) { return table.configs.empty(); });
  if (space || none) return space;
  fail(Errc::invalid_argument,
       "providers or ops differ: keep one dataset each, or merge members of a joint provider with one of it");
}

void check_same_device(const Device& first, const Device& other) {
  if (const std::string why = device_difference(first, other); !why.empty()) {
    fail(Errc::invalid_argument,
         "devices differ: {}; keep one dataset per device, or take the facts of the first with "
         "kscout dataset merge --mixed-devices",
         why);
  }
}

void keep_one(Keep keep, const MeasurementTable& table, MeasurementTable::Row& row,
              const Measurement& other) {
  Measurement& known = row.measured;
  if (known == other) return;
  if (keep == Keep::error) {
    fail(Errc::invalid_argument,
         "{} with {} was measured twice in pass {} ({} us {} and {} us {}): choose with --keep "
         "best|first|last|mean|median",
         print(table.problems[row.problem]), config_text(table.configs[row.config]), other.pass,
         known.time_us, word(known.status), other.time_us, word(other.status));
  }
  if (keep == Keep::mean) known = mean_of(known, other);
  if (keep == Keep::last || (keep == Keep::best && better(other, known))) known = other;
}

namespace {

/// Merges tables while mapping their indices.
class Merger {
 public:
  Merger(const Device& device, const ConfigSpace* space, Keep keep, bool mixed_devices)
      : keep_(keep), mixed_devices_(mixed_devices), space_(space) {
    merged_.device = device;
  }

  void add(const MeasurementTable& table) {
    if (!mixed_devices_) check_same_device(merged_.device, table.device);
    std::vector<std::uint32_t> problem_id, config_id;
    for (const auto& problem : table.problems)
      problem_id.push_back(id_of(problem, merged_.problems, problems_));
    for (const auto& config : table.configs) {
      const auto own = in_space(config, *space_);
      if (!own) fail(Errc::invalid_argument, "a table holds configs of several providers or ops");
      config_id.push_back(id_of(*own, merged_.configs, configs_));
    }
    std::vector<MeasurementTable::Row> rows = table.rows;
    for (auto& row : rows) {
      row.problem = problem_id[row.problem];
      row.config = config_id[row.config];
    }
    if (is_average(keep_)) bring_to_known_level(rows);
    for (const auto& row : rows) add_row(row);
  }
  MeasurementTable take() {
    for (const auto& [row, measured] : again_) merged_.rows[row].measured = median_of(measured);
    // Averages have more digits than the measurements, and would double the size of a file.
    if (is_average(keep_)) {
      for (auto& row : merged_.rows) shorten(row.measured, kTimeDigits);
    }
    return std::move(merged_);
  }

 private:
  static std::uint64_t key_of(const MeasurementTable::Row& row) {
    return (std::uint64_t{row.problem} << 32) | (row.config << 2) |
           static_cast<std::uint32_t>(row.measured.pass);
  }

  /// Divides the times of each (problem, pass) by their median ratio to the known times: the whole machine
  /// may have been slower when a problem was measured again.
  void bring_to_known_level(std::vector<MeasurementTable::Row>& rows) const {
    const auto part = [](const MeasurementTable::Row& row) {
      return std::pair(row.problem, row.measured.pass);
    };
    std::map<std::pair<std::uint32_t, std::int32_t>, std::vector<double>> ratios;
    for (const auto& row : rows) {
      const auto known = rows_.find(key_of(row));
      if (known == rows_.end() || row.measured.status != Status::ok) continue;
      const Measurement& before = merged_.rows[known->second].measured;
      if (before.status == Status::ok) ratios[part(row)].push_back(row.measured.time_us / before.time_us);
    }
    for (auto& row : rows) {
      const auto found = ratios.find(part(row));
      if (found != ratios.end()) row.measured.time_us /= summarise(found->second).median;
    }
  }

  void add_row(const MeasurementTable::Row& row) {
    const auto [at, is_new] = rows_.try_emplace(key_of(row), merged_.rows.size());
    if (is_new) {
      merged_.rows.push_back(row);
      return;
    }
    if (keep_ == Keep::median) {
      std::vector<Measurement>& all = again_[at->second];
      if (all.empty()) all.push_back(merged_.rows[at->second].measured);
      all.push_back(row.measured);
      return;
    }
    keep_one(keep_, merged_, merged_.rows[at->second], row.measured);
  }

  Keep keep_;
  bool mixed_devices_;
  const ConfigSpace* space_;
  MeasurementTable merged_;
  std::unordered_map<Problem, std::uint32_t> problems_;
  std::unordered_map<KernelConfig, std::uint32_t> configs_;
  std::unordered_map<std::uint64_t, std::size_t> rows_;
  std::unordered_map<std::size_t, std::vector<Measurement>>
      again_;  ///< Keep::median: all measurements of a row that has several
};

}  // namespace

bool in_one_space(std::span<MeasurementTable> tables) {
  const ConfigSpace* const space = space_of_all(tables);
  if (!space) return false;
  for (MeasurementTable& table : tables) {
    for (KernelConfig& config : table.configs) config = in_space(config, *space).value();
  }
  return true;
}

MeasurementTable merge(std::span<const MeasurementTable> tables, Keep keep, bool mixed_devices) {
  if (tables.empty()) fail(Errc::invalid_argument, "nothing to merge");
  Merger merger(tables.front().device, common_space(tables), keep, mixed_devices);
  for (const MeasurementTable& table : tables) merger.add(table);
  MeasurementTable merged = merger.take();
  merged.metadata = merge_metadata(tables);
  return merged;
}

}  // namespace kscout
