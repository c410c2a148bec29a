// Replays lines of PyTorch's TunableOp on a real GPU as PyTorch does: the name of the second column becomes
// column-major matrices, the solution an algorithm of cuBLASLt that the library has to accept for them.
#include "export/tunableop.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <cublasLt.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <kscout/backend.h>

#include "core/problem_text.h"
#include "gpu/on_gpu.h"
#include "provider/cublaslt/cublaslt.h"

namespace kscout {
namespace {

/// The functions of the library that the backend uses.
class Library {
 public:
  Library() {
    const std::string file = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
    const char* const named = std::getenv("KSCOUT_CUBLASLT");
    for (const std::string& name : {named ? std::string(named) : file, "/usr/local/cuda/lib64/" + file}) {
      if (!library_) library_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
  bool loaded() const { return library_ != nullptr; }

  template <class F>
  F* function(const char* name) const {
    F* const found = reinterpret_cast<F*>(dlsym(library_, name));
    EXPECT_NE(found, nullptr) << name;
    return found;
  }

 private:
  void* library_ = nullptr;
};
#define KSCOUT_LT(library, name) library.function<decltype(name)>(#name)

/// One line, as text.
struct Line {
  std::string op, parameters, solution;
  std::vector<std::int64_t> numbers;  ///< of the parameters: m, n, k, [batch,] lda, ldb, ldc

  explicit Line(std::string_view line) {
    const auto columns = split(line, ',');
    op = columns.at(0), parameters = columns.at(1), solution = columns.at(2);
    for (const std::string_view part : split(parameters, '_')) {
      if (part.find_first_not_of("0123456789") == std::string_view::npos)
        numbers.push_back(std::stoll(std::string(part)));
    }
  }
  cudaDataType_t type() const {
    return op.find("BFloat16") != std::string::npos ? CUDA_R_16BF
           : op.find("Half") != std::string::npos   ? CUDA_R_16F
                                                    : CUDA_R_32F;
  }
};

/// AlgoInit, the attributes and AlgoCheck; the status of the first call that fails.
cublasStatus_t replay(const Library& lt, cublasLtHandle_t handle, const Line& line) {
  const auto numbers = parse_tunableop_solution(line.solution);
  if (!numbers) return CUBLAS_STATUS_INVALID_VALUE;
  const bool ta = line.parameters[0] == 't', tb = line.parameters[1] == 't',
             batched = line.numbers.size() == 7;
  const auto at = [&](std::size_t i) { return line.numbers.at(i); };
  const std::int64_t m = at(0), n = at(1), k = at(2), batch = batched ? at(3) : 1;
  const std::int64_t lda = at(batched ? 4 : 3), ldb = at(batched ? 5 : 4), ldc = at(batched ? 6 : 5);
  const cudaDataType_t type = line.type();

  cublasLtMatmulDesc_t operation = nullptr;
  EXPECT_EQ(KSCOUT_LT(lt, cublasLtMatmulDescCreate)(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  const auto describe = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    EXPECT_EQ(KSCOUT_LT(lt, cublasLtMatmulDescSetAttribute)(operation, attribute, &value, sizeof value),
              CUBLAS_STATUS_SUCCESS);
  };
  describe(CUBLASLT_MATMUL_DESC_TRANSA, std::int32_t{ta ? CUBLAS_OP_T : CUBLAS_OP_N});
  describe(CUBLASLT_MATMUL_DESC_TRANSB, std::int32_t{tb ? CUBLAS_OP_T : CUBLAS_OP_N});
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, std::int64_t leading) {
    cublasLtMatrixLayout_t layout = nullptr;
    EXPECT_EQ(KSCOUT_LT(lt, cublasLtMatrixLayoutCreate)(&layout, type, static_cast<std::uint64_t>(rows),
                                                        static_cast<std::uint64_t>(columns), leading),
              CUBLAS_STATUS_SUCCESS);
    if (batch > 1) {
      const auto count = static_cast<std::int32_t>(batch);
      const std::int64_t stride = leading * columns;
      const auto set = KSCOUT_LT(lt, cublasLtMatrixLayoutSetAttribute);
      EXPECT_EQ(set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
                CUBLAS_STATUS_SUCCESS);
    }
    return layout;
  };
  const cublasLtMatrixLayout_t a = ta ? matrix(k, m, lda) : matrix(m, k, lda);
  const cublasLtMatrixLayout_t b = tb ? matrix(n, k, ldb) : matrix(k, n, ldb);
  const cublasLtMatrixLayout_t c = matrix(m, n, ldc);

  cublasLtMatmulAlgo_t algo{};
  cublasStatus_t status = KSCOUT_LT(lt, cublasLtMatmulAlgoInit)(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, type,
                                                                type, type, type, numbers->id, &algo);
  const auto set = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, auto value) {
    if (status == CUBLAS_STATUS_SUCCESS)
      status = KSCOUT_LT(lt, cublasLtMatmulAlgoConfigSetAttribute)(&algo, attribute, &value, sizeof value);
  };
  set(CUBLASLT_ALGO_CONFIG_TILE_ID, numbers->tile);
  set(CUBLASLT_ALGO_CONFIG_STAGES_ID, numbers->stages);
  set(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, numbers->split_k);
  set(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, numbers->reduction);
  set(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, numbers->swizzle);
  set(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, numbers->custom);
  set(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, numbers->inner);
  set(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, numbers->cluster);
  cublasLtMatmulHeuristicResult_t checked{};
  if (status == CUBLAS_STATUS_SUCCESS)
    status = KSCOUT_LT(lt, cublasLtMatmulAlgoCheck)(handle, operation, a, b, c, c, &algo, &checked);
  if (status == CUBLAS_STATUS_SUCCESS) {
    EXPECT_LE(checked.workspaceSize, kCublasLtWorkspace) << line.solution;
  }
  for (const cublasLtMatrixLayout_t one : {a, b, c}) KSCOUT_LT(lt, cublasLtMatrixLayoutDestroy)(one);
  KSCOUT_LT(lt, cublasLtMatmulDescDestroy)(operation);
  return status;
}

using TunableOpOnGpu = test::OnGpu;

TEST_F(TunableOpOnGpu, TheLibraryTakesEachLineAsPyTorchReplaysIt) {
  const Library lt;
  ASSERT_TRUE(lt.loaded()) << dlerror();
  std::vector<ShapeChoice> choices;
  std::vector<std::string> problems;
  for (const char* const layout : {"rcr", "rrr", "crr", "ccr"}) {
    for (const char* const dtype : {"bf16", "fp16"}) {
      for (const char* const sizes : {"4096x1024x2048", "64x4096x4096", "1000x520x264", "24x1280x8192"}) {
        problems.push_back(fmt::format("gemm:{}:{}:{}", sizes, dtype, layout));
        problems.push_back(fmt::format("gemm:{}:{}:{}:batch=3", sizes, dtype, layout));
        problems.push_back(fmt::format("gemm:{}:{}:{}:lda=8448:ldb=8704:ldc=5000", sizes, dtype, layout));
      }
    }
  }
  for (const std::string& text : problems) {
    const GemmProblem problem = parse_problem(text);
    // The algorithms that the library names for the problem: it accepts each of them.
    for (const KernelConfig& config : gpu().suggestions(problem, 4))
      choices.push_back({problem, {.config = config}});
  }
  cublasLtHandle_t handle = nullptr;
  ASSERT_EQ(KSCOUT_LT(lt, cublasLtCreate)(&handle), CUBLAS_STATUS_SUCCESS);
  std::size_t replayed = 0;
  for (const ShapeChoice& choice : choices) {
    const TunableOpTable table = tunableop_table({&choice, 1}, {});
    if (table.solutions == 0) continue;  // an algorithm whose attributes the header does not name
    const Line line(table.text.substr(0, table.text.find('\n')));
    EXPECT_EQ(replay(lt, handle, line), CUBLAS_STATUS_SUCCESS) << table.text << print(choice.problem);
    ++replayed;
  }
  const Line unknown("GemmTunableOp_BFloat16_TN,tn_64_64_64_ld_64_64_64," +
                     tunableop_solution({.id = 1000000, .split_k = 1}));
  EXPECT_NE(replay(lt, handle, unknown), CUBLAS_STATUS_SUCCESS) << "no algorithm has this number";
  KSCOUT_LT(lt, cublasLtDestroy)(handle);
  EXPECT_GE(replayed, problems.size()) << "of " << choices.size() << " suggestions";
}

}  // namespace
}  // namespace kscout
