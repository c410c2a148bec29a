// Tests tables of tuned operators of hipBLASLt and MIOpen.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/files.h"
#include "export/miopen_find_db.h"
#include "export/tuned_gemms.h"
#include "support/expect_error.h"
#include "support/paths.h"

namespace kscout {
namespace {

std::string golden(const std::string& name) {
  return read_file(paths::in_repository("tests/golden/" + name));
}

TEST(TunedTables, HipblasltReadsBackAsTheGoldenFile) {
  const std::string text = golden("hipblaslt_tuning.txt");
  const TunedGemms tuned = read_tuned_gemms(text, "golden");
  EXPECT_EQ(tuned.git_version, "dabb6df2b9");
  EXPECT_EQ(skipped_lines_text(tuned.left_out), "none");
  std::vector<std::string> rows;
  for (const TunedGemm& row : tuned.rows) rows.push_back(print(row.problem) + " " + row.solution);
  EXPECT_EQ(
      rows,
      (std::vector<std::string>{
          "gemm:128x1280x8192:bf16:rcr Gemm_Hipblaslt_300049",
          "gemm:128x1280x8192:bf16:rrr:lda=8200:ldb=1288:ldc=1300 Gemm_Hipblaslt_0",
          "gemm:64x48x32:fp16:crr:batch=3 Gemm_Hipblaslt_12", "gemm:64x48x32:tf32:ccr Gemm_Hipblaslt_13",
          "gemm:64x48x32:fp8:rcr:dtype_b=bf8:dtype_c=bf16:epilogue=bias_gelu Gemm_Hipblaslt_14"}));
  const TunedTable table = tuned_for_hipblaslt(tuned.rows, tuned.git_version);
  EXPECT_EQ(table.text, text);
  EXPECT_EQ(table.written, 5u);
}

TEST(TunedTables, ACutFileHasNoRowThatTheWholeFileLacks) {
  const std::string gemms = golden("hipblaslt_tuning.txt"), convolutions = golden("miopen.ufdb.txt");
  const auto rows_of = [](std::string_view text) {
    std::vector<std::string> rows;
    for (const TunedGemm& row : read_tuned_gemms(text, "cut").rows)
      rows.push_back(print(row.problem) + " " + row.solution);
    return rows;
  };
  const auto known = rows_of(gemms);
  for (std::size_t length = gemms.find('\n'); length < gemms.size(); ++length) {
    try {
      for (const std::string& row : rows_of(std::string_view(gemms).substr(0, length)))
        EXPECT_NE(std::ranges::find(known, row), known.end()) << length << ": " << row;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::corrupt_data) << error.what();
    }
  }
  for (std::size_t length = 1; length < convolutions.size(); ++length) {
    const std::string_view cut = std::string_view(convolutions).substr(0, length);
    if (cut.ends_with('\n')) {
      EXPECT_EQ(read_find_db(cut, "cut").text(), cut);
    } else {
      EXPECT_THROW(read_find_db(cut, "cut"), Error) << length;
    }
  }
}

TEST(TunedTables, HipblasltsOwnFilesAreRead) {
  // The columns in which hipblaslt-bench writes them, with others between.
  const TunedGemms tuned = read_tuned_gemms(
      "Git Version: abc\n"
      "    "
      "transA,transB,grouped_gemm,batch_count,m,n,k,alpha,lda,stride_a,beta,ldb,stride_b,ldc,stride_c,a_type,"
      "b_type,c_type,d_type,compute_type,activation_type,bias_vector,bias_type,us,solution_index,gcnArchName,"
      "CUs\r\n"
      "    "
      "T,N,0,1,512,1024,13,1,13,6656,0,16,13312,512,524288,f16_r,f16_r,f16_r,f16_r,f32_r,none,1,f16_r,29.3,"
      "532705,gfx942:sramecc+:xnack-,304\r\n"
      "transA,transB,batch_count,m,n,k,a_type,b_type,c_type,compute_type,solution_index\n"
      "N,N,1,4,5,6,f16_r,f16_r,f16_r,f16_r,7\n"
      "transA,transB,batch_count,m,n,k,a_type,b_type,c_type,compute_type,solution_index\n"
      "N,N,1,4,5,6,f8_fnuz_r,f8_fnuz_r,f16_r,f32_r,7\n",
      "f");
  ASSERT_EQ(tuned.rows.size(), 1u);
  EXPECT_EQ(print(tuned.rows[0].problem), "gemm:1024x512x13:fp16:rcr:lda=16:epilogue=bias");
  EXPECT_EQ(tuned.rows[0].solution, "Gemm_Hipblaslt_532705");
  EXPECT_EQ(skipped_lines_text(tuned.left_out),
            "1 with compute_type f16_r (line 5); 1 with b_type f8_fnuz_r (line 7)");
}

TEST(TunedTables, TunableOpAndHipblasltBecomeEachOther) {
  const std::string csv =
      "Validator,PT_VERSION,2.10.0\n"
      "Validator,HIPBLASLT_VERSION,100202-dabb6df2b9\n"
      "GemmTunableOp_BFloat16_TN,tn_1280_128_8192_ld_8192_8192_1280,Gemm_Hipblaslt_300049,0.0105\n"
      "GemmTunableOp_BFloat16_TN,tn_1280_128_8192_ld_8256_8192_1280,Gemm_Hipblaslt_1\n"
      "GemmTunableOp_BFloat16_NN,nn_1024_1024_1024_ld_1024_1024_1024,Gemm_Rocblas_-621294427,0.0105\n"
      "GemmTunableOp_Half_NN,nn_8_8_8_ld_8_8_8,Default\n"
      "GemmTunableOp_Half_NT,nt_8_8_8_ld_8_8_8\n";
  const TunedGemms tuned = read_tuned_gemms(csv, "f");
  EXPECT_EQ(tuned.git_version, "dabb6df2b9");
  EXPECT_EQ(tuned.rows.size(), 4u);
  const TunedTable hip = tuned_for_hipblaslt(tuned.rows, tuned.git_version);
  EXPECT_EQ(hip.written, 1u);
  EXPECT_EQ(skipped_lines_text(hip.left_out),
            "1 of a problem that is written already; 1 with solution Gemm_Rocblas; 1 with solution Default");
  const TunedGemms again = read_tuned_gemms(hip.text, "g");
  ASSERT_EQ(again.rows.size(), 1u);
  EXPECT_EQ(again.rows[0], tuned.rows[0]);

  const TunedTable back = tuned_for_tunableop(tuned.rows, tuned.validators);
  EXPECT_EQ(back.text,
            "Validator,PT_VERSION,2.10.0\n"
            "Validator,HIPBLASLT_VERSION,100202-dabb6df2b9\n"
            "GemmTunableOp_BFloat16_TN,tn_1280_128_8192_ld_8192_8192_1280,Gemm_Hipblaslt_300049\n"
            "GemmTunableOp_BFloat16_TN,tn_1280_128_8192_ld_8256_8192_1280,Gemm_Hipblaslt_1\n"
            "GemmTunableOp_BFloat16_NN,nn_1024_1024_1024_ld_1024_1024_1024,Gemm_Rocblas_-621294427\n"
            "GemmTunableOp_Half_NN,nn_8_8_8_ld_8_8_8,Default\n");
  // Of two files with one name, the first counts; what TunableOp has no name for is left out.
  std::vector<TunedGemm> rows = {tuned.rows[0], tuned.rows[0]};
  rows.push_back({parse_problem("gemm:4x5x6:bf16:rcr:epilogue=gelu"), "Gemm_Hipblaslt_5"});
  EXPECT_EQ(skipped_lines_text(tuned_for_tunableop(rows, {}).left_out),
            "1 of a name that is written already; 1 with epilogue gelu, which TunableOp has no name for");
}

TEST(TunedTables, WrongRowsOfHipblasltAreErrors) {
  const std::string header =
      "transA,transB,batch_count,m,n,k,a_type,b_type,c_type,compute_type,solution_index";
  const std::map<std::string, std::string> wrong = {
      {header + "\nN,N,1,4,5,6,f16_r,f16_r,f16_r,f32_r", "f:2: 10 values under 11 columns"},
      {header + "\nN,C,1,4,5,6,f16_r,f16_r,f16_r,f32_r,7", "f:2: transB='C': must be N or T"},
      {header + "\nN,N,0,4,5,6,f16_r,f16_r,f16_r,f32_r,7", "f:2: batch_count=0: must be at least 1"},
      {header + "\nN,N,1,-4,5,6,f16_r,f16_r,f16_r,f32_r,7", "f:2: m=-4: must be at least 1"},
      {header + "\nN,N,1,4,x,6,f16_r,f16_r,f16_r,f32_r,7", "f:2: n='x': not a whole number"},
      {header + "\nN,N,1,4,5,6,f16_r,f16_r,f16_r,f32_r,-1", "f:2: solution_index=-1: must be at least 0"},
      {header + ",lda\nN,N,1,4,5,6,f16_r,f16_r,f16_r,f32_r,7,3", "f:2: lda=3: must be at least 4"},
      {"transA,m\nN,4", "f:2: column 'transB' is missing or empty"},
      {header + "\nN,N,1,4,5,6,f16_r,f16_r,f16_r,f32_r,7\nN,N,1,4,5,6,f16_r,f16_r,f16_r,f32_r,7",
       "f:3: values without a line of names"}};
  for (const auto& [text, message] : wrong)
    test::expect_error(Errc::corrupt_data, message, [&given = text] { read_tuned_gemms(given, "f"); });
}

TEST(TunedTables, FindDatabasesReadBackByteForByte) {
  const std::string text = golden("miopen.ufdb.txt");
  const FindDb db = read_find_db(text, "golden");
  EXPECT_EQ(db.text(), text);
  EXPECT_EQ(db.problems(), 4u);
  EXPECT_EQ(db.entries(), 7u);
  EXPECT_EQ(read_find_db("", "f").text(), "");
}

TEST(TunedTables, MergedFindDatabasesKeepTheFastestEntry) {
  FindDb db = read_find_db("A=x:0.5,0,direct;y:0.25,8,gemm\nB=x:1,0,direct\n", "f");
  const FindDb more = read_find_db("B=x:1.0,9,direct;z:3,0,fft\nC=x:2,0,direct\nA=y:0.125,16,gemm\n", "g");
  EXPECT_EQ(db.merge(more), 3u);
  EXPECT_EQ(db.text(), "A=x:0.5,0,direct;y:0.125,16,gemm\nB=x:1,0,direct;z:3,0,fft\nC=x:2,0,direct\n");
  EXPECT_EQ(db.merge(more), 0u);
  // Old releases: the solver stands before the time.
  FindDb old = read_find_db("A=direct:s,0.5,0,direct,<unused>\n", "f");
  EXPECT_EQ(old.merge(read_find_db("A=direct:t,0.25,0,direct,<unused>\n", "g")), 1u);
  EXPECT_EQ(old.text(), "A=direct:t,0.25,0,direct,<unused>\n");
}

TEST(TunedTables, WrongLinesOfFindDatabasesAreErrors) {
  const std::map<std::string, std::string> wrong = {{"x:1,0,a", "f:2: no problem before '='"},
                                                    {"=x:1,0,a", "f:2: no problem before '='"},
                                                    {"", "f:2: no problem before '='"},
                                                    {"B=x", "'x' has no solver before ':'"},
                                                    {"B=:1,0,a", "':1,0,a' has no solver before ':'"},
                                                    {"B=x:1,0", "'x:1,0' has no time"},
                                                    {"B=x:-1,0,a", "'x:-1,0,a' has no time"},
                                                    {"B=x:s,nan,0,a", "has no time"},
                                                    {"B=x:1,0,a;", "'' has no solver before ':'"},
                                                    {"B=x:1,0,a;x:2,0,a", "'x' is given twice"},
                                                    {"A=x:1,0,a", "problem A is given twice"}};
  for (const auto& [line, message] : wrong)
    test::expect_error(Errc::corrupt_data, message,
                       [&given = line] { read_find_db("A=x:1,0,a\n" + given + "\nC=x:1,0,a\n", "f"); });
}

}  // namespace
}  // namespace kscout
