// Tests backend hip with a HIP runtime whose GPU is this machine's CPU (tests/libraries/stand_in_hip.c). A
// process loads the runtime only once, so tests with other settings run in child processes.
#include "backend/hip/hip_backend.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/family.h>

#include "backend/library/library_backend.h"
#include "core/process.h"
#include "dispatch/padding.h"
#include "libraries/toy_index.h"
#include "measure/measured_backend.h"
#include "measure/problem_bench.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "sweep/journal.h"
#include "sweep/sweep.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

/// The words of the error that the call throws in a child with this environment, or what it returns.
std::string told_by(const std::vector<std::pair<const char*, const char*>>& environment,
                    const std::function<std::string()>& call) {
  const ChildResult result = in_child(30, [&] {
    for (const auto& [name, value] : environment) setenv(name, value, 1);
    try {
      return call();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  });
  return result.failure.empty() ? result.output : result.failure;
}

std::string describe() {
  const Device& gpu = backend("hip").device();
  return fmt::format("{}, {}, {} units, {} lanes, LDS {}, {} MHz", gpu.name, gpu.model, gpu.cores,
                     gpu.wavefront_size, gpu.shared_bytes_per_core, gpu.max_clock_mhz);
}

TEST(HipBackend, DescribesTheRecordedGpus) {
  EXPECT_EQ(told_by({{"KSCOUT_HIP_LIBRARY", paths::stand_in_hip}}, describe),
            "gfx942-304cu, AMD Instinct MI300X, 304 units, 64 lanes, LDS 65536, 2100 MHz");
  EXPECT_EQ(told_by({{"KSCOUT_HIP_LIBRARY", paths::stand_in_hip}, {"STAND_IN_GPU", "mi350x"}}, describe),
            "gfx950-256cu, AMD Instinct MI350X, 256 units, 64 lanes, LDS 163840, 2200 MHz");
  EXPECT_EQ(told_by({{"KSCOUT_HIP_LIBRARY", paths::stand_in_hip}},
                    [] { return std::to_string(measured_backend("hip")->devices()); }),
            "2");
}

TEST(HipBackend, SaysWhatIsMissing) {
  const auto expect = [](const char* part,
                         const std::vector<std::pair<const char*, const char*>>& environment,
                         const std::function<std::string()>& call = describe) {
    const std::string told = told_by(environment, call);
    EXPECT_NE(told.find(part), std::string::npos) << told;
  };
  expect("KSCOUT_HIP_LIBRARY=/absent/libamdhip64.so does not exist",
         {{"KSCOUT_HIP_LIBRARY", "/absent/libamdhip64.so"}});
  expect("has no hipGetDevicePropertiesR0600; ROCm 6.0 or later",
         {{"KSCOUT_HIP_LIBRARY", paths::stand_in_old_hip}});
  expect("sees no AMD GPU", {{"KSCOUT_HIP_LIBRARY", paths::stand_in_hip}, {"STAND_IN_GPU", "none"}});
  expect("GPU 7 was requested; the runtime sees 2", {{"KSCOUT_HIP_LIBRARY", paths::stand_in_hip}}, [] {
    measured_backend("hip")->open_device(7);
    return describe();
  });
  expect("its kernels are those of libraries", {{"KSCOUT_HIP_LIBRARY", paths::stand_in_hip}},
         [] { return backend("hip").family(signature_of(make_gemm(8, 8, 8)), "default").name(0); });
  if (!fs::exists("/dev/kfd")) expect("no driver of an AMD GPU", {});
}

class OnStandIn : public ::testing::Test {
 protected:
  void SetUp() override { setenv("KSCOUT_HIP_LIBRARY", paths::stand_in_hip, 1); }
  void TearDown() override { unsetenv("STAND_IN_FAULT"); }
  fs::path write(const nlohmann::ordered_json& index) const {
    const auto file = folder_ / "toy.kscout-library.json";
    write_file_atomically(file, index.dump(1));
    return file;
  }
  static nlohmann::ordered_json gemms(const std::vector<std::string>& kernels) {
    auto index = toy::index(toy::library_file("toy_hip"));
    index["backend"] = "hip";
    index["device"] = "gfx942";
    index["kernels"].clear();
    int tile = 0;
    for (const std::string& kernel : kernels)
      index["kernels"].push_back(
          {{"config", toy::config_name(Layout::rcr, false, tile += 16)}, {"kernel", kernel}});
    return index;
  }
  /// Statuses of pass 1 by config, swept by the product's worker with a fault of the GPU.
  std::vector<Status> sweep(const nlohmann::ordered_json& index, const char* fault, const Problem& problem,
                            SweepOptions options = {}) {
    setenv("STAND_IN_FAULT", fault, 1);
    LibraryBackend library(read_library_index(write(index)));
    const SweepPlan plan = make_plan({problem}, library_request(library), library.device(),
                                     {.prune_factor = 1e12});  // a busy machine prunes nothing
    options.folder = folder_ / "out";
    options.worker = paths::worker;
    options.item_limit_s = 5;
    run_sweep(plan, options);
    std::vector<Status> rows(plan.configs.size(), Status::pruned_early);
    for (const auto& row : read_sweep(folder_ / "out").rows)
      if (row.measured.pass == 1) rows[row.config] = row.measured.status;
    return rows;
  }
  const test::TemporaryFolder folder_;
};

TEST_F(OnStandIn, MemoryCopiesAsTheCpuDoes) {
  Memory& gpu = backend("hip").memory();
  std::vector<std::uint8_t> from(7 * 20), there(9 * 24), here(9 * 24);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i + 1);
  const auto copy = [](const void* a, void* b) {
    return MatrixCopy{.from = a,
                      .to = b,
                      .lines = 3,
                      .line_bytes = 17,
                      .to_lines = 4,
                      .to_line_bytes = 22,
                      .from_pitch = 20,
                      .to_pitch = 24,
                      .items = 2,
                      .from_item = 60,
                      .to_item = 96};
  };
  host_memory().copy(copy(from.data(), here.data()), {});
  auto* const a = gpu.allocate(from.size());
  auto* const b = gpu.allocate(there.size());
  gpu.write(a, from.data(), from.size(), {});
  gpu.set(b, std::byte{0}, there.size(), {});
  gpu.copy(copy(a, b), {});
  gpu.read(there.data(), b, there.size(), {});
  EXPECT_EQ(there, here);
  gpu.release(a);
  gpu.release(b);
}

