#include "dataset/row_order.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "core/field_text.h"
#include "dataset/columns.h"
#include "problems/problem_sets.h"

namespace kscout {

namespace {

/// Of each key how many different ones are less.
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

/// Where a row stands among the others.
struct Place {
  std::uint32_t signature, kernel, problem;
  std::int32_t pass;
  std::size_t row;
  auto operator<=>(const Place&) const = default;
};

std::vector<Place> places_of(const MeasurementTable& table, const Provider& provider) {
  const auto [signatures, signature_of_problem] = signatures_of(table.problems);
  std::vector<std::string> words;
  for (const Signature& signature : signatures) words.push_back(words_of(signature));
  std::vector<std::tuple<ProblemSizes, ProblemSizes, std::string>> problems;
  for (const Problem& problem : table.problems)
    problems.emplace_back(group_of(problem, SplitBy::weights), sizes_of(problem), print(problem));
  const auto of_signature = ranks_of(words), of_problem = ranks_of(problems);
  const ColumnValues names = kernel_names(table, provider);
  const auto of_name = ranks_of(names.words);
  std::vector<Place> places;
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
  std::vector<Place> places = places_of(table, provider);
  std::ranges::sort(places);
  MeasurementTable out = table;
  for (std::size_t r = 0; r < places.size(); ++r) out.rows[r] = table.rows[places[r].row];
  return out;
}

}  // namespace kscout
