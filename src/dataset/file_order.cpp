#include "dataset/file_order.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/field_text.h"
#include "dataset/columns.h"

namespace kscout {

namespace {

/// For each key, the number of smaller distinct keys.
template <class Key>
std::vector<std::uint32_t> ranks_of(const std::vector<Key>& keys) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) -> const Key& { return keys[i]; });
  std::vector<std::uint32_t> ranks(keys.size());
  for (std::size_t i = 1; i < order.size(); ++i)
    ranks[order[i]] = ranks[order[i - 1]] + (keys[order[i - 1]] < keys[order[i]]);
  return ranks;
}

std::string words_of(const Signature& signature) {
  std::string text;
  for_each_field<Signature>([&](const auto& field) { text += field_text(signature.*field.member) + " "; });
  return text;
}

/// Sort key of a row in the file.
struct RowPlace {
  std::uint32_t signature, kernel, problem;
  std::int32_t pass;
  std::size_t row;
  auto operator<=>(const RowPlace&) const = default;
};

std::vector<RowPlace> places_of(const MeasurementTable& table, const Provider& provider) {
  const auto [signatures, signature_of_problem] = signatures_of(table.problems);
  std::vector<std::string> words;
  for (const Signature& signature : signatures) words.push_back(words_of(signature));
  std::vector<std::tuple<ProblemSizes, ProblemSizes, std::string>> problems;
  for (const Problem& problem : table.problems)
    problems.emplace_back(group_of(problem, SplitBy::weights), sizes_of(problem), print(problem));
  const auto of_signature = ranks_of(words), of_problem = ranks_of(problems);
  const ColumnValues names = kernel_names(table, provider);
  const auto of_name = ranks_of(names.words);
  std::vector<RowPlace> places;
  places.reserve(table.rows.size());
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const auto& row = table.rows[r];
    places.push_back({of_signature[signature_of_problem[row.problem]],
                      of_name[static_cast<std::size_t>(names.index[r])], of_problem[row.problem],
                      row.measured.pass, r});
  }
  return places;
}

}  // namespace

MeasurementTable rows_in_file_order(const MeasurementTable& table, const Provider& provider) {
  std::vector<RowPlace> places = places_of(table, provider);
  std::ranges::sort(places);
  MeasurementTable out = table;
  for (std::size_t r = 0; r < places.size(); ++r) out.rows[r] = table.rows[places[r].row];
  return out;
}

const FileOrder::OfProblem& FileOrder::of_problem(std::uint32_t problem) {
  while (problems_.size() <= problem) {
    const Problem& next = table_.problems[problems_.size()];
    const Signature signature = signature_of(next);
    const auto found = std::ranges::find(signatures_, signature);
    const auto at = static_cast<std::uint32_t>(found - signatures_.begin());
    if (found == signatures_.end()) {
      signatures_.push_back(signature);
      signature_texts_.push_back(words_of(signature));
    }
    problems_.push_back({at, group_of(next, SplitBy::weights), sizes_of(next), print(next)});
  }
  return problems_[problem];
}

FileOrder::Place FileOrder::place(const MeasurementTable::Row& row) {
  const std::uint32_t signature = of_problem(row.problem).signature;
  const std::uint64_t key = (std::uint64_t{signature} << 32) | row.config;
  const auto [at, is_new] = kernel_ids_.try_emplace(key, static_cast<std::uint32_t>(kernels_.size()));
  if (is_new)
    kernels_.push_back({signature, provider_.print(signatures_[signature], table_.configs[row.config])});
  return {at->second, row.problem, row.measured.pass};
}

std::strong_ordering FileOrder::compare(const Place& a, const Place& b) const {
  if (a == b) return std::strong_ordering::equal;
  if (a.kernel != b.kernel) {
    const Kernel &of_a = kernels_[a.kernel], &of_b = kernels_[b.kernel];
    const auto order = of_a.signature != of_b.signature
                           ? signature_texts_[of_a.signature] <=> signature_texts_[of_b.signature]
                           : of_a.name <=> of_b.name;
    if (order == 0) throw NotInFileOrder{};
    return order;
  }
  if (a.problem == b.problem) return a.pass <=> b.pass;
  const OfProblem &of_a = problems_[a.problem], &of_b = problems_[b.problem];
  const auto order =
      std::tie(of_a.weights, of_a.sizes, of_a.text) <=> std::tie(of_b.weights, of_b.sizes, of_b.text);
  if (order == 0) throw NotInFileOrder{};
  return order;
}

}  // namespace kscout
