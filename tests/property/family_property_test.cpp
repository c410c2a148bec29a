#include <algorithm>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "family/family_file.h"

namespace kscout {
namespace {

constexpr std::string_view kWords[] = {"red", "green", "blue"};
constexpr Axis kAxes[] = {{"w", "1", ""}, {"x", "1", ""}, {"y", "1", "", kWords}, {"z", "1", ""}};
constexpr ConfigSpace kSpace{"toy", Op::gemm, kAxes};
using Point = std::array<std::int32_t, 4>;

/// A rule as text and as a function; the two are written side by side.
struct BothRule {
  std::string text;
  bool (*admits)(const Point&, double cores);
};

const BothRule kRules[] = {
    {"c.w <= c.x", [](const Point& p, double) { return p[0] <= p[1]; }},
    {"c.y != 'green'", [](const Point& p, double) { return p[2] != 1; }},
    {"(c.w + c.z) % 3 != 1", [](const Point& p, double) { return (p[0] + p[3]) % 3 != 1; }},
    {"c.w * c.x * c.z <= d.cores", [](const Point& p, double cores) { return p[0] * p[1] * p[3] <= cores; }},
    {"c.z in [1, 4] or c.y == 'red'",
     [](const Point& p, double) { return p[3] == 1 || p[3] == 4 || p[2] == 0; }},
    {"d.cores > 2", [](const Point&, double cores) { return cores > 2; }},
    {"c.x != 5", [](const Point& p, double) { return p[1] != 5; }},
};

/// What a value list holds: numbers, or one formula with its function.
struct BothValues {
  std::vector<std::int32_t> numbers;
  std::string formula;
  std::int32_t (*value)(const Point&) = nullptr;
};

BothValues random_values(std::mt19937_64& random, std::size_t axis) {
  BothValues values;
  if (axis == 0 && random() % 3 == 0) return {{}, "c.x + 1", [](const Point& p) { return p[1] + 1; }};
  if (axis == 3 && random() % 3 == 0) return {{}, "2 * c.w", [](const Point& p) { return 2 * p[0]; }};
  const std::size_t count = 1 + random() % 4;
  while (values.numbers.size() < count) {
    const auto number = static_cast<std::int32_t>(axis == 2 ? random() % 3 : random() % 8);
    if (std::ranges::find(values.numbers, number) == values.numbers.end()) values.numbers.push_back(number);
    if (axis == 2 && values.numbers.size() == 3) break;
  }
  return values;
}

std::string toml_of(std::span<const BothValues> block) {
  std::string text = "[[rule_set.all.block]]\n";
  for (std::size_t axis = 0; axis < 4; ++axis) {
    std::string list = block[axis].formula.empty() ? "" : "'" + block[axis].formula + "'";
    for (const std::int32_t number : block[axis].numbers) {
      list += (list.empty() ? "" : ", ") +
              (axis == 2 ? fmt::format("'{}'", kWords[number]) : std::to_string(number));
    }
    text += fmt::format("{} = [{}]\n", kAxes[axis].name, list);
  }
  return text;
}

/// Every combination of a block in the order of its lists, first axis slowest. Formulas here read numbers
/// only (c.w may read c.x, c.z may read c.w), so one pass in the order x, w, z settles them.
std::vector<Point> every_combination(std::span<const BothValues> block) {
  std::vector<Point> all;
  const auto length = [&](std::size_t axis) { return block[axis].value ? 1 : block[axis].numbers.size(); };
  for (std::size_t w = 0; w < length(0); ++w) {
    for (std::size_t x = 0; x < length(1); ++x) {
      for (std::size_t y = 0; y < length(2); ++y) {
        for (std::size_t z = 0; z < length(3); ++z) {
          Point point{};
          point[1] = block[1].numbers[x];
          point[2] = block[2].numbers[y];
          point[0] = block[0].value ? block[0].value(point) : block[0].numbers[w];
          point[3] = block[3].value ? block[3].value(point) : block[3].numbers[z];
          all.push_back(point);
        }
      }
    }
  }
  return all;
}

RC_GTEST_PROP(FamilyProperty, EnumerationKeepsExactlyWhatEveryRuleAdmits, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  std::vector<const BothRule*> rules;
  for (const BothRule& rule : kRules) {
    if (random() % 2) rules.push_back(&rule);
  }
  std::ranges::shuffle(rules, random);
  std::string toml = "provider = 'toy'\nop = 'gemm'\n";
  for (std::size_t i = 0; i < rules.size(); ++i) {
    toml += fmt::format("[[rule]]\nname = 'r{}'\nkind = '{}'\nadmits = \"{}\"\nbecause = 'test'\n", i,
                        random() % 2 ? "legal" : "worth", rules[i]->text);
  }
  toml += "[rule_set.all]\nhelp = 'all'\n";
  std::vector<std::vector<BothValues>> blocks(1 + random() % 3);
  for (auto& block : blocks) {
    for (std::size_t axis = 0; axis < 4; ++axis) block.push_back(random_values(random, axis));
    toml += toml_of(block);
  }
  FamilyRequest request{.provider = "toy", .signature = {}, .device = {}, .rules = "all", .filter = {}};
  request.device.cores = static_cast<double>(random() % 40);

  std::vector<Point> expected;
  std::set<Point> seen;
  std::size_t candidates = 0, refused = 0, duplicates = 0;
  for (const auto& block : blocks) {
    for (const Point& point : every_combination(block)) {
      ++candidates;
      const bool admitted = std::ranges::all_of(
          rules, [&](const BothRule* rule) { return rule->admits(point, request.device.cores); });
      if (!admitted) {
        ++refused;
      } else if (seen.insert(point).second) {
        expected.push_back(point);
      } else {
        ++duplicates;
      }
    }
  }

  const FamilyFile file = parse_family(toml, "toy.toml", kSpace);
  EnumerationReport report;
  const ConfigTable configs = enumerate_configs(file, request, &report);
  std::vector<Point> found;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const KernelConfig config = configs[i];
    found.push_back({config[0], config[1], config[2], config[3]});
  }
  if (found != expected)
    RC_FAIL(fmt::format("{} configs, {} expected of\n{}", found.size(), expected.size(), toml));
  RC_ASSERT(report.candidates == candidates);
  std::size_t counted = 0;
  for (const auto& refusal : report.refused) counted += refusal.rule == "duplicate" ? 0 : refusal.configs;
  RC_ASSERT(counted == refused);
  RC_ASSERT(report.refused.back().configs == duplicates);

  // why_not says the same of single configs, in and out.
  for (int i = 0; i < 20; ++i) {
    Point point{};
    for (std::size_t axis = 0; axis < 4; ++axis)
      point[axis] = static_cast<std::int32_t>(random() % (axis == 2 ? 3 : 8));
    KernelConfig config(kSpace);
    std::ranges::copy(point, config.value.begin());
    RC_ASSERT(why_not_in(file, request, config).empty() == seen.contains(point));
  }
}

}  // namespace
}  // namespace kscout
