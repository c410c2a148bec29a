// What the rules of family cublaslt say of problems, against what the library said on the GPU: the committed
// measurements hold every algorithm that it refused.
#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/family.h>

#include "dataset/dataset.h"

namespace kscout {
namespace {

struct Answers {
  int pairs = 0;
  int refused_unseen = 0;  ///< the rules admit them, the library does not
  int taken_unseen = 0;    ///< the library takes them, the rules do not
};

Answers answers(const MeasurementTable& table) {
  Answers answers;
  const Family family = enumerate({.provider = "cublaslt",
                                   .signature = signature_of(table.problems.front()),
                                   .device = table.device,
                                   .rules = "wide",
                                   .filter = ""});
  std::unordered_map<KernelConfig, std::size_t> position;
  for (std::size_t i = 0; i < family.configs.size(); ++i) position.emplace(family.configs[i], i);
  std::vector<std::vector<std::uint8_t>> serves(table.problems.size());
  for (std::size_t p = 0; p < serves.size(); ++p) serving_configs(family, table.problems[p], serves[p]);
  for (const auto& row : table.rows) {
    const KernelConfig& config = table.configs[row.config];
    if (config["suggestion"] != 0) continue;  // which algorithm that is depends on the problem
    const auto found = position.find(config);
    if (found == position.end()) {
      ADD_FAILURE() << "not in rule set wide";
      return answers;
    }
    const bool admitted = serves[row.problem][found->second] != 0;
    const bool taken = row.measured.status != Status::unsupported;
    ++answers.pairs;
    answers.refused_unseen += admitted && !taken;
    answers.taken_unseen += !admitted && taken;
  }
  return answers;
}

TEST(CublasltRefusals, AreToldByTheRules) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(KSCOUT_TEST_DATA).parent_path() / "data")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with("_h200.held_out.parquet")) continue;
    SCOPED_TRACE(name);
    const Answers found = answers(read_dataset(entry.path()));
    EXPECT_GT(found.pairs, 40'000);
    EXPECT_EQ(found.refused_unseen, 0);
    EXPECT_LT(found.taken_unseen, found.pairs / 100);  // parts of K that just fit the workspace
    ++files;
  }
  EXPECT_GE(files, 4);
}

}  // namespace
}  // namespace kscout
