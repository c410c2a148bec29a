#pragma once
/// \file
/// LightGBM's datasets and boosters as owning objects; every failure becomes an Error.
///
///     lightgbm::Dataset data(matrix, rows, names, "max_bin=255");
///     data.set_labels(labels);
///     lightgbm::Booster booster(data, "objective=regression verbosity=-1");
///     while (booster.iterations() < 100 && booster.update()) {}
///     std::string text = booster.text(100);
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kscout::lightgbm {

/// Silences LightGBM's own printing: the library prints nothing. Called by the constructors below.
void silence();

class Dataset {
 public:
  /// `matrix` is row-major, rows x names.size(); it may be freed afterwards. NaN = missing.
  Dataset(std::span<const double> matrix, std::span<const std::string> names, const std::string& parameters);
  /// Rows of another dataset, with its bins. `rows` rises. Labels and weights come along, groups do not.
  Dataset(const Dataset& whole, std::span<const std::int32_t> rows, const std::string& parameters);

  void set_labels(std::span<const float> labels);
  void set_weights(std::span<const float> weights);
  /// Scores from which training goes on.
  void set_start(std::span<const double> scores);
  /// Sizes of runs of rows that are ranked against each other.
  void set_groups(std::span<const std::int32_t> sizes);
  std::size_t rows() const noexcept { return rows_; }
  void* handle() const noexcept { return handle_.get(); }

 private:
  std::shared_ptr<void> handle_;
  std::size_t rows_ = 0;
};

class Booster {
 public:
  /// Keeps `train` alive.
  Booster(const Dataset& train, const std::string& parameters);
  /// From a text model: predicts only.
  explicit Booster(const std::string& text);

  void add_validation(const Dataset& valid);
  /// One more tree; false when no split helps any more.
  bool update();
  /// Puts the trees of another model before the ones of this.
  void put_before(const Booster& earlier);
  int iterations() const noexcept { return iterations_; }
  /// Scores of the dataset's rows so far: 0 = training, 1 = first validation set.
  std::vector<double> scores(int data_index) const;
  /// The first `iterations` trees as LightGBM's text model.
  std::string text(int iterations) const;
  /// How often each feature splits in the first `iterations` trees.
  std::vector<double> split_counts(int iterations, std::size_t features) const;
  /// What the model predicts for row-major rows, single-threaded.
  std::vector<double> predict(std::span<const double> matrix, std::size_t features) const;

 private:
  std::vector<Dataset> kept_;
  std::shared_ptr<void> handle_;
  int iterations_ = 0;
};

}  // namespace kscout::lightgbm
