// Measures a cold choice on one core: a selector gets a new problem, with caches emptied before each call.
// Beside it, in the same run: LightGBM scoring the 32 configs that the second step of a choice scores. Models
// of GPUs choose among recorded lists of the library, so its own time to make one is not part of it.
//
//   select [--prepare] [--shipped] [SECONDS]
//
// Models are trained on first use (bench/select_models.h) and kept beside the program; --prepare does only
// that, --shipped measures only shipped models. Run from the repository's root, where models/ and data/ are.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <kscout/error.h>
#include <kscout/selector.h>

#include "dataset/dataset.h"
#include "export/header.h"
#include "family/listed.h"
#include "features/schema.h"
#include "forest/family_forest.h"
#include "provider/joint.h"
#include "select_models.h"
#include "train/lightgbm.h"

namespace {

using namespace kscout;
using namespace kscout::bench;
using Clock = std::chrono::steady_clock;

/// A trained family, or a shipped model, or one that chooses among the lists of a table of data/.
struct Case {
  SelectCase of;
  const char* result;
  const char* shipped = nullptr;
  const char* lists = nullptr;
};
constexpr Case kCases[] = {
    {{"1,008 native configs", "native", "epyc-7763", Op::gemm, DType::fp32, Layout::rrr, 1008},
     "cold_us_1000"},
    {{"2,404 CK Tile, convolution", "ck_tile", "gfx942", Op::conv_bwd_weight, DType::bf16, Layout::nhwgc, 0},
     "cold_us_2404"},
    {{"4,608 CK Tile configs", "ck_tile", "gfx942", Op::gemm, DType::fp16, Layout::rcr, 4608},
     "cold_us_4608"},
    {{"shipped bf16 H200, lists", "cublaslt", "h200", Op::gemm, DType::bf16, Layout::rcr, 0},
     "cold_us_bf16_h200",
     "models/gemm_bf16_h200",
     "data/gemm_bf16_h200.listed_held_out.parquet"},
    {{"shipped conv_fwd H200, lists", "cudnn", "h200", Op::conv_fwd, DType::bf16, Layout::nhwgc, 0},
     "cold_us_conv_fwd_h200",
     "models/conv_fwd_bf16_h200",
     "data/conv_fwd_bf16_h200.networks_held_out.parquet"},
    {{"shipped fp32 any CPU, rrr", "native", "", Op::gemm, DType::fp32, Layout::rrr, 0},
     "cold_us_any_cpu",
     "models/gemm_fp32_any_cpu"},
    {{"shipped fp32 any CPU, forward", "native", "", Op::conv_fwd, DType::fp32, Layout::nhwgc, 0},
     "cold_us_any_cpu_conv",
     "models/conv_fwd_fp32_any_cpu"},
};

/// Reads and writes more memory than the caches hold, as a program does between its choices.
class CacheSweep {
 public:
  void operator()() {
    for (std::size_t i = 0; i < memory_.size(); i += 64) ++memory_[i];
  }

 private:
  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(std::size_t{96} << 20);
};

double microseconds(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Times {
  std::vector<double> cold, warm, rules, exact, lightgbm;
};

/// The 32 configs with the highest scores, or all.
std::vector<std::uint32_t> best_of(const Model& model, ProblemRef problem, std::size_t configs) {
  std::vector<double> scores(configs);
  model.score(problem, scores);
  std::vector<std::uint32_t> order(configs);
  std::iota(order.begin(), order.end(), 0u);
  const std::size_t count = std::min<std::size_t>(32, configs);
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), std::ranges::greater(),
                            [&](std::uint32_t config) { return scores[config]; });
  order.resize(count);
  return order;
}

/// Features of some configs of a family, row-major.
std::vector<double> matrix_of(const Schema& schema, const Family& family, ProblemRef problem,
                              std::span<const std::uint32_t> picked) {
  ConfigTable configs(family.configs.space());
  std::vector<Traits> traits;
  for (const std::uint32_t config : picked) {
    configs.push_back(family.configs[config]);
    traits.push_back(family.traits[config]);
  }
  std::vector<double> matrix(picked.size() * schema.size());
  schema.evaluate(problem, family.device, configs, traits, matrix);
  return matrix;
}

Times measure(const std::filesystem::path& folder, const Case& of, double seconds) {
  const Model model = Model::load(folder);
  const ModelData& data = model.data();
  const auto found = std::ranges::find_if(
      data.families, [&](const Family& family) { return family.signature.layout == of.of.layout; });
  if (found == data.families.end()) throw std::runtime_error(folder.string() + " has no such layout");
  const Family& family = *found;
  const Selector selector = Selector::load(folder);
  const Forest& trees = data.targets.front().forest;
  const lightgbm::Booster booster(model_lightgbm(model, std::nullopt));
  const FamilyForest forest(trees, data.best_tflops, data.best_features, *data.schema, family);
  FamilyForest::Scratch scratch;
  const ApplicabilityRules rules(family.applicability, family.configs, family.traits, family.device);
  ApplicabilityRules::Scratch rules_scratch;
  CacheSweep sweep;
  Times times;
  std::mt19937_64 random(99);
  double sum = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (bool first = true; first || Clock::now() < end; first = false) {
    const Problem problem = select_problem(family.signature, random);
    const auto picked = best_of(model, problem, family.configs.size());
    const auto matrix = matrix_of(*data.schema, family, problem, picked);
    std::vector<double> exact(picked.size()), scores;
    std::vector<std::uint8_t> applicable(picked.size());
    const auto measured = [&](std::vector<double>& to, const std::function<void()>& work) {
      sweep();
      const double us = microseconds(work);
      if (!first) to.push_back(us);  // the first call allocates what later ones reuse
    };
    Choice choice;
    measured(times.cold, [&] { choice = selector.select(problem); });
    measured(times.rules, [&] { rules.evaluate(problem, picked, applicable, rules_scratch); });
    measured(times.exact, [&] {
      if (!forest.scores(problem, picked, exact, scratch))
        throw std::runtime_error("the schema cannot describe " + print(problem));
      sum += forest.score_of_problem(scratch);
    });
    measured(times.lightgbm, [&] { scores = booster.predict(matrix, trees.feature_count); });
    if (scores != exact) throw std::runtime_error("scores differ from LightGBM's for " + print(problem));
    const Problem another = select_problem(family.signature, random);
    const double us = microseconds([&] { choice = selector.select(another); });
    if (!first) times.warm.push_back(us);
  }
  if (!(sum == sum)) throw std::runtime_error("a score is NaN");
  return times;
}

