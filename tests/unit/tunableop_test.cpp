// Tests names and files of PyTorch's TunableOp.
#include "export/tunableop.h"

#include <array>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/files.h"
#include "core/problem_text.h"
#include "op/gemm/tunableop.h"
#include "op/problem_sets.h"
#include "provider/cublaslt/library_numbers.h"
#include "provider/cutlass/cutlass.h"
#include "support/expect_error.h"
#include "support/nvidia_config.h"
#include "support/paths.h"

namespace kscout {
namespace {

constexpr Layout kLayouts[] = {Layout::rcr, Layout::rrr, Layout::crr, Layout::ccr};

/// A GEMM whose leading dimensions all differ from the packed ones, and from each other.
GemmProblem strided(std::int64_t m, std::int64_t n, std::int64_t k, Layout layout) {
  GemmProblem p = make_gemm(m, n, k, DType::bf16, layout);
  const LeadingDimensions packed = leading_dimensions(p);
  p.lda = packed.a + 3, p.ldb = packed.b + 5, p.ldc = packed.c + 7;
  return p;
}

/// C of a problem, in its own storage, from the definition in problem.h. Elements that are no part of C are
/// 0.
std::vector<std::int64_t> product(const GemmProblem& p, const std::vector<std::int64_t>& a,
                                  const std::vector<std::int64_t>& b) {
  const LeadingDimensions ld = leading_dimensions(p);
  std::vector<std::int64_t> c(static_cast<std::size_t>(operand_elements(p).c));
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      std::int64_t& sum = c[static_cast<std::size_t>(i * ld.c + j)];
      for (std::int64_t l = 0; l < p.k; ++l)
        sum += a[static_cast<std::size_t>(row_major_a(p.layout) ? i * ld.a + l : l * ld.a + i)] *
               b[static_cast<std::size_t>(row_major_b(p.layout) ? l * ld.b + j : j * ld.b + l)];
    }
  }
  return c;
}

/// The same buffers under the key's names: BLAS's column-major C = op(A) op(B), whose A is the problem's B.
std::vector<std::int64_t> blas_product(std::string_view parameters, std::size_t elements_c,
                                       const std::vector<std::int64_t>& a,
                                       const std::vector<std::int64_t>& b) {
  const auto parts = split(parameters, '_');
  const auto number = [&](std::size_t i) { return std::stoll(std::string(parts.at(i))); };
  EXPECT_EQ(parts.at(4), "ld");
  const std::int64_t m = number(1), n = number(2), k = number(3), lda = number(5), ldb = number(6),
                     ldc = number(7);
  const bool ta = parts[0][0] == 't', tb = parts[0][1] == 't';
  std::vector<std::int64_t> c(elements_c);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t l = 0; l < k; ++l)
        c.at(static_cast<std::size_t>(i + j * ldc)) +=
            b.at(static_cast<std::size_t>(ta ? l + i * lda : i + l * lda)) *
            a.at(static_cast<std::size_t>(tb ? j + l * ldb : l + j * ldb));
    }
  }
  return c;
}

TEST(TunableOp, TheNameComputesTheSameProduct) {
  for (const Layout layout : kLayouts) {
    const GemmProblem p = strided(5, 7, 3, layout);
    const OperandElements elements = operand_elements(p);
    std::vector<std::int64_t> a, b;
    for (std::int64_t i = 0; i < elements.a; ++i) a.push_back(i * i % 11);
    for (std::int64_t i = 0; i < elements.b; ++i) b.push_back(i * i % 13);
    const TunableOpKey key = tunableop_key(p);
    EXPECT_EQ(blas_product(key.parameters, static_cast<std::size_t>(elements.c), a, b), product(p, a, b))
        << key.text();
  }
}

