#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/error.h>
#include <kscout/provider.h>

#include "family/family_file.h"
#include "family/rules.h"
#include "provider/joint.h"

namespace kscout {
namespace {

constexpr std::string_view kModes[] = {"off", "on", "auto"};
constexpr Axis kFamilyAxes[] = {{"threads", "1", "derived"},
                                {"m", "elements", "rows"},
                                {"n", "elements", "columns"},
                                {"mode", "1", "a word", kModes}};
constexpr ConfigSpace kFamilySpace{"toy", Op::gemm, kFamilyAxes};

constexpr std::string_view kHead = R"(provider = "toy"
op = "gemm"
)";

constexpr std::string_view kFamily = R"(provider = "toy"
op = "gemm"

[formula]
area = "c.m * c.n"

[axes]
mode = "off"

[[rule]]
name = "area-fits"
kind = "legal"
admits = "area <= d.shared_bytes_per_core"
because = "the tile is resident"

[[rule]]
name = "no-auto"
kind = "worth"
admits = "c.mode != 'auto'"
because = "never best"

[[rule]]
name = "whole-tiles"
kind = "applicability"
admits = "p.m % c.m == 0"
because = "no tails"

[rule_set.small]
help = "a few"
default_config = ["c.m == 5", "c.m == 2 and c.n == 3"]
[[rule_set.small.block]]
threads = "c.m * 2"
m = [1, 2]
n = [2, 3]

[rule_set.large]
help = "more"
extends = "small"
[[rule_set.large.block]]
threads = [2, "d.cores"]
m = [2, 1]
n = [3, 4]
mode = "*"
)";

FamilyRequest request(std::string rules, double shared = 100) {
  FamilyRequest asked{
      .provider = "toy", .signature = {}, .device = {}, .rules = std::move(rules), .filter = {}};
  asked.device.shared_bytes_per_core = shared;
  asked.device.cores = 2;
  return asked;
}

std::vector<std::string> texts(const ConfigTable& configs) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    std::string text;
    for (std::size_t axis = 0; axis < kFamilySpace.axes.size(); ++axis) {
      text += (axis ? " " : "") + axis_value_text(kFamilyAxes[axis], configs[i][axis]);
    }
    all.push_back(text);
  }
  return all;
}

TEST(Family, IsEnumeratedInTheOrderOfItsLists) {
  const FamilyFile file = parse_family(kFamily, "toy.toml", kFamilySpace);
  EnumerationReport report;
  EXPECT_EQ(texts(enumerate_configs(file, request("small"), &report)),
            (std::vector<std::string>{"2 1 2 off", "2 1 3 off", "4 2 2 off", "4 2 3 off"}));
  EXPECT_EQ(report.candidates, 4u);
  // The second block: threads 2 and d.cores agree; (2 1 3 off) is in the first block; auto is refused.
  EXPECT_EQ(
      texts(enumerate_configs(file, request("large"), &report)),
      (std::vector<std::string>{"2 1 2 off", "2 1 3 off", "4 2 2 off", "4 2 3 off", "2 2 3 off", "2 2 3 on",
                                "2 2 4 off", "2 2 4 on", "2 1 3 on", "2 1 4 off", "2 1 4 on"}));
  EXPECT_EQ(report.candidates, 4u + 24u);
  ASSERT_EQ(report.refused.size(), 3u);
  EXPECT_EQ(report.refused[1].rule, "no-auto");
  EXPECT_EQ(report.refused[1].configs, 8u);
  EXPECT_EQ(report.refused[2].rule, "duplicate");
  EXPECT_EQ(report.refused[2].configs, 9u);
}