TEST_F(OnStandIn, LibrariesRunAndAreMeasured) {
  Registry registry;
  Backend& toys = registry.add_library(write(gemms({"toy_rcr", "toy_lie"})));
  EXPECT_EQ(&toys.memory(), &backend("hip").memory());
  const GemmProblem problem = make_gemm(16, 32, 48);
  const Family family = toys.family(signature_of(problem), "");
  ProblemBench bench({}, 1, instruments_of(toys));
  bench.open(problem);
  const Outcome right = bench.coarse({&toys, family.configs[0]}, 1e9);
  EXPECT_EQ(right.measured.status, Status::ok) << right.reason;
  EXPECT_GT(right.measured.time_us, 0);
  EXPECT_EQ(bench.coarse({&toys, family.configs[1]}, 1e9).measured.status, Status::wrong);
  GemmOperands operands(instruments_of(toys));
  operands.make(make_gemm(13, 19, 33), 5);  // odd sizes: padded by copies in the GPU's memory
  const auto reference = make_reference(make_gemm(13, 19, 33), operands);
  Dispatcher dispatcher(registry);
  EXPECT_TRUE(dispatcher.run(make_gemm(13, 19, 33), operands.buffers()).form.padded());
  EXPECT_LE(reference->check(operands.c()).error, 1);
}

/// Decision 11: a registry holds kernels of both memories, and the operands' memory says which of them may
/// run.
TEST_F(OnStandIn, OperandsReachOnlyKernelsOfTheirMemory) {
  Registry registry;
  registry.add(backend("cpu"));
  Backend& toys = registry.add_library(write(gemms({"toy_rcr"})));
  const MemorySpace gpu{MemoryKind::hip, 0};
  EXPECT_EQ(toys.space(), gpu);
  EXPECT_EQ(backend("hip").memory().space(), gpu);
  const GemmProblem problem = make_gemm(16, 32, 48);
  Dispatcher dispatcher(registry, {.rules = "tiny"});
  EXPECT_EQ(dispatcher.get_solution(problem).backend->name(), "cpu") << "that of the first backend";
  EXPECT_EQ(dispatcher.get_solution(problem, MemorySpace{}).backend->name(), "cpu");
  EXPECT_EQ(dispatcher.get_solution(problem, gpu).backend, &toys);

  GemmOperands here, there(instruments_of(toys));
  for (GemmOperands* operands : {&here, &there}) {
    operands->make(problem, 5);
    const auto reference = make_reference(problem, *operands);
    const bool on_gpu = operands == &there;
    EXPECT_EQ(operands->buffers().space, on_gpu ? gpu : MemorySpace{});
    EXPECT_EQ(dispatcher.run(problem, operands->buffers()).backend, on_gpu ? &toys : &backend("cpu"));
    EXPECT_LE(reference->check(operands->c()).error, 1);
  }
  // A pointer of the host never reaches the GPU's kernel, by whatever way.
  const KernelConfig config = dispatcher.get_solution(problem, gpu).choice.config;
  test::expect_error(Errc::unsupported, "on operands in memory host",
                     [&] { dispatcher.run_explicit(problem, config, here.buffers()); });
  const auto launch = toys.prepare(problem, config);
  test::expect_error(Errc::invalid_argument, "the operands are in memory host",
                     [&] { launch->run(here.buffers(), nullptr); });
  Registry only_gpu;
  only_gpu.add(toys);
  Dispatcher on_gpu(only_gpu);
  test::expect_error(Errc::invalid_argument, "memory host, which no backend here reaches (toy reaches hip:0)",
                     [&] { on_gpu.run(problem, here.buffers()); });
  test::expect_error(Errc::invalid_argument, "memory hip:1, which no backend", [&] {
    on_gpu.get_solution(problem, MemorySpace{MemoryKind::hip, 1});
  });
}

TEST_F(OnStandIn, SweepsKeepTheRowsOfWhatWorks) {
  EXPECT_EQ(sweep(gemms({"toy_rcr", "toy_crash", "toy_lie", "toy_rcr"}), "none", make_gemm(16, 32, 16)),
            (std::vector{Status::ok, Status::crashed, Status::wrong, Status::ok}));
}

TEST_F(OnStandIn, FailedLaunchesAreCrashes) {
  EXPECT_EQ(sweep(gemms({"toy_rcr"}), "launch", make_gemm(16, 32, 16)), std::vector{Status::crashed});
}

TEST_F(OnStandIn, WorkThatDoesNotEndIsATimeout) {
  // The first config of a batch gets the time for compiling on top of the item limit.
  EXPECT_EQ(sweep(gemms({"toy_rcr"}), "hang", make_gemm(16, 32, 16), {.compile_budget_s = 2}),
            std::vector{Status::timeout});
}

TEST_F(OnStandIn, ABrokenDeviceEndsItsWorkerAndIsRecorded) {
  EXPECT_EQ(sweep(gemms({"toy_rcr", "toy_rcr"}), "sticky", make_gemm(16, 32, 16)),
            (std::vector{Status::crashed, Status::crashed}));
}

}  // namespace
}  // namespace kscout