TEST(TunableOp, NamesAreThoseOfPyTorch) {
  const std::map<std::string, std::string> names = {
      {"gemm:128x1280x8192:bf16:rcr", "GemmTunableOp_BFloat16_TN,tn_1280_128_8192_ld_8192_8192_1280"},
      {"gemm:4x5x6:fp16:rrr:lda=7:ldb=8:ldc=9", "GemmTunableOp_Half_NN,nn_5_4_6_ld_8_7_9"},
      {"gemm:4x5x6:fp32:crr:lda=7:ldb=8:ldc=9", "GemmTunableOp_float_NT,nt_5_4_6_ld_8_7_9"},
      {"gemm:4x5x6:tf32:ccr", "GemmTunableOp_tf32_TT,tt_5_4_6_ld_6_4_5"},
      {"gemm:4x5x6:bf16:rcr:epilogue=bias", "GemmAndBiasTunableOp_BFloat16_TN,tn_5_4_6_ld_6_6_5"},
      {"gemm:4x5x6:bf16:rrr:batch=3", "GemmStridedBatchedTunableOp_BFloat16_NN,nn_5_4_6_B_3_ld_5_6_5"},
      {"gemm:4x5x6:fp8:rcr:dtype_b=bf8:dtype_c=bf16",
       "ScaledGemmTunableOp_Float8_e5m2_Float8_e4m3fn_BFloat16_TN,tn_5_4_6_ld_6_6_5_rw_0_bias_None"},
      {"gemm:4x5x6:fp8:rcr:epilogue=bias",
       "ScaledGemmTunableOp_Float8_e4m3fn_Float8_e4m3fn_Half_TN,tn_5_4_6_ld_6_6_5_rw_0_bias_Half"}};
  for (const auto& [problem, name] : names) {
    EXPECT_EQ(tunableop_key(parse_problem(problem)).text(), name);
    EXPECT_EQ(print(read_tunableop(name + "\n", "f").problems.at(0)), print(parse_problem(problem)));
  }
  const std::map<std::string, std::string> nameless = {
      {"gemm:4x5x6:bf16:rcr:epilogue=gelu", "with epilogue gelu"},
      {"gemm:4x5x6:int8", "of type int8"},
      {"gemm:4x5x6:bf16:rcr:dtype_c=fp32", "of mixed types"},
      {"gemm:4x5x6:bf16:rcr:batch=2:epilogue=bias", "of a batch with a bias"},
      {"gemm:4x5x6:fp8:rcr:batch=2", "of a batch with 8-bit floats"},
      {"gemm:0x5x6:bf16", "without elements"}};
  for (const auto& [problem, why] : nameless)
    test::expect_error(Errc::unsupported, why, [&given = problem] { tunableop_key(parse_problem(given)); });
}

TEST(TunableOp, ReadsBackWhatItNames) {
  for (const Layout layout : kLayouts) {
    for (const DType dtype : {DType::fp32, DType::tf32, DType::fp64, DType::fp16, DType::bf16}) {
      for (const std::int64_t batch : {1, 6}) {
        for (GemmProblem p :
             {make_gemm(33, 1, 8, dtype, layout), strided(1, 100, 4, layout), strided(64, 32, 16, layout)}) {
          p.batch = batch;
          const TunableOpFile file = read_tunableop(tunableop_key(p).text() + "\n", "f");
          ASSERT_EQ(file.problems.size(), 1u);
          EXPECT_EQ(print(file.problems[0]), print(p));
        }
      }
    }
  }
}

