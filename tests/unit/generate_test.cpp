#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include <kscout/conv_problem.h>
#include <kscout/error.h>
#include <kscout/provider.h>

#include "backend/library/library_backend.h"
#include "core/files.h"
#include "generate/build.h"
#include "generate/named_kernels.h"
#include "generate/project.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

class Generate : public testing::Test {
 protected:
  GenerateRequest request(std::string rules = "tiny") const {
    return {.family = {.provider = "ck_tile",
                       .signature = {},
                       .device = device_preset("gfx942"),
                       .rules = std::move(rules),
                       .filter = ""},
            .signatures = {signature_of(make_conv(Op::conv_fwd, DType::bf16))},
            .out = out_,
            .name = "ck_tile"};
  }
  const test::TemporaryFolder folder_;
  const fs::path out_ = folder_ / "project";
};

TEST_F(Generate, TextIsThatOfTheGoldenFiles) {
  const std::pair<const char*, const char*> cases[] = {
      {"gemm_universal_bf16_rcr_compv3_cshuffle_intrawave_True_True_True_False_128x128x64_2x2x1_32x32x16",
       "gemm.txt"},
      {"grouped_conv_fwd_bf16_nhwgc_2d_compv4_cshuffle_intrawave_128x128x64_2x2x1_32x32x16_vec8_8_8_dsb_"
       "filter1x1_pad0",
       "conv_fwd.txt"},
      {"grouped_conv_bwd_data_fp16_ndhwgc_3d_compv1_cshuffle_intrawave_64x64x32_1x1x1_32x32x16_vec8_8_8",
       "conv_bwd_data.txt"},
      {"grouped_conv_bwd_weight_bf16_nhwgc_2d_mem_cshuffle_intrawave_64x16x64_2x1x1_16x16x16_vec1_1_1_"
       "streamk_tree_persistent",
       "conv_bwd_weight_streamk.txt"},
      {"grouped_conv_bwd_weight_bf16_nhwgc_2d_wavelet_cshuffle_intrawave_64x64x64_2x2x1_16x16x16_vec8_8_8_"
       "2stage",
       "conv_bwd_weight_2stage.txt"},
      {"grouped_conv_fwd_depthwise_fp16_ngchw_2d_8x8_f3_s1x1_p1x1_nb8_sub2x2_vec2_2", "depthwise.txt"},
  };
  for (const auto& [name, file] : cases) {
    const fs::path golden = paths::in_repository("tests/golden/generate") / file;
    const std::string text = ck_tile_emitter().kernel(parse_config_name(name));
    if (std::getenv("KSCOUT_UPDATE_GOLDEN")) write_file_atomically(golden, text);
    EXPECT_EQ(text, read_file(golden)) << name;
  }
}