TEST(Family, RulesAndFilterRefuse) {
  const FamilyFile file = parse_family(kFamily, "toy.toml", kFamilySpace);
  EXPECT_EQ(texts(enumerate_configs(file, request("small", 3), nullptr)),
            (std::vector<std::string>{"2 1 2 off", "2 1 3 off"}));
  EXPECT_TRUE(enumerate_configs(file, request("small", Device::unknown), nullptr).empty())
      << "what the device is not known to allow is left out";
  auto filtered = request("small");
  filtered.filter = "area == 6";
  EXPECT_EQ(texts(enumerate_configs(file, filtered, nullptr)), (std::vector<std::string>{"4 2 3 off"}));
  filtered.filter = "c.rows == 6";
  EXPECT_THROW(enumerate_configs(file, filtered, nullptr), Error);
  EXPECT_THROW(enumerate_configs(file, request("medium"), nullptr), Error);
}

TEST(Family, SaysWhyAConfigIsOut) {
  const FamilyFile file = parse_family(kFamily, "toy.toml", kFamilySpace);
  KernelConfig config(kFamilySpace);
  config.value = {4, 2, 3, 0};
  EXPECT_TRUE(why_not_in(file, request("small"), config).empty());
  config.value = {9, 2, 3, 2};
  const auto rules = why_not_in(file, request("small", 5), config);
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[0].name, "area-fits");
  EXPECT_EQ(rules[1].name, "no-auto");
  EXPECT_EQ(rules[2].name, "rule set small");
  EXPECT_EQ(rules[2].because,
            "nearest block toy.toml:31: threads = 9 is not among [c.m * 2]; mode = auto is not among [off]");
}

/// Rows of a block that depend on the device and on an axis outside the rows.
constexpr const char* kRows = R"toml(
[rule_set.rows]
help = "explicit configs"
[[rule_set.rows.block]]
threads = [1, "d.cores"]
mode = "*"
axes = ["m", "n"]
configs = [["c.threads * 10", 3], [4, "if(c.mode == 'on', 5, 6)"]]
)toml";

TEST(Family, RowsOfABlockMayBeFormulas) {
  const FamilyFile file = parse_family(std::string(kFamily) + kRows, "toy.toml", kFamilySpace);
  const ConfigTable configs = enumerate_configs(file, request("rows"), nullptr);
  std::vector<std::vector<std::int32_t>> found;
  for (std::size_t i = 0; i < configs.size(); ++i)
    found.push_back({configs[i][0], configs[i][1], configs[i][2], configs[i][3]});
  // Threads, m, n, mode (off, on); rule no-auto refuses mode auto.
  const std::vector<std::vector<std::int32_t>> expected = {{1, 10, 3, 0}, {1, 10, 3, 1}, {1, 4, 6, 0},
                                                           {1, 4, 5, 1},  {2, 20, 3, 0}, {2, 20, 3, 1},
                                                           {2, 4, 6, 0},  {2, 4, 5, 1}};
  EXPECT_EQ(found, expected);
  KernelConfig config = configs[0];
  config[1] = 11;
  const auto why = why_not_in(file, request("rows"), config);
  ASSERT_EQ(why.size(), 1u);
  EXPECT_NE(why.front().because.find("m = 11 is not among [its configs]"), std::string::npos)
      << why.front().because;
}

TEST(Family, ApplicabilityRulesAreEvaluatedPerProblem) {
  const FamilyFile file = parse_family(kFamily, "toy.toml", kFamilySpace);
  const auto configs = enumerate_configs(file, request("small"), nullptr);
  const ApplicabilityRules rules(std::span(&file.rules[2], 1), configs, std::vector<Traits>(4), Device{});
  ApplicabilityRules::Scratch scratch;
  std::vector<std::uint8_t> applicable(4, 7);
  rules.evaluate(make_gemm(3, 1, 1), applicable, scratch);
  EXPECT_EQ(applicable, (std::vector<std::uint8_t>{1, 1, 0, 0}));
  rules.evaluate(make_gemm(4, 1, 1), applicable, scratch);
  EXPECT_EQ(applicable, (std::vector<std::uint8_t>{1, 1, 1, 1}));
}

TEST(Family, RulesAreReadAloneAsWithRuleSets) {
  for (const std::string_view name : provider_names()) {
    for (const Op op : provider(name).ops()) {
      const FamilyFile& file = family_file(name, op);
      const std::vector<Rule> alone = family_rules(*file.space).rules;
      if (joint_provider(name)) continue;  // its rules are its members'
      ASSERT_EQ(alone.size(), file.rules.size()) << file.name;
      for (std::size_t i = 0; i < alone.size(); ++i) {
        EXPECT_EQ(alone[i].name, file.rules[i].name);
        EXPECT_EQ(alone[i].admits, file.rules[i].admits);
      }
    }
  }
}

