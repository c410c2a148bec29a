// Tests that models can be replaced while threads select.
#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <kscout/error.h>
#include <kscout/selector.h>

#include "select/hazard_ptr.h"
#include "support/forking.h"
#include "support/models_folder.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

using Reload = toy::ModelsFolder;

/// The toy's model with other predictions.
Model scaled(double offset) {
  ModelData data = toy::model().data();
  for (ModelTarget& target : data.targets) target.offset = offset;
  return Model(std::move(data));
}

TEST_F(Reload, TakesTheNewModelAndForgetsTheOldAnswers) {
  Selector selector = Selector::load(folder_ / "model");
  const Selector copy = selector;
  const GemmProblem p = make_gemm(96, 128, 256);
  const double before = selector.select(p).tflops;
  install(folder_ / "model", scaled(toy::model().data().targets[0].offset + 1));
  EXPECT_EQ(selector.select(p).tflops, before) << "read once";
  selector.reload();
  const Choice after = copy.select(p);
  EXPECT_EQ(after.source, ChoiceSource::model);
  EXPECT_NEAR(after.tflops, before * std::exp(1), 1e-9 * after.tflops);

  write_file_atomically(folder_ / "model" / "model.ksf", "damaged");
  EXPECT_THROW(selector.reload(), Error);
  EXPECT_EQ(selector.select(p).tflops, after.tflops) << "the old one stays";
  Device other = toy::device();
  other.name = "other";
  other.cores = 1;
  install(folder_ / "model", model_of(other));
  EXPECT_THROW(selector.reload(), Error);
  EXPECT_EQ(selector.select(p).tflops, after.tflops);
}

TEST_F(Reload, FindsAModelThatWasInstalledMeanwhile) {
  const SelectorRequest request{.device = toy::device(), .rules = "tiny"};
  Selector selector = Selector::find(Op::gemm, DType::fp32, request);
  EXPECT_EQ(selector.select(make_gemm(64, 64, 64)).source, ChoiceSource::any_cpu) << "a shipped model";
  const fs::path folder = user_model_folder() / model_folder_name(Op::gemm, DType::fp32, toy::device());
  install(folder, toy::model());
  selector.reload();
  EXPECT_EQ(selector.select(make_gemm(64, 64, 64)).source, ChoiceSource::model);
  EXPECT_EQ(selector.model_path(), folder);
}

TEST_F(Reload, EightThreadsSelectWhileModelsAreSwapped) {
  constexpr int kThreads = 8, kSwaps = 24;
  const std::array<Model, 2> models = {scaled(0), scaled(1)};
  std::vector<GemmProblem> problems;
  for (std::int64_t m = 1; m <= 40; ++m) problems.push_back(make_gemm(8 * m, 128, 256));
  // What each model answers, asked alone.
  std::array<std::vector<Choice>, 2> expected;
  for (std::size_t i = 0; i < models.size(); ++i) {
    install(folder_ / "model", models[i]);
    const Selector alone = Selector::load(folder_ / "model");
    for (const auto& p : problems) expected[i].push_back(alone.select(p));
  }

  Selector selector = Selector::load(folder_ / "model");
  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> foreign = 0, answers = 0;
  std::array<std::atomic<std::uint64_t>, 2> of_model = {};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; !done; ++i) {
        const std::size_t p = i % problems.size();
        Choice choice;
        if (selector.try_select(problems[p], choice) != SelectStatus::ok) ++foreign;
        const auto is = [&](const Choice& wanted) {
          return choice.config == wanted.config && choice.tflops == wanted.tflops &&
                 choice.score == wanted.score;
        };
        if (is(expected[0][p])) {
          ++of_model[0];
        } else if (is(expected[1][p])) {
          ++of_model[1];
        } else {
          ++foreign;
        }
        ++answers;
      }
    });
  }
  for (std::size_t swap = 0; swap < kSwaps; ++swap) {
    install(folder_ / "model", models[swap % 2]);
    selector.reload();
    for (std::size_t p = 0; p < problems.size(); p += 7) {
      EXPECT_EQ(selector.select(problems[p]).tflops, expected[swap % 2][p].tflops)
          << "after reload() nobody gets an answer of before";
    }
    const auto seen = answers.load();
    while (answers < seen + 200) std::this_thread::yield();
  }
  done = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(foreign, 0u);
  EXPECT_GT(of_model[0], 0u);
  EXPECT_GT(of_model[1], 0u);
}

TEST(HazardPtr, OldValuesAreFreedWhenNobodyReadsThem) {
  struct Value {
    explicit Value(int n) : number(n) { ++alive(); }
    ~Value() {
      number = -1;
      --alive();
    }
    static std::atomic<int>& alive() {
      static std::atomic<int> count = 0;
      return count;
    }
    int number;
  };
  {
    HazardPtr<Value, int> value(std::make_unique<const Value>(0));
    std::atomic<bool> done = false;
    std::atomic<int> dead = 0;
    std::vector<std::thread> readers;
    for (int t = 0; t < 4; ++t) {
      readers.emplace_back([&] {
        while (!done) {
          const auto reader = value.read();
          const int seen = reader->number;
          std::this_thread::yield();
          if (seen < 0 || reader->number != seen) ++dead;
        }
      });
    }
    for (int i = 1; i <= 300; ++i) {
      value.replace(std::make_unique<const Value>(i));
      EXPECT_EQ(Value::alive(), 1) << "freed before replace() returns";
    }
    done = true;
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(dead, 0);
    EXPECT_EQ(value.read()->number, 300);
  }
  EXPECT_EQ(Value::alive(), 0);
}

/// Threads of the parent that were selecting when it forked do not hold up the child, which may read the
/// model again.
TEST_F(Reload, AForkedChildReloadsWhileTheParentsThreadsSelect) {
  KSCOUT_SKIP_IF_FORKS_HANG();
  install(folder_ / "model", toy::model());
  Selector selector = Selector::load(folder_ / "model");
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      std::vector<Choice> best(12);
      for (std::int64_t m = 1; !done; m = m % 4000 + 1) selector.rank(make_gemm(m, 128, 256), best);
    });
  }
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      try {
        selector.reload();
        _exit(selector.select(make_gemm(96, 128, 256)).source == ChoiceSource::model ? 0 : 1);
      } catch (...) {
        _exit(2);
      }
    }
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0) << "fork " << i << (WIFSIGNALED(status) ? ": ended by a signal (14: it hung)" : "");
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kscout
