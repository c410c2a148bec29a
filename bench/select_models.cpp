#include "select_models.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "features/schema.h"
#include "forest/ksf.h"
#include "train/train.h"

namespace kscout::bench {

namespace {

constexpr std::size_t kProblems = 200, kConfigsOfEach = 200;

std::vector<std::uint64_t> bits_of(const Traits& traits) {
  std::vector<std::uint64_t> bits;
  for_each_field<Traits>(
      [&](const auto& field) { bits.push_back(std::bit_cast<std::uint64_t>(traits.*field.member)); });
  return bits;
}

/// ln of the factor between a config's analytic and its synthetic time: smooth in the logarithms of the
/// sizes, jagged in the traits.
class Bend {
 public:
  Bend(std::size_t configs, std::mt19937_64& random) : random_(random) {
    for (auto& row : slope_) {
      for (double& slope : row) slope = 0.03 * normal_(random_);
    }
    for (std::size_t i = 0; i < configs; ++i) own_.push_back(0.1 * normal_(random_));
  }

  double operator()(const std::array<double, 3>& of, const Traits& t, std::size_t config) {
    const std::array<double, 8> traits = {t.inner_m, t.inner_n, t.tile_m,  t.tile_n,
                                          t.tile_k,  t.workers, t.split_k, t.order};
    const std::array<double, 4> sizes = {std::log2(of[0]) - 6, std::log2(of[1]) - 8, std::log2(of[2]) - 8, 1};
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

/// Three sizes that measure how large a problem is.
std::array<double, 3> sizes_of(const Problem& problem) {
  const auto sizes = [](auto... of) { return std::array{static_cast<double>(of)...}; };
  if (problem.op() == Op::gemm) return sizes(problem.gemm().m, problem.gemm().n, problem.gemm().k);
  const ConvProblem& conv = problem.conv();
  return sizes(conv.n * conv.h * conv.w, conv.k, conv.c * conv.y * conv.x);
}

MeasurementTable measurements(const Family& family) {
  const std::size_t configs = family.configs.size();
  const Schema& analytic = analytic_schema(family.signature.op, family.provider);
  MeasurementTable table;
  table.device = family.device;
  table.metadata["rules"] = family.rules;
  for (std::size_t c = 0; c < configs; ++c) table.configs.push_back(family.configs[c]);
  std::mt19937_64 random(7);
  Bend bend(configs, random);
  std::vector<double> time_us(configs);
  std::vector<std::uint8_t> applicable;
  while (table.problems.size() < kProblems) {
    const Problem problem = select_problem(family.signature, random);
    if (std::ranges::find(table.problems, problem) != table.problems.end()) continue;
    analytic.evaluate(problem, family.device, family.configs, family.traits, time_us);
    applicable_configs(family, problem, applicable);
    const auto number = static_cast<std::uint32_t>(table.problems.size());
    table.problems.push_back(problem);
    std::vector<std::uint32_t> order(configs);
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::shuffle(order, random);
    order.resize(std::min(configs, kConfigsOfEach));
    for (const std::uint32_t c : order) {
      if (applicable[c] == 0 || !std::isfinite(time_us[c])) continue;
      Measurement measured;
      measured.time_us = time_us[c] * std::exp(bend(sizes_of(problem), family.traits[c], c));
      measured.repeats = 1;
      table.rows.push_back({number, c, measured});
    }
  }
  return table;
}

}  // namespace

Family select_family(const SelectCase& of) {
  FamilyRequest request;
  request.provider = of.provider;
  request.signature = of.op == Op::gemm ? signature_of(make_gemm(1, 1, 1, of.dtype, of.layout))
                                        : signature_of(make_conv(of.op, of.dtype, of.layout));
  request.device = device_preset(of.device);
  request.rules = "full";
  const Family whole = enumerate(request);
  if (of.configs == 0) return whole;
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
  family.default_config = 0;
  return family;
}

Problem select_problem(const Signature& of, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto size = [&](double min_bits, double bits) {
    double value = std::exp2(min_bits + bits * uniform(random));
    if (uniform(random) < 0.5) value = std::exp2(std::round(std::log2(value)));
    return std::max<std::int64_t>(8, static_cast<std::int64_t>(value) / 8 * 8);
  };
  if (is_direction(of.op)) {
    ConvProblem conv = make_conv(of.op, of.dtype_a, of.layout);
    conv.n = size(3, 4);
    conv.c = size(4, 6);
    conv.k = size(4, 6);
    conv.h = conv.w = size(3, 4);
    conv.y = conv.x = random() % 2 == 0 ? 1 : 3;
    conv.left_pad_h = conv.left_pad_w = conv.right_pad_h = conv.right_pad_w = conv.y / 2;
    return conv;
  }
  GemmProblem gemm = make_gemm(1, size(3, 10), size(3, 10), of.dtype_a, of.layout);
  gemm.m = uniform(random) < 0.3 ? 1 + static_cast<std::int64_t>(64 * uniform(random)) : size(3, 10);
  gemm.dtype_b = of.dtype_b;
  gemm.dtype_c = of.dtype_c;
  gemm.dtype_acc = of.dtype_acc;
  gemm.epilogue = of.epilogue;
  gemm.accumulate = of.accumulate;
  return gemm;
}

std::filesystem::path train_select_model(const SelectCase& of, const std::filesystem::path& folder) {
  const Family family = select_family(of);
  const auto schema = std::make_shared<const Schema>(
      Schema::find(std::string(default_schema(of.op, of.provider, family.device.kind))).for_op(of.op));
  // The name contains schema and format, so changing either trains another model.
  const auto model =
      folder / fmt::format("{}_{}_{:016x}_v{}", of.provider, word(of.op), schema->hash(), kKsfVersion);
  if (std::filesystem::exists(model)) return model;
  fmt::print(stderr, "select: training for {}\n", of.name);
  std::filesystem::create_directories(folder);
  TrainOptions options;
  options.folds = 2;
  options.targets = {Target::relative};
  options.parameters.learning_rate = 0.2;
  options.parameters.rounds = options.parameters.min_rounds = 260;
  options.parameters.threads = 2;
  const std::vector<CompactTable> tables = {measurements(family)};
  TrainingResult result = train(tables, {family}, schema, options, {});
  // Measurements as random as these teach a shortlist too little to be kept. A choice with it costs the same.
  if (!result.model.data().shortlist) {
    ModelData data = result.model.data();
    data.shortlist = train_shortlist(
        result.set, data.families, [](std::size_t) { return true; }, options.parameters.seed);
    result.model = Model(std::move(data));
  }
  write_model_folder(model, result, {});
  return model;
}

}  // namespace kscout::bench
