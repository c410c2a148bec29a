#include "op/grouped_gemm/grouped_gemm_sets.h"

#include <algorithm>
#include <numeric>

#include "core/files.h"
#include "core/names.h"
#include "core/toml_reader.h"

namespace kscout {

namespace {

constexpr ProblemSetInfo kGroupedSets[] = {
    {"moe",
     "expert layers of public language models, 1 to 4096 tokens, uneven routing by a fixed seed, up to 8 GB "
     "(families/moe_models.toml)"},
    {"moe_smoke", "8 small grouped GEMMs: empty groups, one group, uneven rows"},
};
constexpr std::string_view kModelsFile = "families/moe_models.toml";
constexpr double kMaxSetBytes = 8e9;

struct ExpertLayer {
  std::int64_t experts, active, hidden, intermediate, layers;
  bool gated;
};

class ModelsFile : private TomlReader {
 public:
  ModelsFile() : TomlReader(kModelsFile), file_(parse_toml(embedded_file(kModelsFile), kModelsFile)) {}

  std::vector<std::int64_t> numbers(std::string_view key) const {
    std::vector<std::int64_t> values;
    for (const toml::node& node : array_of(*file_.get(key), key)) values.push_back(positive(node, key));
    return values;
  }
  std::vector<ExpertLayer> models() const {
    std::vector<ExpertLayer> all;
    for (const auto& [name, node] : table_of(*file_.get("models"), "models")) {
      const toml::table& model = table_of(node, name.str());
      const auto number = [&model, this](std::string_view key) {
        const toml::node* const value = model.get(key);
        if (!value) complain(model, fmt::format("{} is missing", key));
        return positive(*value, key);
      };
      all.push_back({.experts = number("experts"),
                     .active = number("active"),
                     .hidden = number("hidden"),
                     .intermediate = number("intermediate"),
                     .layers = number("layers"),
                     .gated = model["gated"].value_or(false)});
    }
    return all;
  }

 private:
  std::int64_t positive(const toml::node& node, std::string_view what) const {
    const auto value = node.value<std::int64_t>();
    if (!value || *value < 1) complain(node, fmt::format("{} must be a number above 0", what));
    return *value;
  }

