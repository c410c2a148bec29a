#include <random>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <kscout/conv_problem.h>
#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/grouped_gemm.h>
#include <kscout/provider.h>

#include "provider/ck_tile/ck_tile.h"
#include "support/share.h"

namespace kscout {
namespace {

template <WordEnum E>
E random_word(std::mt19937_64& random) {
  return static_cast<E>(random() % EnumWords<E>::words.size());
}

Signature random_signature(std::mt19937_64& random) {
  Signature signature = signature_of(
      make_gemm(0, 0, 0, random_word<DType>(random), static_cast<Layout>(random() % kGemmLayouts)));
  if (random() % 4 == 0) signature.dtype_b = random_word<DType>(random);
  if (random() % 4 == 0) signature.dtype_c = random_word<DType>(random);
  if (random() % 4 == 0) signature.dtype_acc = random_word<DType>(random);
  if (random() % 2 == 0) signature.epilogue = random_word<Epilogue>(random);
  signature.accumulate = random() % 4 == 0;
  return signature;
}

/// Any config that a name can hold, sensible or not.
KernelConfig random_ck_config(std::mt19937_64& random) {
  KernelConfig config(ck_tile_gemm_space);
  for (std::size_t i = 0; i < ck_tile_gemm_space.axes.size(); ++i) {
    const Axis& axis = ck_tile_gemm_space.axes[i];
    const bool flag = axis.name.starts_with("pad_") || axis.name == "persistent" || axis.name == "preshuffle";
    if (!axis.words.empty()) {
      config[i] = static_cast<std::int32_t>(random() % axis.words.size());
    } else if (flag) {
      config[i] = static_cast<std::int32_t>(random() % 2);
    } else if (axis.name.starts_with("vec_")) {
      config[i] = static_cast<std::int32_t>(random() % 3 * 4);
    } else {
      config[i] = static_cast<std::int32_t>(1 + random() % (random() % 8 ? 256 : 2147483647));
    }
  }
  return config;
}

RC_GTEST_PROP(NamesProperty, CkTileNamesReadBack, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const Provider& ck = provider("ck_tile");
  const Signature signature = random_signature(random);
  const KernelConfig config = random_ck_config(random);
  const std::string name = ck.print(signature, config);
  RC_ASSERT((ck.parse(name) == NamedConfig{signature, config}));
  RC_ASSERT((parse_config_name(name) == NamedConfig{signature, config}));
  // The other spellings of the same kernel.
  const std::string body = name.substr(std::string_view("gemm_universal_").size());
  for (const std::string& other : {"gemm_" + body, body, "benchmark_" + name}) {
    RC_ASSERT((parse_config_name(other) == NamedConfig{signature, config}));
  }
  // A name cut off inside is refused, never read as another kernel of the full length.
  const std::string cut = name.substr(0, random() % name.size());
  try {
    RC_ASSERT(ck.print(ck.parse(cut).signature, ck.parse(cut).config) != name);
  } catch (const Error& error) {
    RC_ASSERT(error.code() == Errc::invalid_argument);
  }
}

RC_GTEST_PROP(NamesProperty, DifferentKernelsHaveDifferentNames, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const Provider& ck = provider("ck_tile");
  const Signature signature = random_signature(random);
  const KernelConfig config = random_ck_config(random);
  KernelConfig other = config;
  const KernelConfig fresh = random_ck_config(random);
  const std::size_t axis = random() % ck_tile_gemm_space.axes.size();
  other[axis] = fresh[axis];
  RC_ASSERT((ck.print(signature, config) == ck.print(signature, other)) == (config == other));
}

/// Prints and parses a config of random axes.
void names_read_back(const Provider& by, const Signature& signature, std::mt19937_64& random) {
  const auto random_config = [&] {
    KernelConfig config(by.space(signature.op));
    for (std::size_t i = 0; i < config.space->axes.size(); ++i) {
      const Axis& axis = config.space->axes[i];
      const bool flag = axis.name == "swap_ab" || axis.name == "fast_accum";
      config[i] = static_cast<std::int32_t>(random() % (!axis.words.empty() ? axis.words.size()
                                                        : flag              ? 2
                                                                            : 2147483647));
    }
    return config;
  };
  const KernelConfig config = random_config();
  const std::string name = by.print(signature, config);
  RC_ASSERT((by.parse(name) == NamedConfig{signature, config}));
  RC_ASSERT((parse_config_name(name) == NamedConfig{signature, config}));
  RC_ASSERT(by.print(signature, random_config()) != name);
  // Cut off inside, it is refused or another kernel's.
  try {
    const NamedConfig other = by.parse(name.substr(0, random() % name.size()));
    RC_ASSERT(!(other == NamedConfig{signature, config}));
  } catch (const Error& error) {
    RC_ASSERT(error.code() == Errc::invalid_argument);
  }
}

RC_GTEST_PROP(NamesProperty, CutlassNamesReadBack, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const bool eight = random() % 4 == 0;
  Signature signature =
      signature_of(make_gemm(0, 0, 0,
                             eight          ? DType::fp8
                             : random() % 2 ? DType::bf16
                                            : DType::fp16,
                             eight ? Layout::rcr : static_cast<Layout>(random() % kGemmLayouts)));
  if (eight && random() % 2) signature.dtype_c = DType::bf16;
  signature.accumulate = random() % 4 == 0;
  names_read_back(provider("cutlass"), signature, random);
}

RC_GTEST_PROP(NamesProperty, HopperNamesReadBack, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  names_read_back(provider("hopper"),
                  signature_of(make_gemm(0, 0, 0, random() % 2 ? DType::bf16 : DType::fp16,
                                         static_cast<Layout>(random() % kGemmLayouts))),
                  random);
  names_read_back(provider("hopper"),
                  signature_of(make_grouped_gemm({1}, 1, 1, random() % 2 ? DType::bf16 : DType::fp16,
                                                 random() % 2 ? Layout::rcr : Layout::rrr)),
                  random);
  names_read_back(provider("hopper"),
                  signature_of(make_conv(kDirections[random() % std::size(kDirections)],
                                         random() % 2 ? DType::bf16 : DType::fp16,
                                         random() % 2 ? Layout::nhwgc : Layout::ndhwgc)),
                  random);
}

/// The signatures under which an op's rule sets are tried.
std::vector<Signature> signatures_of(std::string_view provider, Op op, DType dtype, bool one) {
  std::vector<Signature> signatures;
  if (is_direction(op) && provider == "native") {
    return {signature_of(make_conv(op)), signature_of(make_conv(op, DType::fp32, Layout::ndhwgc))};
  }
  if (is_direction(op) && (provider == "groupwise" || provider == "hopper" || provider == "nvidia_conv")) {
    return {signature_of(make_conv(op, DType::bf16)),
            signature_of(make_conv(op, DType::fp16, Layout::ndhwgc))};
  }
  if (is_direction(op)) {
    for (const Layout layout : {Layout::nhwgc, Layout::ndhwgc}) {
      signatures.push_back(
          signature_of(make_conv(op, layout == Layout::nhwgc ? DType::bf16 : DType::fp32, layout)));
    }
    if (op == Op::conv_fwd) signatures.push_back(signature_of(make_conv(op, DType::fp16, Layout::ngchw)));
    return signatures;
  }
  if (op == Op::grouped_gemm) {
    return {signature_of(make_grouped_gemm({1}, 1, 1, dtype, Layout::rcr)),
            signature_of(make_grouped_gemm({1}, 1, 1, dtype, Layout::rrr))};
  }
  for (const Layout layout : {Layout::rcr, Layout::rrr, Layout::crr, Layout::ccr}) {
    signatures.push_back(signature_of(make_gemm(0, 0, 0, dtype, layout)));
    if (one) break;  // tens of thousands: once is enough
  }
  return signatures;
}

/// Every config of every rule set that exists for a device.
TEST(Names, EveryFamilyReadsBack) {
  std::size_t families = 0;
  for (const auto name : provider_names()) {
    const Provider& by = provider(name);
    for (const Op op : by.ops()) {
      const Device amd = device_preset("gfx942");
      const Device device = name == "native" ? detect_cpu() : by.runs_on(amd) ? amd : device_preset("h200");
      for (const std::string& rules : rule_set_names(name, op)) {
        for (const Signature& signature :
             signatures_of(name, op, name == "cutlass" || name == "hopper" ? DType::bf16 : DType::fp32,
                           rules == "full")) {
          const bool tabled = rules == "default" || rules == "first";
          if (signature.layout == Layout::ngchw && tabled) continue;  // no depthwise kernels in these
          const Family family = enumerate({std::string(name), signature, device, rules, ""});
          ++families;
          ASSERT_LT(family.default_config, family.configs.size());
          std::set<std::string> names;
          for (std::size_t i = 0; i < family.configs.size(); ++i) {
            const std::string text = family.name(i);
            ASSERT_TRUE(names.insert(text).second) << text;
            if (!test::in_share(i)) continue;
            ASSERT_TRUE((by.parse(text) == NamedConfig{signature, family.configs[i]})) << text;
            ASSERT_EQ(parse_config_name(text).signature, signature) << text;
          }
        }
      }
    }
  }
  EXPECT_GE(families, 10u);
}

TEST(Names, CkTileRefusesWhatItCannotHold) {
  const std::string good =
      "gemm_universal_fp8_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x128x128_1x4x1_16x16x128";
  EXPECT_EQ(print_ck_tile_gemm(parse_ck_tile_gemm(good).signature, parse_ck_tile_gemm(good).config), good);
  EXPECT_EQ(parse_ck_tile_gemm(good).config["warp_tile_k"], 128);
  EXPECT_EQ(parse_ck_tile_gemm(good).signature.dtype_c, DType::fp16);
  const auto tail = parse_ck_tile_gemm(
      "fp16_rcr_comp_async_cshuffle_default_True_True_True_True_64x64x64_2x2x1_32x32x16_vec8_4_2_splitk3_"
      "Relu_preshuffle_streamk_tree");
  EXPECT_EQ(tail.config["vec_b"], 4);
  EXPECT_EQ(tail.config["split_k"], 3);
  EXPECT_EQ(axis_value_text(ck_tile_gemm_space.axes[tail.config.space->axis_index("stream_k")],
                            tail.config["stream_k"]),
            "tree");
  EXPECT_EQ(tail.signature.epilogue, Epilogue::relu);
  const std::pair<std::string, const char*> cases[] = {
      {good + "_Swish", "'Swish' says something"},
      {good + "_d2", "'d2' says something"},
      {good + "_sparse", "'sparse' says something"},
      {good + "_quick", "'quick' is no suffix"},
      {good + "_", "ends before its suffix"},
      {good + "_vec4_4", "ends before its vec_c"},
      {good + "_splitk0", "'0' is not a whole number"},
      {"gemm_universal_fp8_rcr_compv9_cshuffle", "did you mean 'compv3'"},
      {"gemm_universal_fp8_rcr_compv3_cshuffle_intrawave_False_False_False_Maybe_1x1x1_1x1x1_1x1x1",
       "'Maybe' is not True or False"},
      {"gemm_universal_fp8_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x128_1x1x1_1x1x1",
       "of the form MxNxK"},
      {"gemm_universal_fp8_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x128x8x8_1x1x1_1x1x1",
       "of the form MxNxK"},
      {"gemm_universal_fp8_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x0128x8_1x1x1_1x1x1",
       "not a whole number"},
      {"gemm_universal_fp9_rcr", "did you mean 'fp"},
      {"gemm", "unknown dtype 'gemm'"},
      {"", "ends before its dtype"},
  };
  for (const auto& [name, part] : cases) {
    try {
      parse_ck_tile_gemm(name);
      ADD_FAILURE() << "accepted " << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(print_ck_tile_gemm({}, KernelConfig(ck_tile_gemm_space)), Error)
      << "unknown axes have no name";
  EXPECT_THROW(parse_config_name("cutlass_gemm"), Error);
  EXPECT_THROW(parse_config_name("hopper_gemm_fp8_rcr__128x128x64_c1_k1"), Error);
  for (const char* const name :
       {"hopper_conv_fwd_fp32_nhwgc__128x128x64_c1_k1", "hopper_conv_fwd_bf16_ngchw__128x128x64_c1_k1",
        "hopper_conv_fwd_bf16_nhwgc__128x128x64_c1", "hopper_conv_fwd_bf16_nhwgc__64x128x64_c1_k1"})
    EXPECT_THROW(parse_config_name(name), Error) << name;
}

}  // namespace
}  // namespace kscout
