#include "forest/factored.h"

#include <algorithm>
#include <numeric>

#include "core/fail.h"

namespace kscout {

namespace {

std::vector<std::uint8_t> asked_features(const Forest& forest, const Schema& schema) {
  if (forest.feature_count != schema.size()) {
    fail(Errc::invalid_argument, "a forest of {} features for schema '{}' of {}", forest.feature_count,
         schema.name(), schema.size());
  }
  std::vector<std::uint8_t> asked(schema.size(), 0);
  for (const std::uint32_t feature : forest.feature) asked[feature] = 1;
  return asked;
}

}  // namespace

FactoredForest::FactoredForest(const Forest& forest, const Schema& schema, const Device& device,
                               const ConfigTable& configs, std::span<const Traits> traits, Best best)
    : FactoredForest(forest,
                     Schema::Factored(schema, device, configs, traits, asked_features(forest, schema)),
                     asked_features(forest, schema), best) {}

FactoredForest::FactoredForest(const Forest& forest, Schema::Factored features,
                               std::span<const std::uint8_t> wanted, Best best)
    : FactoredForest(forest, std::move(features), make_rows(features, wanted.size(), wanted), wanted, best) {}

FactoredForest::FactoredForest(const Forest& forest, Schema::Factored&& features, Rows rows,
                               std::span<const std::uint8_t> wanted, Best best)
    : features_(without_rows(std::move(features))),
      wanted_(wanted.begin(), wanted.end()),
      row_of_(std::move(rows.row_of)),
      first_(std::move(rows.first)),
      configs_(std::move(rows.configs)),
      sliced_(forest, rows.sliced, best) {}

/// The sliced forest has the rows in its own form.
Schema::Factored FactoredForest::without_rows(Schema::Factored&& features) {
  features.forget_rows();
  return std::move(features);
}

FactoredForest::Rows FactoredForest::make_rows(const Schema::Factored& features, std::size_t feature_count,
                                               std::span<const std::uint8_t> wanted) {
  const expr::TupleProgram& program = features.features();
  const expr::Partition common = program.common_partition();
  Rows rows;
  rows.row_of = common.class_of;
  rows.first.assign(common.classes + 1, 0);
  for (const std::uint32_t row : common.class_of) ++rows.first[row + 1];
  for (std::size_t row = 0; row < common.classes; ++row) rows.first[row + 1] += rows.first[row];
  rows.configs.resize(common.class_of.size());
  auto next = rows.first;
  for (std::uint32_t config = 0; config < common.class_of.size(); ++config) {
    rows.configs[next[common.class_of[config]]++] = config;
  }

  rows.sliced.rows = common.classes;
  // Only partitions that a wanted feature has: the program has more.
  std::vector<std::uint32_t> number(program.partitions().size(), SlicedFeature::one_value);
  const auto number_of = [&](std::uint32_t partition) {
    if (number[partition] != SlicedFeature::one_value) return number[partition];
    std::vector<std::uint32_t> class_of;
    class_of.reserve(common.classes);
    const std::vector<std::uint32_t>& of = program.partitions()[partition].class_of;
    for (const std::uint32_t config : common.example) class_of.push_back(of[config]);
    rows.sliced.partitions.emplace_back(std::move(class_of));
    return number[partition] = static_cast<std::uint32_t>(rows.sliced.partitions.size() - 1);
  };
  const Schema::Factored::Scratch fixed(features);
  for (std::size_t f = 0; f < feature_count; ++f) {
    SlicedFeature feature;
    if (wanted[f] != 0) {
      const std::uint32_t partition = program.partition_of(f);
      const bool one = partition == expr::TupleProgram::one_value;
      feature.partition = one ? SlicedFeature::one_value : number_of(partition);
      if (program.fixed(f)) {
        const double* const values = program.values(f, fixed.features);
        feature.fixed.assign(values, values + (one ? 1 : program.partitions()[partition].classes));
      }
    }
    rows.sliced.features.push_back(std::move(feature));
  }
  return rows;
}

FactoredForest::Scratch::Scratch(const FactoredForest& forest)
    : features_(forest.features_),
      rows_(forest.sliced_),
      values_(forest.wanted_.size(), nullptr),
      allowed_(forest.sliced_.row_words()),
      first_(forest.distinct()),
      best_(forest.distinct()),
      scores_(forest.distinct()) {
  for (std::size_t f = 0; f < values_.size(); ++f) {
    if (forest.wanted_[f] != 0) values_[f] = forest.features_.features().values(f, features_.features);
  }
}

bool FactoredForest::evaluate(ProblemRef problem, Scratch& scratch) const noexcept {
  return features_.evaluate(problem, scratch.features_);
}

std::optional<std::size_t> FactoredForest::top(ProblemRef problem, std::span<const std::uint8_t> allowed,
                                               std::span<ScoredConfig> out, Scratch& scratch) const noexcept {
  if (!evaluate(problem, scratch)) return std::nullopt;
  std::ranges::fill(scratch.allowed_, 0);
  const auto rows_here = static_cast<std::uint32_t>(distinct());
  const auto allow = [&](std::uint32_t row, bool any, std::uint32_t first) {
    scratch.allowed_[row / 64] |= std::uint64_t{any} << (row % 64);
    scratch.first_[row] = first;
  };
  if (rows_here == size()) {  // row r is config r
    for (std::uint32_t row = 0; row < rows_here; row += 64) {
      std::uint64_t word = 0;
      for (std::uint32_t i = 0; i < std::min(64u, rows_here - row); ++i) {
        word |= std::uint64_t{allowed[row + i] != 0} << i;
      }
      scratch.allowed_[row / 64] = word;
    }
    std::iota(scratch.first_.begin(), scratch.first_.end(), 0u);
  } else {
    for (std::uint32_t row = 0; row < rows_here; ++row) {
      std::uint32_t at = first_[row];
      while (at < first_[row + 1] && allowed[configs_[at]] == 0) ++at;
      const bool any = at < first_[row + 1];
      allow(row, any, any ? configs_[at] : 0);
    }
  }
  const std::span best = std::span(scratch.best_).first(std::min<std::size_t>(out.size(), rows_here));
  const std::size_t rows =
      sliced_.top(scratch.values_, scratch.allowed_, scratch.first_, best, scratch.rows_);
  return list_configs(allowed, best.first(rows), out, scratch);
}

/// Rows give way to their configs. Those of equal scores are merged in the order of the family.
std::size_t FactoredForest::list_configs(std::span<const std::uint8_t> allowed,
                                         std::span<const ScoredRow> rows, std::span<ScoredConfig> out,
                                         Scratch& scratch) const noexcept {
  constexpr std::uint32_t kDone = UINT32_MAX;
  std::size_t found = 0;
  for (std::size_t begin = 0, end; begin < rows.size() && found < out.size(); begin = end) {
    end = begin + 1;
    while (end < rows.size() && rows[end].score == rows[begin].score) ++end;
    while (found < out.size()) {
      std::size_t next = begin;
      for (std::size_t i = begin + 1; i < end; ++i) {
        if (scratch.first_[rows[i].row] < scratch.first_[rows[next].row]) next = i;
      }
      const std::uint32_t row = rows[next].row;
      std::uint32_t& config = scratch.first_[row];
      if (config == kDone) break;
      out[found++] = {config, rows[next].score};
      const auto last = configs_.begin() + first_[row + 1];
      auto at = std::upper_bound(configs_.begin() + first_[row], last, config);
      while (at != last && allowed[*at] == 0) ++at;
      config = at == last ? kDone : *at;
    }
  }
  return found;
}

bool FactoredForest::scores(ProblemRef problem, std::span<double> out, Scratch& scratch) const noexcept {
  if (!evaluate(problem, scratch)) return false;
  sliced_.scores(scratch.values_, scratch.scores_, scratch.rows_);
  for (std::size_t config = 0; config < out.size(); ++config) out[config] = scratch.scores_[row_of_[config]];
  return true;
}

}  // namespace kscout