TEST(Family, TheOldKindServesIsRead) {
  std::string text(kFamily);
  text.replace(text.find("\"applicability\""), std::string_view("\"applicability\"").size(), "\"serves\"");
  EXPECT_EQ(parse_family(text, "toy.toml", kFamilySpace).rules[2].kind, RuleKind::applicability);
}

TEST(Family, TheOldKeyThinIsRead) {
  const std::string head = std::string(kFamily) + "\n[rule_set.few]\nhelp = 'h'\n";
  const std::string sample = "{ of = 'small', by = 'c.m' }\n";
  const FamilyFile old = parse_family(head + "thin = " + sample, "toy.toml", kFamilySpace);
  EXPECT_EQ(old.rule_sets.back().sample.of, "small");
  EXPECT_EQ(old.rule_sets.back().sample.by, "c.m");
  EXPECT_THROW(parse_family(head + "thin = " + sample + "sample = " + sample, "toy.toml", kFamilySpace),
               Error);
}

TEST(Family, BadFilesAreRefusedWithTheLine) {
  const auto rule = [](std::string_view admits) {
    return fmt::format("[[rule]]\nname = 'r'\nkind = 'legal'\nadmits = '{}'\nbecause = 'b'\n", admits);
  };
  const auto block = [](std::string_view axes) {
    return fmt::format("[rule_set.a]\nhelp = 'h'\n[[rule_set.a.block]]\n{}\n", axes);
  };
  const std::string good_block = block("threads = 1\nm = 1\nn = 1\nmode = 'on'");
  struct Case {
    std::string text;
    std::string part;
  };
  const Case cases[] = {
      {"rul = 1", "toy.toml:3: unknown key 'rul'; did you mean 'rule'?"},
      {"a = = 1", "toy.toml:3: "},
      {"", "no [rule_set.NAME]"},
      {rule("c.q > 1") + good_block, "toy.toml:6: formula 'r': unknown name 'c.q'"},
      {rule("p.m > 1") + good_block, "unknown name 'p.m'"},
      {rule("1 +") + good_block, "toy.toml:6: formula 'r': expected"},
      {rule("1") + rule("1") + good_block, "rule 'r' is given twice"},
      {"[[rule]]\nname = 'r'\nkind = 'leagl'\nadmits = '1'\nbecause = 'b'\n" + good_block,
       "did you mean 'legal'"},
      {"[[rule]]\nname = 'r'\nkind = 'legal'\nadmits = '1'\n" + good_block,
       "toy.toml:3: rule 'r' has no 'because'"},
      {"[[rule]]\nname = 1\n" + good_block, "toy.toml:4: name must be a text"},
      {"rule = 3\n" + good_block, "toy.toml:3: rule must be a list"},
      {rule("1") + "suggested = 1\n" + good_block, "toy.toml:8: 'suggested' must be true or false"},
      {rule("1") + "suggested = true\n" + good_block, "toy.toml:8: rule 'r' is of kind legal"},
      {rule("1") + "slow = true\n" + good_block, "toy.toml:8: rule 'r' is of kind legal"},
      {"include = ['groupwise_conv.toml']\n" + good_block, "families/groupwise_conv.toml:"},
      {block("threads = 1\nm = 1\nn = 1"), "leaves out axis 'mode'"},
      {block("threads = 1\nm = 1\nn = 1\nmode = 'onn'"),
       "toy.toml:9: unknown word of mode 'onn'; did you mean 'on'"},
      {block("threads = 1\nm = 1\nn = 1\nmode = 1"), "takes words: off, on, auto"},
      {block("threads = 1\nm = 1.5\nn = 1\nmode = 'on'"), "takes whole numbers"},
      {block("threads = 1\nm = 4294967296\nn = 1\nmode = 'on'"), "takes whole numbers"},
      {block("threads = 1\nm = []\nn = 1\nmode = 'on'"), "toy.toml:7: axis 'm' has no value"},
      {block("threads = 1\nm = 'c.k'\nn = 1\nmode = 'on'"), "unknown name 'c.k'"},
      {block("threads = 1\nm = 1\nn = 1\nmode = 'on'\nk = 1"), "toy.toml:10: unknown axis 'k'"},
      {"[formula]\nf = 'c.m +'\n" + good_block, "toy.toml:4: formula 'f': expected"},
      {"[rule_set.b]\nhelp = 'h'\nextends = 'a'\n" + good_block,
       "'b' extends 'a', which is not a rule set above it"},
      {"[rule_set.b]\nhelp = 'h'\n", "toy.toml:3: rule set 'b' has no block"},
      {"[rule_set.b]\nhelp = 'h'\ndefault_config = 'c.m ='\n", "toy.toml:5: formula 'default_config'"},
      {block("threads = 1\nn = 1\naxes = ['m', 'mode']\nconfigs = [[1, '*']]"),
       "toy.toml:9: a config must have one value per axis"},
      {block("threads = 1\nmode = 'on'\naxes = ['m', 'n']\nconfigs = [[1, 'c.m + 1']]"),
       "toy.toml:9: 'c.m + 1' reads axis 'm' of the same config"},
  };
  for (const Case& bad : cases) {
    try {
      parse_family(std::string(kHead) + bad.text, "toy.toml", kFamilySpace);
      ADD_FAILURE() << "accepted: " << bad.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::corrupt_data);
      EXPECT_NE(std::string(error.what()).find(bad.part), std::string::npos)
          << error.what() << "\nwanted " << bad.part;
    }
  }
  EXPECT_THROW(parse_family("provider = 'native'\nop = 'gemm'\n" + good_block, "toy.toml", kFamilySpace),
               Error);
  EXPECT_NO_THROW(parse_family(std::string(kHead) + good_block, "toy.toml", kFamilySpace));
}