TEST(TunableOp, ReadsTunedFilesAndCountsWhatIsNoProblemHere) {
  const TunableOpFile file = read_tunableop(
      "Validator,PT_VERSION,2.14.0\r\n"
      "\n"
      "GemmTunableOp_BFloat16_TN,tn_8_4_16_ld_16_16_8,Gemm_Hipblaslt_123,0.0171\n"
      "GemmTunableOp_BFloat16_TN,tn_8_4_16,Default\n"
      "GemmTunableOp_c10::complex<float>_NN,nn_8_4_16_ld_8_16_8,Default\n"
      "ScaledGemmTunableOp_Float8_e4m3fnuz_Float8_e4m3fnuz_Half_TN,tn_8_4_16_ld_16_16_8_rw_0_bias_None\n"
      "ScaledGemmTunableOp_Float8_e4m3fn_Float8_e4m3fn_Half_TN,tn_8_4_16_ld_16_16_8_rw_1_bias_None\n"
      "ScaledGemmTunableOp_Float8_e4m3fn_Float8_e4m3fn_Half_TN,tn_8_4_16_ld_16_16_8_rw_0_bias_BFloat16\n"
      "ScaledGemmTunableOp_Float8_e4m3fn_Float8_e4m3fn_Half_TN,tn_9_4_16_ld_16_16_9_rw_1_bias_None\n"
      "GemmTunableOp_BFloat16_TN,tn_8_*_16_ld_16_16_8,Gemm_Rocblas_-7\n"
      "NewTunableOp_Half_TN,tn_8_4_16\n",
      "f");
  EXPECT_EQ(file.lines, 9u);
  ASSERT_EQ(file.problems.size(), 1u) << "the same problem with and without leading dimensions";
  EXPECT_EQ(print(file.problems[0]), "gemm:4x8x16:bf16:rcr:weight=2");
  EXPECT_EQ(
      skipped_lines_text(file.left_out),
      "1 of type c10::complex<float> (line 5); 1 of type Float8_e4m3fnuz (line 6); 2 with a scale for "
      "each row (first: line 7); 1 with a bias of type BFloat16 and a C of type Half (line 8); 1 with a "
      "wildcard (line 10); 1 of operator NewTunableOp (line 11)");
  EXPECT_EQ(tunableop_validators("Validator,A,1\nx,y\nValidator,B,2-dirty\r\n"),
            (std::vector<std::string>{"A,1", "B,2-dirty"}));
}

TEST(TunableOp, WrongLinesAreErrors) {
  const std::map<std::string, std::string> wrong = {
      {"GemmTunableOp_BFloat16_TN", "f:2: 1 columns"},
      {"Validator,PT_VERSION", "f:2: 2 columns; a line has Validator,NAME,VALUE"},
      {"some,text", "f:2: 'some' is no operator of TunableOp"},
      {"GemmTunableOp_Int_TN,tn_1_2_3", "f:2: unknown element type 'Int'; TunableOp has float, "},
      {"GemmTunableOp_Half_TC,tc_1_2_3", "f:2: 'GemmTunableOp_Half_TC' does not end in NN, NT, TN or TT"},
      {"GemmTunableOp_Half_T,t_1_2_3", "does not end in NN, NT, TN or TT"},
      {"GemmTunableOp_Half_TN,nn_1_2_3", "begins with other transposes"},
      {"GemmTunableOp_Half_TN,tn_1_2", "'tn_1_2' ends before its k"},
      {"GemmTunableOp_Half_TN,tn_1_x_3", "n='x': not a whole number"},
      {"GemmTunableOp_Half_TN,tn_1_-2_3", "n=-2: must be at least 1 in 'tn_1_-2_3'"},
      {"GemmTunableOp_Half_TN,tn_1_2_99999999999999999999", "k='99999999999999999999': does not fit 64 bits"},
      {"GemmTunableOp_Half_TN,tn_4_2_3_ld_2_3_4", "lda=2: must be at least 3"},
      {"GemmTunableOp_Half_NT,nt_4_2_3_ld_4_1_4", "ldb=1: must be at least 2"},
      {"GemmTunableOp_Half_TN,tn_4_2_3_ld_3_3_3", "ldc=3: must be at least 4"},
      {"GemmTunableOp_Half_TN,tn_4_2_3_ld_3_3_4_5", "has an unknown part '5'"},
      {"GemmTunableOp_Half_TN,tn_4_2_3_ld_4611686018427387904_3_4", "f:2: operand B: "},
      {"GemmStridedBatchedTunableOp_Half_TN,tn_4_2_3_ld_3_3_4", "has no batch"}};
  for (const auto& [line, message] : wrong)
    test::expect_error(Errc::corrupt_data, message,
                       [&given = line] { read_tunableop("Validator,A,1\n" + given + "\n", "f"); });
  test::expect_error(Errc::corrupt_data, "f: no GEMM in 1 lines; left out: 1 with a wildcard (line 1)",
                     [] { read_tunableop("GemmTunableOp_Half_TN,tn_*_2_3\n", "f"); });
}

