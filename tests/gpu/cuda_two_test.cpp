// Tests two GPUs of one host. Skipped with a message where there are fewer.
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kscout/dispatcher.h>

#include "backend/cuda/cuda_backend.h"
#include "core/files.h"
#include "core/process.h"
#include "gpu/on_gpu.h"
#include "measure/measured_backend.h"
#include "op/operands.h"
#include "op/reference.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "sweep/journal.h"

namespace kscout {
namespace {

class TwoGpus : public test::OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    if (const int gpus = measured_backend("cuda")->devices(); gpus < 2)
      GTEST_SKIP() << "TWO GPUS NOT TESTED: here is " << gpus;
  }
};

/// Whether a child that was given a GPU chooses for it, computes rightly on it, and on no other.
bool computes_on(int ordinal) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    use_cuda_device(ordinal);
    Registry registry;
    registry.add(backend("cuda"));
    Dispatcher dispatcher(std::move(registry));
    const Problem gemm = make_gemm(64, 4096, 1024, DType::bf16),
                  conv = parse_conv_problem("conv_fwd:8x64x28x28:128x3x3:bf16:nhwgc:pad=1");
    bool right = true;
    for (const Problem& problem : {gemm, conv}) {
      GemmOperands operands(instruments_of(backend("cuda")));
      operands.make(problem, 7);
      const auto reference = make_reference(problem, operands);
      operands.reset_c();
      dispatcher.run(problem, operands.buffers());
      right = right && reference->check(operands.result()).error <= 1;
    }
    _exit(right ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(TwoGpus, EachServesAProcessOfItsOwn) {
  for (int ordinal = 0; ordinal < 2; ++ordinal) EXPECT_TRUE(computes_on(ordinal)) << ordinal;
  use_cuda_device(1);
  EXPECT_GT(gpu().device().cores, 0);
  use_cuda_device(0);
}

/// A sweep takes a worker for each, and both measure.
TEST_F(TwoGpus, ASweepMeasuresOnBothAtOnce) {
  const test::TemporaryFolder temporary;
  const std::filesystem::path folder = temporary / "sweep", log = temporary / "sweep.log";
  const std::string program = paths::program;
  const ProgramResult ran =
      run_logged({program, "sweep", "--backend", "cuda", "--problems", "llm", "--dtype", "bf16",
                  "--max-problems", "12", "--rules", "default", "--cache", "cold", "--out", folder.string()},
                 log);
  EXPECT_TRUE(ran.ended_well());
  // Lanes are letters, one for each worker; a line's checksum stands before what it says.
  std::set<char> slots;
  for (const auto& file : journal_files(folder)) {
    std::istringstream lines(read_file(file));
    for (std::string line; std::getline(lines, line);) {
      if (line.size() > 7 && line[6] == 'P') slots.insert(line[7]);
    }
  }
  EXPECT_TRUE(slots.contains('a') && slots.contains('b')) << slots.size() << " slots";
}

}  // namespace
}  // namespace kscout
