// Tests the dispatcher on a real GPU: operands in GPU memory, a stream, a captured graph, timing on first
// use.
#include <optional>
#include <span>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kscout/dispatcher.h>

#include "backend/cuda/cuda_backend.h"
#include "gpu/on_gpu.h"
#include "op/gemm/gemm_reference.h"
#include "op/operands.h"
#include "search/measure_classes.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

class CudaDispatch : public test::OnGpu {
 protected:
  static Registry only_gpu() {
    Registry registry;
    registry.add(gpu());
    return registry;
  }
};

/// Operands of a problem in the GPU's memory, and what C should be.
struct Work {
  explicit Work(const GemmProblem& of) : problem(of), operands(instruments_of(backend("cuda"))) {
    operands.make(problem, 7);
    reference.emplace(problem, operands);
    operands.reset_c();
  }
  void expect_right() {
    const Verification found = reference->check(operands.c());
    EXPECT_LE(found.error, 1) << print(problem) << ": " << found.where;
    EXPECT_EQ(operands.damage(), "") << print(problem);
  }
  GemmProblem problem;
  GemmOperands operands;
  std::optional<GemmReference> reference;
};

const GemmProblem kDecode = make_gemm(64, 4096, 1024, DType::bf16);

bool driver_is_loaded() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver != nullptr;
}

TEST_F(CudaDispatch, OpensNoDeviceBeforeTheFirstRunAndAForkedChildMayRun) {
  Dispatcher dispatcher(only_gpu());
  const Solution solution = dispatcher.get_solution(kDecode);
  EXPECT_EQ(solution.backend, &gpu());
  EXPECT_FALSE(driver_is_loaded()) << "choosing opened the driver";
  const pid_t child = fork();
  if (child == 0) {
    Work work(kDecode);
    dispatcher.run(kDecode, work.operands.buffers());
    work.expect_right();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_FALSE(driver_is_loaded()) << "the parent has no context still";
}

TEST_F(CudaDispatch, ComputesInTheDevicesMemory) {
  Dispatcher dispatcher(only_gpu());
  for (const Layout layout : {Layout::rcr, Layout::rrr, Layout::crr, Layout::ccr}) {
    Work work(make_gemm(96, 512, 256, DType::fp16, layout));
    dispatcher.run(work.problem, work.operands.buffers());
    work.expect_right();
  }
}

TEST_F(CudaDispatch, ARunIsCapturedIntoAGraph) {
  Dispatcher dispatcher(only_gpu());
  Work work(kDecode);
  const std::size_t bytes = dispatcher.workspace_bytes(kDecode);
  Memory& memory = gpu().memory();
  void* const workspace = memory.allocate(bytes + 1);
  cuda::Module& module = cuda::open_module();
  void* stream = nullptr;
  cuda::check(module, module.capture(&stream));
  dispatcher.run(kDecode, work.operands.buffers(),
                 {.stream = {stream}, .workspace = workspace, .workspace_bytes = bytes});
  cuda::check(module, module.end_capture());
  EXPECT_GT(work.reference->check(work.operands.c()).error, 1) << "nothing has run yet";
  cuda::check(module, module.replay());
  work.expect_right();
  memory.release(workspace);
}

TEST_F(CudaDispatch, ARowOfAClassHasEqualBitsAtEveryM) {
  const GemmProblem weight = make_gemm(1, 1024, 1024, DType::bf16);
  const Selector selector =
      Selector::find(Op::gemm, DType::bf16, {.provider = "cublaslt", .device = gpu().device()});
  const std::vector<std::int64_t> rows = {1, 16, 128, 1024};
  const auto configs =
      class_candidates(selector, gpu(), weight, rows, {.top = 4, .of_split = 1, .suggestions = 4});
  const auto measured = measure_classes(gpu(), weight, configs, {.m = rows, .every = 128, .seconds = 0.02});
  EXPECT_GT(measured.stored.classes, 1) << "split-K slices change the order of sums";
  const test::TemporaryFolder folder;
  store_classes(folder / "classes.json", std::span(&measured.stored, 1));
  Dispatcher dispatcher(only_gpu(),
                        {.limits = {.batch_invariant = true}, .classes = folder / "classes.json"});
  RowRuns runs(gpu(), weight, 1024);
  const RowBits expected = RowBits::parse(measured.stored.bits);
  for (const std::int64_t m : {1, 2, 17, 100, 129, 500, 1000, 1024}) {
    const RowBits bits = runs.run(
        m, [&](const GemmProblem& problem, const GemmBuffers& buffers) { dispatcher.run(problem, buffers); });
    EXPECT_TRUE(bits.agrees(expected)) << m;
  }
  EXPECT_TRUE(recheck_class(gpu(), measured.stored).changed.empty());
}

TEST_F(CudaDispatch, FirstUseTimesTheBestOnTheDevicesClock) {
  Dispatcher dispatcher(only_gpu(), {.refine = {.top = 4, .seconds = 0.05}});
  Work work(kDecode);
  const Solution first = dispatcher.run(kDecode, work.operands.buffers());
  work.expect_right();
  const Solution second = dispatcher.get_solution(kDecode);
  EXPECT_EQ(second.choice.decided_by, ChoiceSource::db);
  EXPECT_GT(second.choice.time_us, 1);
  EXPECT_LT(second.choice.time_us, 100) << "bf16 64 x 4096 x 1024 takes some 6 us on an H200";
  EXPECT_EQ(first.choice.config.space, second.choice.config.space);
}

TEST_F(CudaDispatch, WithoutAModelAnExhaustiveSearchFindsTheFastest) {
  Dispatcher dispatcher(only_gpu(), {.fallback = Fallback::exhaustive});
  Work work(make_gemm(64, 1024, 512, DType::tf32));  // nobody trained one for it
  const Solution solution = dispatcher.run(work.problem, work.operands.buffers());
  work.expect_right();
  EXPECT_EQ(solution.choice.source, ChoiceSource::db);
  EXPECT_GT(solution.choice.time_us, 1);
}

}  // namespace
}  // namespace kscout
