// Tests providers that a file declares: names, traits, rules, models and datasets that carry the declaration,
// and errors.
#include "family/declared.h"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/conv_problem.h>
#include <kscout/family.h>
#include <kscout/grouped_gemm.h>
#include <kscout/provider.h>

#include "core/files.h"
#include "support/expect_error.h"
#include "support/paths.h"

namespace kscout {
namespace {

using test::expect_error;

/// The template's text with another provider's name, so that tests share nothing.
std::string declaration(const std::string& name, std::string_view op = "gemm") {
  std::string text = read_file(paths::in_repository(fmt::format("src/generate/template/{}.toml", op)));
  for (std::size_t at = 0; (at = text.find("@NAME@", at)) != std::string::npos;) text.replace(at, 6, name);
  return text;
}

std::string with(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void refused(const std::string& text, std::string_view message) {
  expect_error(Errc::corrupt_data, message, [&] { read_declaration(text, "t.toml"); });
}

TEST(Declared, AFamilyOfTooManyConfigsIsRefused) {
  std::string numbers = "1";
  for (int i = 2; i <= 1100; ++i) numbers += ", " + std::to_string(i);
  const std::string text = with(declaration("toomany"), "tile_m = [1, 4, 16, 64], tile_n = [1, 4, 16, 64]",
                                fmt::format("tile_m = [{}], tile_n = [{}]", numbers, numbers));
  declare_provider(text, "toomany.toml");
  const Device cpu = device_preset("epyc-7763");
  expect_error(Errc::unsupported,
               {"rule set 'default' of toomany gemm: more than 1048576 configs", "add a rule"}, [&] {
                 enumerate({"toomany", signature_of(make_gemm(1, 1, 1)), cpu, "default", ""});
               });
}

TEST(Declared, NamesRoundTripAndTraitsFollowTheAxes) {
  const Provider& of = declare_provider(declaration("roundtrip"), "roundtrip.toml");
  EXPECT_EQ(&provider("roundtrip"), &of);
  const Device cpu = device_preset("epyc-7763");
  EXPECT_TRUE(of.runs_on(cpu));
  EXPECT_FALSE(of.runs_on(device_preset("h200")));
  const Signature signature = signature_of(make_gemm(1, 1, 1));
  const Family family = enumerate({"roundtrip", signature, cpu, "default", ""});
  ASSERT_EQ(family.configs.size(), 32u);
  for (std::size_t i = 0; i < family.configs.size(); ++i) {
    const NamedConfig named = parse_config_name(family.name(i));
    EXPECT_EQ(named.config, family.configs[i]);
    EXPECT_EQ(named.signature, signature);
    EXPECT_EQ(family.traits[i].tile_m, family.configs[i]["tile_m"]);
    EXPECT_EQ(family.traits[i].order, family.configs[i]["outer"]);
    EXPECT_TRUE(std::isnan(family.traits[i].stages)) << "not declared";
  }
  EXPECT_EQ(family.name(1), "roundtrip_gemm_fp32_rcr__tile_m1_tile_n1_outercolumns");
  expect_error(Errc::unsupported, "roundtrip.c computes nothing else",
               [&] { of.print(signature_of(make_gemm(1, 1, 1, DType::bf16)), family.configs[0]); });
  expect_error(Errc::unsupported, "it has gemm", [&] { of.space(Op::conv_fwd); });
  expect_error(Errc::invalid_argument, "tile_n",
               [&] { of.parse("roundtrip_gemm_fp32_rcr__tile_m1_tile_k1"); });
}

TEST(Declared, TheLongestNameReadsAKernel) {
  declare_provider(declaration("long"), "long.toml");
  declare_provider(declaration("long_conv", "conv_fwd"), "long_conv.toml");
  EXPECT_EQ(parse_config_name("long_conv_conv_fwd_fp32_nhwgc__block_k4_tapsinside").config.space->provider,
            "long_conv");
  EXPECT_EQ(parse_config_name("long_gemm_fp32_rcr__tile_m4_tile_n4_outerrows").config.space->provider,
            "long");
}

TEST(Declared, AgainWithEqualAxesIsTheKnownOne) {
  const Provider& first = declare_provider(declaration("again"), "a.toml");
  EXPECT_EQ(&declare_provider(with(declaration("again"), "every kernel", "all"), "b.toml"), &first);
  declare_if_unknown("again", "not even TOML [", "c.toml");
  expect_error(Errc::invalid_argument, "declared with other axes in a.toml",
               [] { declare_provider(with(declaration("again"), "\"columns\"]", "\"both\"]"), "d.toml"); });
}

TEST(Declared, ErrorsNameFileAndLine) {
  const std::string good = declaration("good");
  EXPECT_EQ(read_declaration(good, "t.toml")->name(), "good");
  refused("provider = [", "t.toml:1");
  refused(with(good, "\"good\"", "\"Good\""), "t.toml:2: provider 'Good'");
  refused(with(good, "\"good\"", "\"native\""),
          "t.toml:2: provider 'native': names of provider native begin so");
  refused(with(good, "\"good\"", "\"gemm\""), "names of provider ck_tile begin so");
  refused(with(good, "op = \"gemm\"", "op = \"grouped_gem\""), "did you mean 'grouped_gemm'?");
  refused(with(good, "op = \"gemm\"", "op = [\"gemm\", \"conv_fwd\"]"), "declare a provider for each");
  refused(with(good, "\"tile_n\"", "\"tile_m\""), "axis 'tile_m' is given twice");
  refused(with(good, "[\"rows\", \"columns\"]", "[\"rows\"]"), "needs two words or more");
  refused(with(good, "[\"rows\", \"columns\"]", "[\"rows\", \"rows\"]"),
          "word 'rows' of axis 'outer' is given twice");
  refused(with(good, "unit =", "units ="), "unknown key of an axis 'units'");
  refused(with(good, "traits = { tile_m", "traits = { tile_x"), "tile_x");
  refused(with(good, "\"c.tile_m\"", "\"c.tile_x\""), "tile_x");
  refused(with(good, "d.kind == 'cpu'", "d.kind == 'cpus'"), "cpus");
  refused(with(good, "outer = \"*\"", "outer = \"sideways\""), "sideways");
  expect_error(Errc::invalid_argument, "KSCOUT_FAMILIES", [] { provider("nobody"); });
}

TEST(Declared, ConvolutionsHaveTheirNames) {
  const Provider& of = declare_provider(declaration("dconv", "conv_fwd"), "dconv.toml");
  const Signature signature = signature_of(make_conv(Op::conv_fwd, DType::fp32));
  const Family family = enumerate({"dconv", signature, device_preset("epyc-7763"), "default", ""});
  ASSERT_EQ(family.configs.size(), 6u);
  EXPECT_EQ(family.name(0), "dconv_conv_fwd_fp32_nhwgc__block_k1_tapsoutside");
  EXPECT_EQ(of.parse(family.name(5)).config, family.configs[5]);
}

TEST(Declared, GroupedGemmsHaveTheirNames) {
  const std::string text = with(declaration("grouped"), "op = \"gemm\"", "op = \"grouped_gemm\"");
  declare_provider(text, "grouped.toml");
  const Signature signature = signature_of(make_grouped_gemm({1, 2}, 4, 4));
  const Family family = enumerate({"grouped", signature, device_preset("epyc-7763"), "default", ""});
  ASSERT_EQ(family.configs.size(), 32u);
  EXPECT_EQ(family.name(0), "grouped_grouped_gemm_fp32_rcr__tile_m1_tile_n1_outerrows");
  const NamedConfig named = parse_config_name(family.name(31));
  EXPECT_EQ(named.signature, signature);
  EXPECT_EQ(named.config, family.configs[31]);
}

std::string joint(const std::string& name, const std::string& members, const std::string& from) {
  return fmt::format(
      "provider = \"{}\"\nop = \"gemm\"\nhelp = \"both\"\nmembers = [{}]\n"
      "[rule_set.default]\nhelp = \"all\"\nfrom = \"members: {}\"\n",
      name, members, from);
}

TEST(Declared, JointFamiliesHaveTheKernelsOfTheirMembers) {
  declare_provider(declaration("part"), "part.toml");
  const std::string text = joint("whole", "\"native\", \"part\"", "native tiny, part default");
  const Provider& of = declare_provider(text, "whole.toml");
  const Device cpu = device_preset("epyc-7763");
  EXPECT_TRUE(of.runs_on(cpu));
  EXPECT_FALSE(of.runs_on(device_preset("h200")));
  const Signature signature = signature_of(make_gemm(1, 1, 1));
  const Family family = enumerate({"whole", signature, cpu, "default", ""});
  const Family native = enumerate({"native", signature, cpu, "tiny", ""});
  ASSERT_EQ(family.configs.size(), native.configs.size() + 32);
  for (std::size_t i = 0; i < family.configs.size(); ++i) {
    const KernelConfig config = family.configs[i];
    const NamedConfig named = parse_config_name(family.name(i));
    EXPECT_EQ(named.config.space->provider, i < native.configs.size() ? "native" : "part");
    EXPECT_EQ(of.own(named.config), config);
    EXPECT_EQ(of.canonical(config), config);
    EXPECT_EQ(of.parse(family.name(i)).config, config);
    EXPECT_EQ(host_threads(config), host_threads(named.config));
    EXPECT_EQ(family.traits[i].workers,
              provider(named.config.space->provider).traits(signature, named.config, cpu).workers);
  }
  EXPECT_FALSE(of.own(KernelConfig(provider("cublaslt").space(Op::gemm))));
  EXPECT_EQ(declaration_of("whole"), declaration("part") + '\f' + text);
  EXPECT_EQ(declaration_of("nvidia"), "");
  std::size_t rules_of_native = 0;
  for (const Rule& rule : family.applicability) rules_of_native += rule.name.starts_with("native-");
  EXPECT_EQ(rules_of_native, native.applicability.size());
}

TEST(Declared, JointFamiliesRefuseWhatDoesNotFit) {
  declare_provider(declaration("piece"), "piece.toml");
  std::string odd = declaration("odd");
  for (std::size_t at = 0; (at = odd.find("outer", at)) != std::string::npos;) odd.replace(at, 5, "isa");
  declare_provider(odd, "odd.toml");
  const std::string good = joint("sum", "\"native\", \"piece\"", "native tiny, piece default");
  EXPECT_EQ(read_declaration(good, "t.toml")->name(), "sum");
  refused(joint("sum", "\"native\"", "native tiny"), "t.toml:4: sum: 1 members");
  refused(joint("sum", "\"native\", \"native\"", "native tiny"), "member native is given twice");
  refused(joint("sum", "\"native\", \"nobody\"", "native tiny"), "nobody");
  refused(joint("sum", "\"nvidia\", \"piece\"", "piece default"), "member nvidia is a joint family");
  refused(joint("sum", "\"native\", \"hopper\"", "native tiny") + "[traits]\n", "of its members");
  refused(with(good, "op = \"gemm\"", "op = \"conv_fwd\""), "piece has no kernels for conv_fwd");
  refused(joint("sum", "\"native\", \"odd\"", "native tiny"), "axis 'isa' of odd has other words");
  refused(good + "[[rule_set.default.block]]\ntile_m = 1\n", "t.toml");
  const std::string block = "[rule_set.one]\nhelp = \"one\"\n[[rule_set.one.block]]\n";
  refused(good + block + "tile_m = 1\n", "leaves out axis 'by'");
  EXPECT_EQ(read_declaration(good + block + "by = \"piece\"\ntile_m = 1\ntile_n = 1\n", "t.toml")->name(),
            "sum");
}

}  // namespace
}  // namespace kscout
