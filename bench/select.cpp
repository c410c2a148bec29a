// What a cold choice costs: the factored forest beside LightGBM's own prediction and beside code that tl2cgen
// compiled from the same model, all single-threaded, in one run.
//
//   select [--prepare] [SECONDS]
//
// Models are trained on first use (bench/select_models.h) and kept beside the program; --prepare does only
// that. The peers get the features of all configs as a finished matrix; the factored forest computes its own.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

#include <kscout/error.h>

#include "core/files.h"
#include "core/numbers.h"
#include "features/schema.h"
#include "forest/factored.h"
#include "select_models.h"
#include "train/lightgbm.h"

namespace {

using namespace kscout;
using namespace kscout::bench;
using Clock = std::chrono::steady_clock;

constexpr SelectCase kCases[] = {
    {"500 x 31, 1008 configs", "native", "epyc-7763", DType::fp32, Layout::rrr, 1008, 31},
    {"500 x 31, 4608 configs", "ck_tile", "gfx942", DType::fp16, Layout::rcr, 4608, 31},
    {"500 x 127, 1008 configs", "native", "epyc-7763", DType::fp32, Layout::rrr, 1008, 127},
};

double microseconds(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Code that tl2cgen made of a model. Absent when ./dev could not install tl2cgen.
class Tl2cgen {
 public:
  Tl2cgen(const std::filesystem::path& model, bool compile) {
    auto library = model;
    library.replace_extension(".tl2cgen.so");
    const char* const python = std::getenv("KSCOUT_BENCH_PYTHON");
    if (!std::filesystem::exists(library) && compile && python) {
      fmt::print(stderr, "select: compiling {} with tl2cgen\n", model.filename().string());
      const std::string command = fmt::format("'{}' bench/tl2cgen_compile.py '{}' '{}' 2>/dev/null >&2",
                                              python, model.string(), library.string());
      if (std::system(command.c_str()) != 0) fmt::print(stderr, "select: tl2cgen failed\n");
    }
    if (!std::filesystem::exists(library)) return;
    if (void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      predict_ = reinterpret_cast<void (*)(Entry*, int, double*)>(dlsym(handle, "predict"));
    }
  }
  explicit operator bool() const { return predict_ != nullptr; }

  /// tl2cgen's own way marks missing values by -1 in the integer's place; NaN there has the same meaning.
  void predict(std::span<const double> matrix, std::size_t features, std::span<double> scores) const {
    std::vector<Entry> row(features);
    for (std::size_t r = 0; r < scores.size(); ++r) {
      for (std::size_t f = 0; f < features; ++f) {
        const double value = matrix[r * features + f];
        if (value == value) {
          row[f].value = value;
        } else {
          row[f].missing = -1;
        }
      }
      scores[r] = 0;
      predict_(row.data(), 0, &scores[r]);
    }
  }

 private:
  union Entry {
    int missing;
    double value;
  };
  void (*predict_)(Entry*, int, double*) = nullptr;
};

struct Times {
  std::vector<double> cold, features, lightgbm, tl2cgen, exact, questions, sliced;
};

/// Who answers when. One at a time: everybody finds the others' data in caches and branch predictors, as in a
/// program that does other work between its choices. In blocks: everybody answers nine problems in a row; the
/// first answer of a block is not counted.
struct Protocol {
  const char* name;
  std::size_t block, counted_from;
};
constexpr Protocol kProtocols[] = {{"one at a time", 1, 0}, {"blocks of nine", 9, 1}};

Times measure(const SelectCase& of, const Family& family, const std::filesystem::path& file, double seconds,
              const Protocol& protocol) {
  const LightgbmModel model = read_lightgbm(file);
  const lightgbm::Booster booster(read_file(file));
  const Tl2cgen compiled(file, false);
  const Schema& schema = Schema::find("gemm");
  const std::size_t features = schema.size(), configs = family.configs.size();
  const FactoredForest forest(model.forest, schema, family.device, family.configs, family.traits);
  FactoredForest::Scratch scratch(forest);
  std::vector<std::uint8_t> asked(features, 0);
  for (const std::uint32_t feature : model.forest.feature) asked[feature] = 1;
  const Schema::Factored factored(schema, family.device, family.configs, family.traits, asked);
  Schema::Factored::Scratch factored_scratch(factored);
  const std::vector<std::uint8_t> allowed(configs, 1);
  std::vector<double> matrix(configs * features), compiled_scores(configs), scores;

  Times times;
  std::mt19937_64 random(99);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    std::vector<GemmProblem> problems;
    for (std::size_t i = 0; i < protocol.block; ++i) problems.push_back(select_problem(of, random));
    std::vector<ScoredConfig> best(protocol.block);
    const auto block = [&](std::vector<double>& to, const auto& answer) {
      for (std::size_t i = 0; i < protocol.block; ++i) {
        const double us = answer(i);
        if (i >= protocol.counted_from) to.push_back(us);
      }
    };
    block(times.cold, [&](std::size_t i) {
      const std::span place = std::span(best).subspan(i, 1);
      const double us = microseconds([&] { (void)forest.top(problems[i], allowed, place, scratch); });
      times.exact.push_back(static_cast<double>(scratch.counts().exact));
      times.questions.push_back(static_cast<double>(scratch.counts().questions));
      times.sliced.push_back(static_cast<double>(scratch.counts().sliced));
      return us;
    });
    block(times.features, [&](std::size_t i) {
      return microseconds([&] { (void)factored.evaluate(problems[i], factored_scratch); });
    });
    block(times.lightgbm, [&](std::size_t i) {
      schema.evaluate(problems[i], family.device, family.configs, family.traits, matrix);
      const double us = microseconds([&] { scores = booster.predict(matrix, features); });
      const auto top = std::ranges::max_element(scores);
      if (best[i].config != static_cast<std::size_t>(top - scores.begin()) || best[i].score != *top) {
        throw std::runtime_error("the factored forest differs from LightGBM for " + print(problems[i]));
      }
      return us;
    });
    if (!compiled) continue;
    block(times.tl2cgen, [&](std::size_t i) {
      schema.evaluate(problems[i], family.device, family.configs, family.traits, matrix);
      return microseconds([&] { compiled.predict(matrix, features, compiled_scores); });
    });
  }
  return times;
}

double at(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

/// The first trees of a forest: for the table of costs.
Forest first_trees(const Forest& whole, std::size_t trees) {
  Forest part = whole;
  part.tree_nodes.resize(trees + 1);
  part.tree_leaves.resize(trees + 1);
  for (auto* const nodes : {&part.left, &part.right}) nodes->resize(part.tree_nodes.back());
  part.threshold.resize(part.tree_nodes.back());
  part.feature.resize(part.tree_nodes.back());
  part.decision.resize(part.tree_nodes.back());
  part.leaf_value.resize(part.tree_leaves.back());
  return part;
}

double median_cold(const SelectCase& of, const Family& family, const Forest& trees) {
  const FactoredForest forest(trees, Schema::find("gemm"), family.device, family.configs, family.traits);
  FactoredForest::Scratch scratch(forest);
  const std::vector<std::uint8_t> allowed(family.configs.size(), 1);
  std::mt19937_64 random(99);
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const GemmProblem problem = select_problem(of, random);
    std::array<ScoredConfig, 1> best;
    times.push_back(microseconds([&] { (void)forest.top(problem, allowed, best, scratch); }));
  }
  return at(times, 0.5);
}

void print_costs(const std::filesystem::path& file) {
  fmt::print("\ncold choice, median us, by configs and trees (31 leaves, native)\n{:>8}", "configs");
  constexpr std::array<std::size_t, 4> tree_counts = {50, 125, 250, 500};
  for (const std::size_t trees : tree_counts) fmt::print(" {:>8}", trees);
  fmt::print("\n");
  const Forest whole = read_lightgbm(file).forest;
  for (const std::size_t configs : {63u, 126u, 252u, 504u, 1008u}) {
    SelectCase of = kCases[0];
    of.configs = configs;
    const Family family = select_family(of);
    fmt::print("{:>8}", configs);
    for (const std::size_t trees : tree_counts) {
      fmt::print(" {:>8.1f}", median_cold(of, family, first_trees(whole, trees)));
    }
    fmt::print("\n");
  }
}

void print_times(const SelectCase& of, const Times& times) {
  const double cold = at(times.cold, 0.5), features = at(times.features, 0.5), forest = cold - features;
  const double lightgbm = at(times.lightgbm, 0.5), tl2cgen = at(times.tl2cgen, 0.5);
  fmt::print(
      "{:<26} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>10.1f} {:>10.1f} {:>7.1f} {:>7.0f} {:>7}\n",
      of.name, cold, at(times.cold, 0.99), at(times.cold, 1), features, forest, lightgbm, tl2cgen,
      at(times.exact, 0.5), at(times.exact, 0.99), times.cold.size());
  fmt::print(
      "{:<26} forest over lightgbm {:.1f}x, over tl2cgen {:.1f}x; {:.0f} of 500 trees part the configs, "
      "{:.0f} questions\n",
      "", lightgbm / forest, tl2cgen / forest, at(times.sliced, 0.5), at(times.questions, 0.5));
}

/// The lines that docs/bench/ and release checks read.
std::string results_of(std::size_t which, const Times& times) {
  const double cold = at(times.cold, 0.5), forest = cold - at(times.features, 0.5);
  if (which == 1) return fmt::format("RESULT select.cold_us_4608 {:.1f} us\n", cold);
  if (which != 0) return "";
  const double tl2cgen = at(times.tl2cgen, 0.5);
  std::string lines =
      fmt::format("RESULT select.forest_vs_lightgbm {:.1f} x\n", at(times.lightgbm, 0.5) / forest);
  if (tl2cgen > 0) lines += fmt::format("RESULT select.forest_vs_tl2cgen {:.1f} x\n", tl2cgen / forest);
  return lines + fmt::format("RESULT select.cold_us_1000 {:.1f} us\n", cold);
}

int run(bool only_prepare, double seconds, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const SelectCase& of : kCases) {
    files.push_back(train_select_model(of, select_family(of), folder));
    // Compiling the large model takes gcc minutes; the bar is on the first.
    if (&of == kCases) const Tl2cgen compiled(files.back(), true);
  }
  if (only_prepare) return 0;
  fmt::print(
      "microseconds on one core; cold = features, forest and arg-max of one problem; forest = cold less its "
      "features\n\n");
  fmt::print("{:<26} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10} {:>10} {:>7} {:>7} {:>7}\n", "", "cold p50", "p99",
             "max", "features", "forest", "lightgbm", "tl2cgen", "exact", "p99", "rounds");
  std::string results;
  for (const Protocol& protocol : kProtocols) {
    fmt::print("{}\n", protocol.name);
    for (std::size_t i = 0; i < std::size(kCases); ++i) {
      const Times times = measure(kCases[i], select_family(kCases[i]), files[i], seconds, protocol);
      print_times(kCases[i], times);
      // What a program meets carries the results.
      if (&protocol == kProtocols) results += results_of(i, times);
    }
  }
  print_costs(files[0]);
  fmt::print("\n{}", results);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bool only_prepare = false;
  double seconds = 3;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--prepare") {
      only_prepare = true;
    } else {
      seconds = std::atof(argv[i]);
    }
  }
  try {
    return run(only_prepare, seconds, std::filesystem::path(argv[0]).parent_path() / "select_models");
  } catch (const std::exception& error) {
    fmt::print(stderr, "select: {}\n", error.what());
    return 4;
  }
}
