#include "train/shortlist.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "select/compiled_family.h"
#include "train/cross_validate.h"

namespace kscout {

namespace {

constexpr std::size_t kHidden = 64;
/// Keeps weights within 128 KiB. With more configs than this, only those get an output that are most often
/// among a problem's first kShortlisted configs.
constexpr std::size_t kMaxOutputs = 800;
constexpr float kTemperature = 0.05F, kRate = 2e-3F, kDecay = 1e-4F;

/// A row-major matrix.
struct Matrix {
  Matrix(std::size_t of_rows, std::size_t of_columns)
      : rows(of_rows), columns(of_columns), values(of_rows * of_columns) {}
  float* row(std::size_t r) { return values.data() + r * columns; }
  const float* row(std::size_t r) const { return values.data() + r * columns; }
  Matrix transposed() const {
    Matrix result(columns, rows);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) result.row(c)[r] = row(r)[c];
    }
    return result;
  }

  std::size_t rows, columns;
  std::vector<float> values;
};

/// Computes to += factor * from; skips a factor of 0, which most hidden values and many gradients have.
void add_row(float* to, const float* from, float factor, std::size_t columns) {
  if (factor == 0) return;
  for (std::size_t c = 0; c < columns; ++c) to[c] += factor * from[c];
}

/// One layer: inputs x outputs, a bias per output, and AdamW's moments of their gradients.
struct Layer {
  Layer(std::size_t inputs, std::size_t outputs, std::mt19937_64& random)
      : weights(inputs, outputs), gradient(inputs, outputs), bias(outputs), bias_gradient(outputs) {
    std::normal_distribution<float> normal(0, std::sqrt(2 / static_cast<float>(inputs)));
    for (float& weight : weights.values) weight = normal(random);
    for (auto* const moments : {&first, &second}) moments->resize(weights.values.size() + outputs);
  }

  /// Computes one row of outputs.
  void apply(const float* inputs, float* outputs) const {
    std::ranges::copy(bias, outputs);
    for (std::size_t i = 0; i < weights.rows; ++i)
      add_row(outputs, weights.row(i), inputs[i], weights.columns);
  }

  /// Takes one AdamW step. `rate_now`: learning rate of the step; `step` counts from 1.
  void update(float rate_now, int step) {
    const float bias_1 = 1 - std::pow(0.9F, static_cast<float>(step));
    const float bias_2 = 1 - std::pow(0.999F, static_cast<float>(step));
    const auto move = [&](std::vector<float>& values, std::vector<float>& slope, std::size_t at,
                          float decay) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        float& mean = first[at + i];
        float& square = second[at + i];
        mean = 0.9F * mean + 0.1F * slope[i];
        square = 0.999F * square + 0.001F * slope[i] * slope[i];
        values[i] -= rate_now * (mean / bias_1 / (std::sqrt(square / bias_2) + 1e-8F) + decay * values[i]);
        slope[i] = 0;
      }
    };
    move(weights.values, gradient.values, 0, kDecay);
    move(bias, bias_gradient, weights.values.size(), 0);
  }

  Matrix weights, gradient;
  std::vector<float> bias, bias_gradient, first, second;
};

void rectify(float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = std::max(values[i], 0.0F);
}

/// Trains the network on problems, each with a distribution over configs.
class Trainer {
 public:
  Trainer(std::vector<KernelConfig> configs, std::uint64_t seed)
      : configs_(std::move(configs)), random_(seed) {}

  /// `efficiency`: one per config; 0 = not measured.
  void add(const ShortlistFeatures& features, std::span<const float> efficiency) {
    features_.push_back(features);
    float sum = 0;
    const std::size_t begin = target_.size();
    for (const float e : efficiency) {
      target_.push_back(e > 0 ? std::exp((e - 1) / kTemperature) : 0);
      sum += target_.back();
    }
    for (std::size_t i = begin; i < target_.size(); ++i) target_[i] /= sum;
  }

