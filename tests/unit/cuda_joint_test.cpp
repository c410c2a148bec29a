// Tests a joint model (cuBLASLt and compiled CUTLASS kernels in one family) in the dispatcher. The GPU is a
// module on this machine's CPU, and the library of compiled kernels holds one config.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/provider.h>

#include "backend/cuda/cuda_backend.h"
#include "core/files.h"
#include "dispatch/timed_choice.h"
#include "family/family_file.h"
#include "libraries/toy_index.h"
#include "op/gemm/gemm_reference.h"
#include "op/operands.h"
#include "provider/cublaslt/cublaslt.h"
#include "select/model.h"
#include "support/nvidia_config.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

const Signature kSignature = signature_of(make_gemm(1, 1, 1, DType::bf16));

std::string compiled_name(int stages) {
  return fmt::format(
      "cutlass_gemm_bf16_rcr__mma80_64x64x32_w32x32_c1x1_grid_smem_s{}_a4__along_m_z1_data_parallel_k1",
      stages);
}

/// Of the release that is here (0: whatever the library suggests first) or of another.
KernelConfig cublaslt(int version) {
  CublasLtConfig config;
  config.version = version;
  config.suggestion = version == 0 ? 1 : 0;
  if (version != 0) config.algorithm = 66;
  return test::nvidia_config(config.kernel_config());
}

KernelConfig compiled(int stages) {
  return test::nvidia_config(parse_config_name(compiled_name(stages)).config);
}

/// Up to 64 rows the kernel of five stages is predicted fastest, then that of four, then cuBLASLt's; with
/// more rows cuBLASLt's are.
Forest forest(const Schema& schema) {
  const auto m = static_cast<std::uint32_t>(schema.index("m")),
             stages = static_cast<std::uint32_t>(schema.index("stages"));
  constexpr std::uint8_t kMissingGoLeft = 2 | 8;
  Forest forest;
  forest.feature_count = static_cast<std::uint32_t>(schema.size());
  forest.tree_nodes = {0, 4};
  forest.tree_leaves = {0, 5};
  forest.threshold = {64.5, 4.5, 3.5, 3.5};
  forest.feature = {m, stages, stages, stages};
  forest.decision = {kMissingGoLeft, kMissingGoLeft, kMissingGoLeft, kMissingGoLeft};
  forest.left = {1, 3, ~3, ~1};
  forest.right = {2, ~0, ~4, ~2};
  forest.leaf_value = {3, 0.5, 2, 2.5, 0.4};
  return forest;
}

Model joint_model(std::initializer_list<KernelConfig> configs, std::string_view device) {
  ModelData data;
  Family& family = data.families.emplace_back();
  family.provider = provider("nvidia").name();
  family.signature = kSignature;
  family.device = device_preset(device);
  family.rules = "full";
  family.configs = ConfigTable(provider("nvidia").space(Op::gemm));
  for (const KernelConfig& config : configs) {
    family.configs.push_back(config);
    family.traits.push_back(provider("nvidia").traits(kSignature, config, family.device));
  }
  family.applicability = members_applicability_rules(family.configs.space());
  family.default_config = 0;
  SchemaData schema;
  schema.name = "joint";
  schema.summary = "what decides here";
  schema.features = {{"m", "p.m", "elements", "rows", false},
                     {"stages", "t.stages", "1", "copies of the staged tiles", false}};
  data.schema = std::make_shared<Schema>(std::move(schema));
  data.targets = {{Target::tflops, forest(*data.schema), 0, 1}};
  data.fingerprint = "0123456789abcdef";
  return Model(std::move(data));
}

class CudaJointTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("KSCOUT_CUDA_MODULE", paths::host_gpu, 1);
    const fs::path index = library_folder_.emplace() / "joint.kscout-library.json";
    write_library(index);
    setenv("KSCOUT_LIBRARY_PATH", index.c_str(), 1);
  }
  static void TearDownTestSuite() {
    unsetenv("KSCOUT_LIBRARY_PATH");
    library_folder_.reset();
  }
  void SetUp() override {
    setenv("KSCOUT_MODEL_PATH", folder_.path().c_str(), 1);
    setenv("XDG_DATA_HOME", (folder_ / "data").c_str(), 1);
  }
  void TearDown() override {
    use_cuda_device(0);
    for (const char* name : {"KSCOUT_FORCE", "KSCOUT_MODEL_PATH"}) unsetenv(name);
  }

  /// Holds the kernel of four stages, for even k.
  static void write_library(const fs::path& to) {
    const auto file = toy::library_file("toy_gpu");
    const nlohmann::ordered_json index{{"format", "kscout-kernel-library"},
                                       {"version", 1},
                                       {"abi", 1},
                                       {"name", "joint"},
                                       {"library", file.string()},
                                       {"checksum", "fnv1a64:" + hash_digits(text_hash(read_file(file)))},
                                       {"backend", "cuda"},
                                       {"device", "h200"},
                                       {"serves", {toy::rule("k-by-2", "p.k % 2 == 0", "loads of 4 bytes")}},
                                       {"kernels", {{{"config", compiled_name(4)}, {"kernel", "toy_bf16"}}}}};
    write_file_atomically(to, index.dump());
  }

  fs::path install(std::initializer_list<KernelConfig> configs, std::string_view device = "h200") const {
    const fs::path folder = folder_ / fmt::format("gemm_bf16_{}", device);
    fs::create_directories(folder);
    write_file_atomically(folder / "model.ksf", joint_model(configs, device).bytes());
    return folder;
  }
  static Dispatcher on_gpu(DispatchPolicy policy = {}) {
    Registry registry;
    registry.add(backend("cuda"));
    return Dispatcher(std::move(registry), std::move(policy));
  }
  /// Whose kernel computed C rightly; the name otherwise says what went wrong.
  static std::string runs_on(Dispatcher& dispatcher, const GemmProblem& problem) {
    GemmOperands operands(instruments_of(backend("cuda")));
    operands.make(problem, 7);
    const GemmReference reference(problem, operands);
    operands.reset_c();
    const Solution solution = dispatcher.run(problem, operands.buffers());
    const Verification found = reference.check(operands.c());
    EXPECT_LE(found.error, 1) << print(problem) << ": " << found.where;
    EXPECT_EQ(solution.choice.config, dispatcher.get_solution(problem).choice.config);
    EXPECT_EQ(solution.choice.config.space, &provider("nvidia").space(Op::gemm));
    return Selector::name(problem, solution.choice);
  }
  static inline std::optional<test::TemporaryFolder> library_folder_;  // of all tests
  const test::TemporaryFolder folder_;
};

const GemmProblem kSmall = make_gemm(16, 24, 40, DType::bf16), kLarge = make_gemm(80, 24, 40, DType::bf16);

TEST_F(CudaJointTest, EitherMemberIsChosenAndRuns) {
  install({cublaslt(0), compiled(4)});
  Dispatcher dispatcher = on_gpu();
  EXPECT_EQ(runs_on(dispatcher, kSmall), compiled_name(4));
  EXPECT_TRUE(runs_on(dispatcher, kLarge).starts_with("cublaslt_"));
  const Choice choice = dispatcher.get_solution(kSmall).choice;
  EXPECT_EQ(choice.decided_by, ChoiceSource::model);
  // The library's rule keeps its kernel from odd k: the next one runs.
  EXPECT_TRUE(runs_on(dispatcher, make_gemm(16, 24, 41, DType::bf16)).starts_with("cublaslt_"));
  GemmOperands operands(instruments_of(backend("cuda")));
  operands.make(kSmall, 7);
  dispatcher.run_explicit(kSmall, compiled(4), operands.buffers());
  dispatcher.run_explicit(kSmall, parse_config_name(compiled_name(4)).config, operands.buffers());
  EXPECT_NE(dispatcher.registry().supports(kSmall, compiled(5)).refusal.find("is in no library"),
            std::string::npos);
}

TEST_F(CudaJointTest, OnTheFirstCallsBothTakeTurnsAndEveryResultIsRight) {
  install({cublaslt(0), compiled(4)});
  Dispatcher dispatcher = on_gpu({.refine = {.top = 2, .seconds = 60}});
  GemmOperands operands(instruments_of(backend("cuda")));
  operands.make(kSmall, 7);
  const GemmReference reference(kSmall, operands);
  std::set<std::string> ran;
  // The workspace suffices for each that takes part.
  Memory& memory = backend("cuda").memory();
  const std::size_t bytes = dispatcher.workspace_bytes(kSmall);
  void* const workspace = memory.allocate(bytes + 1);
  const RunOn on{.workspace = workspace, .workspace_bytes = bytes};
  // At most four calls of each, and the one that finds the times.
  for (int call = 0; call < 9; ++call) {
    operands.reset_c();
    ran.insert(Selector::name(kSmall, dispatcher.run(kSmall, operands.buffers(), on).choice));
    EXPECT_LE(reference.check(operands.c()).error, 1) << call;
  }
  memory.release(workspace);
  EXPECT_EQ(ran.size(), 2u);
  const Choice settled = dispatcher.get_solution(kSmall).choice;
  EXPECT_EQ(settled.decided_by, ChoiceSource::db);
  EXPECT_GT(settled.time_us, 0);
}

TEST_F(CudaJointTest, TimesOfAnIdleGpuAreTheProgramsAndReplaceNoPrediction) {
  install({cublaslt(0), compiled(4)});
  setenv("HOST_GPU_FAIL", "busy", 1);
  Dispatcher dispatcher = on_gpu({.refine = {.top = 2, .seconds = 60}});
  GemmOperands operands(instruments_of(backend("cuda")));
  operands.make(kSmall, 7);
  for (int call = 0; call < 9; ++call) dispatcher.run(kSmall, operands.buffers());
  unsetenv("HOST_GPU_FAIL");
  const Choice settled = dispatcher.get_solution(kSmall).choice;
  EXPECT_EQ(settled.decided_by, ChoiceSource::model);
  EXPECT_EQ(Selector::name(kSmall, settled), compiled_name(4));
}