/// CK's generator gives convolutions named `default` the cshuffle epilogue, so both names mean one kernel.
TEST_F(Generate, ConvolutionsWithEpilogueDefaultStoreAsCkBuildsThem) {
  const auto text_of = [](std::string_view epilogue) {
    const std::string name =
        fmt::format("grouped_conv_bwd_data_bf16_nhwgc_2d_mem_{}_intrawave_64x64x64_4x1x1_16x16x16", epilogue);
    std::string text = ck_tile_emitter().kernel(parse_config_name(name));
    for (const std::string& part : {name, kernel_symbol(name)}) {
      for (std::size_t at = 0; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
    }
    return text;
  };
  EXPECT_EQ(text_of("default"), text_of("cshuffle"));
}

TEST_F(Generate, MoreKernelsThanAllowedAreRefusedBeforeAnyFile) {
  GenerateRequest few = request("default");
  few.max_kernels = 3;
  test::expect_error(Errc::invalid_argument, "more than 3: ", [&] { generate_project(few); });
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(Generate, GivenConfigsReplaceTheRuleSets) {
  GenerateRequest given = request("a list");
  const NamedConfig named = parse_config_name(
      "grouped_conv_bwd_data_bf16_nhwgc_2d_compv3_cshuffle_intrawave_64x64x64_4x1x1_16x16x16");
  ConfigTable configs(*named.config.space);
  configs.push_back(named.config);
  given.configs = {{named.signature, configs}};
  const auto made = generate_project(given);
  ASSERT_EQ(made.kernels.size(), 1u);
  EXPECT_EQ(made.kernels[0].name, config_name(named.signature, named.config));
  EXPECT_NE(read_file(out_ / "sources.json").find("conv_bwd_data"), std::string::npos);
}

TEST_F(Generate, EveryKindOfCuratedKernelHasASource) {
  const auto report =
      generate_project({.family = request("full-tests").family,
                        .signatures = {signature_of(make_conv(Op::conv_bwd_weight, DType::bf16))},
                        .out = out_,
                        .name = "x"});
  EXPECT_GT(report.kernels.size(), 300u);
  std::set<std::string> symbols;
  for (const auto& kernel : report.kernels) EXPECT_TRUE(symbols.insert(kernel.symbol).second) << kernel.name;
  for (const auto& one : report.left_out) EXPECT_FALSE(one.because.empty()) << one.kernel;
}

TEST_F(Generate, TheSameAgainWritesNothing) {
  const auto first = generate_project(request());
  EXPECT_GT(first.written, first.kernels.size());
  const auto time = fs::last_write_time(out_ / first.kernels[0].file);
  const auto again = generate_project(request());
  EXPECT_EQ(again.written, 0u);
  EXPECT_EQ(again.unchanged, first.written);
  EXPECT_EQ(fs::last_write_time(out_ / first.kernels[0].file), time);
  // Another rule set: its files appear, the old ones go.
  const auto other = generate_project(request("default"));
  EXPECT_GT(other.removed, 0u);
  for (const auto& entry : fs::directory_iterator(out_ / "kernels")) {
    const bool known = std::ranges::any_of(
        other.kernels, [&](const auto& kernel) { return out_ / kernel.file == entry.path(); });
    EXPECT_TRUE(known) << entry.path();
  }
}

TEST_F(Generate, IndexHasTheApplicabilityRulesOfEachOperation) {
  GenerateRequest both = request("default");
  both.signatures.push_back(signature_of(make_gemm(1, 1, 1, DType::bf16)));
  const auto made = generate_project(both);
  const fs::path library = out_ / "ck_tile.so";
  write_file_atomically(library, "no object");
  const LibraryIndex index = read_library_index(write_library_index(out_, library, made.kernels));
  const auto has = [&](Op op, std::string_view name) {
    const auto& rules = index.applicability.at(op);
    return std::ranges::find(rules, name, &Rule::name) != rules.end();
  };
  EXPECT_TRUE(has(Op::gemm, "tail-k") && !has(Op::gemm, "filter-1x1"));
  EXPECT_TRUE(has(Op::conv_fwd, "vectors-of-input-channels") && !has(Op::conv_fwd, "tail-k"));

  LibraryBackend backend(index);
  const auto taken = [&](const Problem& problem) {
    std::vector<std::uint8_t> applicable;
    const Family family = backend.family(signature_of(problem), "");
    applicable.resize(family.configs.size());
    applicable_configs(family, problem, applicable);
    return std::ranges::count(applicable, 1);
  };
  EXPECT_GT(taken(parse_any_problem("gemm:64x64x64:bf16:rcr")), 0);
  EXPECT_EQ(taken(parse_any_problem("gemm:64x64x63:bf16:rcr")), 0) << "loads along K move 8 elements";
  EXPECT_GT(taken(parse_any_problem("conv_fwd:1x64x8x8:64x3x3:bf16:nhwgc:pad=1")),
            taken(parse_any_problem("conv_fwd:1x63x8x8:64x3x3:bf16:nhwgc:pad=1")));
}

TEST_F(Generate, ShortNamesAreCompletedFromTheRuleSets) {
  const Device device = device_preset("gfx950");
  const auto whole = [&](const char* name) {
    const NamedConfig named = completed(parse_config_name(name), device);
    EXPECT_TRUE(is_complete(named.config) && agree(named.config, parse_config_name(name).config)) << name;
    return config_name(named.signature, named.config);
  };
  EXPECT_EQ(whole("grouped_conv_forward_bf16_2d_64x64x64_compv3"),
            "grouped_conv_fwd_bf16_nhwgc_2d_compv3_cshuffle_intrawave_64x64x64_4x1x1_16x16x16");
  whole("grouped_conv_bwd_data_bf16_2d_64x64x64_mem");
  whole("grouped_conv_forward_bf16_2d_64x64x64_compv5");  // in set `first` only
  const std::string full = "grouped_conv_fwd_bf16_nhwgc_2d_compv3_cshuffle_intrawave_64x64x64_4x1x1_16x16x16";
  EXPECT_EQ(whole(full.c_str()), full);
  test::expect_error(Errc::unsupported, "no kernel of a rule set for 'gfx950' agrees with it",
                     [&] { whole("grouped_conv_forward_bf16_2d_48x48x48_compv3"); });
}

TEST_F(Generate, NamedKernelsAreCompiledOrRefusedWithTheReason) {
  const std::string name = "grouped_conv_fwd_bf16_nhwgc_2d_compv3_cshuffle_intrawave_64x64x64_4x1x1_16x16x16";
  const fs::path compiler = folder_ / "compiler.sh";
  std::ofstream(compiler)
      << "#!/bin/sh\nfor word in \"$@\"; do [ \"$last\" = -o ] && echo object > \"$word\"\n"
         "  last=$word\ndone\n";
  fs::permissions(compiler, fs::perms::owner_all);
  CompileRequest asked{.kernels = {parse_config_name(name)},
                       .device = device_preset("gfx950"),
                       .folder = out_,
                       .build = {.project = {}, .compiler = compiler.string(), .flags = {}, .jobs = 1}};
  const LibraryIndex index = read_library_index(compile_kernels(asked));
  ASSERT_EQ(index.configs.size(), 1u);
  EXPECT_EQ(config_name(index.configs[0].signature, index.configs[0].config), name);
  asked.folder = folder_ / "other";
  asked.kernels = {
      parse_config_name("gemm_universal_bf16_rcr_compv3_cshuffle_intrawave_True_True_True_False_128x128x64_"
                        "2x2x1_32x32x16_Relu")};
  test::expect_error(Errc::unsupported, "sources are written for plain GEMMs",
                     [&] { compile_kernels(asked); });
}

TEST_F(Generate, WhatDoesNotCompileIsLeftOut) {
  const auto made = generate_project(request());
  const fs::path compiler = out_ / "compiler.sh";
  // Compiles nothing, but fails for one source as a compiler does.
  std::ofstream(compiler) << "#!/bin/sh\nfor word in \"$@\"; do\n  case \"$word\" in *"
                          << made.kernels[1].name
                          << ".cpp) echo 'x.cpp:1: error: no such class'; exit 1;; esac\n  [ \"$last\" = -o "
                             "] && echo object > \"$word\"\n  last=$word\ndone\n";
  fs::permissions(compiler, fs::perms::owner_all);
  const auto result = build_project(
      {.project = out_, .compiler = compiler.string(), .flags = {}, .jobs = 2, .check_only = false});
  ASSERT_EQ(result.kernels.size(), made.kernels.size());
  for (std::size_t i = 0; i < result.kernels.size(); ++i)
    EXPECT_EQ(result.kernels[i].ok, i != 1) << result.kernels[i].message;
  EXPECT_EQ(result.kernels[1].message, "x.cpp:1: error: no such class");
  const LibraryIndex index = read_library_index(result.index);
  EXPECT_EQ(index.configs.size(), made.kernels.size() - 1);
  EXPECT_EQ(index.backend, "hip");
  EXPECT_THROW(
      build_project(
          {.project = out_, .compiler = "no-such-compiler", .flags = {}, .jobs = 2, .check_only = true}),
      Error);
}

}  // namespace
}  // namespace kscout
