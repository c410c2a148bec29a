// Tests CUTLASS kernels: the contents of the family, the generated sources, the library's index.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "backend/library/library_backend.h"
#include "core/files.h"
#include "core/hash.h"
#include "generate/build.h"
#include "generate/project.h"
#include "provider/cutlass/cutlass.h"
#include "provider/joint.h"
#include "support/expect_error.h"
#include "support/nvidia_config.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

Signature signature(DType dtype = DType::bf16, Layout layout = Layout::rcr) {
  return signature_of(make_gemm(1, 1, 1, dtype, layout));
}

Signature with_epilogue(Epilogue epilogue) {
  Signature made = signature();
  made.epilogue = epilogue;
  return made;
}

FamilyRequest request(const Signature& of, std::string rules) {
  return {.provider = "cutlass",
          .signature = of,
          .device = device_preset("h200"),
          .rules = std::move(rules),
          .filter = ""};
}

struct Count {
  std::size_t kernels, configs;
  bool operator==(const Count&) const = default;
};

Count count(const Signature& of, const std::string& rules) {
  const Family family = enumerate(request(of, rules));
  std::set<std::string> kernels;
  for (std::size_t i = 0; i < family.configs.size(); ++i)
    kernels.insert(cutlass_kernel_name(of, family.configs[i]));
  return {kernels.size(), family.configs.size()};
}

TEST(CutlassFamily, HoldsWhatIsDocumented) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    EXPECT_EQ(count(signature(dtype), "tiny"), (Count{6, 11}));
    EXPECT_EQ(count(signature(dtype), "default"), (Count{26, 98}));
    EXPECT_EQ(count(signature(dtype), "full"), (Count{79, 489}));
    for (const Layout layout : {Layout::rrr, Layout::crr, Layout::ccr})
      EXPECT_EQ(count(signature(dtype, layout), "full"), (Count{26, 98})) << word(layout);
  }
  EXPECT_EQ(count(signature(DType::fp8), "tiny"), (Count{4, 6}));
  EXPECT_EQ(count(signature(DType::fp8), "default"), (Count{13, 44}));
  EXPECT_EQ(count(signature(DType::fp8), "full"), (Count{32, 227}));
  // Wgmma kernels that store C by tensor copies.
  for (const Epilogue epilogue : {Epilogue::bias, Epilogue::gelu, Epilogue::bias_relu}) {
    EXPECT_EQ(count(with_epilogue(epilogue), "tiny"), (Count{4, 6})) << word(epilogue);
    EXPECT_EQ(count(with_epilogue(epilogue), "full"), (Count{45, 333})) << word(epilogue);
  }
}

/// The rules that keep a config out of rule set full.
std::set<std::string> refused_by(const Signature& of, const CutlassConfig& config) {
  std::set<std::string> names;
  for (const Rule& rule : why_not(request(of, "full"), config.kernel_config())) names.insert(rule.name);
  return names;
}

TEST(CutlassFamily, TrapsAreRefusedByName) {
  CutlassConfig coop;
  coop.tile_m = coop.tile_n = 128;
  coop.tile_k = 64;
  EXPECT_TRUE(refused_by(signature(), coop).empty());

  CutlassConfig bad = coop;
  bad.tile_k = 128;
  EXPECT_TRUE(refused_by(signature(DType::fp8, Layout::rrr), bad).contains("eight-bits-along-k"));
  bad = coop;
  bad.tile_m = 64;
  EXPECT_TRUE(refused_by(signature(), bad).contains("rows-of-wgmma"));
  bad = coop;
  bad.tile_m = bad.tile_n = 256;
  EXPECT_TRUE(refused_by(signature(), bad).contains("sums-in-registers"));
  bad = coop;
  bad.pipeline = static_cast<std::int32_t>(CutlassPipeline::wgmma_pingpong);
  bad.tile_n = 256;
  EXPECT_TRUE(refused_by(signature(), bad).contains("sums-in-registers"));
  bad.tile_n = 128;
  bad.scheduler = static_cast<std::int32_t>(CutlassScheduler::stream_k);
  EXPECT_TRUE(refused_by(signature(), bad).contains("who-schedules"));
  bad = coop;
  bad.align = 2;
  EXPECT_TRUE(refused_by(signature(), bad).contains("loads-of-wgmma"));
  bad = coop;
  bad.fast_accum = true;
  bad.tile_k = 128;
  EXPECT_TRUE(refused_by(signature(DType::fp8), bad).contains("sums-in-accumulator"));
  bad.fast_accum = false;
  bad.tile_k = 256;
  EXPECT_TRUE(refused_by(signature(DType::fp8), bad).contains("eight-bits-by-128"));
  bad = coop;
  EXPECT_TRUE(refused_by(with_epilogue(Epilogue::bias_gelu), bad).empty());
  bad.epilogue = static_cast<std::int32_t>(CutlassEpilogue::nosmem);
  EXPECT_TRUE(refused_by(with_epilogue(Epilogue::bias_gelu), bad).contains("who-fuses"));
  EXPECT_FALSE(refused_by(signature(), bad).contains("who-fuses"));
  CutlassConfig mma80{.pipeline = 2,
                      .tile_m = 64,
                      .tile_n = 64,
                      .tile_k = 32,
                      .warp_m = 32,
                      .warp_n = 32,
                      .scheduler = static_cast<std::int32_t>(CutlassScheduler::grid),
                      .epilogue = static_cast<std::int32_t>(CutlassEpilogue::smem),
                      .stages = 4,
                      .align = 2};
  EXPECT_TRUE(refused_by(signature(), mma80).contains("loads-of-mma80")) << "cp.async of 2 bytes";
  EXPECT_TRUE(refused_by(with_epilogue(Epilogue::relu), mma80).contains("who-fuses"));
  mma80.align = 16;
  mma80.split_k = 4;
  mma80.decomposition = static_cast<std::int32_t>(CutlassDecomposition::split_k);
  EXPECT_TRUE(refused_by(signature(), mma80).contains("parts-of-k"));
}