/// The library's lists of a table's problems, best first.
std::vector<std::pair<Problem, std::vector<KernelConfig>>> lists_of(const char* path,
                                                                    std::string_view provider) {
  const MeasurementTable table = read_dataset(path);
  std::map<std::uint32_t, std::map<std::int64_t, KernelConfig>> by_place;
  for (const auto& row : table.rows) {
    const KernelConfig member = member_config(table.configs[row.config]);
    if (member.space->provider != provider || member["suggestion"] <= 0) continue;
    by_place[row.problem].emplace(member["suggestion"], *listed_config(member, 0));
  }
  std::vector<std::pair<Problem, std::vector<KernelConfig>>> lists;
  for (const auto& [problem, places] : by_place) {
    auto& list = lists.emplace_back(table.problems[problem], std::vector<KernelConfig>()).second;
    for (const auto& [place, config] : places) list.push_back(config);
  }
  return lists;
}

/// Decisions among lists: `cold` and `warm` only.
Times measure_lists(const Case& of, double seconds) {
  const auto lists = lists_of(of.lists, of.of.provider);
  const std::vector<KernelConfig>* now = nullptr;
  const SelectorRequest request{
      .device = device_preset(of.of.device), .suggestions = [&](ProblemRef, std::size_t count) {
        return std::vector(now->begin(),
                           now->begin() + static_cast<std::ptrdiff_t>(std::min(count, now->size())));
      }};
  CacheSweep sweep;
  Times times;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (bool first = true; first || Clock::now() < end; first = false) {
    const std::array selectors{Selector::load(of.shipped, request), Selector::load(of.shipped, request)};
    for (const auto& one : lists) {
      const Problem& problem = one.first;
      now = &one.second;
      Choice choice;
      sweep();
      times.cold.push_back(microseconds([&] { choice = selectors[0].select(problem); }));
      times.warm.push_back(microseconds([&] { choice = selectors[1].select(problem); }));
    }
  }
  return times;
}

double at(std::vector<double> values, double q) {
  std::ranges::sort(values);
  return values.at(static_cast<std::size_t>(q * static_cast<double>(values.size() - 1)));
}

int run(bool only_prepare, bool only_shipped, double seconds, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> models;
  for (const Case& of : kCases) {
    if (of.shipped) {
      models.emplace_back(of.shipped);
    } else {
      models.push_back(only_shipped ? std::filesystem::path() : train_select_model(of.of, folder));
    }
  }
  if (only_prepare) return 0;
  fmt::print(
      "microseconds on one core, caches emptied before each call but for `warm`; cold, warm: a selector's "
      "choice for a new problem;\n"
      "of 32 configs: rules, exact (features and scores), LightGBM's scores from finished features\n\n"
      "{:<28} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>7}\n",
      "", "cold p50", "p99", "warm p50", "rules", "exact", "lightgbm", "rounds");
  std::string results;
  for (std::size_t i = 0; i < std::size(kCases); ++i) {
    if (models[i].empty()) continue;
    const bool lists = kCases[i].lists != nullptr;
    const Times times = lists ? measure_lists(kCases[i], seconds) : measure(models[i], kCases[i], seconds);
    const auto median = [](const std::vector<double>& of) {
      return of.empty() ? std::string("-") : fmt::format("{:.1f}", at(of, 0.5));
    };
    fmt::print("{:<28} {:>9} {:>9.1f} {:>9} {:>9} {:>9} {:>10} {:>7}\n", kCases[i].of.name,
               median(times.cold), at(times.cold, 0.99), median(times.warm), median(times.rules),
               median(times.exact), median(times.lightgbm), times.cold.size());
    results += fmt::format("RESULT select.{} {} us\n", kCases[i].result, median(times.cold));
    if (i == 0) {
      results += fmt::format("RESULT select.exact_vs_lightgbm {:.1f} x\n",
                             at(times.lightgbm, 0.5) / at(times.exact, 0.5));
    }
  }
  fmt::print("\n{}", results);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bool only_prepare = false, only_shipped = false;
  double seconds = 10;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--prepare") {
      only_prepare = true;
    } else if (std::string_view(argv[i]) == "--shipped") {
      only_shipped = true;
    } else {
      seconds = std::atof(argv[i]);
    }
  }
  try {
    return run(only_prepare, only_shipped, seconds,
               std::filesystem::path(argv[0]).parent_path() / "select_models");
  } catch (const std::exception& error) {
    fmt::print(stderr, "select: {}\n", error.what());
    return 4;
  }
}