  toml::table file_;
};

std::vector<GroupedGemmProblem> moe_problems(DType dtype) {
  const ModelsFile file;
  const auto tokens = file.numbers("tokens"), devices = file.numbers("devices");
  std::vector<GroupedGemmProblem> problems;
  Generator random(/*seed=*/1);
  std::size_t routings = 0;
  for (const ExpertLayer& model : file.models()) {
    for (const std::int64_t count : tokens) {
      const auto rows =
          routed_tokens(count, model.experts, model.active, static_cast<RoutingSkew>(routings++ % 3), random);
      for (const std::int64_t shares : devices) {
        if (model.experts % shares != 0 || (shares > 1 && model.experts / shares < 2)) continue;
        const SizeList own(
            std::span<const std::int64_t>(rows).first(static_cast<std::size_t>(model.experts / shares)));
        const std::int64_t wide = (model.gated ? 2 : 1) * model.intermediate;
        for (const auto& [n, k] :
             {std::pair{wide, model.hidden}, std::pair{model.hidden, model.intermediate}}) {
          GroupedGemmProblem problem = make_grouped_gemm(own, n, k, dtype);
          problem.weight = static_cast<double>(model.layers);
          if (problem.m_sum > 0) problems.push_back(std::move(problem));
        }
      }
    }
  }
  // Operands are allocated whole: the weights of experts without rows too.
  std::erase_if(problems, [](const GroupedGemmProblem& p) {
    return min_bytes(p) + static_cast<double>(p.groups - p.m_filled) * static_cast<double>(p.n) *
                              static_cast<double>(p.k) * bytes_per_element(p.dtype_b) >
           kMaxSetBytes;
  });
  return problems;
}

std::vector<GroupedGemmProblem> smoke_problems(DType dtype) {
  return {make_grouped_gemm({5}, 64, 48, dtype),
          make_grouped_gemm({0, 17, 0}, 96, 64, dtype),
          make_grouped_gemm({32, 32, 32, 32}, 128, 96, dtype),
          make_grouped_gemm({1, 2, 3, 4, 5, 6, 7, 8}, 80, 128, dtype),
          make_grouped_gemm({128, 64, 0, 7}, 96, 160, dtype),
          make_grouped_gemm({200, 1, 1, 0, 3}, 144, 72, dtype),
          make_grouped_gemm(SizeList(std::vector<std::int64_t>(32, 4)), 64, 64, dtype),
          make_grouped_gemm({64, 0, 64, 0, 64, 0}, 256, 128, dtype)};
}

}  // namespace

std::vector<std::int64_t> routed_tokens(std::int64_t tokens, std::int64_t experts, std::int64_t each,
                                        RoutingSkew skew, Generator& random) {
  constexpr std::int64_t kUnit = std::int64_t{1} << 24;
  std::vector<std::int64_t> place(static_cast<std::size_t>(experts));
  std::iota(place.begin(), place.end(), std::int64_t{0});
  random.shuffle(place);
  std::vector<std::int64_t> up_to;  // sums of likelihoods
  for (const std::int64_t at : place) {
    const std::int64_t one = skew == RoutingSkew::even   ? kUnit
                             : skew == RoutingSkew::mild ? 4 * kUnit / (4 * at + experts)
                                                         : kUnit / (at + 1);
    up_to.push_back((up_to.empty() ? 0 : up_to.back()) + std::max<std::int64_t>(1, one));
  }
  std::vector<std::int64_t> rows(place.size()), last(place.size(), -1);
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::int64_t drawn = 0; drawn < std::min(each, experts);) {
      const auto at = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(up_to.back())));
      const auto expert = static_cast<std::size_t>(std::ranges::upper_bound(up_to, at) - up_to.begin());
      if (last[expert] == token) continue;  // it has this token
      last[expert] = token;
      ++rows[expert];
      ++drawn;
    }
  }
  return rows;
}

std::span<const ProblemSetInfo> grouped_gemm_sets() noexcept { return kGroupedSets; }

std::vector<GroupedGemmProblem> make_grouped_gemm_set(std::string_view name, DType dtype,
                                                      const std::vector<Layout>& wanted) {
  std::vector<std::string_view> names;
  for (const ProblemSetInfo& set : kGroupedSets) names.push_back(set.name);
  const bool smoke = names[index_of_word("problem set", name, names)] == "moe_smoke";
  std::vector<GroupedGemmProblem> all;
  for (GroupedGemmProblem& problem : smoke ? smoke_problems(dtype) : moe_problems(dtype)) {
    for (const Layout layout : wanted.empty() ? std::vector{Layout::rcr} : wanted) {
      problem.layout = layout;
      check(problem);
      all.push_back(problem);
    }
  }
  return all;
}

std::vector<GroupedGemmProblem> random_grouped_gemms(const TuningRequest& request) {
  Generator random(request.seed);
  std::vector<GroupedGemmProblem> problems;
  for (std::size_t tries = 0; tries < 100 * request.count && problems.size() < request.count; ++tries) {
    const std::int64_t experts = random.by_octave(2, 128);
    const std::int64_t each = random.between(1, std::min<std::int64_t>(8, experts));
    const auto skew = static_cast<RoutingSkew>(random.below(3));
    const auto rows = routed_tokens(random.by_octave(1, 1024), experts, each, skew, random);
    const std::int64_t n = 16 * random.by_octave(2, 256), k = 16 * random.by_octave(2, 256);
    for (const Layout layout : request.layouts) {
      const GroupedGemmProblem problem = make_grouped_gemm(SizeList(rows), n, k, DType::fp32, layout);
      const double weights = 4.0 * static_cast<double>(experts * n) * static_cast<double>(k);
      if (flop_count(problem) <= 1e9 * request.max_gflop && weights + min_bytes(problem) <= request.max_bytes)
        problems.push_back(problem);
    }
  }
  return problems;
}

}  // namespace kscout
