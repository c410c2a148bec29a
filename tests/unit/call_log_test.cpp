// Tests the readers of applications' logs. Each expected problem is derived by hand from the sample beside
// it.
#include "logs/call_log.h"

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/files.h"
#include "support/expect_error.h"
#include "support/paths.h"

namespace kscout {
namespace {

using Texts = std::vector<std::string>;

/// The problems with their calls, as texts.
Texts problems_in(const std::string& text) {
  Texts texts;
  for (const Problem& problem : read_call_log(text, "log").problems) texts.push_back(print(problem));
  return texts;
}

/// Why the one line of a text is left out, behind a line that is not.
std::string reason_of_line(const std::string& line) {
  const CallLog log = read_call_log("kscout: gemm:1x2x3 -> config (cache)\n" + line + "\n", "log");
  EXPECT_EQ(log.problems.size(), 1u) << line;
  return skipped_lines_text(log.left_out);
}

TEST(CallLog, ARecordOfExecKeepsItsCalls) {
  EXPECT_EQ(problems_in("problem,calls,total_us\n"
                        "conv_bwd_data:32x64x56x56:128x3x3:bf16:nhwgc:pad=1,20       ,2710.4\n"
                        "gemm:8192x50257x768:bf16:rcr,400  ,1043312.0\n"
                        "gemm:8192x50257x768:bf16:rcr,3    ,     \n"),
            (Texts{"conv_bwd_data:32x64x56x56:128x3x3:bf16:nhwgc:pad=1:weight=20",
                   "gemm:8192x50257x768:bf16:rcr:weight=403"}));
}

TEST(CallLog, LinesOfSeveralFormatsAreCountedTogether) {
  const CallLog log = read_call_log(
      "epoch 1\r\n"
      "kscout: -> no problem\r\n"
      "kscout: no model: analytic costs\r\n"
      "kscout: gemm:64x96x128:fp32:rcr -> native_gemm (analytic, 13.81 us)\r\n"
      "GemmTunableOp_float_TN,tn_96_64_128_ld_128_128_96\r\n"
      "\r\n"
      "Validator,PT_VERSION,2.14.0\r\n"
      "Segmentation fault\r\n",
      "log");
  ASSERT_EQ(log.problems.size(), 1u);
  EXPECT_EQ(print(log.problems[0]), "gemm:64x96x128:fp32:rcr:weight=2");
  EXPECT_EQ(log.summary(), "KSCOUT_LOG, TunableOp: 2 calls of 1 problem; 2 lines of other text");
}

TEST(CallLog, AFileWithoutCallsNamesTheFormats) {
  test::expect_error(Errc::corrupt_data,
                     {"my.txt: none of its 2 lines", "ONEDNN_VERBOSE=1", "PyTorch", "--file"},
                     [] { read_call_log("hello\nworld\n", "my.txt"); });
  test::expect_error(Errc::corrupt_data, {"KSCOUT_LOG: 0 calls", "1 that are no valid problem (line 1)"},
                     [] { read_call_log("kscout: gemm:0x1xy -> config", "log"); });
}

// ---- Cut logs

/// The problems of a text that may have none, without their calls.
std::set<std::string> problems_of_cut(std::string_view text) {
  std::set<std::string> texts;
  try {
    for (Problem& problem : read_call_log(text, "log").problems) {
      problem.set_weight(1);
      texts.insert(print(problem));
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::corrupt_data) << error.what();
  }
  return texts;
}

TEST(CallLog, ACutLogHasNoProblemThatTheWholeLogLacks) {
  for (const auto& entry :
       std::filesystem::directory_iterator(paths::in_repository("tests/fuzz/corpus/call_log"))) {
    const std::string whole = read_file(entry.path());
    const auto known = problems_of_cut(whole);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const std::string_view cut = std::string_view(whole).substr(0, length);
      for (const std::string& problem : problems_of_cut(cut))
        EXPECT_TRUE(known.contains(problem)) << entry.path() << " cut to " << length << ": " << problem;
    }
  }
}

TEST(CallLog, ACutLineIsCounted) {
  const auto counts_one = [](const std::string& line) {
    const CallLog log = read_call_log("kscout: gemm:1x2x3 -> config (cache)\n" + line, "log");
    EXPECT_EQ(log.problems.size(), 1u) << line;
    EXPECT_EQ(skipped_lines_text(log.left_out), "1 of lines that are cut short (line 2)") << line;
  };
  counts_one("GemmTunableOp_BFloat16_TN,tn_1280_128_81");
  counts_one("GemmTunableOp_BFloat16_TN,tn_1280_12");
  counts_one("GemmTunableOp_BFloat16_TN,tn_8_4_16_ld_16_16_1");
  counts_one(
      "onednn_verbose,v1,primitive,exec,cpu,matmul,brg,undef,src:f32::blocked:ab::f0 "
      "wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0,,,20x36:36x10");
  counts_one("MIOpenDriver conv -n 32 -c 3 -H 224 -W 224 -k 64 -y 7 -x 7");
  counts_one("MIOpenDriver conv -n 32 -c 3 -H 224 -W 224 -k 64 -y 7 -x 7 -p 3 -q 3 -F 1 -t");
  counts_one("MIOpenDriver conv -n 32 -c 3 -H 224 -W 224 -k 64 -y 7 -x 7 -F 1 -t 3");
  counts_one(
      "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 3 -c 3 -H 8 -W 8 -k 6 -y 7 "
      "-x 7\n");
  counts_one("kscout: gemm:64x96x1");
  // The last field is there.
  EXPECT_EQ(problems_in("GemmTunableOp_BFloat16_TN,tn_1024_512_256,Gemm_Hipblaslt_7"),
            (Texts{"gemm:512x1024x256:bf16:rcr"}));
  EXPECT_EQ(problems_in("kscout: gemm:64x96x128:fp32:rcr -> nati"), (Texts{"gemm:64x96x128:fp32:rcr"}));
}

TEST(CallLog, ACutRowOfARecordIsCounted) {
  const CallLog log = read_call_log(
      "problem,calls,total_us\ngemm:8x16x32:bf16:rcr,400,104.0\ngemm:8x16x64:bf16:rcr,4", "log");
  ASSERT_EQ(log.problems.size(), 1u);
  EXPECT_EQ(log.summary(),
            "a record of kscout exec: 400 calls of 1 problem; calls left out: 1 of lines that are cut short "
            "(line 3)");
}

// ---- cuBLASLt

/// A line of cublasLtMatmul with these matrices.
std::string cublaslt(const std::string& a, const std::string& b, const std::string& d,
                     const std::string& compute, const std::string& beta = "0",
                     const std::string& function = "cublasLtTSTMatmul") {
  return "[2026-01-02 03:04:05][cublasLt][7][Trace][" + function + "] A=0X1 Adesc=[" + a + "] B=0X2 Bdesc=[" +
         b + "] C=0X3 Cdesc=[" + d + "] D=0X3 Ddesc=[" + d + "] computeDesc=[" + compute +
         "] algo=[algoId=21] workSpace=0X0 workSpaceSizeInBytes=0 beta=" + beta +
         " outOfPlace=0 stream=0X0\n";
}

TEST(CallLog, CublasltIsColumnMajor) {
  // A linear layer of 48 inputs and 96 outputs for 32 rows. The library computes D (96 x 32) = W^T (96 x 48)
  // X (48 x 32) from W stored as 48 x 96 and X as 48 x 32, all column-major: row-major 32 x 48 times the
  // transpose of 96 x 48.
  const std::string w = "type=R_16BF rows=48 cols=96 ld=48", x = "type=R_16BF rows=48 cols=32 ld=48",
                    y = "type=R_16BF rows=96 cols=32 ld=96", fp32 = "computeType=COMPUTE_32F scaleType=R_32F";
  EXPECT_EQ(problems_in(cublaslt(w, x, y, fp32 + " transa=OP_T")), (Texts{"gemm:32x96x48:bf16:rcr"}));
  EXPECT_EQ(problems_in(cublaslt(w, x, y, fp32 + " transa=OP_T epilogue=EPILOGUE_GELU_BIAS", "1")),
            (Texts{"gemm:32x96x48:bf16:rcr:epilogue=bias_gelu:accumulate=1"}));
  // The gradient of X: D (48 x 32) = W (48 x 96) Y (96 x 32): row-major 32 x 96 times 96 x 48.
  EXPECT_EQ(problems_in(cublaslt(w, y, x, fp32)), (Texts{"gemm:32x48x96:bf16:rrr"}));
  // The gradient of W: D (48 x 96) = X (48 x 32) Y^T (32 x 96): row-major 96 x 32, stored as 32 x 96, times
  // 32 x 48.
  EXPECT_EQ(problems_in(cublaslt(x, y, w, fp32 + " transb=OP_T")), (Texts{"gemm:96x48x32:bf16:crr"}));
}

TEST(CallLog, CublasltHasTypesBatchesAndLeadingDimensions) {
  const std::string square = "type=R_32F rows=8 cols=8 ld=8",
                    tf32 = "computeType=COMPUTE_32F_FAST_TF32 scaleType=R_32F";
  EXPECT_EQ(problems_in(cublaslt(square, square, square, tf32)), (Texts{"gemm:8x8x8:tf32:rrr"}));
  const std::string batch = " batchCount=3 stridedBatchOffset=200";
  EXPECT_EQ(
      problems_in(cublaslt("type=R_16F rows=6 cols=4 ld=10" + batch, "type=R_16F rows=4 cols=5 ld=7" + batch,
                           "type=R_16F rows=6 cols=5 ld=9" + batch, "computeType=COMPUTE_16F")),
      (Texts{"gemm:5x6x4:fp16:rrr:batch=3:lda=7:ldb=10:ldc=9:dtype_acc=fp16"}));
  // Row-major matrices: no change of places.
  const std::string order = " order=ORDER_ROW";
  EXPECT_EQ(
      problems_in(cublaslt("type=R_16BF rows=6 cols=4 ld=4" + order, "type=R_16BF rows=4 cols=5 ld=5" + order,
                           "type=R_16BF rows=6 cols=5 ld=5" + order, "computeType=COMPUTE_32F")),
      (Texts{"gemm:6x5x4:bf16:rrr"}));
  // One row, and one column.
  EXPECT_EQ(problems_in(cublaslt("type=R_16BF rows=4 cols=1 ld=4", "type=R_16BF rows=4 cols=5 ld=4",
                                 "type=R_16BF rows=1 cols=5 ld=1", "computeType=COMPUTE_32F transa=OP_T")),
            (Texts{"gemm:5x1x4:bf16:rcr"}));
}

TEST(CallLog, OtherLinesOfCublasltAreNoCalls) {
  const std::string a = "type=R_16BF rows=8 cols=8 ld=8", fp32 = "computeType=COMPUTE_32F";
  const CallLog log = read_call_log(
      "[2026-01-02 03:04:05][cublasLt][7][Api][cublasLtMatrixLayoutCreate] matLayout=0X7 type=R_16BF rows=8 "
      "cols=8 "
      "ld=8\n" +
          cublaslt(a, a, a, fp32, "0", "cublasLtMatmulAlgoGetHeuristic") +
          "[2026-01-02 03:04:05][cublasLt][7][Api][cublasLtMatmul] A=0X1 Adesc=0X2 B=0X3 computeDesc=0X4\n" +
          "[2026-01-02 03:04:05][HIPBLASLT][7][Trace][rocblaslt_matmul] A=0x1 Adesc=[type=R_16BF rows=48 "
          "cols=96 "
          "ld=48] B=0x2 Bdesc=[type=R_16BF rows=48 cols=32 ld=48] C=0x3 Cdesc=[type=R_16BF rows=96 cols=32 "
          "ld=96] "
          "D=0x3 Ddesc=[type=R_16BF rows=96 cols=32 ld=96] computeDesc=[computeType=COMPUTE_32F "
          "scaleType=R_32F "
          "transA=OP_T transB=OP_N epilogue=EPILOGUE_BIAS biasPointer=0x9] workSpace=0x0 alpha=1 beta=0 "
          "stream=0x0\n",
      "log");
  ASSERT_EQ(log.problems.size(), 1u);
  EXPECT_EQ(print(log.problems[0]), "gemm:32x96x48:bf16:rcr:epilogue=bias");
  EXPECT_EQ(log.unknown, 0u);

  EXPECT_EQ(reason_of_line(cublaslt("type=R_4F_E2M1 rows=8 cols=8 ld=8", a, a, fp32)),
            "1 of type R_4F_E2M1 (line 2)");
  EXPECT_EQ(reason_of_line(cublaslt(a, a, a, fp32 + " epilogue=EPILOGUE_DGELU")),
            "1 with EPILOGUE_DGELU (line 2)");
  EXPECT_EQ(reason_of_line(cublaslt(a, a, a, "computeType=COMPUTE_32F_FAST_16BF")),
            "1 with COMPUTE_32F_FAST_16BF (line 2)");
  EXPECT_EQ(reason_of_line(cublaslt(a + " batchCount=2", a + " batchCount=2", a + " batchCount=2", fp32)),
            "1 of batches whose items share an operand (line 2)");
  EXPECT_EQ(reason_of_line(cublaslt(a, a, a, fp32).substr(0, 120)), "1 of lines that are cut short (line 2)");
}

// ---- cuDNN

/// The lines of a tensor.
std::string cudnn_tensor(const std::string& name, const std::string& sizes, const std::string& strides,
                         const std::string& indent = "     ") {
  return "i!" + indent + name + ": type=cudnnTensorDescriptor_t:\n" +  //
         "i!" + indent + "    dataType: type=cudnnDataType_t; val=CUDNN_DATA_HALF (2);\n" + "i!" + indent +
         "    nbDims: type=int; val=4;\n" +  //
         "i!" + indent + "    dimA: type=int; val=[" + sizes + "];\n" +
         (strides.starts_with("C")
              ? "i!" + indent + "    format: type=cudnnTensorFormat_t; val=" + strides + ";\n"
              : "i!" + indent + "    strideA: type=int; val=[" + strides + "];\n");
}

/// A call of an older function with a 3 x 3 filter of stride 2.
std::string cudnn_call(const std::string& function, const std::string& tensors,
                       const std::string& more = "") {
  return "I! CuDNN (v92600 51) function " + function + "() called:\n" + tensors +
         "i!     convDesc: type=cudnnConvolutionDescriptor_t:\n"
         "i!         mode: type=cudnnConvolutionMode_t; val=CUDNN_CROSS_CORRELATION (1);\n"
         "i!         dataType: type=cudnnDataType_t; val=CUDNN_DATA_FLOAT (0);\n"
         "i!         padA: type=int; val=[1,1];\n"
         "i!         strideA: type=int; val=[2,2];\n"
         "i!         dilationA: type=int; val=[1,1];\n" +
         more + "i! Time: 2026-01-02T03:04:05.000006 (0d+0h+0m+0s since start)\n\n\n";
}

TEST(CallLog, CudnnOlderFunctionsNameTheirTensors) {
  const std::string x = "2,8,14,10", first = "1120,140,10,1", last = "1120,1,80,8";
  EXPECT_EQ(problems_in(cudnn_call("cudnnConvolutionForward",
                                   cudnn_tensor("xDesc", x, last) +
                                       cudnn_tensor("wDesc", "16,8,3,3", "CUDNN_TENSOR_NHWC (1)") +
                                       cudnn_tensor("yDesc", "2,16,7,5", "560,1,80,16"))),
            (Texts{"conv_fwd:2x8x14x10:16x3x3:fp16:nhwgc:stride=2:pad=1"}));
  EXPECT_EQ(problems_in(cudnn_call("cudnnConvolutionBackwardData",
                                   cudnn_tensor("wDesc", "16,4,3,3", "CUDNN_TENSOR_NCHW (0)") +
                                       cudnn_tensor("dyDesc", "2,16,7,5", "560,35,5,1") +
                                       cudnn_tensor("dxDesc", x, first)) +
                        // The same call tells of its end, which is no other call.
                        "I! CuDNN (v92600 51) function cudnnConvolutionBackwardData() called:\n"
                        "i!     status: type=cudnnStatus_t; val=CUDNN_STATUS_SUCCESS (0);\n"),
            (Texts{"conv_bwd_data:2x8x14x10:16x3x3:fp16:ngchw:stride=2:pad=1:g=2"}));
  EXPECT_EQ(reason_of_line(cudnn_call("cudnnConvolutionForward",
                                      cudnn_tensor("xDesc", x, first) +
                                          cudnn_tensor("wDesc", "16,8,3,3", "CUDNN_TENSOR_NHWC (1)") +
                                          cudnn_tensor("yDesc", "2,16,7,5", "560,35,5,1"))),
            "1 of tensors with gaps or of different layouts (line 2)");
  EXPECT_EQ(
      reason_of_line(cudnn_call("cudnnConvolutionForward",
                                cudnn_tensor("xDesc", x, first) +
                                    cudnn_tensor("wDesc", "16,8,3,3", "CUDNN_TENSOR_NCHW (0)") +
                                    cudnn_tensor("yDesc", "2,16,14,10", "2240,140,10,1"))),
      "1 that are no valid problem (line 2): an input of 2x8x14x10, a filter of 16x8x3x3 and an output of "
      "2x16x14x10 are no convolution");
}

TEST(CallLog, CudnnPlansShowTheirGraph) {
  const std::string indent = "                         ";
  const auto plan = [&](const std::string& operations) {
    return "I! CuDNN (v92600 51) function cudnnBackendExecute() called:\n"
           "i!     executionPlan: type=CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:\n"
           "i!         engcfg: type=CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:\n"
           "i!             engine: type=CUDNN_BACKEND_ENGINE_DESCRIPTOR:\n"
           "i!                 opGraph: type=CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:\n" +
           operations +
           "i!     variantPack: type=CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:\n"
           "i!         Workspace: location=dev; addr=NULL_PTR;\n";
  };
  // Zeros: 2 before and 1 behind both axes of a 14 x 10 image, so that a 4 x 4 filter keeps its sizes.
  const std::string operation =
      "i!                     operation: "
      "type=CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:\n" +
      cudnn_tensor("xDesc", "2,8,14,10", "1120,1,80,8", indent) +
      cudnn_tensor("dwDesc", "16,8,4,4", "128,1,32,8", indent) + "i!" + indent +
      "convDesc: type=CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:\ni!" + indent +
      "    computeType: type=cudnnDataType_t; val=CUDNN_DATA_FLOAT (0);\ni!" + indent +
      "    mode: type=cudnnConvolutionMode_t; val=CUDNN_CROSS_CORRELATION (1);\ni!" + indent +
      "    upperPadA: type=int; val=[1,1];\ni!" + indent + "    lowerPadA: type=int; val=[2,2];\ni!" +
      indent + "    strideA: type=int; val=[1,1];\ni!" + indent + "    dilationA: type=int; val=[1,1];\n" +
      cudnn_tensor("dyDesc", "2,16,14,10", "2240,1,160,16", indent);
  EXPECT_EQ(problems_in(plan(operation)), (Texts{"conv_bwd_weight:2x8x14x10:16x4x4:fp16:nhwgc:left_pad_h=2:"
                                                 "left_pad_w=2:right_pad_h=1:right_pad_w=1"}));
  EXPECT_EQ(reason_of_line(plan(operation + operation)), "1 of graphs of several operations (line 2)");
}

// ---- oneDNN

std::string onednn_matmul(const std::string& tags, const std::string& attributes, const std::string& sizes) {
  return "onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core,undef," + tags + "," +
         attributes + ",," + sizes + ",0.5\n";
}

TEST(CallLog, OnednnTagsNameTheStorage) {
  const std::string row = "src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0",
                    linear =
                        "src:bf16::blocked:ab::f0 wei:bf16::blocked:ba::f0 bia:bf16::blocked:ab::f0_mask2 "
                        "dst:bf16::blocked:ab::f0";
  EXPECT_EQ(problems_in(onednn_matmul(row, "attr-scratchpad:user", "5x7:7x9")),
            (Texts{"gemm:5x9x7:fp32:rrr"}));
  EXPECT_EQ(problems_in(onednn_matmul(linear, "attr-post-ops:eltwise_relu", "32x48:48x96")),
            (Texts{"gemm:32x96x48:bf16:rcr:epilogue=bias_relu"}));
  EXPECT_EQ(
      problems_in(onednn_matmul(row, "attr-scratchpad:user attr-post-ops:sum+eltwise_gelu_erf", "5x7:7x9")),
      (Texts{"gemm:5x9x7:fp32:rrr:epilogue=gelu:accumulate=1"}));
  // Rows of A are 10 apart, columns of B 12.
  EXPECT_EQ(
      problems_in(onednn_matmul(
          "src:f32::blocked:ab:10x1:f0 wei:f32::blocked:ba:1x12:f0 dst:f32::blocked:ab::f0", "", "5x7:7x9")),
      (Texts{"gemm:5x9x7:fp32:rcr:lda=10:ldb=12"}));
  // A column-major C (5 x 9) is a row-major one (9 x 5): B^T A^T.
  EXPECT_EQ(problems_in(onednn_matmul(
                "src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ba::f0", "", "5x7:7x9")),
            (Texts{"gemm:9x5x7:fp32:ccr"}));
  // Releases before 3.5, 3 and 2.
  EXPECT_EQ(
      problems_in("onednn_verbose,exec,cpu,matmul,gemm:jit,undef,src_s8::blocked:ab:f0 wei_s8::blocked:ba:f0 "
                  "dst_s32::blocked:ab:f0,,,4x8:8x16:4x16,0.5\n"),
      (Texts{"gemm:4x16x8:int8:rcr"}));
}

TEST(CallLog, OnednnBatchesKeepTheirItems) {
  const std::string tags = "src:f32::blocked:abc::f0 wei:f32::blocked:acb::f0 dst:f32::blocked:abc::f0";
  EXPECT_EQ(problems_in(onednn_matmul(tags, "", "3x6x4:3x4x6")), (Texts{"gemm:6x6x4:fp32:rcr:batch=3"}));
  // One B for all items is one product of 3 * 6 rows.
  EXPECT_EQ(problems_in(onednn_matmul(tags, "", "3x6x4:1x4x6")), (Texts{"gemm:18x6x4:fp32:rcr"}));
  EXPECT_EQ(reason_of_line(onednn_matmul(tags, "", "1x6x4:3x4x6")),
            "1 of batches whose items share an operand (line 2)");
  EXPECT_EQ(reason_of_line(onednn_matmul(tags, "attr-post-ops:binary_add:f32:2", "3x6x4:3x4x6")),
            "1 with post-op binary_add:f32:2 (line 2)");
  EXPECT_EQ(
      reason_of_line(
          "onednn_verbose,v1,primitive,exec,cpu,inner_product,x,forward_training,src:f32,,,mb1ic2oc3,0.5"),
      "1 of primitive inner_product (line 2)");
}

TEST(CallLog, OnednnConvolutionsCountDilationFromZero) {
  const auto conv = [](const std::string& direction, const std::string& src, const std::string& dst,
                       const std::string& sizes) {
    return "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core," + direction +
           ",src:f32:a:blocked:" + src +
           "::f0 wei:f32:a:blocked:Acdb16a::f0 bia:undef::undef::: dst:f32:a:blocked:" + dst +
           "::f0,attr-scratchpad:user,alg:convolution_direct," + sizes + ",0.9\n";
  };
  EXPECT_EQ(problems_in(conv("forward_training", "abcd", "aBcd16b",
                             "mb2_ic8oc16_ih14oh7kh3sh2dh0ph1_iw10ow5kw3sw2dw0pw1")),
            (Texts{"conv_fwd:2x8x14x10:16x3x3:fp32:ngchw:stride=2:pad=1"}));
  EXPECT_EQ(problems_in(conv("backward_data", "acdb", "acdb",
                             "g8mb2_ic8oc8_ih14oh14kh5sh1dh0ph2_iw10ow10kw5sw1dw0pw2")),
            (Texts{"conv_bwd_data:2x8x14x10:8x5x5:fp32:nhwgc:pad=2:g=8"}));
  // Dilated by 1 element between: 2. Zeros behind the height: (7 - 1) * 2 + 5 - 14 - 1 = 2.
  EXPECT_EQ(
      problems_in(conv("backward_weights", "aBcd8b", "aBcd8b",
                       "mb2_ic8oc16_ih14oh7kh3sh2dh1ph1_iw10ow8kw3sw1dw0pw0")),
      (Texts{
          "conv_bwd_weight:2x8x14x10:16x3x3:fp32:nhwgc:stride_h=2:dilation_h=2:left_pad_h=1:right_pad_h=2"}));
  EXPECT_EQ(problems_in(conv("forward_inference", "acdeb", "acdeb",
                             "mb1_ic8oc8_id6od6kd3sd1dd0pd1_ih8oh8kh3sh1dh0ph1_iw8ow8kw3sw1dw0pw1")),
            (Texts{"conv_fwd:1x8x6x8x8:8x3x3x3:fp32:ndhwgc:pad=1"}));
}

// ---- MIOpen and TunableOp

TEST(CallLog, MiopenCommandsNameDirectionAndLayout) {
  const std::string
      command =
          "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver convfp16 -n 32 -c 3 -H 224 "
          "-W 224 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -l 1 -j 1 -m conv -g 1",
      end = " -t 1";
  const std::string sizes = ":32x3x224x224:64x7x7:fp16:", rest = ":stride=2:pad=3";
  EXPECT_EQ(problems_in(command + " -F 1" + end), (Texts{"conv_fwd" + sizes + "ngchw" + rest}));
  EXPECT_EQ(problems_in(command + " --in_layout NHWC -F 4" + end),
            (Texts{"conv_bwd_weight" + sizes + "nhwgc" + rest}));
  EXPECT_EQ(problems_in(command + " -F 3" + end),
            (Texts{"conv_fwd" + sizes + "ngchw" + rest, "conv_bwd_data" + sizes + "ngchw" + rest}));
  EXPECT_EQ(problems_in(command + end),
            (Texts{"conv_fwd" + sizes + "ngchw" + rest, "conv_bwd_data" + sizes + "ngchw" + rest,
                   "conv_bwd_weight" + sizes + "ngchw" + rest}));
  EXPECT_EQ(reason_of_line(command + " -F 8" + end), "1 with an unknown --forw (-F) (line 2)");
  EXPECT_EQ(reason_of_line(command + " -I CHWN" + end), "1 with --in_layout CHWN (line 2)");
  EXPECT_EQ(reason_of_line("MIOpen(HIP): Command [LogCmdFindConvolution] ./bin/MIOpenDriver conv -n 1"),
            "1 of searches for a kernel (LogCmdFindConvolution) (line 2)");
}

TEST(CallLog, TunableOpLinesCountOnce) {
  EXPECT_EQ(problems_in("GemmTunableOp_BFloat16_TN,tn_1024_512_256_ld_256_256_1024\n"
                        "GemmTunableOp_BFloat16_NN,nn_1024_512_256,Gemm_Hipblaslt_7,0.1\n"),
            (Texts{"gemm:512x1024x256:bf16:rcr", "gemm:512x1024x256:bf16:rrr"}));
  EXPECT_EQ(reason_of_line("GemmTunableOp_c10::complex<float>_NN,nn_1_1_1"),
            "1 of type c10::complex<float> (line 2)");
}

TEST(CallLog, BenchmarkCommandsOfRocmAreColumnMajor) {
  // D (4096 x 64) = A^T B, A stored as 1024 x 4096 and B as 1024 x 64: row-major 64 x 1024 times the
  // transpose of 4096 x 1024.
  EXPECT_EQ(
      problems_in("hipblaslt-bench --api_method c -m 4096 -n 64 -k 1024 --lda 1024 --ldb 1024 --ldc 4096 "
                  "--ldd 4096 --stride_a 0 --stride_b 0 --alpha 1.000000 --beta 0.000000 --transA T --transB "
                  "N --batch_count 1 --a_type f16_r --b_type f16_r --c_type f16_r --d_type f16_r "
                  "--scale_type f32_r --bias_type f32_r --compute_type f32_r --algo_method index "
                  "--solution_index 2010 --activation_type none --bias_vector\n"),
      (Texts{"gemm:64x4096x1024:fp16:rcr:epilogue=bias"}));
  const std::string vector =
      "rocblas-bench -f gemm_ex --transposeA N --transposeB N -m 1 -n 16192 -k 16192 --alpha 1 --a_type "
      "f16_r "
      "--lda 1 --b_type f16_r --ldb 16192 --beta 0 --c_type f16_r --ldc 1 --d_type f16_r --ldd 1 "
      "--compute_type "
      "f32_r --algo 0 --solution_index 0 --flags 0\n";
  EXPECT_EQ(problems_in(vector).size(), 1u);
  // D (32 x 32) = A B^T, A stored as 32 x 64, B as 32 x 64: row-major 32 x 64, stored as 64 x 32, times 64
  // x 32.
  const std::string batch =
      "rocblas-bench -f gemm_strided_batched -r f32_r --transposeA N --transposeB T -m 32 -n 32 -k 64 "
      "--alpha 1 "
      "--lda 32 --stride_a 2048 --ldb 32 --stride_b 2048 --beta 0 --ldc 32 --stride_c 1024 --batch_count "
      "12\n";
  EXPECT_EQ(problems_in(batch), (Texts{"gemm:32x32x64:fp32:crr:batch=12"}));
  const auto with = [&](std::string line, const std::string& old, const std::string& text) {
    return reason_of_line(line.replace(line.find(old), old.size(), text));
  };
  EXPECT_EQ(with(batch, "--lda 32", "--lda 8"), "1 whose sizes contradict each other (line 2)");
  EXPECT_EQ(with(batch, "--stride_a 2048", "--stride_a 0"),
            "1 of batches whose items share an operand (line 2)");
  EXPECT_EQ(with(batch, "-f gemm_strided_batched", "-f trsm"), "1 of function trsm (line 2)");
  EXPECT_EQ(with(vector, "--a_type f16_r", "--a_type f16_c"), "1 of type f16_c (line 2)");
  const CallLog cut =
      read_call_log("kscout: gemm:1x2x3 -> config (cache)\n" + batch.substr(0, batch.size() - 2), "log");
  EXPECT_EQ(skipped_lines_text(cut.left_out), "1 of lines that are cut short (line 2)");
}

// ---- PyTorch's profiler

std::string event(const std::string& name, const std::string& sizes, const std::string& strides,
                  const std::string& type = "float", const std::string& values = "") {
  return R"({"ph": "X", "cat": "cpu_op", "name": "aten::)" + name +
         R"(", "ts": 1.5, "dur": 2, "args": {"Input Dims": [)" + sizes + R"(], "Input Strides": [)" +
         strides + R"(], "Input type": [")" + type + R"(", ")" + type + R"(", ")" + type +
         R"("], "Concrete Inputs": [)" + values + "]}}";
}
std::string trace(const std::string& events) {
  return R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "a GPU"}], "traceEvents": [)" +
         events +
         R"(, {"ph": "M", "name": "process_name", "args": {"name": "python"}}], "traceName": "trace.json"})";
}

