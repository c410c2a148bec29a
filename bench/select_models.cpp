#include "select_models.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "core/files.h"
#include "features/schema.h"
#include "train/lightgbm.h"

namespace kscout::bench {

namespace {

constexpr std::size_t kProblems = 200, kConfigsOfEach = 200, kTrees = 500;

std::vector<std::uint64_t> bits_of(const Traits& traits) {
  std::vector<std::uint64_t> bits;
  for_each_field<Traits>(
      [&](const auto& field) { bits.push_back(std::bit_cast<std::uint64_t>(traits.*field.member)); });
  return bits;
}

/// ln of what bends a config's analytic time: smooth in the logarithms of the sizes, jagged in the traits.
class Bend {
 public:
  Bend(std::size_t configs, std::mt19937_64& random) : random_(random) {
    for (auto& row : slope_) {
      for (double& slope : row) slope = 0.03 * normal_(random_);
    }
    for (std::size_t i = 0; i < configs; ++i) own_.push_back(0.1 * normal_(random_));
  }

  double operator()(const GemmProblem& problem, const Traits& t, std::size_t config) {
    const std::array<double, 8> traits = {t.inner_m, t.inner_n, t.tile_m,  t.tile_n,
                                          t.tile_k,  t.workers, t.split_k, t.order};
    const std::array<double, 4> sizes = {std::log2(static_cast<double>(problem.m)) - 6,
                                         std::log2(static_cast<double>(problem.n)) - 8,
                                         std::log2(static_cast<double>(problem.k)) - 8, 1};
    double sum = own_[config] + 0.02 * normal_(random_);
    for (std::size_t i = 0; i < traits.size(); ++i) {
      const double trait = traits[i] > 0 ? std::log2(traits[i] + 1) : -1;
      for (std::size_t j = 0; j < sizes.size(); ++j) {
        sum += slope_[i][j] * std::sin(1.7 * trait + static_cast<double>(i)) * sizes[j];
      }
    }
    return sum;
  }

 private:
  std::mt19937_64& random_;
  std::normal_distribution<double> normal_;
  std::array<std::array<double, 4>, 8> slope_{};
  std::vector<double> own_;
};

std::string train(const SelectCase& of, const Family& family) {
  const Schema& schema = Schema::find("gemm");
  const std::size_t features = schema.size(), configs = family.configs.size();
  const std::size_t time = schema.index("analytic_time_us");
  std::mt19937_64 random(7);
  Bend bend(configs, random);
  std::vector<double> all(configs * features), matrix, log_time(configs);
  std::vector<float> labels;
  for (std::size_t p = 0; p < kProblems; ++p) {
    const GemmProblem problem = select_problem(of, random);
    schema.evaluate(problem, family.device, family.configs, family.traits, all);
    for (std::size_t c = 0; c < configs; ++c) {
      log_time[c] = std::log(all[c * features + time]) + bend(problem, family.traits[c], c);
    }
    const double best = *std::ranges::min_element(log_time);
    for (std::size_t i = 0; i < kConfigsOfEach; ++i) {
      const std::size_t c = random() % configs;
      const auto row = all.begin() + static_cast<std::ptrdiff_t>(c * features);
      matrix.insert(matrix.end(), row, row + static_cast<std::ptrdiff_t>(features));
      labels.push_back(static_cast<float>(std::max(best - log_time[c], -4.0)));
    }
  }
  std::vector<std::string> names;
  for (const Feature& feature : schema.features()) names.push_back(feature.id);
  const std::string parameters = fmt::format(
      "verbosity=-1 num_threads=2 deterministic=true force_col_wise=true objective=regression num_leaves={} "
      "learning_rate=0.05 min_data_in_leaf=20 feature_fraction=0.8 bagging_fraction=0.9 bagging_freq=1 "
      "seed=3",
      of.leaves);
  lightgbm::Dataset data(matrix, names, parameters);
  data.set_labels(labels);
  lightgbm::Booster booster(data, parameters);
  for (std::size_t tree = 0; tree < kTrees && booster.update(); ++tree) {
  }
  return booster.text(-1);
}

}  // namespace

Family select_family(const SelectCase& of) {
  FamilyRequest request;
  request.provider = of.provider;
  request.signature = signature_of(make_gemm(1, 1, 1, of.dtype, of.layout));
  request.device = device_preset(of.device);
  request.rules = "full";
  const Family whole = enumerate(request);
  std::set<std::vector<std::uint64_t>> seen;
  std::vector<std::size_t> distinct;
  for (std::size_t i = 0; i < whole.configs.size(); ++i) {
    if (seen.insert(bits_of(whole.traits[i])).second) distinct.push_back(i);
  }
  Family family = whole;
  family.configs = ConfigTable(whole.configs.space());
  family.traits.clear();
  for (std::size_t i = 0; i < of.configs; ++i) {
    const std::size_t at = distinct.at(i * distinct.size() / of.configs);
    family.configs.push_back(whole.configs[at]);
    family.traits.push_back(whole.traits[at]);
  }
  return family;
}

GemmProblem select_problem(const SelectCase& of, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto size = [&] {
    double value = std::exp2(3 + 10 * uniform(random));
    if (uniform(random) < 0.5) value = std::exp2(std::round(std::log2(value)));
    return std::max<std::int64_t>(8, static_cast<std::int64_t>(value) / 8 * 8);
  };
  const std::int64_t m = uniform(random) < 0.3 ? 1 + static_cast<std::int64_t>(64 * uniform(random)) : size();
  const std::int64_t n = size(), k = size();
  return make_gemm(m, n, k, of.dtype, of.layout);
}

std::filesystem::path train_select_model(const SelectCase& of, const Family& family,
                                         const std::filesystem::path& folder) {
  // A schema that grew asks for another model.
  const std::size_t features = Schema::find("gemm").size();
  const auto file = folder / fmt::format("{}_{}_of_{}.txt", of.provider, of.leaves, features);
  if (!std::filesystem::exists(file)) {
    fmt::print(stderr, "select: training {} ({} configs, {} leaves)\n", of.name, of.configs, of.leaves);
    std::filesystem::create_directories(folder);
    write_file_atomically(file, train(of, family));
  }
  return file;
}

}  // namespace kscout::bench