TEST_F(CudaJointTest, TheNextBestRunsWhereASuggestionWouldBeWrong) {
  CublasLtConfig fourth;
  fourth.suggestion = 4;
  install({test::nvidia_config(fourth.kernel_config()), cublaslt(0)});
  Dispatcher dispatcher = on_gpu();
  EXPECT_TRUE(runs_on(dispatcher, make_gemm(80, 8, 4608, DType::bf16)).ends_with("suggestion4"));
  EXPECT_TRUE(runs_on(dispatcher, make_gemm(80, 8, 4616, DType::bf16)).ends_with("suggestion1"));
}

TEST_F(CudaJointTest, KernelsThatAreNotHereAreLeftOutAndSaidSo) {
  const fs::path model = install({cublaslt(120900), cublaslt(0), compiled(4), compiled(5)});
  Dispatcher dispatcher = on_gpu();
  EXPECT_EQ(runs_on(dispatcher, kSmall), compiled_name(4)) << "five stages are in no library";
  EXPECT_TRUE(runs_on(dispatcher, kLarge).ends_with("suggestion1"))
      << "the other algorithm is of another release";

  Backend& gpu = backend("cuda");
  const Selector selector = Selector::load(
      model, {.provider = "cublaslt",
              .device = gpu.device(),
              .absence = [&](const auto& of, const auto& config) { return gpu.absence(of, config); }});
  for (const Choice& choice : selector.rank(kSmall, 9)) EXPECT_EQ(gpu.refusal(kSmall, choice.config), "");
  ASSERT_EQ(selector.warnings().size(), 1u);
  EXPECT_TRUE(selector.warnings()[0].starts_with("left_out: 2 of the model's 4 configs cannot run here: "));
  // A selector that was not told offers them; the dispatcher passes them over.
  Dispatcher untold(Selector::load(model), gpu);
  EXPECT_EQ(runs_on(untold, kSmall), compiled_name(4));
}

TEST_F(CudaJointTest, WithoutAnyOfItsKernelsCuBlasLtRuns) {
  install({compiled(5), cublaslt(0)});
  Dispatcher dispatcher = on_gpu();
  EXPECT_TRUE(runs_on(dispatcher, kSmall).starts_with("cublaslt_"));
}

/// What only cuBLASLt computes is asked of the first member, whatever the model would like.
TEST_F(CudaJointTest, EpiloguesAndOtherTypesAreCuBlasLts) {
  install({cublaslt(0), compiled(4)});
  Dispatcher dispatcher = on_gpu();
  GemmProblem fused = kSmall;
  fused.epilogue = Epilogue::bias;
  for (const GemmProblem& problem : {fused, make_gemm(16, 32, 48, DType::fp16)}) {
    const Choice choice = dispatcher.get_solution(problem).choice;
    EXPECT_TRUE(Selector::name(problem, choice).starts_with("cublaslt_")) << print(problem);
    EXPECT_EQ(backend("cuda").refusal(problem, choice.config), "");
  }
}

/// Of two GPUs in one host each is asked for its own facts and has its own model.
TEST_F(CudaJointTest, EachGpuHasItsOwnModel) {
  install({cublaslt(0), compiled(4)}, "h200");
  install({cublaslt(0)}, "h100");
  EXPECT_EQ(backend("cuda").device().name, "h200");
  Dispatcher first = on_gpu();
  EXPECT_EQ(runs_on(first, kSmall), compiled_name(4));
  use_cuda_device(1);
  EXPECT_EQ(backend("cuda").device().name, "h100");
  Dispatcher second = on_gpu();
  EXPECT_TRUE(runs_on(second, kSmall).starts_with("cublaslt_"));
  use_cuda_device(2);
  EXPECT_THROW(backend("cuda").device(), Error) << "there are two";
}

TEST_F(CudaJointTest, NamesOfMembersSteerAJointModel) {
  install({cublaslt(0), compiled(4)});
  setenv("KSCOUT_FORCE", compiled_name(4).c_str(), 1);
  Dispatcher forced = on_gpu();
  EXPECT_EQ(runs_on(forced, kLarge), compiled_name(4));
  EXPECT_EQ(forced.get_solution(kLarge).choice.decided_by, ChoiceSource::forced);
  unsetenv("KSCOUT_FORCE");

  // What was timed is kept under the member's name and read back as the joint config.
  const fs::path db = folder_ / "decisions.sqlite";
  const Fastest timed{.time_us = 5, .next_us = 6, .timed = 2};
  DecisionDb(db).put(decision_of(kSmall, cublaslt(0), timed, backend("cuda")));
  Dispatcher told = on_gpu({.db = db});
  EXPECT_TRUE(runs_on(told, kSmall).starts_with("cublaslt_"));
  EXPECT_EQ(told.get_solution(kSmall).choice.decided_by, ChoiceSource::db);
}

}  // namespace
}  // namespace kscout