TEST(CallLog, ProfilerTracesHaveStrides) {
  // x (32 x 48) times the transpose of a weight (96 x 48), which aten::linear hands to aten::addmm.
  const std::string linear = event("linear", "[2, 16, 48], [96, 48], [96]", "[768, 48, 1], [48, 1], [1]"),
                    addmm =
                        event("addmm", "[96], [32, 48], [48, 96], [], []", "[1], [48, 1], [1, 48], [], []",
                              "c10::BFloat16", R"("", "", "", "1", "1")");
  EXPECT_EQ(problems_in(trace(linear + "," + addmm + "," + addmm)),
            (Texts{"gemm:32x96x48:bf16:rcr:epilogue=bias:weight=2"}));
  EXPECT_EQ(problems_in(trace(event("mm", "[5, 7], [7, 9]", "[7, 1], [9, 1]"))),
            (Texts{"gemm:5x9x7:fp32:rrr"}));
  EXPECT_EQ(problems_in(trace(event("mm", "[9, 7], [7, 5]", "[1, 9], [1, 7]"))),
            (Texts{"gemm:9x5x7:fp32:ccr"}));
  EXPECT_EQ(problems_in(trace(event("mm", "[7, 5], [5, 9]", "[1, 12], [20, 1]"))),
            (Texts{"gemm:7x9x5:fp32:crr:lda=12:ldb=20"}));
  // A row of which the strides do not matter, and a matrix that PyTorch copies.
  EXPECT_EQ(problems_in(trace(event("mm", "[1, 7], [7, 9]", "[0, 1], [18, 2]"))),
            (Texts{"gemm:1x9x7:fp32:rrr"}));
  EXPECT_EQ(problems_in(trace(event("addmm", "[5, 9], [5, 7], [7, 9], [], []",
                                    "[9, 1], [7, 1], [9, 1], [], []", "double", R"("", "", "", "1", "1")"))),
            (Texts{"gemm:5x9x7:fp64:rrr:accumulate=1"}));
  EXPECT_EQ(problems_in(
                trace(event("_addmm_activation", "[9], [5, 7], [7, 9], [], [], []",
                            "[1], [7, 1], [9, 1], [], [], []", "float", R"("", "", "", "1", "1", "True")"))),
            (Texts{"gemm:5x9x7:fp32:rrr:epilogue=bias_gelu"}));
  EXPECT_EQ(problems_in(trace(event("bmm", "[3, 6, 4], [3, 4, 6]", "[24, 4, 1], [24, 1, 4]"))),
            (Texts{"gemm:6x6x4:fp32:rcr:batch=3"}));
  const std::string c = "[3, 6, 6], [3, 6, 4], [3, 4, 6], [], []",
                    of_c = "[36, 6, 1], [24, 4, 1], [24, 1, 4], [], []";
  EXPECT_EQ(problems_in(trace(event("baddbmm", c, of_c, "float", R"("", "", "", "0", "1")") + "," +
                              event("baddbmm", c, of_c, "float", R"("", "", "", "0.5", "1")"))),
            (Texts{"gemm:6x6x4:fp32:rcr:batch=3", "gemm:6x6x4:fp32:rcr:batch=3:accumulate=1"}));
}

