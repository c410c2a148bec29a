#include "train/lightgbm.h"

#include <cmath>

#include "core/fail.h"

namespace kscout::lightgbm {

namespace {

void require(int status, std::string_view call) {
  if (status != 0) fail(Errc::device_failure, "LightGBM {}: {}", call, LGBM_GetLastError());
}

template <class T>
void set_field(void* dataset, const char* name, std::span<const T> values, int type, std::size_t expected) {
  if (expected != 0 && values.size() != expected) {
    fail(Errc::invalid_argument, "{} values of {} for {} rows", values.size(), name, expected);
  }
  require(LGBM_DatasetSetField(dataset, name, values.data(), static_cast<int>(values.size()), type),
          "DatasetSetField");
}

std::shared_ptr<void> owned_dataset(void* handle) {
  return {handle, [](void* dataset) { LGBM_DatasetFree(dataset); }};
}
std::shared_ptr<void> owned_booster(void* handle) {
  return {handle, [](void* booster) { LGBM_BoosterFree(booster); }};
}

}  // namespace

void silence() {
  static const int done = LGBM_RegisterLogCallback([](const char*) {});
  require(done, "RegisterLogCallback");
}

Dataset::Dataset(std::span<const double> matrix, std::span<const std::string> names,
                 const std::string& parameters)
    : rows_(names.empty() ? 0 : matrix.size() / names.size()) {
  silence();
  if (names.empty() || matrix.size() != rows_ * names.size() || rows_ == 0 || rows_ > INT32_MAX) {
    fail(Errc::invalid_argument, "cannot train on {} values under {} features", matrix.size(), names.size());
  }
  void* handle = nullptr;
  require(LGBM_DatasetCreateFromMat(matrix.data(), kLgbmFloat64, static_cast<std::int32_t>(rows_),
                                    static_cast<std::int32_t>(names.size()), 1, parameters.c_str(), nullptr,
                                    &handle),
          "DatasetCreateFromMat");
  own(handle, names);
}

namespace {

/// Sampled values of each column that are not 0, as LightGBM wants them to find bins.
struct SampledColumns {
  std::vector<std::vector<double>> values;
  std::vector<std::vector<int>> places;  ///< among the sampled rows
  std::int32_t rows = 0;
};

SampledColumns sampled_columns(std::span<const std::uint32_t> first_row,
                               const std::function<std::vector<double>(std::size_t)>& block,
                               std::size_t columns, const std::string& parameters) {
  constexpr double kZero = 1e-35F;  // LightGBM's kZeroThreshold
  const auto rows = static_cast<std::int32_t>(first_row.back());
  int count = 0;
  require(LGBM_GetSampleCount(rows, parameters.c_str(), &count), "GetSampleCount");
  std::vector<std::int32_t> wanted(static_cast<std::size_t>(count));
  SampledColumns sampled{std::vector<std::vector<double>>(columns), std::vector<std::vector<int>>(columns)};
  require(LGBM_SampleIndices(rows, parameters.c_str(), wanted.data(), &sampled.rows), "SampleIndices");
  wanted.resize(static_cast<std::size_t>(sampled.rows));
  std::size_t next = 0;
  for (std::size_t b = 0; b + 1 < first_row.size() && next < wanted.size(); ++b) {
    const auto in_block = [&] { return static_cast<std::uint32_t>(wanted[next]) < first_row[b + 1]; };
    if (!in_block()) continue;
    const std::vector<double> values = block(b);
    for (; next < wanted.size() && in_block(); ++next) {
      const std::size_t row = static_cast<std::uint32_t>(wanted[next]) - first_row[b];
      for (std::size_t c = 0; c < columns; ++c) {
        const double value = values[row * columns + c];
        if (std::fabs(value) <= kZero) continue;
        sampled.values[c].push_back(value);
        sampled.places[c].push_back(static_cast<int>(next));
      }
    }
  }
  return sampled;
}

}  // namespace

Dataset::Dataset(std::span<const std::uint32_t> first_row,
                 const std::function<std::vector<double>(std::size_t)>& block,
                 std::span<const std::string> names, const std::string& parameters)
    : rows_(first_row.back()) {
  silence();
  if (names.empty() || rows_ == 0 || rows_ > INT32_MAX)
    fail(Errc::invalid_argument, "cannot train on {} rows of {} features", rows_, names.size());
  SampledColumns sampled = sampled_columns(first_row, block, names.size(), parameters);
  std::vector<double*> values;
  std::vector<int*> places;
  std::vector<int> counts;
  for (std::size_t c = 0; c < names.size(); ++c) {
    values.push_back(sampled.values[c].data());
    places.push_back(sampled.places[c].data());
    counts.push_back(static_cast<int>(sampled.values[c].size()));
  }
  void* handle = nullptr;
  require(LGBM_DatasetCreateFromSampledColumn(values.data(), places.data(),
                                              static_cast<std::int32_t>(names.size()), counts.data(),
                                              sampled.rows, static_cast<std::int32_t>(rows_),
                                              static_cast<std::int64_t>(rows_), parameters.c_str(), &handle),
          "DatasetCreateFromSampledColumn");
  own(handle, names);
  for (std::size_t b = 0; b + 1 < first_row.size(); ++b) {
    const std::vector<double> rows = block(b);
    require(LGBM_DatasetPushRows(
                handle, rows.data(), kLgbmFloat64, static_cast<std::int32_t>(first_row[b + 1] - first_row[b]),
                static_cast<std::int32_t>(names.size()), static_cast<std::int32_t>(first_row[b])),
            "DatasetPushRows");
  }
}

void Dataset::own(void* handle, std::span<const std::string> names) {
  handle_ = owned_dataset(handle);
  std::vector<const char*> texts;
  for (const auto& name : names) texts.push_back(name.c_str());
  require(LGBM_DatasetSetFeatureNames(handle, texts.data(), static_cast<int>(texts.size())),
          "SetFeatureNames");
}

Dataset::Dataset(const Dataset& whole, std::span<const std::int32_t> rows, const std::string& parameters)
    : rows_(rows.size()) {
  void* handle = nullptr;
  require(LGBM_DatasetGetSubset(whole.handle(), rows.data(), static_cast<std::int32_t>(rows.size()),
                                parameters.c_str(), &handle),
          "DatasetGetSubset");
  handle_ = owned_dataset(handle);
}

void Dataset::set_labels(std::span<const float> labels) {
  set_field(handle(), "label", labels, kLgbmFloat32, rows_);
}
void Dataset::set_weights(std::span<const float> weights) {
  set_field(handle(), "weight", weights, kLgbmFloat32, rows_);
}
void Dataset::set_start(std::span<const double> scores) {
  set_field(handle(), "init_score", scores, kLgbmFloat64, rows_);
}
void Dataset::set_groups(std::span<const std::int32_t> sizes) {
  set_field(handle(), "group", sizes, kLgbmInt32, 0);
}

Booster::Booster(const Dataset& train, const std::string& parameters) : kept_{train} {
  void* handle = nullptr;
  require(LGBM_BoosterCreate(train.handle(), parameters.c_str(), &handle), "BoosterCreate");
  handle_ = owned_booster(handle);
}

Booster::Booster(const std::string& text) {
  silence();
  void* handle = nullptr;
  require(LGBM_BoosterLoadModelFromString(text.c_str(), &iterations_, &handle), "BoosterLoadModelFromString");
  handle_ = owned_booster(handle);
}

void Booster::add_validation(const Dataset& valid) {
  require(LGBM_BoosterAddValidData(handle_.get(), valid.handle()), "BoosterAddValidData");
  kept_.push_back(valid);
}

bool Booster::update() {
  int finished = 0;
  require(LGBM_BoosterUpdateOneIter(handle_.get(), &finished), "BoosterUpdateOneIter");
  if (finished == 0) ++iterations_;
  return finished == 0;
}

void Booster::put_before(const Booster& earlier) {
  require(LGBM_BoosterMerge(handle_.get(), earlier.handle_.get()), "BoosterMerge");
  iterations_ += earlier.iterations_;
}

std::vector<double> Booster::scores(int data_index) const {
  std::int64_t length = 0;
  require(LGBM_BoosterGetNumPredict(handle_.get(), data_index, &length), "BoosterGetNumPredict");
  std::vector<double> scores(static_cast<std::size_t>(length));
  require(LGBM_BoosterGetPredict(handle_.get(), data_index, &length, scores.data()), "BoosterGetPredict");
  return scores;
}

std::string Booster::text(int iterations) const {
  std::string text(1 << 20, '\0');
  for (;;) {
    std::int64_t length = 0;
    require(LGBM_BoosterSaveModelToString(handle_.get(), 0, iterations, kLgbmImportanceSplit,
                                          static_cast<std::int64_t>(text.size()), &length, text.data()),
            "BoosterSaveModelToString");
    const bool fits = static_cast<std::size_t>(length) <= text.size();
    text.resize(fits ? static_cast<std::size_t>(length) - 1
                     : static_cast<std::size_t>(length));  // counts the 0 byte
    if (fits) return text;
  }
}

std::vector<double> Booster::split_counts(int iterations, std::size_t features) const {
  std::vector<double> counts(features);
  require(LGBM_BoosterFeatureImportance(handle_.get(), iterations, kLgbmImportanceSplit, counts.data()),
          "BoosterFeatureImportance");
  return counts;
}

std::vector<double> Booster::predict(std::span<const double> matrix, std::size_t features,
                                     int iterations) const {
  const std::size_t rows = matrix.size() / features;
  std::vector<double> scores(rows);
  std::int64_t length = 0;
  require(
      LGBM_BoosterPredictForMat(handle_.get(), matrix.data(), kLgbmFloat64, static_cast<std::int32_t>(rows),
                                static_cast<std::int32_t>(features), 1, kLgbmPredictNormal, 0, iterations,
                                "num_threads=1", &length, scores.data()),
      "BoosterPredictForMat");
  return scores;
}

}  // namespace kscout::lightgbm