TEST(CutlassFamily, TraitsTellKernelsApartThatHaveOneTile) {
  const Family family = enumerate(request(signature(), "full"));
  std::set<std::tuple<double, double, double, double, double, double, double, double, double, double, double,
                      double>>
      seen;
  for (const Traits& t : family.traits) {
    EXPECT_GE(t.algorithm, 1000) << "cuBLASLt's are smaller";
    EXPECT_GE(t.stages, 2);
    EXPECT_LE(t.shared_bytes, 232448);
    seen.insert({t.algorithm, t.variant, t.tile_m, t.tile_n, t.tile_k, t.stages, t.split_k, t.cluster_m,
                 t.cluster_n, t.order, t.swizzle, t.alignment});
  }
  EXPECT_EQ(seen.size(), family.configs.size());
}

/// Which kernels' alignments take a problem.
std::set<std::int32_t> alignments(const GemmProblem& problem) {
  const Family family = enumerate(request(signature_of(problem), "default"));
  std::vector<std::uint8_t> applicable(family.configs.size());
  applicable_configs(family, problem, applicable);
  std::set<std::int32_t> found;
  for (std::size_t i = 0; i < applicable.size(); ++i) {
    if (applicable[i]) found.insert(family.configs[i]["align"]);
  }
  return found;
}

TEST(CutlassFamily, EverySizeHasAKernelOfItsAlignment) {
  using Set = std::set<std::int32_t>;
  EXPECT_EQ(alignments(make_gemm(64, 64, 64, DType::bf16)), (Set{2, 4, 16}));
  EXPECT_EQ(alignments(make_gemm(64, 66, 64, DType::bf16)), (Set{2, 4, 16}))
      << "16 bytes: nosmem stores any C";
  EXPECT_EQ(alignments(make_gemm(64, 64, 66, DType::bf16)), (Set{2, 4}));
  EXPECT_EQ(alignments(make_gemm(33, 17, 9, DType::bf16)), (Set{2}));
  EXPECT_EQ(alignments(make_gemm(33, 64, 64, DType::bf16, Layout::crr)), (Set{2})) << "A's rows run along m";
  GemmProblem wide = make_gemm(64, 64, 64, DType::bf16);
  wide.lda = 65;
  EXPECT_EQ(alignments(wide), (Set{2}));
  EXPECT_EQ(alignments(make_gemm(1, 64, 64, DType::fp16)), (Set{2, 4, 16}));
}

