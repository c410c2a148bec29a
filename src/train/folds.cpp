#include "train/folds.h"

#include <algorithm>
#include <map>

#include "core/fail.h"

namespace kscout {

std::vector<std::uint32_t> group_k_fold(std::span<const Problem> problems,
                                        std::span<const std::uint32_t> rows, std::uint32_t folds,
                                        SplitBy by) {
  struct Group {
    std::uint64_t weight = 0;
    std::vector<std::size_t> members;
  };
  std::map<ProblemSizes, Group> groups;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    Group& group = groups[group_of(problems[i], by)];
    group.weight += rows[i];
    group.members.push_back(i);
  }
  if (folds < 2 || groups.size() < folds) {
    fail(Errc::invalid_argument, "{} folds over {} distinct {}: give 2 to {} folds or measure more problems",
         folds, groups.size(), word(by), groups.size());
  }
  std::vector<const Group*> order;
  for (const auto& [key, group] : groups) order.push_back(&group);
  std::ranges::stable_sort(order, std::ranges::greater{}, [](const Group* group) { return group->weight; });

  std::vector<std::uint64_t> filled(folds);
  std::vector<std::uint32_t> fold_of(problems.size());
  for (const Group* group : order) {
    const auto lightest = static_cast<std::uint32_t>(std::ranges::min_element(filled) - filled.begin());
    filled[lightest] += group->weight;
    for (const std::size_t member : group->members) fold_of[member] = lightest;
  }
  return fold_of;
}

}  // namespace kscout
