// Compares the applicability rules of family cublaslt with the library on the GPU: the committed measurements
// contain every algorithm that the library rejected.
#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/family.h>

#include "dataset/dataset.h"
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

/// Of the algorithms that are known for a signature, which the rules admit for each problem.
class Rules {
 public:
  Rules(const Signature& signature, const Device& device)
      : family_(enumerate({.provider = "cublaslt",
                           .signature = signature,
                           .device = device,
                           .rules = "wide",
                           .filter = ""})) {
    for (std::size_t i = 0; i < family_.configs.size(); ++i) position_.emplace(family_.configs[i], i);
    about_results_ = family_;
    std::erase_if(about_results_.applicability, [](const Rule& rule) { return !rule.suggested; });
  }

  std::vector<std::uint8_t> applicable(const Problem& problem) const {
    std::vector<std::uint8_t> applicable(family_.configs.size());
    applicable_configs(family_, problem, applicable);
    return applicable;
  }

  /// The same by the rules about wrong results alone.
  std::vector<std::uint8_t> right(const Problem& problem) const {
    std::vector<std::uint8_t> right(family_.configs.size());
    applicable_configs(about_results_, problem, right);
    return right;
  }

  std::optional<std::size_t> position(const KernelConfig& config) const {
    const auto found = position_.find(config);
    return found == position_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  Family family_, about_results_;
  std::unordered_map<KernelConfig, std::size_t> position_;
};

/// Rows of cuBLASLt's algorithms; compiled kernels have rules of their own.
Answers answers(const MeasurementTable& table) {
  Answers answers;
  std::deque<std::pair<Signature, Rules>> all;  // `rules` points into it
  std::vector<const Rules*> rules;              // by problem
  std::vector<std::vector<std::uint8_t>> applicable, right;
  for (const Problem& problem : table.problems) {
    const Signature signature = signature_of(problem);
    auto found = std::ranges::find(all, signature, &std::pair<Signature, Rules>::first);
    if (found == all.end()) {
      all.emplace_back(signature, Rules(signature, table.device));
      found = all.end() - 1;
    }
    rules.push_back(&found->second);
    applicable.push_back(found->second.applicable(problem));
    right.push_back(found->second.right(problem));
  }
  for (const auto& row : table.rows) {
    const KernelConfig config = member_config(table.configs[row.config]);
    if (config.space != &cublaslt_gemm_space) continue;
    if (config["suggestion"] != 0) continue;  // which algorithm that is depends on the problem
    const auto position = rules[row.problem]->position(config);
    if (!position) {
      ADD_FAILURE() << "not in rule set wide";
      return answers;
    }
    const bool admitted = applicable[row.problem][*position] != 0;
    ++answers.pairs;
    answers.refused_unseen += admitted && row.measured.status == Status::unsupported;
    answers.wrong_kept += right[row.problem][*position] == 0 && row.measured.status != Status::unsupported;
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

struct ApplicableCount {
  std::size_t admitted, known;
  bool operator==(const ApplicableCount&) const = default;
};

/// Of the algorithms that a filter leaves, how many the rules admit for a problem.
ApplicableCount applicable_count(const GemmProblem& problem, const std::string& filter) {
  const Family family = enumerate({.provider = "cublaslt",
                                   .signature = signature_of(problem),
                                   .device = device_preset("h200"),
                                   .rules = "wide",
                                   .filter = filter});
  std::vector<std::uint8_t> applicable(family.configs.size());
  applicable_configs(family, problem, applicable);
  return {static_cast<std::size_t>(std::ranges::count_if(applicable, [](std::uint8_t s) { return s != 0; })),
          applicable.size()};
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
      return applicable_count(
          make_gemm(m, n, 256, DType::bf16, of.layout),
          fmt::format("c.algorithm == 13 and c.custom == {} and c.split_k == 1", of.custom));
    };
    EXPECT_EQ(option(1, 64), ApplicableCount(of.row, 1));
    EXPECT_EQ(option(64, 1), ApplicableCount(of.column, 1));
    EXPECT_EQ(option(1, 1), ApplicableCount(of.element, 1));
    EXPECT_EQ(option(64, 64), ApplicableCount(0, 1));
  }
}

/// 31.6 MB of parts, 37.2 MB where rows of 544 bytes take 640: as measured on a training problem.
TEST(CublasltRefusals, PartsOfAlgorithm66LieInRowsOfWhole128Bytes) {
  const auto four_parts = [](std::int64_t m, std::int64_t n, int algorithm) {
    return applicable_count(
        make_gemm(m, n, 448, DType::bf16),
        fmt::format("c.split_k == 4 and c.reduction == 'acc' and c.algorithm == {}", algorithm));
  };
  EXPECT_GT(four_parts(14519, 136, 66).known, 8u);
  EXPECT_EQ(four_parts(14519, 136, 66).admitted, 0u);
  EXPECT_GT(four_parts(14519, 128, 66).admitted, 8u) << "rows of 512 bytes";
  EXPECT_GT(four_parts(12000, 160, 66).admitted, 8u) << "of 640: whole 128 bytes, not whole 256";
  EXPECT_GT(four_parts(14519, 136, 23).admitted, 0u);
}

}  // namespace
}  // namespace kscout