TEST(TunableOp, ACutLineIsCounted) {
  const std::string whole = "GemmTunableOp_Half_TN,tn_8_4_16_ld_16_16_8,Gemm_Hipblaslt_123,0.0171\n";
  const auto read = [&](const std::string& cut) { return read_tunableop(whole + cut, "f"); };
  for (const std::string cut :
       {"GemmTunableOp_Half_TN,tn_1280_128_81", "GemmTunableOp_Half_TN,tn_12", "Gemm"}) {
    const TunableOpFile file = read(cut);
    EXPECT_EQ(file.problems.size(), 1u) << cut;
    EXPECT_EQ(skipped_lines_text(file.left_out), "1 of lines that are cut short (line 2)") << cut;
  }
  EXPECT_EQ(read("GemmTunableOp_Half_TN,tn_8_4_32,Gemm_Hipblaslt_12").tuned.size(), 1u)
      << "the solution may have lost its end";
  EXPECT_EQ(read("GemmTunableOp_Half_TN,tn_8_4_32,Gemm_Hipblaslt_12,0").tuned.size(), 2u);
}

CublasLtConfig algorithm() {
  CublasLtConfig c;
  c.version = 130100, c.algorithm = 66;
  c.tile_m = 128, c.tile_n = 256, c.tile_k = 64, c.split_k = 1, c.custom = 3;
  c.cluster_m = 1, c.cluster_n = 2;
  return c;
}

TEST(TunableOp, SolutionsReadBack) {
  const CublasLtNumbers numbers{66, 24, 35, -1, 2, 1, 3, 4, 5};
  const std::string text = tunableop_solution(numbers);
  EXPECT_EQ(text,
            "Gemm_Cublaslt_id_66_tile_24_stages_35_splitk_-1_red_2_swizzle_1_custom_3_inner_4_cluster_5");
  EXPECT_EQ(parse_tunableop_solution(text), numbers);
  for (const std::string& wrong : {std::string("Default"), std::string("Gemm_Hipblaslt_7"), text + "1234567",
                                   text + "_", text.substr(1)})
    EXPECT_EQ(parse_tunableop_solution(wrong), std::nullopt) << wrong;
}

TEST(TunableOp, NumbersAreThoseOfTheLibrarysHeader) {
  CublasLtConfig plain;
  plain.algorithm = 7;
  EXPECT_EQ(library_numbers(plain), (CublasLtNumbers{.id = 7, .split_k = -1}));
  EXPECT_EQ(config_of({.id = 7, .split_k = -1}, 0)->kernel_config(), plain.kernel_config());
  plain.suggestion = 2;
  EXPECT_EQ(library_numbers(plain), (CublasLtNumbers{.id = 7, .split_k = -1})) << "the place is no attribute";
  EXPECT_EQ(library_numbers({.suggestion = 2}), std::nullopt);
  for (const auto& names : {library_tiles(), library_stages(), library_clusters()}) {
    for (const NamedSizes& name : names) {
      EXPECT_EQ(find_number(names, name.number), &name);
      EXPECT_EQ(find_sizes(names, name.first, name.second), &name);
    }
  }
  if (library_tiles().size() == 1) GTEST_SKIP() << "no CUDA toolkit at the build: the lists are empty";
  // The library's tile of 256 rows and 128 columns, 64 x AUTO, 2 x 1 x 1.
  EXPECT_EQ(library_numbers(algorithm()), (CublasLtNumbers{66, 24, 35, 1, 0, 0, 3, 0, 3}));
  EXPECT_EQ(config_of({66, 24, 35, 1, 0, 0, 3, 0, 3}, 130100)->kernel_config(), algorithm().kernel_config());
  EXPECT_FALSE(config_of({.id = 66, .tile = 60000, .split_k = 1}, 130100)) << "a tile without a name";
  CublasLtConfig unknown = algorithm();
  unknown.tile_m = 127;
  EXPECT_EQ(library_numbers(unknown), std::nullopt);
}

ShapeChoice shape(const std::string& problem, const KernelConfig& config) {
  return {parse_problem(problem), {.config = config}};
}

