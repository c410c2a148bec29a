// What the rules of family cublaslt say of problems, against what the library said on the GPU: the committed
// measurements hold every algorithm that it refused.
#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/family.h>

#include "dataset/dataset.h"
#include "provider/cublaslt/cublaslt.h"
#include "provider/nvidia/nvidia.h"

namespace kscout {
namespace {

struct Answers {
  int pairs = 0;
  int refused_unseen = 0;  ///< the rules admit them, the library does not
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
  }

  std::vector<std::uint8_t> serving(const Problem& problem) const {
    std::vector<std::uint8_t> serves(family_.configs.size());
    serving_configs(family_, problem, serves);
    return serves;
  }

  std::optional<std::size_t> position(const KernelConfig& config) const {
    const auto found = position_.find(config);
    return found == position_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  Family family_;
  std::unordered_map<KernelConfig, std::size_t> position_;
};

/// Rows of cuBLASLt's algorithms; compiled kernels have rules of their own.
Answers answers(const MeasurementTable& table) {
  Answers answers;
  std::deque<std::pair<Signature, Rules>> all;  // `rules` points into it
  std::vector<const Rules*> rules;              // by problem
  std::vector<std::vector<std::uint8_t>> serves;
  for (const Problem& problem : table.problems) {
    const Signature signature = signature_of(problem);
    auto found = std::ranges::find(all, signature, &std::pair<Signature, Rules>::first);
    if (found == all.end()) {
      all.emplace_back(signature, Rules(signature, table.device));
      found = all.end() - 1;
    }
    rules.push_back(&found->second);
    serves.push_back(found->second.serving(problem));
  }
  for (const auto& row : table.rows) {
    const KernelConfig config = nvidia_member_config(table.configs[row.config]);
    if (config.space != &cublaslt_gemm_space) continue;
    if (config["suggestion"] != 0) continue;  // which algorithm that is depends on the problem
    const auto position = rules[row.problem]->position(config);
    if (!position) {
      ADD_FAILURE() << "not in rule set wide";
      return answers;
    }
    const bool admitted = serves[row.problem][*position] != 0;
    ++answers.pairs;
    answers.refused_unseen += admitted && row.measured.status == Status::unsupported;
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
    ++files;
  }
  EXPECT_GE(files, 3);
}

}  // namespace
}  // namespace kscout
