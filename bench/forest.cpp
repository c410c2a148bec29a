// Measures the cost of loading a model: time from the file to a usable model, beside LightGBM's own reader;
// time from program start to the first choice; memory.
//
//   forest [MODEL.ksf ...]
//
// Without arguments: models of 500 trees of 31 and of 127 leaves over 1,014 configs, trained on the analytic
// time of random problems, and the fp32 GEMM models of this repository. Run from the repository's root.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <kscout/error.h>
#include <kscout/selector.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/numbers.h"
#include "lightgbm/lightgbm.h"
#include "support/heap.h"
#include "support/large_model.h"
#include "support/temporary_folder.h"
#include "train/lightgbm.h"

namespace {

using namespace kscout;
namespace fs = std::filesystem;

constexpr int kRounds = 31;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Milliseconds of one call.
template <class Call>
double ms_of(Call&& call) {
  const double begin = seconds();
  call();
  return 1e3 * (seconds() - begin);
}

/// Milliseconds from the start of bench_first_choice on a model to its end.
double start_to_first_choice_ms(const std::string& file) {
  const std::string program = (fs::read_symlink("/proc/self/exe").parent_path() / "first_choice").string();
  char* const arguments[] = {const_cast<char*>(program.c_str()), const_cast<char*>(file.c_str()), nullptr};
  return ms_of([&] {
    pid_t child = 0;
    int status = 0;
    if (posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) != 0 ||
        waitpid(child, &status, 0) != child || status != 0) {
      fail(Errc::device_failure, "{} {} did not end well", program, file);
    }
  });
}

GemmProblem some_problem(const Model& model) {
  const Signature& s = model.data().families.front().signature;
  return make_gemm(64, 1000, 1000, s.dtype_a, s.layout);
}

/// The default target's forest as LightGBM's text.
std::string text_of(const Model& model) {
  LightgbmModel text{model.data().targets.front().forest, {}, "regression", Link::identity};
  for (const Feature& feature : model.data().schema->features()) text.feature_names.push_back(feature.id);
  return lightgbm_text(text);
}

struct Figures {
  double file_bytes = 0, live_bytes = 0, peak_bytes = 0;
  double load_ms = 0, first_choice_ms = 0, start_ms = 0, lightgbm_ms = 0, text_ms = 0;
};

Figures measure(const std::string& file) {
  const Model model = Model::load(file);
  const GemmProblem problem = some_problem(model);
  const std::string text = text_of(model);
  Figures figures;
  figures.file_bytes = static_cast<double>(fs::file_size(file));
  {
    const HeapWatch watch;
    const Selector selector = Selector::load(file);
    selector.select(problem);
    figures.live_bytes = static_cast<double>(watch.live());
    figures.peak_bytes = static_cast<double>(watch.peak());
  }
  std::vector<double> load, first, start, lightgbm, own_text;
  for (int round = 0; round < kRounds; ++round) {  // interleaved: each round runs every subject
    load.push_back(ms_of([&] { Model::load(file); }));
    first.push_back(ms_of([&] { Selector::load(file).select(problem); }));
    start.push_back(start_to_first_choice_ms(file));
    lightgbm.push_back(ms_of([&] { lightgbm::Booster booster(text); }));
    own_text.push_back(ms_of([&] { parse_lightgbm(text); }));
  }
  figures.load_ms = quantile(load, 0.5);
  figures.first_choice_ms = quantile(first, 0.5);
  figures.start_ms = quantile(start, 0.5);
  figures.lightgbm_ms = quantile(lightgbm, 0.5);
  figures.text_ms = quantile(own_text, 0.5);
  return figures;
}

void print_row(std::string_view name, const Figures& f) {
  fmt::print("{:<30} {:>8.0f} {:>7.2f} {:>7.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>9.2f} {:>9.2f}\n", name,
             f.file_bytes / 1e3, f.live_bytes / f.file_bytes, f.peak_bytes / f.file_bytes, f.load_ms,
             f.first_choice_ms, f.start_ms, f.text_ms, f.lightgbm_ms);
}

struct Subject {
  std::string name, file;
};

