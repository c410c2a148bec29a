#include "select/compiled_family.h"

#include <algorithm>

namespace kscout {

CompiledFamily::CompiledFamily(const Family& family)
    : family_(&family), rules_(family.applicability, family.configs, family.traits, family.device) {
  for (const Traits& traits : family.traits) always_.push_back(traits.suggestion > 0 ? 1 : 0);
  always_[family.default_config] = 1;
  const auto first = std::ranges::find(family.traits, 1, &Traits::suggestion);
  if (first != family.traits.end())
    first_suggestion_ = static_cast<std::uint32_t>(first - family.traits.begin());
}

std::span<const std::uint8_t> CompiledFamily::applicable(ProblemRef problem,
                                                         std::span<const std::uint8_t> allowed,
                                                         SelectScratch& scratch) const {
  scratch.applicable.resize(size());
  rules_.evaluate(problem, scratch.applicable, scratch.rules);
  for (std::size_t i = 0; i < allowed.size(); ++i) scratch.applicable[i] &= allowed[i];
  return scratch.applicable;
}

std::size_t CompiledFamily::applicable_among(ProblemRef problem, std::span<const std::uint32_t> asked,
                                             SelectScratch& scratch) const {
  scratch.answers.resize(asked.size());
  rules_.evaluate(problem, asked, scratch.answers, scratch.rules);
  scratch.applicable.assign(size(), 0);
  std::size_t count = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) count += scratch.applicable[asked[i]] = scratch.answers[i];
  return count;
}

std::span<const std::uint32_t> CompiledFamily::able(ProblemRef problem, std::span<const std::uint8_t> allowed,
                                                    SelectScratch& scratch) const {
  return marked(applicable(problem, allowed, scratch), scratch.able);
}

std::span<const std::uint32_t> marked(std::span<const std::uint8_t> marks,
                                      std::vector<std::uint32_t>& positions) {
  positions.resize(marks.size());
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < marks.size(); ++i) {
    positions[count] = i;
    count += marks[i] != 0;
  }
  return std::span(positions).first(count);
}

std::size_t keep_best(std::span<const std::uint32_t> configs, std::span<const double> scores,
                      std::span<Ranked> best) noexcept {
  if (best.empty()) return 0;
  // A heap of the best configs so far, with the worst of them at the front.
  const auto better = [](const Ranked& a, const Ranked& b) {
    return a.score != b.score ? a.score > b.score : a.config < b.config;
  };
  const auto begin = best.begin();
  std::size_t count = 0;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const Ranked next = {.config = configs[i], .score = scores[i]};
    if (count == best.size()) {
      if (!better(next, best[0])) continue;
      std::pop_heap(begin, best.end(), better);
      --count;
    }
    best[count++] = next;
    std::push_heap(begin, begin + static_cast<std::ptrdiff_t>(count), better);
  }
  std::sort_heap(begin, begin + static_cast<std::ptrdiff_t>(count), better);
  return count;
}

}  // namespace kscout
