// Compares the applicability rules of family cublaslt with the library on the GPU: the committed measurements
// contain every algorithm that the library rejected.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/family.h>

#include "dataset/dataset.h"
#include "family/legality.h"
#include "provider/cublaslt/cublaslt.h"
#include "provider/joint.h"
#include "support/paths.h"

namespace kscout {
namespace {

struct Answers {
  int pairs = 0;
  int refused_unseen = 0;  ///< the rules admit them, the library does not
  int wrong_kept = 0;      ///< measured, although a rule says that they compute wrong results
};

/// Rows of cuBLASLt's algorithms; compiled kernels have rules of their own.
Answers answers(const MeasurementTable& table) {
  Answers answers;
  std::vector<std::vector<const MeasurementTable::Row*>> rows(table.problems.size());
  for (const auto& row : table.rows) {
    const KernelConfig config = member_config(table.configs[row.config]);
    // Which algorithm a suggestion is depends on the problem.
    if (config.space == &cublaslt_gemm_space && config["suggestion"] == 0) rows[row.problem].push_back(&row);
  }
  for (std::size_t p = 0; p < rows.size(); ++p) {
    ConfigTable configs(cublaslt_gemm_space);
    for (const auto* row : rows[p]) configs.push_back(member_config(table.configs[row->config]));
    const auto taken = admitted(table.problems[p], configs, table.device, Asked::all),
               right = admitted(table.problems[p], configs, table.device, Asked::suggested);
    for (std::size_t i = 0; i < rows[p].size(); ++i) {
      const bool refused = rows[p][i]->measured.status == Status::unsupported;
      ++answers.pairs;
      answers.refused_unseen += taken[i] != 0 && refused;
      answers.wrong_kept += right[i] == 0 && !refused;
    }
  }
  return answers;
}

TEST(CublasltRefusals, AreToldByTheRules) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(paths::in_repository("data"))) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("gemm_") || !name.ends_with("_h200.held_out.parquet")) continue;
    SCOPED_TRACE(name);
    const Answers found = answers(read_dataset(entry.path()));
    EXPECT_GT(found.pairs, 40'000);
    EXPECT_EQ(found.refused_unseen, 0);
    EXPECT_EQ(found.wrong_kept, 0);
    ++files;
  }
  EXPECT_GE(files, 3);
}

bool admits(const GemmProblem& problem, const CublasLtConfig& algorithm) {
  ConfigTable one(cublaslt_gemm_space);
  one.push_back(algorithm.kernel_config());
  return admitted(problem, one, device_preset("h200"), Asked::all)[0] != 0;
}

/// No column is among the held-out problems: as measured on training problems.
TEST(CublasltRefusals, OptionsForVectorsAskWhichWayTheMatrixLies) {
  struct Case {
    Layout layout;
    int custom;
    bool row, column, element;  ///< m = 1, n = 1, both
  };
  for (const Case& of : {Case{Layout::rcr, 11, true, true, true}, Case{Layout::rrr, 11, false, true, false},
                         Case{Layout::rrr, 10, true, false, false}, Case{Layout::ccr, 0, false, true, false},
                         Case{Layout::crr, 0, true, true, false}}) {
    SCOPED_TRACE(fmt::format("{} option {}", word(of.layout), of.custom));
    const auto option = [&](std::int64_t m, std::int64_t n) {
      return admits(make_gemm(m, n, 256, DType::bf16, of.layout),
                    {.version = 130100, .algorithm = 13, .split_k = 1, .custom = of.custom});
    };
    EXPECT_EQ(option(1, 64), of.row);
    EXPECT_EQ(option(64, 1), of.column);
    EXPECT_EQ(option(1, 1), of.element);
    EXPECT_FALSE(option(64, 64));
  }
}

/// 31.6 MB of parts, 37.2 MB where rows of 544 bytes take 640: as measured on a training problem.
TEST(CublasltRefusals, PartsOfAlgorithm66LieInRowsOfWhole128Bytes) {
  const auto four_parts = [](std::int64_t m, std::int64_t n, std::int32_t algorithm) {
    return admits(make_gemm(m, n, 448, DType::bf16), {.version = 130100,
                                                      .algorithm = algorithm,
                                                      .tile_m = 128,
                                                      .tile_n = 64,
                                                      .tile_k = 64,
                                                      .split_k = 4,
                                                      .reduction = 2});
  };
  EXPECT_FALSE(four_parts(14519, 136, 66));
  EXPECT_TRUE(four_parts(14519, 128, 66)) << "rows of 512 bytes";
  EXPECT_TRUE(four_parts(12000, 160, 66)) << "of 640: whole 128 bytes, not whole 256";
  EXPECT_TRUE(four_parts(14519, 136, 23));
}

}  // namespace
}  // namespace kscout