TEST(CallLog, ProfilerConvolutionsCountOnceForEachDirection) {
  const std::string sizes = "[2, 8, 14, 10], [16, 8, 3, 3], [16]",
                    strides = "[1120, 140, 10, 1], [72, 9, 3, 1], [1]",
                    how = R"("[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1")";
  const std::string forward = R"("", "", "", )" + how;
  const std::string result = ":2x8x14x10:16x3x3:fp32:ngchw:stride=2:pad=1";
  EXPECT_EQ(problems_in(trace(event("convolution", sizes, strides, "float", forward) + "," +
                              event("_convolution", sizes, strides, "float", forward))),
            (Texts{"conv_fwd" + result}));
  const std::string gradient = "[2, 16, 7, 5], " + sizes, of_gradient = "[0, 0, 0, 0], " + strides;
  const auto backward = [&](const std::string& mask) {
    return problems_in(trace(event("convolution_backward", gradient, of_gradient, "float",
                                   R"("", "", "", "[16]", )" + how + ", \"" + mask + "\"")));
  };
  EXPECT_EQ(backward("[True, True, False]"), (Texts{"conv_bwd_data" + result, "conv_bwd_weight" + result}));
  EXPECT_EQ(backward("[False, True, True]"), (Texts{"conv_bwd_weight" + result}));
  // Channels last, depthwise; one axis of space.
  EXPECT_EQ(problems_in(trace(event("_convolution", "[2, 8, 14, 10], [8, 1, 5, 5], []",
                                    "[1120, 1, 80, 8], [25, 25, 5, 1], []", "c10::Half",
                                    R"("", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "False", "[0, 0]", "8")"))),
            (Texts{"conv_fwd:2x8x14x10:8x5x5:fp16:nhwgc:pad=2:g=8"}));
  EXPECT_EQ(
      problems_in(trace(event("_convolution", "[2, 8, 20], [16, 8, 3], []", "[160, 20, 1], [24, 3, 1], []",
                              "float", R"("", "", "", "[1]", "[1]", "[1]", "False", "[0]", "1")"))),
      (Texts{"conv_fwd:2x8x1x20:16x1x3:fp32:ngchw:pad_w=1"}));
}

TEST(CallLog, TransposedConvolutionsAreGradients) {
  // 2 x 8 x 14 x 10 through a filter of 8 x 4 x 4 x 4, stride 2, pad 1: (14 - 1) * 2 - 2 + 3 + 1 = 28 rows.
  const std::string sizes = "[2, 8, 14, 10], [8, 4, 4, 4], [4]",
                    strides = "[1120, 140, 10, 1], [64, 16, 4, 1], [1]",
                    how = R"("[2, 2]", "[1, 1]", "[1, 1]", "True", "[0, 0]", "1")",
                    result = ":2x4x28x20:8x4x4:fp32:ngchw:stride=2:pad=1";
  EXPECT_EQ(problems_in(trace(event("_convolution", sizes, strides, "float", R"("", "", "", )" + how))),
            (Texts{"conv_bwd_data" + result}));
  EXPECT_EQ(problems_in(trace(event("convolution_backward", "[2, 4, 28, 20], " + sizes,
                                    "[2240, 560, 20, 1], " + strides, "float",
                                    R"("", "", "", "[4]", )" + how + R"(, "[True, True, True]")"))),
            (Texts{"conv_fwd" + result, "conv_bwd_weight" + result}));
}

TEST(CallLog, OneBadEventLosesNoOther) {
  const std::string mm = event("mm", "[64, 32], [32, 16]", "[32, 1], [16, 1]");
  const auto calls_around = [&](const std::string& bad) {
    const CallLog log = read_call_log("{\"traceEvents\": [\n" + mm + ",\n" + bad + ",\n" + mm, "t.json");
    EXPECT_EQ(log.problems.size(), 1u) << bad;
    EXPECT_EQ(print(log.problems.front()), "gemm:64x16x32:fp32:rrr:weight=2") << bad;
    return skipped_lines_text(log.left_out);
  };
  const std::string is_bad = "1 of events that are no JSON (line 3)";
  EXPECT_EQ(
      calls_around(
          "{\"ph\": \"X\", \"name\": \"say \"hi\"\n there\", \"args\": {\"path\": \"C:\\torch\\cuda\"}}"),
      is_bad);
  EXPECT_EQ(calls_around("{\"ph\": \"X\", \"name\": \"an odd \"quote\", \"args\": {}}"), is_bad);
  EXPECT_EQ(calls_around("{\"ph\": \"X\", \"name\": \"cut\", \"args\": {"), is_bad);
  // Read after all, but the trace has no end.
  const std::string has_no_end = "1 of a trace that is damaged or cut short";
  for (const std::string name : {"NUL \001", "Latin-1 \xe9", "C:\\torch\\cuda"})
    EXPECT_EQ(calls_around("{\"ph\": \"X\", \"name\": \"" + name + "\", \"args\": {}}"), has_no_end) << name;
  EXPECT_EQ(calls_around("{\"ph\": \"X\", \"name\": \"x\", \"ts\": NaN, \"dur\": Infinity}"), has_no_end);
  EXPECT_EQ(calls_around(std::string("{\"ph\": \"X\", \"name\": \"a\0b\"}", 26)), has_no_end);
  // A call whose time is no number is a call.
  const std::string at = "\"ts\": 1.5";
  std::string timeless = mm;
  timeless.replace(timeless.find(at), at.size(), "\"ts\": NaN");
  EXPECT_EQ(problems_in(trace(mm + "," + timeless)), (Texts{"gemm:64x16x32:fp32:rrr:weight=2"}));
}

TEST(CallLog, AByteOrderMarkIsNoText) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_EQ(problems_in(mark + trace(event("mm", "[1, 2], [2, 3]", "[2, 1], [3, 1]"))),
            (Texts{"gemm:1x3x2:fp32:rrr"}));
  EXPECT_EQ(problems_in(mark + "kscout: gemm:1x2x3:fp32:rcr -> config (cache)\n"),
            (Texts{"gemm:1x2x3:fp32:rcr"}));
  EXPECT_EQ(problems_in(mark + "problem,calls,total_us\ngemm:8x16x32:bf16:rcr,4,104.0\n"),
            (Texts{"gemm:8x16x32:bf16:rcr:weight=4"}));
}