/// A forest trained on ln(best time / time) of 40 random problems x all configs of a family.
Forest trained_forest(const Schema& schema, const Family& family, int trees, std::uint32_t leaves) {
  const std::size_t configs = family.configs.size(), time = schema.index("analytic_time_us");
  std::mt19937_64 rng(7);
  std::vector<double> matrix, rows(configs * schema.size());
  std::vector<float> labels;
  for (int p = 0; p < 40; ++p) {
    const auto size = [&] { return std::int64_t{1} << (rng() % 12 + 1); };
    const Signature& s = family.signature;
    const GemmProblem problem = make_gemm(size() + 1, 3 * size(), size(), s.dtype_a, s.layout);
    schema.evaluate(problem, family.device, family.configs, family.traits, rows);
    double best = rows[time];
    for (std::size_t c = 0; c < configs; ++c) best = std::min(best, rows[c * schema.size() + time]);
    for (std::size_t c = 0; c < configs; ++c)
      labels.push_back(static_cast<float>(std::log(best / rows[c * schema.size() + time])));
    matrix.insert(matrix.end(), rows.begin(), rows.end());
  }
  std::vector<std::string> names;
  for (const Feature& feature : schema.features()) names.push_back(feature.id);
  const std::string parameters = fmt::format(
      "verbosity=-1 num_threads=2 objective=regression learning_rate=0.05 num_leaves={} "
      "feature_fraction=0.7 seed=3",
      leaves);
  lightgbm::Dataset data(matrix, names, parameters);
  data.set_labels(labels);
  lightgbm::Booster booster(data, parameters);
  for (int tree = 0; tree < trees && booster.update(); ++tree) {
  }
  return parse_lightgbm(booster.text(-1)).forest;
}

/// The trained models, written to files of this process, and the repository's models.
std::vector<Subject> usual_subjects(const fs::path& folder) {
  std::vector<Subject> subjects;
  for (const std::uint32_t leaves : {31U, 127U}) {
    ModelData data = toy::large_model(1, 2).data();
    data.targets.front().forest = trained_forest(*data.schema, data.families.front(), 500, leaves);
    const fs::path file = folder / fmt::format("trained_{}.ksf", leaves);
    write_file_atomically(file, Model(std::move(data)).bytes());
    subjects.push_back({fmt::format("trained 500 x {}", leaves), file.string()});
  }
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("models", none)) {
    const fs::path file = entry.path() / "model.ksf";
    const std::string name = entry.path().filename().string();
    if (name.starts_with("gemm_fp32_") && fs::exists(file)) subjects.push_back({name, file.string()});
  }
  return subjects;
}

void run(const std::vector<Subject>& subjects) {
  LGBM_SetMaxThreads(
      1);  // one thread each: LightGBM would read trees in parallel, and its threads would spin on
  fmt::print("medians of {} rounds, milliseconds; heap as a multiple of the file\n\n", kRounds);
  fmt::print("{:<30} {:>8} {:>7} {:>7} {:>8} {:>8} {:>8} {:>9} {:>9}\n", "", "file kB", "heap", "peak",
             "load", "+choice", "start", "own text", "LightGBM");
  Figures first;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const Figures figures = measure(subjects[i].file);
    print_row(subjects[i].name, figures);
    if (i == 0) first = figures;
  }
  fmt::print("\nRESULT forest.start_to_first_choice_ms {:.2f} ms\n", first.start_ms);
  fmt::print("RESULT forest.load_ms {:.2f} ms\n", first.load_ms);
  fmt::print("RESULT forest.load_vs_lightgbm {:.2f} x\n", first.lightgbm_ms / first.load_ms);
  fmt::print("RESULT forest.text_vs_lightgbm {:.2f} x\n", first.lightgbm_ms / first.text_ms);
  fmt::print("RESULT forest.heap_per_file {:.2f} x\n", first.live_bytes / first.file_bytes);
  fmt::print("RESULT forest.peak_bytes {:.0f} bytes\n", first.peak_bytes);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const test::TemporaryFolder folder;
    std::vector<Subject> subjects;
    for (int i = 1; i < argc; ++i) subjects.push_back({fs::path(argv[i]).filename().string(), argv[i]});
    run(subjects.empty() ? usual_subjects(folder.path()) : subjects);
  } catch (const std::exception& error) {
    fmt::print(stderr, "forest: {}\n", error.what());
    return 4;
  }
  return 0;
}