TEST(TunableOp, ATableHasWhatPyTorchCanRead) {
  CublasLtConfig first, third;
  first.suggestion = 1, third.suggestion = 3;
  const KernelConfig cutlass(provider("cutlass").space(Op::gemm));
  CublasLtConfig plain;
  plain.algorithm = 21, plain.split_k = 1, plain.version = 130100;
  CublasLtConfig listed = plain;
  listed.suggestion = 2;
  const std::vector<ShapeChoice> choices = {
      shape("gemm:4x5x6:bf16:rcr", listed.kernel_config()),
      shape("gemm:4x5x7:bf16:rcr", test::nvidia_config(plain.kernel_config())),
      shape("gemm:4x5x8:bf16:rcr", test::nvidia_config(first.kernel_config())),
      shape("gemm:4x5x9:bf16:rcr", third.kernel_config()),
      shape("gemm:4x5x9:bf16:rcr", cutlass),
      shape("gemm:4x5x6:bf16:rcr:accumulate=1", plain.kernel_config()),
      shape("gemm:4x5x6:bf16:rcr:epilogue=relu", plain.kernel_config())};
  const std::vector<std::string> validators = {"PT_VERSION,2.14.0", "X,1"};
  const TunableOpTable table = tunableop_table(choices, validators);
  const std::string solution =
      "Gemm_Cublaslt_id_21_tile_0_stages_0_splitk_1_red_0_swizzle_0_custom_0_inner_0_cluster_0";
  EXPECT_EQ(table.text,
            "Validator,PT_VERSION,2.14.0\nValidator,X,1\n"
            "GemmTunableOp_BFloat16_TN,tn_5_4_6_ld_6_6_5," +
                solution + "\nGemmTunableOp_BFloat16_TN,tn_5_4_7_ld_7_7_5," + solution +
                "\nGemmTunableOp_BFloat16_TN,tn_5_4_8_ld_8_8_5,Default\n");
  EXPECT_EQ(table.solutions, 2u);
  EXPECT_EQ(table.defaults, 1u);
  EXPECT_EQ(table.releases, (std::set<std::int32_t>{130100}));
  EXPECT_EQ(skipped_lines_text(table.left_out),
            "1 with suggestion 3 of the library; 1 with a kernel of provider cutlass; 1 of a name that is "
            "written already; 1 with epilogue relu, which TunableOp has no name for");
  const std::vector<ShapeChoice> convolution = {
      {parse_any_problem("conv_fwd:1x8x6x6:8x3x3:bf16"), {.config = plain.kernel_config()}}};
  test::expect_error(Errc::invalid_argument, "TunableOp has GEMMs only",
                     [&] { tunableop_table(convolution, {}); });
}

/// tests/golden/tunableop.csv was written by hand from the numbers in the library's header.
TEST(TunableOp, TheFileIsTheGoldenOne) {
  if (library_tiles().size() == 1) GTEST_SKIP() << "no CUDA toolkit at the build: the lists are empty";
  CublasLtConfig split = algorithm(), own = algorithm(), first;
  split.tile_m = 64, split.tile_n = 96, split.split_k = 4, split.reduction = 2, split.custom = 0;
  own.split_k = 0, own.cluster_m = 2, own.cluster_n = 4, own.stages = 3, own.swizzle = 1, own.inner = 4;
  first.suggestion = 1;
  const std::vector<ShapeChoice> choices = {
      shape("gemm:4096x4096x4096:bf16:rcr", algorithm().kernel_config()),
      shape("gemm:128x1280x8192:bf16:rcr:lda=8200:ldb=8256:ldc=1300", split.kernel_config()),
      shape("gemm:64x48x32:fp16:rrr", own.kernel_config()),
      shape("gemm:64x48x32:fp16:crr:batch=8", own.kernel_config()),
      shape("gemm:64x48x32:bf16:ccr:epilogue=bias", first.kernel_config())};
  const std::vector<std::string> validators = {"PT_VERSION,2.14.0"};
  const std::string golden = read_file(paths::in_repository("tests/golden/tunableop.csv"));
  EXPECT_EQ(tunableop_table(choices, validators).text, golden);
  std::vector<GemmProblem> problems;
  for (const ShapeChoice& one : choices) problems.push_back(one.problem.gemm());
  EXPECT_EQ(read_tunableop(golden, "golden").problems, problems);
}

}  // namespace
}  // namespace kscout