TEST(NvidiaFamily, IsThatOfItsMembers) {
  const auto family_of = [](const char* provider, const char* rules, Layout layout = Layout::rcr) {
    return enumerate({.provider = provider,
                      .signature = signature(DType::bf16, layout),
                      .device = device_preset("h200"),
                      .rules = rules,
                      .filter = ""});
  };
  const Family lt = family_of("cublaslt", "default"), cutlass = family_of("cutlass", "full"),
               joint = family_of("nvidia", "full");
  ASSERT_EQ(joint.configs.size(), lt.configs.size() + cutlass.configs.size());
  const GemmProblem problem = make_gemm(100, 333, 24, DType::bf16);
  std::vector<std::uint8_t> of_joint, of_member;
  applicable_configs(joint, problem, of_joint);
  for (const Family* member : {&lt, &cutlass}) {
    const std::size_t first = member == &lt ? 0 : lt.configs.size();
    applicable_configs(*member, problem, of_member);
    for (std::size_t i = 0; i < member->configs.size(); ++i) {
      ASSERT_EQ(joint.name(first + i), member->name(i));
      ASSERT_EQ(member_config(joint.configs[first + i]), member->configs[i]);
      ASSERT_EQ(of_joint[first + i], of_member[i]) << member->name(i);
      ASSERT_EQ(provider("nvidia").parse(member->name(i)).config, joint.configs[first + i]);
    }
    EXPECT_GT(std::ranges::count(of_member, 1), 0);
    if (member == &cutlass) {
      EXPECT_GT(std::ranges::count(of_member, 0), 0);
    }
  }
  EXPECT_EQ(family_of("nvidia", "default", Layout::rrr).configs.size(), 8u + 98u);
  test::expect_error(Errc::invalid_argument, "not one of nvidia's",
                     [] { test::nvidia_config(KernelConfig(provider("native").space(Op::gemm))); });
}

class GenerateCutlass : public testing::Test {
 protected:
  GenerateRequest project(const std::string& rules, DType dtype = DType::bf16) const {
    return {.family = request(signature(dtype), rules),
            .signatures = {signature(dtype)},
            .out = out_,
            .name = ""};
  }
  const test::TemporaryFolder folder_;
  const fs::path out_ = folder_ / "project";
};

TEST_F(GenerateCutlass, TextIsThatOfTheGoldenFiles) {
  generate_project(project("tiny"));
  for (const char* const kind : {"wgmma", "mma80"}) {
    const fs::path golden = paths::in_repository(fmt::format("tests/golden/generate/cutlass_{}.txt", kind));
    const std::string text = read_file(out_ / fmt::format("kernels/cutlass_gemm_bf16_rcr_{}.cu", kind));
    if (std::getenv("KSCOUT_UPDATE_GOLDEN")) write_file_atomically(golden, text);
    EXPECT_EQ(text, read_file(golden));
  }
}

TEST_F(GenerateCutlass, KernelsShareSourcesAndConfigsShareKernels) {
  const auto report = generate_project(project("full", DType::fp8));
  EXPECT_TRUE(report.left_out.empty());
  EXPECT_LT(report.compiled(), report.kernels.size());
  std::map<std::string, std::set<std::string>> by_file;
  for (const auto& kernel : report.kernels) by_file[kernel.file].insert(kernel.kernel);
  for (const auto& [file, kernels] : by_file) {
    EXPECT_LE(kernels.size(), 8u) << file;
    EXPECT_GE(kernels.size(), 4u) << file;
    const std::string text = read_file(out_ / file);
    for (const std::string& kernel : kernels)
      EXPECT_NE(text.find('"' + kernel + '"'), std::string::npos) << kernel;
  }
  const std::string table = read_file(out_ / "library.cpp");
  for (const auto& kernel : report.kernels)
    EXPECT_EQ(table.find(kernel.symbol + ";"), table.rfind(kernel.symbol + ";")) << "declared twice";
  EXPECT_NE(table.find("\"cuda\""), std::string::npos);
}

TEST_F(GenerateCutlass, AnIndexCanBeListedWithoutGpuOrCompiler) {
  generate_project(project("tiny"));
  const fs::path compiler = out_ / "compiler.sh";
  // Compiles nothing; one unit fails, another brings a warning of ptxas.
  std::ofstream(compiler)
      << "#!/bin/sh\nfor word in \"$@\"; do\n  case \"$word\" in *_mma80.cu) echo 'x.cu(3): error: no "
         "such class'; exit 1;; *_wgmma.cu) echo 'ptxas info : (C7511) serialized';; esac\n"
         "  [ \"$last\" = -o ] && echo object > \"$word\"\n  last=$word\ndone\n";
  fs::permissions(compiler, fs::perms::owner_all);
  const auto built = build_project(
      {.project = out_, .compiler = compiler.string(), .flags = {}, .jobs = 2, .check_only = false});
  ASSERT_EQ(built.kernels.size(), 6u);
  EXPECT_EQ(std::ranges::count_if(built.kernels, [](const auto& one) { return one.ok; }), 4);
  EXPECT_NE(built.kernels.front().message.find("C7511"), std::string::npos);

  const LibraryIndex index = read_library_index(built.index);
  EXPECT_EQ(index.checksum, text_hash(read_file(built.library)));
  EXPECT_EQ(index.backend, "cuda");
  EXPECT_EQ(index.configs.size(), 6u) << "configs of the four kernels that compiled";
  LibraryBackend library(index);
  const Family family = library.family(signature(), "");
  EXPECT_EQ(family.configs.size(), 6u);
  EXPECT_EQ(library.device().name, "h200");
  std::vector<std::uint8_t> applicable(6);
  applicable_configs(family, make_gemm(64, 64, 65, DType::bf16), applicable);
  EXPECT_EQ(std::ranges::count(applicable, 1), 0) << "16-byte aligned rows: the index has the family's rules";
  EXPECT_FALSE(library.is_open());
  EXPECT_TRUE(library.holds(signature(), family.configs[0]));
  EXPECT_FALSE(library.holds(signature(DType::fp16), family.configs[0]));
}

