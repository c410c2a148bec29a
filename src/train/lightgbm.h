#pragma once
/// \file
/// Wraps LightGBM's datasets and boosters as owning objects; every failure becomes an Error.
///
///     lightgbm::Dataset data(matrix, rows, names, "max_bin=255");
///     data.set_labels(labels);
///     lightgbm::Booster booster(data, "objective=regression verbosity=-1");
///     while (booster.iterations() < 100 && booster.update()) {}
///     std::string text = booster.text(100);
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

// ---- Declares the functions of LightGBM's C API that this project calls (version 4.7; its wheel carries no
// header). Each returns 0 on success; LGBM_GetLastError returns the thread's last error message. Use the
// classes below instead of these functions.

extern "C" {

using LgbmDataset = void*;
using LgbmBooster = void*;

inline constexpr int kLgbmFloat32 = 0;
inline constexpr int kLgbmFloat64 = 1;
inline constexpr int kLgbmInt32 = 2;
inline constexpr int kLgbmPredictNormal = 0;
inline constexpr int kLgbmImportanceSplit = 0;

const char* LGBM_GetLastError();
int LGBM_SetMaxThreads(int threads);  // of benchmarks
int LGBM_RegisterLogCallback(void (*callback)(const char*));

int LGBM_DatasetCreateFromMat(const void* data, int data_type, std::int32_t rows, std::int32_t columns,
                              int is_row_major, const char* parameters, LgbmDataset reference,
                              LgbmDataset* out);
int LGBM_GetSampleCount(std::int32_t rows, const char* parameters, int* out);
int LGBM_SampleIndices(std::int32_t rows, const char* parameters, void* out, std::int32_t* out_count);
int LGBM_DatasetCreateFromSampledColumn(double** values, int** indices, std::int32_t columns,
                                        const int* values_of_column, std::int32_t sampled_rows,
                                        std::int32_t local_rows, std::int64_t rows, const char* parameters,
                                        LgbmDataset* out);
int LGBM_DatasetPushRows(LgbmDataset handle, const void* data, int data_type, std::int32_t rows,
                         std::int32_t columns, std::int32_t first_row);
int LGBM_DatasetGetSubset(LgbmDataset handle, const std::int32_t* rows, std::int32_t count,
                          const char* parameters, LgbmDataset* out);
int LGBM_DatasetSetFeatureNames(LgbmDataset handle, const char** names, int count);
int LGBM_DatasetSetField(LgbmDataset handle, const char* field, const void* data, int count, int data_type);
int LGBM_DatasetFree(LgbmDataset handle);

int LGBM_BoosterCreate(LgbmDataset train, const char* parameters, LgbmBooster* out);
int LGBM_BoosterLoadModelFromString(const char* text, int* out_iterations, LgbmBooster* out);
int LGBM_BoosterMerge(LgbmBooster handle, LgbmBooster other);
int LGBM_BoosterAddValidData(LgbmBooster handle, LgbmDataset valid);
int LGBM_BoosterUpdateOneIter(LgbmBooster handle, int* is_finished);
int LGBM_BoosterGetNumPredict(LgbmBooster handle, int data_index, std::int64_t* out_length);
int LGBM_BoosterGetPredict(LgbmBooster handle, int data_index, std::int64_t* out_length, double* out);
int LGBM_BoosterSaveModelToString(LgbmBooster handle, int start_iteration, int iterations,
                                  int importance_type, std::int64_t buffer_length, std::int64_t* out_length,
                                  char* out);
int LGBM_BoosterPredictForMat(LgbmBooster handle, const void* data, int data_type, std::int32_t rows,
                              std::int32_t columns, int is_row_major, int predict_type, int start_iteration,
                              int iterations, const char* parameters, std::int64_t* out_length, double* out);
int LGBM_BoosterFeatureImportance(LgbmBooster handle, int iterations, int importance_type, double* out);
int LGBM_BoosterFree(LgbmBooster handle);

}  // extern "C"

namespace kscout::lightgbm {

/// Turns off LightGBM's own printing: a library prints nothing. Called by the constructors below.
void silence();

class Dataset {
 public:
  /// `matrix` is row-major, rows x names.size(); it may be freed afterwards. NaN = missing.
  Dataset(std::span<const double> matrix, std::span<const std::string> names, const std::string& parameters);
  /// Takes rows block by block, so that only their bins are in memory: block i has the rows from first_row[i]
  /// to first_row[i + 1]. `block(i)` gives its values, row-major, and is called twice for blocks that decide
  /// the bins. Equal to a dataset of the whole matrix.
  Dataset(std::span<const std::uint32_t> first_row,
          const std::function<std::vector<double>(std::size_t)>& block, std::span<const std::string> names,
          const std::string& parameters);
  /// Selects rows of another dataset, with its bins. `rows` must ascend. Copies labels and weights, but not
  /// groups.
  Dataset(const Dataset& whole, std::span<const std::int32_t> rows, const std::string& parameters);

  void set_labels(std::span<const float> labels);
  void set_weights(std::span<const float> weights);
  /// Sets the scores from which training continues.
  void set_start(std::span<const double> scores);
  /// Sets the lengths of runs of rows that are ranked against each other; none: removes them.
  void set_groups(std::span<const std::int32_t> sizes);
  std::size_t rows() const noexcept { return rows_; }
  void* handle() const noexcept { return handle_.get(); }

 private:
  void own(void* handle, std::span<const std::string> names);

  std::shared_ptr<void> handle_;
  std::size_t rows_ = 0;
};

class Booster {
 public:
  /// Keeps `train` alive.
  Booster(const Dataset& train, const std::string& parameters);
  /// Loads a text model, which can only predict.
  explicit Booster(const std::string& text);

  void add_validation(const Dataset& valid);
  /// Adds a tree; returns false when no split improves the objective.
  bool update();
  /// Inserts the trees of another model before this model's trees.
  void put_before(const Booster& earlier);
  int iterations() const noexcept { return iterations_; }
  /// Current scores of a dataset's rows: 0 = training, 1 = first validation set.
  std::vector<double> scores(int data_index) const;
  /// The first `iterations` trees as LightGBM's text model.
  std::string text(int iterations) const;
  /// How often each feature splits in the first `iterations` trees.
  std::vector<double> split_counts(int iterations, std::size_t features) const;
  /// Predictions of the first `iterations` trees for row-major rows, single-threaded; -1: of all trees.
  std::vector<double> predict(std::span<const double> matrix, std::size_t features,
                              int iterations = -1) const;

 private:
  std::vector<Dataset> kept_;
  std::shared_ptr<void> handle_;
  int iterations_ = 0;
};

}  // namespace kscout::lightgbm