TEST(CallLog, TracesWithoutShapesSayWhatIsMissing) {
  const auto fails = [](const std::string& events, const std::string& text) {
    test::expect_error(Errc::corrupt_data, text, [&] { read_call_log(trace(events), "t.json"); });
  };
  fails(R"({"ph": "X", "name": "aten::mm", "args": {"External id": 3}})",
        "1 without Input Dims (record_shapes=True");
  fails(
      R"({"ph": "X", "name": "aten::mm", "args": {"Input Dims": [[1, 2], [2, 3]], "Input type": ["float", "float"]}})",
      "1 without Input Strides (PyTorch 2.1");
  fails(event("mm", "[1, 2], [2, 3]", "[2, 1], [3, 1]", "c10::complex<float>"),
        "1 of type 'c10::complex<float>'");
  fails(event("mm", "[1, 2], [4, 3]", "[2, 1], [3, 1]"), "the inner sizes differ");
  fails(event("mm", "[1, 2], [2, 3]", "[2, 1], [3]"), "1 of tensors with other strides than axes");
  fails(event("mv", "[1, 2], [2]", "[2, 1], [1]"), "1 of aten::mv");
  fails(event("bmm", "[3, 6, 4], [3, 4, 6]", "[24, 4, 1], [0, 1, 4]"),
        "1 of batches whose items share an operand");
  test::expect_error(Errc::corrupt_data, {"t.json: begins as JSON"},
                     [] { read_call_log("{\"a\": [", "t.json"); });
  test::expect_error(Errc::corrupt_data, {"t.json: is JSON without trace events"},
                     [] { read_call_log("{\"a\": [1]}", "t.json"); });
  EXPECT_EQ(problems_in("[" + event("mm", "[1, 2], [2, 3]", "[2, 1], [3, 1]") + "]"),
            (Texts{"gemm:1x3x2:fp32:rrr"}))
      << "a list of events";
}

}  // namespace
}  // namespace kscout