TEST_F(GenerateCutlass, HeadersAreFoundBelowARoot) {
  test::expect_error(Errc::not_found, "--cutlass-root", [&] { find_cutlass(out_.string()); });
  for (const char* const place : {"include", "lib/python3.11/site-packages/cutlass_library/source/include"}) {
    fs::remove_all(out_);
    fs::create_directories(out_ / place / "cutlass");
    std::ofstream(out_ / place / "cutlass/version.h") << "\n";
    EXPECT_EQ(find_cutlass(out_.string()), out_ / place);
  }
}

TEST(CutlassEmitter, FusesTheEpilogueOfTheSignature) {
  const std::string config = "wgmma_pingpong_16x64x128_w0x0_c1x2_persistent_tma_s0_a16_swap",
                    launch = "along_m_z1_data_parallel_k1";
  constexpr std::tuple<std::string_view, bool, int> kExpected[] = {
      {"", false, 0},      {"_bias", true, 0},      {"_relu", false, 1},
      {"_gelu", false, 2}, {"_bias_relu", true, 1}, {"_bias_gelu", true, 2}};
  for (const auto& [epilogue, bias, activation] : kExpected) {
    const std::string kernel = fmt::format("cutlass_gemm_bf16_rcr{}__{}", epilogue, config);
    const std::string text =
        cutlass_emitter().kernel(parse_config_name(fmt::format("{}__{}", kernel, launch)));
    EXPECT_NE(text.find(fmt::format("\"{}\"", kernel)), std::string::npos)
        << "the library's name says it: " << text;
    EXPECT_NE(text.find(fmt::format("has_bias = {};", bias)), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format("activation = {};", activation)), std::string::npos) << text;
  }
}

/// sources.json records the epilogue, for generate --regenerate.
TEST_F(GenerateCutlass, TheEpilogueIsWrittenDown) {
  GenerateRequest fused = project("tiny");
  fused.signatures = {with_epilogue(Epilogue::bias_gelu)};
  const auto report = generate_project(fused);
  EXPECT_EQ(report.kernels.size(), 6u);
  for (const auto& kernel : report.kernels)
    EXPECT_TRUE(kernel.kernel.starts_with("cutlass_gemm_bf16_rcr_bias_gelu__wgmma_")) << kernel.kernel;
  EXPECT_TRUE(fs::exists(out_ / "kernels/cutlass_gemm_bf16_rcr_bias_gelu_wgmma.cu"));
  EXPECT_NE(read_file(out_ / "sources.json").find("\"epilogue\": \"bias_gelu\""), std::string::npos);
}

TEST(CutlassEmitter, TransposesWhatAKernelComputesTransposed) {
  // C^T = B^T A^T: of rrr, B (k x n, row-major) becomes A' = B^T, column-major.
  const NamedConfig swapped = parse_config_name(
      "cutlass_gemm_bf16_rrr__wgmma_pingpong_16x64x128_w0x0_c1x2_persistent_tma_s0_a16_swap__along_m_z1_data_"
      "parallel_k1");
  const std::string text = cutlass_emitter().kernel(swapped);
  for (const char* const line :
       {"LayoutA = cutlass::layout::ColumnMajor;", "LayoutB = cutlass::layout::ColumnMajor;",
        "LayoutC = cutlass::layout::ColumnMajor;", "tile_m = 64;", "tile_n = 16;", "cluster_m = 2;",
        "cluster_n = 1;"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
  Signature reads = signature(DType::fp16);
  reads.accumulate = true;
  EXPECT_NE(cutlass_emitter().kernel({reads, swapped.config}).find("reads_c = true"), std::string::npos);
}

}  // namespace
}  // namespace kscout
