// Measures the quality of `kscout search --measure` by replay: tables of measurements replace the device.
// Beside it: timing configs in the starting order only.
//
//   search [--training] [PROBLEMS]      default: the held-out tables, all problems whose rows are complete
//
// Then compares the strategies of the public CK Tile tools with a model as objective (random draws and
// differential evolution) with scoring every config.
#include "search/search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <kscout/error.h>
#include <kscout/family.h>

#include "core/numbers.h"
#include "dataset/columns.h"
#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "family/family_file.h"
#include "op/conv/conv_sets.h"
#include "search/measured_search.h"

namespace {

using namespace kscout;
using Clock = std::chrono::steady_clock;

/// A held-out table of measurements and one of training. A search is among all configs of a table.
struct TableName {
  const char* name;
  const char* model = nullptr;  ///< null: that of the table's name
};
constexpr TableName kTables[] = {
    {"gemm_bf16_h200"},
    {"gemm_fp16_h200", "gemm_bf16_h200"},
    {"gemm_fp8_h200"},
    {"gemm_fp32_zen3-2c", "gemm_fp32_any_cpu"},
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// ------------------------------------------------------------------------------------------------- replay

/// Replays the rows of one problem. Rows that the sweep pruned early rank after those that are `ok`, however
/// short their coarse times. A config without a row was pruned early, too, and its row was dropped: it gets
/// the time of the slowest row.
class Replay final : public ConfigTimer {
 public:
  explicit Replay(std::vector<Measurement> measured) : measured_(std::move(measured)) {}

  double time_us(std::uint32_t config) override {
    const Measurement& measured = measured_[config];
    return was_timed(measured) ? measured.time_us : Measurement::unknown;
  }

  std::vector<Retimed> retime(std::span<const std::uint32_t> configs) override {
    std::vector<Retimed> retimed;
    for (const std::uint32_t config : configs)
      retimed.push_back({time_us(config), measured_[config].status == Status::ok});
    return retimed;
  }

  const Measurement& operator[](std::uint32_t config) const { return measured_[config]; }

 private:
  std::vector<Measurement> measured_;
};

/// Times the configs of a search's start, in that order and nothing else.
MeasuredSearchResult time_in_order(const SearchSpace& space, Replay& replay, SearchStart start) {
  start.in_order = start.evaluations;
  return search_by_measuring(space, replay, {.start = start, .evaluations = start.evaluations});
}

/// Results of one search method over the problems of a table.
struct Line {
  std::string name;
  std::vector<double> share = {};  ///< speed of the found config over the oracle's
  std::vector<double> timed = {};
  double ms = 0;
};

/// A problem of a held-out table is replayed if at least this share of the family has rows.
constexpr double kComplete = 0.8;

class TableReplay {
 public:
  TableReplay(const TableName& of, bool training)
      : name_(of.name),
        training_(training),
        table_(read_dataset(
            fmt::format(KSCOUT_DATA "/{}.{}.parquet", of.name, training ? "train" : "held_out"))),
        model_(Model::load(std::string(KSCOUT_MODELS "/") + (of.model ? of.model : of.name))),
        rows_(final_rows(table_)) {}

  void run(std::size_t most) {
    const std::size_t step = std::max<std::size_t>(1, rows_.size() / std::min(most, rows_.size()));
    for (std::size_t p = 0; p < rows_.size(); p += step) {
      if (const auto oracle = oracle_of(rows_[p])) replay(table_.problems[p], rows_[p], oracle->measured);
    }
    print();
  }

  const std::vector<double>& share_with_model() const { return lines_[0].share; }
  const std::vector<double>& share_without() const { return lines_[2].share; }

 private:
  const Family& family_of(const Signature& signature) {
    for (const auto& [known, family] : families_) {
      if (known == signature) return family;
    }
    ConfigTable configs(*table_.configs.front().space);
    for (const KernelConfig& config : table_.configs) configs.push_back(config);
    families_.emplace_back(signature, family_of_configs(signature, table_.device, std::move(configs)));
    return families_.back().second;
  }

  /// The rows of a family's configs, in family order.
  std::vector<Measurement> measured(const ConfigTable& configs, const std::vector<FinalRow>& rows,
                                    std::size_t& known) const {
    std::unordered_map<KernelConfig, Measurement> by_config;
    Measurement slowest;
    for (const FinalRow& row : rows) {
      by_config.emplace(table_.configs[row.config], row.measured);
      if (was_timed(row.measured) && !(row.measured.time_us < slowest.time_us)) slowest = row.measured;
    }
    slowest.status = Status::pruned_early;
    std::vector<Measurement> measured;
    for (std::size_t i = 0; i < configs.size(); ++i) {
      const auto found = by_config.find(configs[i]);
      known += found != by_config.end() ? 1 : 0;
      measured.push_back(found != by_config.end() ? found->second : slowest);
    }
    return measured;
  }

  void replay(const Problem& problem, const std::vector<FinalRow>& rows, const Measurement& oracle) {
    const SearchSpace space(applicable_table(family_of(signature_of(problem)), problem));
    std::size_t known = 0;
    Replay timer(measured(space.configs(), rows, known));
    if (!training_ && static_cast<double>(known) < kComplete * static_cast<double>(space.size())) return;
    sizes_.push_back(static_cast<double>(space.size()));

    const SearchStart by_model = start_by_model(model_, problem, space.configs());
    const SearchStart by_cost = start_by_cost(problem, space.configs(), table_.device);
    const auto add = [&](Line& line, const auto& search) {
      const auto begin = Clock::now();
      const MeasuredSearchResult found = search();
      line.ms += 1e3 * seconds_since(begin);
      line.timed.push_back(static_cast<double>(found.timed));
      line.share.push_back(found.best.empty() ? 0
                                              : share_of_oracle(timer[found.best.front().config], oracle));
    };
    add(lines_[0], [&] {
      return search_by_measuring(space, timer, {.start = by_model, .evaluations = by_model.evaluations});
    });
    add(lines_[1], [&] { return time_in_order(space, timer, by_model); });
    add(lines_[2], [&] {
      return search_by_measuring(space, timer, {.start = by_cost, .evaluations = by_cost.evaluations});
    });
    add(lines_[3], [&] { return time_in_order(space, timer, by_cost); });
  }

  void print() const {
    fmt::print("{}: {} of {} problems replayed; {:.0f} configs each (median)\n", name_, sizes_.size(),
               rows_.size(), quantile(sizes_, 0.5));
    fmt::print("{:<36}{:>8}{:>8}{:>8}{:>14}{:>10}\n", "", "mean %", "P10 %", "min %", "timed, mean", "ms");
    for (const Line& line : lines_) {
      fmt::print("{:<36}{:>8.2f}{:>8.2f}{:>8.2f}{:>14.1f}{:>10.1f}\n", line.name, 100 * mean(line.share),
                 100 * quantile(line.share, 0.1), 100 * quantile(line.share, 0), mean(line.timed),
                 line.ms / static_cast<double>(line.share.size()));
    }
    fmt::print("\n");
    std::fflush(stdout);
  }

  std::string name_;
  bool training_;
  MeasurementTable table_;
  Model model_;
  std::vector<std::vector<FinalRow>> rows_;
  std::vector<std::pair<Signature, Family>> families_;
  std::vector<double> sizes_;
  std::vector<Line> lines_ = {
      {"with a model"}, {"  its order alone"}, {"without a model"}, {"  suggestions, analytic order alone"}};
};

// ------------------------------------------------------------------------------------- a model as objective

constexpr std::size_t kConvProblems = 200;

/// Compares random draws and differential evolution with scoring every config of a rule set.
void compare_strategies(const Model& model, const std::string& rules, std::size_t evaluations) {
  const FamilyRequest request{.provider = "ck_tile",
                              .signature = signature_of(make_conv(Op::conv_fwd, DType::bf16, Layout::nhwgc)),
                              .device = model.device(),
                              .rules = rules,
                              .filter = ""};
  const SearchSpace space(enumerate(request).configs);
  const auto all_problems = make_conv_set("ck_conv_train_fwd", DType::bf16);
  std::vector<double> share[2];
  double all_ms = 0, ms[2] = {};
  constexpr SearchStrategy kStrategies[] = {SearchStrategy::de, SearchStrategy::random};
  for (std::size_t p = 0; p < kConvProblems; ++p) {
    const ConvProblem& problem = all_problems[p * all_problems.size() / kConvProblems];
    const Objective objective = model_objective(model, problem, space);
    auto begin = Clock::now();
    const auto best = Searcher().search(space, objective, {.top = 1}).best.front();
    all_ms += 1e3 * seconds_since(begin);
    const auto speed = [&](double score) {
      return model.predicted_tflops(problem, std::vector{best.score, score})[1];
    };
    for (std::size_t s = 0; s < std::size(kStrategies); ++s) {
      begin = Clock::now();
      const SearchResult found = Searcher().search(
          space, objective, {.strategy = kStrategies[s], .evaluations = evaluations, .top = 1});
      ms[s] += 1e3 * seconds_since(begin);
      share[s].push_back(found.best.empty() ? 0 : speed(found.best.front().score) / speed(best.score));
    }
  }
  const auto count = static_cast<double>(kConvProblems);
  fmt::print("{}: {} configs, {} problems; scoring all takes {:.1f} ms\n", rules, space.size(), kConvProblems,
             all_ms / count);
  fmt::print("{:<36}{:>8}{:>8}{:>8}{:>14}{:>10}\n", "", "mean %", "P10 %", "min %", "evaluations", "ms");
  for (std::size_t s = 0; s < std::size(kStrategies); ++s) {
    fmt::print("{:<36}{:>8.2f}{:>8.2f}{:>8.2f}{:>14}{:>10.1f}\n", word(kStrategies[s]), 100 * mean(share[s]),
               100 * quantile(share[s], 0.1), 100 * quantile(share[s], 0), evaluations, ms[s] / count);
  }
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  bool training = false;
  std::size_t most = std::numeric_limits<std::size_t>::max();
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--training") {
      training = true;
    } else {
      most = std::strtoul(argv[i], nullptr, 10);
    }
  }
  try {
    std::string results;
    double with_model = 1, without = 1;
    for (const TableName& of : kTables) {
      TableReplay table(of, training);
      table.run(most);
      with_model = std::min(with_model, mean(table.share_with_model()));
      without = std::min(without, mean(table.share_without()));
      results += fmt::format(
          "RESULT search.measured_with_model_share.{0} {1:.2f} %\n"
          "RESULT search.measured_without_model_share.{0} {2:.2f} %\n",
          of.name, 100 * mean(table.share_with_model()), 100 * mean(table.share_without()));
    }
    if (training) return 0;
    const Model model = Model::load(KSCOUT_MODELS "/conv_fwd_bf16_gfx950");
    compare_strategies(model, "full", 64);
    compare_strategies(model, KSCOUT_BENCH "/search_space.toml", 1000);
    fmt::print(
        "{}RESULT search.measured_with_model_share {:.2f} %\n"
        "RESULT search.measured_without_model_share {:.2f} %\n",
        results, 100 * with_model, 100 * without);
  } catch (const Error& error) {
    fmt::print(stderr, "search: {}\n", error.what());
    return 4;
  }
  return 0;
}
