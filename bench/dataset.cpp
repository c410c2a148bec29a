// Measures speed and memory of datasets that are larger than memory.
//
//   dataset [--rows N] [--folder DIR [--steps merge,reduce]]       100,000,000 rows without an argument
//   dataset --rows 5000000 --steps generate,merge,train,evaluate   trains a few trees, evaluates the model
//
// Writes two datasets of N / 2 rows each, then merges, describes and reduces them, each in a process of its
// own, so that each step has a peak of its own. With --folder, the files are kept, and later runs may do
// single steps. Steps train and evaluate run only where --steps names them.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kscout/family.h>

#include "bench_program.h"
#include "core/device_facts.h"
#include "core/hash.h"
#include "dataset/file_order.h"
#include "dataset/stream.h"
#include "support/temporary_folder.h"

namespace {

using namespace kscout;
namespace fs = std::filesystem;

struct Arguments {
  std::size_t rows = 100'000'000;
  std::string folder;
  std::vector<std::string> steps = {"generate", "merge", "describe", "reduce"};
  std::string growth = "auto";
};

/// The problems and configs of a dataset of `rows` rows, both in file order.
MeasurementTable problems_and_configs(std::size_t rows) {
  MeasurementTable table;
  table.device = device_preset("epyc-7763");
  const Family family = enumerate({.provider = "native",
                                   .signature = signature_of(make_gemm(1, 1, 1)),
                                   .device = table.device,
                                   .rules = "full",
                                   .filter = {}});
  const std::size_t configs = family.configs.size(), problems = std::max<std::size_t>(rows / configs, 1);
  for (std::size_t c = 0; c < configs; ++c) table.configs.push_back(family.configs[c]);
  for (std::size_t p = 0; p < problems; ++p)
    table.problems.push_back(make_gemm(16 * (1 + static_cast<std::int64_t>(p % 200)),
                                       64 * (1 + static_cast<std::int64_t>(p / 200)), 512));
  const auto sorted = [&](auto index, std::size_t count) {
    for (std::uint32_t i = 0; i < count; ++i) table.rows.emplace_back().*index = i;
    const auto places = rows_in_file_order(table, provider("native")).rows;
    table.rows.clear();
    return places;
  };
  std::vector<Problem> by_place;
  for (const auto& row : sorted(&MeasurementTable::Row::problem, problems))
    by_place.push_back(table.problems[row.problem]);
  std::vector<KernelConfig> configs_by_place;
  for (const auto& row : sorted(&MeasurementTable::Row::config, configs))
    configs_by_place.push_back(table.configs[row.config]);
  table.problems = std::move(by_place);
  table.configs = std::move(configs_by_place);
  return table;
}

Measurement made_up(std::size_t number) {
  const std::uint64_t bits = mix_hash(number, 1);
  Measurement measured;
  measured.status = bits % 8 == 0 ? Status::ok : Status::pruned_early;
  measured.time_us = static_cast<double>(100 + bits % 99'991) / 100;
  measured.spread = static_cast<double>(1 + bits % 997) / 1e4;
  measured.error = static_cast<double>(bits % 89) / 1e3;
  measured.repeats = static_cast<std::int32_t>(3 + bits % 22);
  return measured;
}

/// Writes the rows of every second problem, beginning with `part`.
void generate(const fs::path& file, MeasurementTable table, std::uint32_t part) {
  DatasetWriter writer(file, *table.configs.front().space, {});
  for (std::uint32_t c = 0; c < table.configs.size(); ++c) {
    for (std::uint32_t p = part; p < table.problems.size(); p += 2)
      table.rows.push_back({p, c, made_up(std::size_t{p} * table.configs.size() + c)});
    writer.take_groups(table);
  }
  writer.finish(table, table.configs);
}

struct Step {
  double seconds, peak_mb;
};

/// Runs `work` in a process of its own.
template <class Work>
Step step(std::string_view name, const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    int status = 0;
    try {
      work();
    } catch (const Error& error) {
      fmt::print(stderr, "{}: {}\n", name, error.what());
      status = 1;
    }
    std::fflush(stdout);
    _exit(status);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0)
    fail(Errc::device_failure, "step {} failed", name);
  const Step done{std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
                  static_cast<double>(usage.ru_maxrss) / 1024};
  fmt::print("{:<12} {:>8.1f} s {:>8.0f} MB\n", name, done.seconds, done.peak_mb);
  return done;
}

constexpr int kTrees = 3;

/// Runs the program beside this one's folder in place of this process, without its output.
[[noreturn]] void run_program(std::vector<std::string> words) {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "kscout-lab";
  words.insert(words.begin(), program);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  if (std::freopen("/dev/null", "w", stdout)) execv(program.c_str(), pointers.data());
  fail(Errc::not_found, "{}: cannot be started; build it", program.string());
}

int run(const Arguments& arguments) {
  const test::TemporaryFolder own;
  const fs::path folder = arguments.folder.empty() ? own.path() : fs::path(arguments.folder);
  fs::create_directories(folder);
  const std::vector<std::string> halves = {folder / "a.parquet", folder / "b.parquet"};
  const auto asked = [&](std::string_view name) {
    return std::ranges::find(arguments.steps, name) != arguments.steps.end();
  };
  for (std::uint32_t part = 0; part < 2 && asked("generate"); ++part) {
    step("generate", [&] { generate(halves[part], problems_and_configs(arguments.rows), part); });
  }
  const fs::path merged = folder / "merged.parquet", reduced = folder / "reduced.parquet";
  double peak_mb = 0;
  const auto measured = [&](std::string_view name, const auto& work) {
    const Step done = step(name, work);
    peak_mb = std::max(peak_mb, done.peak_mb);
    return done.seconds;
  };
  if (asked("merge")) {
    const double seconds = measured("merge", [&] {
      const auto done = merge_files(halves, merged, {});
      if (!done) fail(Errc::corrupt_data, "the generated rows are not in file order");
      fmt::print("{} rows, {} problems, {} configs, {:.0f} MB\n", done->rows, done->problems, done->configs,
                 static_cast<double>(fs::file_size(merged)) / 1e6);
    });
    fmt::print("RESULT dataset.merge_rows_per_second {:.0f} 1/s\n",
               static_cast<double>(arguments.rows) / seconds);
  }
  if (asked("mean")) {
    const Step done = step("mean", [&] {
      const std::vector<std::string> twice = {merged, merged};
      if (!merge_files(twice, folder / "mean.parquet", {.keep = Keep::mean}))
        fail(Errc::corrupt_data, "the merged rows are not in file order");
    });
    fmt::print("RESULT dataset.mean_peak_mb {:.0f} MB\n", done.peak_mb);
  }
  if (asked("describe")) {
    const double seconds = measured("describe", [&] {
      const auto described = describe_file(merged);
      if (!described) fail(Errc::corrupt_data, "the merged rows are not in file order");
      fmt::print("{} rows, median spread {}\n", described->description.rows,
                 described->description.median_spread);
    });
    fmt::print("RESULT dataset.describe_rows_per_second {:.0f} 1/s\n",
               static_cast<double>(arguments.rows) / seconds);
  }
  if (asked("reduce"))
    measured("reduce", [&] {
      const MergeOptions options{.reduction = {.final_rows = true,
                                               .rules = "default",
                                               .timed = true,
                                               .pruned_early_one_in = 10,
                                               .digits = 4,
                                               .pruned_early_digits = 3}};
      const std::vector<std::string> one = {merged};
      const auto done = merge_files(one, reduced, options, {.derived = false});
      if (!done) fail(Errc::corrupt_data, "the merged rows are not in file order");
      fmt::print("{} rows stay\n", done->rows);
    });
  if (peak_mb > 0) fmt::print("RESULT dataset.peak_mb {:.0f} MB\n", peak_mb);
  const fs::path model = folder / "model";
  if (asked("train")) {
    const std::string trees = std::to_string(kTrees);
    const Step done = step("train", [&] {
      run_program({"train", "--data", merged, "--targets", "relative", "--rounds", trees, "--min-rounds",
                   trees, "--growth", arguments.growth, "--out", model});
    });
    fmt::print("RESULT dataset.train_peak_mb {:.0f} MB\n", done.peak_mb);
  }
  if (asked("evaluate")) {
    const Step done = step("evaluate", [&] {
      run_program({"evaluate", "--model", model, "--data", merged, "--in-sample", "--worst", "0"});
    });
    fmt::print("RESULT dataset.evaluate_peak_mb {:.0f} MB\n", done.peak_mb);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("speed and memory of datasets that are larger than memory");
  Arguments arguments;
  app.add_option("--rows", arguments.rows, "rows of both datasets together")->capture_default_str();
  app.add_option("--folder", arguments.folder, "keeps the files");
  app.add_option("--steps", arguments.steps,
                 "of generate, merge, mean, describe, reduce, train, evaluate; of files in --folder")
      ->delimiter(',');
  app.add_option("--growth", arguments.growth, "of the folds in step train: auto, together, one_by_one")
      ->capture_default_str();
  return kscout::bench::run_bench("dataset", app, argc, argv, [&] { return run(arguments); });
}