  Shortlist run() {
    normalise();
    layers_.emplace_back(kShortlistFeatures, kHidden, random_);
    layers_.emplace_back(kHidden, kHidden, random_);
    layers_.emplace_back(kHidden, configs_.size(), random_);
    const std::size_t problems = features_.size();
    const std::size_t batch = std::clamp<std::size_t>(problems / 8, 1, 128), batches = problems / batch;
    const auto epochs = std::clamp<std::size_t>(2000 / batches, 20, 60);
    std::vector<std::size_t> order(problems);
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto steps = static_cast<float>(epochs * batches);
    int step = 0;
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
      std::ranges::shuffle(order, random_);
      for (std::size_t b = 0; b < batches; ++b) {
        learn(std::span(order).subspan(b * batch, batch));
        const float done = static_cast<float>(++step) / steps;
        const float rate = kRate / 2 * (1 + std::cos(std::numbers::pi_v<float> * done));
        for (Layer& layer : layers_) layer.update(rate, step);
      }
    }
    return rounded();
  }

 private:
  /// Inputs of the first layer are integers in units of 1/2048 standard deviation (a sixteenth over 2^7), so
  /// 16 bits reach 16 deviations.
  static constexpr float kInputUnit = 1.0F / 2048;

  /// Computes means and standard deviations of the features, as the integers that are stored.
  void normalise() {
    const auto count = static_cast<double>(features_.size());
    for (std::size_t f = 0; f < kShortlistFeatures; ++f) {
      double sum = 0, squares = 0;
      for (const ShortlistFeatures& row : features_) sum += row[f];
      const double mean = sum / count;
      for (const ShortlistFeatures& row : features_) squares += (row[f] - mean) * (row[f] - mean);
      const double deviation = std::sqrt(squares / count);
      result_.mean[f] = static_cast<std::int32_t>(std::lround(mean));
      // A feature that is constant in training carries no information.
      result_.factor[f] =
          deviation < 0.5 ? 0 : static_cast<std::int32_t>(std::lround(2048 * 65536 / deviation));
    }
  }

  /// Inputs in units of kInputUnit, as shortlist_inputs() rounds them.
  void inputs_of(std::size_t problem, float* inputs) const {
    for (std::size_t f = 0; f < kShortlistFeatures; ++f) {
      const std::int64_t difference = features_[problem][f] - result_.mean[f];
      const std::int64_t input = (difference * result_.factor[f]) >> 16;
      inputs[f] = kInputUnit * static_cast<float>(std::clamp<std::int64_t>(input, -32767, 32766));
    }
  }

  /// Computes the values of each layer for one problem.
  void forward(std::size_t problem, std::vector<float>& inputs, std::vector<float>& hidden_1,
               std::vector<float>& hidden_2, std::vector<float>& outputs) const {
    inputs_of(problem, inputs.data());
    layers_[0].apply(inputs.data(), hidden_1.data());
    rectify(hidden_1.data(), kHidden);
    layers_[1].apply(hidden_1.data(), hidden_2.data());
    rectify(hidden_2.data(), kHidden);
    layers_[2].apply(hidden_2.data(), outputs.data());
  }

  /// Adds the gradients of one batch.
  void learn(std::span<const std::size_t> problems) {
    const std::size_t configs = configs_.size();
    const Matrix second = layers_[1].weights.transposed(), third = layers_[2].weights.transposed();
    std::vector<float> inputs(kShortlistFeatures), hidden_1(kHidden), hidden_2(kHidden), slope(configs);
    std::vector<float> slope_1(kHidden), slope_2(kHidden);
    const float share = 1 / static_cast<float>(problems.size());
    for (const std::size_t problem : problems) {
      forward(problem, inputs, hidden_1, hidden_2, slope);
      const float most = *std::ranges::max_element(slope);
      float sum = 0;
      for (float& value : slope) sum += value = std::exp(value - most);
      const float* const target = target_.data() + problem * configs;
      for (std::size_t c = 0; c < configs; ++c) slope[c] = share * (slope[c] / sum - target[c]);
      descend(layers_[2], third, hidden_2, slope, slope_2);
      descend(layers_[1], second, hidden_1, slope_2, slope_1);
      for (std::size_t i = 0; i < kShortlistFeatures; ++i)
        add_row(layers_[0].gradient.row(i), slope_1.data(), inputs[i], kHidden);
      for (std::size_t o = 0; o < kHidden; ++o) layers_[0].bias_gradient[o] += slope_1[o];
    }
  }

  /// Backpropagates through a layer with rectified inputs: computes its gradients and the slope of its
  /// inputs.
  static void descend(Layer& layer, const Matrix& transposed, const std::vector<float>& inputs,
                      const std::vector<float>& slope, std::vector<float>& slope_of_inputs) {
    const std::size_t outputs = slope.size();
    std::ranges::fill(slope_of_inputs, 0.0F);
    for (std::size_t o = 0; o < outputs; ++o) {
      // Smaller slopes do not count: the config is slow here and predicted so.
      constexpr float kNothing = 1e-8F;
      layer.bias_gradient[o] += slope[o];
      if (std::fabs(slope[o]) > kNothing)
        add_row(slope_of_inputs.data(), transposed.row(o), slope[o], slope_of_inputs.size());
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      add_row(layer.gradient.row(i), slope.data(), inputs[i], outputs);
      if (inputs[i] <= 0) slope_of_inputs[i] = 0;
    }
  }

  /// Converts the network to integers. The unit of each layer's values maps the largest value over the
  /// training problems to kLargest, which leaves room for larger ones.
  Shortlist rounded() {
    constexpr float kLargest = 16000, kMaxWeight = 127, kFactorUnit = 1 << 24;
    std::array<float, 3> largest{};
    std::vector<float> inputs(kShortlistFeatures), hidden_1(kHidden), hidden_2(kHidden),
        outputs(configs_.size());
    for (std::size_t problem = 0; problem < features_.size(); ++problem) {
      forward(problem, inputs, hidden_1, hidden_2, outputs);
      for (const auto& [at, values] :
           {std::pair(0, &hidden_1), std::pair(1, &hidden_2), std::pair(2, &outputs)}) {
        for (const float value : *values) largest[at] = std::max(largest[at], std::fabs(value));
      }
    }
    float unit = kInputUnit;  // unit of a layer's inputs
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const Matrix weights = layers_[l].weights.transposed();
      const float output_unit = std::max(largest[l], 1e-6F) / kLargest;
      Shortlist::Layer& layer = result_.layers[l];
      layer.inputs = static_cast<std::uint32_t>(weights.columns);
      layer.outputs = static_cast<std::uint32_t>(weights.rows);
      const auto largest_of = [](const float* begin, std::size_t count) {
        float most = 1e-6F;
        for (std::size_t i = 0; i < count; ++i) most = std::max(most, std::fabs(begin[i]));
        return most;
      };
      for (std::size_t o = 0; o < weights.rows; ++o) {
        const float weight_unit = largest_of(weights.row(o), weights.columns) / kMaxWeight;
        for (std::size_t i = 0; i < weights.columns; ++i)
          layer.weights.push_back(static_cast<std::int8_t>(std::lround(weights.row(o)[i] / weight_unit)));
        const double bias = layers_[l].bias[o] / (double{weight_unit} * unit);
        layer.bias.push_back(static_cast<std::int32_t>(std::lround(std::clamp(bias, -1e9, 1e9))));
        const double factor = double{weight_unit} * unit / output_unit * kFactorUnit;
        layer.factor.push_back(static_cast<std::int32_t>(std::lround(std::min(factor, 2e9))));
      }
      unit = output_unit;
    }
    result_.configs = std::move(configs_);
    return std::move(result_);
  }

  std::vector<KernelConfig> configs_;
  std::mt19937_64 random_;
  std::vector<ShortlistFeatures> features_;
  std::vector<float> target_;  ///< problems x configs
  std::vector<Layer> layers_;
  Shortlist result_;
};

