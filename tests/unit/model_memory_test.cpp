// Compares the heap use of a loaded model with its file size and with 20 MB.
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/selector.h>

#include "core/files.h"
#include "support/heap.h"
#include "support/large_model.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

/// A model of 500 trees of 31 leaves with 1,014 configs, and those that came with the program.
class ModelMemory : public testing::Test {
 protected:
  void SetUp() override {
    write_file_atomically(large_, toy::large_model().bytes());
    files_.push_back(large_);
    for (const auto& entry : fs::directory_iterator(paths::in_repository("models"))) {
      const bool gemm = entry.path().filename().string().starts_with("gemm_");
      if (gemm && fs::exists(entry.path() / "model.ksf")) files_.push_back(entry.path() / "model.ksf");
    }
    for (const auto& file : files_) Model::load(file);  // the catalogue is compiled once and stays
  }

  const test::TemporaryFolder folder_;
  const fs::path large_ = folder_ / "large.ksf";
  std::vector<fs::path> files_;
};

/// Of a model and, where its folder has one, of that for batches.
std::ptrdiff_t size_of_files(const fs::path& file) {
  const fs::path batches = file.parent_path() / "batches" / file.filename();
  return static_cast<std::ptrdiff_t>(fs::file_size(file) +
                                     (fs::exists(batches) ? fs::file_size(batches) : 0));
}

/// What a selector over a file holds once it has answered.
struct Heap {
  std::ptrdiff_t live, peak;
};
Heap heap_of_one_choice(const fs::path& file) {
  const ModelData data = Model::load(file).data();
  const Signature trained = data.families.front().signature;
  const HeapWatch watch;
  const Selector selector = Selector::load(file);
  EXPECT_EQ(selector.select(make_gemm(64, 1000, 1000, trained.dtype_a, trained.layout)).source,
            data.any_cpu ? ChoiceSource::any_cpu : ChoiceSource::model);
  return {watch.live(), watch.peak()};
}

TEST_F(ModelMemory, IsAtMostFourAndAHalfTimesTheFile) {
  ASSERT_GE(files_.size(), 2u);
  for (const auto& file : files_) {
    SCOPED_TRACE(file);
    const auto size = static_cast<std::ptrdiff_t>(fs::file_size(file));
    const HeapWatch watch;
    const Model model = Model::load(file);
    EXPECT_GT(watch.live(), size / 4) << "the model is not on the heap: count what holds it";
    EXPECT_LE(2 * watch.peak(), 9 * size);
  }
}

/// Model, evaluator, a thread's memory, decision cache; and the most that they take while they are made.
TEST_F(ModelMemory, OfASelectorIsAtMostFourAndAHalfTimesTheFile) {
  for (const auto& file : files_) {
    SCOPED_TRACE(file);
    const std::ptrdiff_t size = size_of_files(file);
    const Heap heap = heap_of_one_choice(file);
    EXPECT_LE(heap.live, 4 * size);
    EXPECT_LE(heap.peak, 9 * size / 2);
  }
}

TEST_F(ModelMemory, OfAThousandConfigsIsAtMostTwentyMegabytes) {
  const HeapWatch watch;
  const Selector selector = Selector::load(large_);
  EXPECT_EQ(selector.select(make_gemm(64, 1000, 1000, DType::fp32, Layout::rrr)).source, ChoiceSource::model);
  EXPECT_LE(watch.peak(), 20'000'000);
}

TEST_F(ModelMemory, ComesBack) {
  for (const auto& file : files_) {
    const HeapWatch watch;
    Model::load(file);
    EXPECT_EQ(watch.live(), 0) << file;
  }
}

}  // namespace
}  // namespace kscout