TEST(Family, ValuesThatCannotBeComputedAreErrors) {
  const std::string circle =
      std::string(kHead) +
      "[rule_set.a]\nhelp = 'h'\n[[rule_set.a.block]]\nthreads = 'c.m'\nm = 'c.n'\nn = "
      "'c.threads'\nmode = 'on'\n";
  const FamilyFile file = parse_family(circle, "toy.toml", kFamilySpace);
  EXPECT_THROW(enumerate_configs(file, request("a"), nullptr), Error);
  const std::string unknown =
      std::string(kHead) +
      "[rule_set.a]\nhelp = 'h'\n[[rule_set.a.block]]\nthreads = 'd.l3_bytes'\nm = 1\nn = "
      "1\nmode = 'on'\n";
  try {
    enumerate_configs(parse_family(unknown, "toy.toml", kFamilySpace), request("a"), nullptr);
    ADD_FAILURE() << "an unknown fact became a value";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported);
  }
}

TEST(CkTileGemm, MemIsListedPadded) {
  FamilyRequest request{
      .provider = "ck_tile",
      .signature = signature_of(make_gemm(1, 1, 1, DType::fp16)),
      .device = device_preset("gfx942"),
      .rules = "full",
      .filter = "c.pipeline == 'mem' and c.tile_m == 64 and c.tile_n == 64 and c.tile_k == 64"};
  const Family family = enumerate(request);
  ASSERT_GT(family.configs.size(), 0u);
  for (std::size_t i = 0; i < family.configs.size(); ++i)
    EXPECT_EQ(family.configs[i]["pad_m"], 1) << family.name(i);
  KernelConfig twin = family.configs[0];
  for (const char* const pad : {"pad_m", "pad_n", "pad_k"}) twin.set(pad, 0);
  request.filter.clear();
  const auto rules = why_not(request, twin);
  ASSERT_FALSE(rules.empty());
  EXPECT_EQ(rules.front().name, "mem-pads");
}

}  // namespace
}  // namespace kscout