const Family* family_of(std::span<const Family> families, const Problem& problem) {
  const auto found = std::ranges::find(families, signature_of(problem), &Family::signature);
  return found == families.end() || found->configs.size() <= kNoShortlistFamily ? nullptr : &*found;
}

/// Maps the configs of the set to their positions in a family.
std::unordered_map<KernelConfig, std::size_t> positions_in(const Family& family) {
  std::unordered_map<KernelConfig, std::size_t> positions;
  for (std::size_t i = 0; i < family.configs.size(); ++i) positions.emplace(family.configs[i], i);
  return positions;
}

/// The configs of the set that get an output, in the set's order.
std::vector<std::uint32_t> configs_with_output(const TrainingSet& set, std::span<const Family> families,
                                               std::span<const std::size_t> problems) {
  std::unordered_set<KernelConfig> known;
  for (const Family& family : families) {
    for (std::size_t i = 0; i < family.configs.size(); ++i) known.insert(family.configs[i]);
  }
  std::vector<std::uint32_t> count(set.configs.size(), 0);
  for (const std::size_t p : problems) {
    std::vector<std::size_t> rows(set.first_row[p + 1] - set.first_row[p]);
    std::iota(rows.begin(), rows.end(), std::size_t{set.first_row[p]});
    std::erase_if(rows, [&](std::size_t r) { return !known.contains(set.configs[set.rows[r].config]); });
    const std::size_t most = std::min(rows.size(), kShortlisted);
    std::ranges::partial_sort(rows, rows.begin() + static_cast<std::ptrdiff_t>(most), std::ranges::greater{},
                              [&](std::size_t r) { return set.tflops(p, r); });
    for (std::size_t i = 0; i < most; ++i) ++count[set.rows[rows[i]].config];
  }
  std::vector<std::uint32_t> configs;
  for (std::uint32_t c = 0; c < count.size(); ++c) {
    if (count[c] > 0) configs.push_back(c);
  }
  if (configs.size() > kMaxOutputs) {
    std::ranges::stable_sort(configs, std::ranges::greater{}, [&](std::uint32_t c) { return count[c]; });
    configs.resize(kMaxOutputs);
    std::ranges::sort(configs);
  }
  return configs;
}

}  // namespace

