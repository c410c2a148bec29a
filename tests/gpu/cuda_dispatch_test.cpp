// Tests the dispatcher on a real GPU: operands in GPU memory, a stream, a captured graph, timing on first
// use.
#include <memory>
#include <span>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kscout/dispatcher.h>

#include "backend/cuda/cuda_backend.h"
#include "gpu/on_gpu.h"
#include "op/operands.h"
#include "op/reference.h"
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

/// Operands of a problem in the GPU's memory, and what the result should be.
struct Work {
  explicit Work(const Problem& of) : problem(of), operands(instruments_of(backend("cuda"))) {
    operands.make(problem, 7);
    reference = make_reference(problem, operands);
    operands.reset_c();
  }
  Verification check() const { return reference->check(operands.result()); }
  void expect_right() {
    const Verification found = check();
    EXPECT_LE(found.error, 1) << print(problem) << ": " << found.where;
    EXPECT_EQ(operands.damage(), "") << print(problem);
  }
  Problem problem;
  GemmOperands operands;
  std::unique_ptr<Reference> reference;
};

const GemmProblem kDecode = make_gemm(64, 4096, 1024, DType::bf16);

/// A GEMM, and convolutions in three directions.
std::vector<Problem> problems() {
  std::vector<Problem> all = {kDecode};
  for (const char* const conv : {"conv_fwd:8x64x28x28:128x3x3:bf16:nhwgc:pad=1",
                                 "conv_fwd:8x64x28x28:128x3x3:bf16:nhwgc:pad=1:epilogue=bias",
                                 "conv_fwd:8x96x28x28:96x5x5:fp16:nhwgc:pad=2:g=96",
                                 "conv_bwd_data:8x64x28x28:128x3x3:bf16:nhwgc:pad=1:stride=2",
                                 "conv_bwd_weight:8x64x28x28:64x3x3:bf16:nhwgc:pad=1:g=4",
                                 "conv_bwd_weight:2x64x7x14x14:64x3x3x3:bf16:ndhwgc:pad=1"})
    all.emplace_back(parse_conv_problem(conv));
  return all;
}

bool driver_is_loaded() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver != nullptr;
}

TEST_F(CudaDispatch, OpensNoDeviceBeforeTheFirstRunAndAForkedChildMayRun) {
  Dispatcher dispatcher(only_gpu());
  for (const Problem& problem : problems()) {
    EXPECT_EQ(dispatcher.get_solution(problem).backend, &gpu());
    EXPECT_FALSE(driver_is_loaded()) << "choosing opened the driver for " << print(problem);
  }
  const pid_t child = fork();
  if (child == 0) {
    for (const Problem& problem : problems()) {
      Work work(problem);
      dispatcher.run(problem, work.operands.buffers());
      work.expect_right();
    }
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
  for (const Problem& problem : problems()) {
    Work work(problem);
    dispatcher.run(problem, work.operands.buffers());
    work.expect_right();
  }
}

TEST_F(CudaDispatch, ARunIsCapturedIntoAGraph) {
  Dispatcher dispatcher(only_gpu());
  for (const Problem& problem : problems()) {
    Work work(problem);
    const std::size_t bytes = dispatcher.workspace_bytes(problem);
    Memory& memory = gpu().memory();
    void* const workspace = memory.allocate(bytes + 1);
    cuda::Module& module = cuda::open_module();
    void* stream = nullptr;
    cuda::check(module, module.capture(&stream));
    dispatcher.run(problem, work.operands.buffers(),
                   {.stream = {stream}, .workspace = workspace, .workspace_bytes = bytes});
    cuda::check(module, module.end_capture());
    EXPECT_GT(work.check().error, 1) << "nothing has run yet of " << print(problem);
    cuda::check(module, module.replay());
    work.expect_right();
    memory.release(workspace);
  }
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
        m, [&](const Problem& problem, const GemmBuffers& buffers) { dispatcher.run(problem, buffers); });
    EXPECT_TRUE(bits.agrees(expected)) << m;
  }
  EXPECT_TRUE(recheck_class(gpu(), measured.stored).changed.empty());
}

TEST_F(CudaDispatch, FirstUseTimesTheBestOnTheDevicesClock) {
  Dispatcher dispatcher(only_gpu(), {.refine = {.top = 4, .seconds = 0.05}});
  for (const Problem& problem : problems()) {
    Work work(problem);
    const Solution first = dispatcher.run(problem, work.operands.buffers());
    work.expect_right();
    const Solution second = dispatcher.get_solution(problem);
    EXPECT_EQ(second.choice.decided_by, ChoiceSource::db) << print(problem);
    EXPECT_GT(second.choice.time_us, 1) << print(problem);
    EXPECT_LT(second.choice.time_us, 200) << print(problem) << " takes 6 to 60 us on an H200";
    EXPECT_EQ(first.choice.config.space, second.choice.config.space) << print(problem);
  }
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
