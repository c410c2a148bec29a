#include "export/tunableop.h"

#include <array>
#include <charconv>
#include <limits>
#include <unordered_set>
#include <variant>

#include "core/fail.h"
#include "op/gemm/tunableop.h"
#include "provider/joint.h"

namespace kscout {

namespace {

/// The attributes of a solution, in their order, with their words.
template <class Numbers, class F>
void for_each_attribute(Numbers& n, F&& use) {
  use("Gemm_Cublaslt_id_", n.id);
  use("_tile_", n.tile);
  use("_stages_", n.stages);
  use("_splitk_", n.split_k);
  use("_red_", n.reduction);
  use("_swizzle_", n.swizzle);
  use("_custom_", n.custom);
  use("_inner_", n.inner);
  use("_cluster_", n.cluster);
}

struct LeftOut {
  std::string reason;
};

/// The third column, or why there is none.
std::variant<std::string, LeftOut> solution_of(const KernelConfig& chosen, TunableOpTable& table) {
  const KernelConfig config = member_config(chosen);
  if (config.space != &cublaslt_gemm_space)
    return LeftOut{fmt::format("with a kernel of provider {}", config.space->provider)};
  const CublasLtConfig algorithm = CublasLtConfig::from(config);
  if (algorithm.suggestion == 1) return "Default";
  if (!algorithm.is_named())
    return LeftOut{fmt::format("with suggestion {} of the library", algorithm.suggestion)};
  const auto numbers = library_numbers(algorithm);
  if (!numbers) return LeftOut{"with an algorithm that this build has no numbers for"};
  table.releases.insert(algorithm.version);
  return tunableop_solution(*numbers);
}

}  // namespace

std::string tunableop_solution(const CublasLtNumbers& numbers) {
  std::string text;
  for_each_attribute(numbers,
                     [&](std::string_view word, auto number) { text += fmt::format("{}{}", word, number); });
  return text;
}

std::optional<CublasLtNumbers> parse_tunableop_solution(std::string_view text) {
  CublasLtNumbers numbers;
  bool good = true;
  for_each_attribute(numbers, [&](std::string_view word, auto& number) {
    if (!good || !text.starts_with(word)) {
      good = false;
      return;
    }
    text.remove_prefix(word.size());
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    good = error == std::errc();
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  });
  if (!good || !text.empty()) return std::nullopt;
  return numbers;
}

TunableOpTable tunableop_table(std::span<const ShapeChoice> choices,
                               std::span<const std::string> validators) {
  TunableOpTable table;
  for (const std::string& validator : validators) table.text += fmt::format("Validator,{}\n", validator);
  std::unordered_set<std::string> known;
  for (const ShapeChoice& shape : choices) {
    if (shape.problem.kind() != Op::gemm)
      fail(Errc::invalid_argument, "TunableOp has GEMMs only: {} was given", print(shape.problem));
    std::string key;
    try {
      key = tunableop_key(shape.problem.gemm()).text();
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      count_skipped(table.left_out, {.reason = error.what()});
      continue;
    }
    auto solution = solution_of(shape.choice.config, table);
    if (auto* why = std::get_if<LeftOut>(&solution)) {
      count_skipped(table.left_out, {.reason = std::move(why->reason)});
    } else if (!known.insert(key).second) {
      count_skipped(table.left_out, {.reason = "of a name that is written already"});
    } else {
      const auto& text = std::get<std::string>(solution);
      ++(text == "Default" ? table.defaults : table.solutions);
      table.text += fmt::format("{},{}\n", key, text);
    }
  }
  return table;
}

}  // namespace kscout