std::optional<Shortlist> train_shortlist(const TrainingSet& set, std::span<const Family> families,
                                         const std::function<bool(std::size_t)>& take, std::uint64_t seed) {
  std::vector<std::size_t> problems;
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    if (take(p) && family_of(families, set.problems[p])) problems.push_back(p);
  }
  const std::vector<std::uint32_t> with_output = configs_with_output(set, families, problems);
  if (with_output.empty()) return std::nullopt;
  std::vector<KernelConfig> configs;
  std::vector<std::size_t> output(set.configs.size(), with_output.size());  // with_output.size(): no output
  for (const std::uint32_t config : with_output) {
    output[config] = configs.size();
    configs.push_back(set.configs[config]);
  }
  Trainer trainer(std::move(configs), seed);
  std::vector<float> efficiency(with_output.size());
  for (const std::size_t p : problems) {
    std::ranges::fill(efficiency, 0.0F);
    for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r) {
      const std::size_t place = output[set.rows[r].config];
      if (place < efficiency.size())
        efficiency[place] = static_cast<float>(std::min(set.tflops(p, r) / set.best_tflops[p], 1.0));
    }
    if (std::ranges::max(efficiency) > 0)
      trainer.add(shortlist_features_of(set.problems[p], families.front().device.cores), efficiency);
  }
  return trainer.run();
}

ShortlistFit fit_shortlist(const TrainingSet& set, std::span<const Family> families,
                           std::span<const std::uint32_t> fold_of, std::span<const double> scores,
                           bool lower_is_better, std::uint64_t seed) {
  ShortlistFit fit;
  const double sign = lower_is_better ? -1 : 1;
  const std::uint32_t folds = std::min(*std::ranges::max_element(fold_of) + 1, ShortlistFit::folds);
  std::vector<double> all, shortlisted;
  for (std::uint32_t fold = 0; fold < folds; ++fold) {
    const auto shortlist = train_shortlist(
        set, families, [&](std::size_t p) { return fold_of[p] % folds != fold; }, seed);
    if (!shortlist) return fit;
    for (const Family& family : families) {
      if (family.configs.size() <= kNoShortlistFamily) continue;
      const FamilyOutputs outputs = outputs_of(*shortlist, family.configs);
      const auto positions = positions_in(family);
      const CompiledFamily compiled(family);
      SelectScratch scratch;
      scratch.kept.resize(family.configs.size());
      for (std::size_t p = 0; p < set.problems.size(); ++p) {
        if (fold_of[p] % folds != fold || signature_of(set.problems[p]) != family.signature) continue;
        keep_top(rate(*shortlist, outputs, set.problems[p], family.device.cores, scratch.shortlist),
                 compiled.applicable(set.problems[p], {}, scratch), compiled.always(), kShortlisted,
                 scratch.kept);
        std::optional<std::size_t> best_of_all, best_shortlisted;
        for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r) {
          const auto position = positions.find(set.configs[set.rows[r].config]);
          if (position == positions.end()) continue;
          const auto consider = [&](std::optional<std::size_t>& best) {
            if (!best || sign * scores[r] > sign * scores[*best]) best = r;
          };
          consider(best_of_all);
          if (scratch.kept[position->second] != 0) consider(best_shortlisted);
        }
        if (!best_of_all) continue;
        const auto efficiency = [&](const std::optional<std::size_t>& row) {
          return row ? std::min(set.tflops(p, *row) / set.best_tflops[p], 1.0) : 0.0;
        };
        all.push_back(efficiency(best_of_all));
        shortlisted.push_back(efficiency(best_shortlisted));
      }
    }
  }
  const EfficiencySummary of_all = summarise(std::move(all)),
                          of_shortlisted = summarise(std::move(shortlisted));
  fit.problems = of_all.problems;
  fit.mean_all = of_all.mean;
  fit.p10_all = of_all.p10;
  fit.mean_shortlisted = of_shortlisted.mean;
  fit.p10_shortlisted = of_shortlisted.p10;
  if (fit.mean_loss() <= ShortlistFit::max_loss)
    fit.shortlist = train_shortlist(
        set, families, [](std::size_t) { return true; }, seed);
  return fit;
}

}  // namespace kscout
