// What kscout exec reads from calls of cuBLAS, and how it counts: no library is preloaded here.
#include <cstring>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "op/problem_sets.h"
#include "preload/find_object.h"
#include "preload/read_calls.h"
#include "preload/record.h"
#include "support/temporary_folder.h"

namespace kscout::preload {
namespace {

constexpr int kTypeFp32 = 0, kTypeBf16 = 14, kSumFp32 = 68, kNone = 0, kTransposed = 1;

int pointer_mode_of(void* handle, int* mode) {
  *mode = *static_cast<int*>(handle);
  return 0;
}

int stream_of(void* /*handle*/, void** stream) {
  *stream = nullptr;
  return 0;
}

/// A matrix in memory, by the problem's or by the library's rules.
float at(const std::vector<float>& memory, bool by_rows, std::int64_t leading, std::int64_t row,
         std::int64_t column) {
  return memory[static_cast<std::size_t>(by_rows ? row * leading + column : row + column * leading)];
}

std::vector<float> some_numbers(std::size_t count) {
  return *rc::gen::container<std::vector<float>>(
      count, rc::gen::map(rc::gen::inRange(-4, 5), [](int number) { return static_cast<float>(number); }));
}

RC_GTEST_PROP(ReadCalls, TheProblemComputesWhatTheCallDoes, ()) {
  const auto size = [] { return *rc::gen::inRange<std::int64_t>(1, 7); };
  const auto gap = [] { return *rc::gen::inRange<std::int64_t>(0, 3); };
  const bool transa = *rc::gen::arbitrary<bool>(), transb = *rc::gen::arbitrary<bool>();
  const std::int64_t m = size(), n = size(), k = size();
  const std::int64_t lda = (transa ? k : m) + gap(), ldb = (transb ? n : k) + gap(), ldc = m + gap();
  const auto a = some_numbers(static_cast<std::size_t>(lda * (transa ? m : k)));
  const auto b = some_numbers(static_cast<std::size_t>(ldb * (transb ? k : n)));
  const float beta = 0;
  ProductCall product;
  kscout_gemm_call call{};
  call.transa = transa ? kTransposed : kNone;
  call.transb = transb ? kTransposed : kNone;
  call.m = m;
  call.n = n;
  call.k = k;
  call.lda = lda;
  call.ldb = ldb;
  call.ldc = ldc;
  call.type_a = call.type_b = call.type_c = kTypeFp32;
  call.batch = 1;
  call.beta = &beta;
  call.compute = kSumFp32;
  Library library;
  library.get_stream = stream_of;
  RC_ASSERT(read(call, library, product) == Unread::none);
  const GemmProblem& p = product.problem;
  RC_ASSERT(is_valid(p));
  const LeadingDimensions leading = leading_dimensions(p);
  RC_ASSERT(leading.a == ldb);
  RC_ASSERT(leading.b == lda);
  RC_ASSERT(leading.c == ldc);
  std::vector<float> by_call(static_cast<std::size_t>(ldc * n)), by_problem(by_call.size());
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < m; ++i) {
      float sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += (transa ? at(a, false, lda, l, i) : at(a, false, lda, i, l)) *
               (transb ? at(b, false, ldb, j, l) : at(b, false, ldb, l, j));
      }
      by_call[static_cast<std::size_t>(i + j * ldc)] = sum;
    }
  }
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      float sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l) {
        sum += at(b, row_major_a(p.layout), leading.a, i, l) * at(a, row_major_b(p.layout), leading.b, l, j);
      }
      by_problem[static_cast<std::size_t>(i * leading.c + j)] = sum;
    }
  }
  RC_ASSERT(by_call == by_problem);
}

kscout_gemm_call usual_call(int* pointer_mode, const void* beta) {
  kscout_gemm_call call{};
  call.handle = pointer_mode;
  call.m = call.n = call.k = call.lda = call.ldb = call.ldc = 4;
  call.type_a = call.type_b = call.type_c = kTypeBf16;
  call.batch = 1;
  call.beta = beta;
  call.compute = kSumFp32;
  return call;
}

TEST(ReadCalls, OnlyFunctionsOfABlasAreOnTheCpu) {
  for (int i = 0; i < kscout_entries; ++i) {
    const auto entry = static_cast<kscout_entry>(i);
    EXPECT_EQ(is_on_cpu(entry), !std::string_view(entry_name(entry)).starts_with("cu")) << entry_name(entry);
  }
}

TEST(ReadCalls, CallsThatAreNoProblemHaveAReason) {
  int host = 0, device = 1;
  const float zero = 0, minus_zero = -0.0F, one = 1;
  Library library;
  ProductCall found;
  EXPECT_EQ(read(usual_call(&host, &zero), library, found), Unread::descriptors) << "no stream";
  library.get_pointer_mode = pointer_mode_of;
  library.get_stream = stream_of;
  EXPECT_EQ(read(usual_call(&host, &minus_zero), library, found), Unread::none);
  EXPECT_EQ(print(found.problem), "gemm:4x4x4:bf16:rrr");
  EXPECT_EQ(read(usual_call(&host, &one), library, found), Unread::none);
  EXPECT_TRUE(found.problem.accumulate);
  // A pointer into the GPU's memory is not read.
  EXPECT_EQ(read(usual_call(&device, reinterpret_cast<const void*>(16)), library, found), Unread::none);
  EXPECT_EQ(found.outcome, Outcome::gpu_factors);
  EXPECT_FALSE(found.problem.accumulate);
  EXPECT_EQ(read(usual_call(&host, nullptr), library, found), Unread::sizes);
  const auto with = [&](auto change) {
    kscout_gemm_call call = usual_call(&host, &zero);
    change(call);
    return read(call, library, found);
  };
  EXPECT_EQ(with([](auto& call) { call.m = 0; }), Unread::sizes);
  EXPECT_EQ(with([](auto& call) { call.lda = 3; }), Unread::sizes);
  EXPECT_EQ(with([](auto& call) { call.batch = 0; }), Unread::sizes);
  EXPECT_EQ(with([](auto& call) { call.batch = 2; }), Unread::batch);
  EXPECT_EQ(with([](auto& call) { call.type_b = 4; }), Unread::types);
  EXPECT_EQ(with([](auto& call) { call.compute = 74; }), Unread::compute);
  EXPECT_EQ(read(kscout_matmul_call{}, library, found), Unread::descriptors);
}

TEST(Record, TheFileIsReadableAtAnyTimeAndHoldsTheCalls) {
  const test::TemporaryFolder folder;
  const std::string file = (folder / "shapes.csv").string();
  Record record(file);
  GemmProblem tall = make_gemm(4096, 8, 64, DType::bf16), batched = make_gemm(8, 8, 8, DType::fp8);
  batched.batch = 3;
  batched.dtype_c = DType::bf16;
  batched.epilogue = Epilogue::bias_gelu;
  batched.accumulate = true;
  batched.ldc = 16;
  for (int i = 0; i < 100; ++i) {
    record.count(tall);
    if (i % 10 == 0) record.count(batched);
    const auto found = read_any_problems(file);  // in the order of the rows
    ASSERT_EQ(found.front().gemm(), tall);
    ASSERT_EQ(found.back().gemm(), i == 0 && found.size() == 1 ? tall : batched);
  }
  record.write();
  const auto found = read_any_problems(file);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].gemm(), tall);
  EXPECT_EQ(found[0].weight(), 100);
  EXPECT_EQ(found[1].gemm(), batched);
  EXPECT_EQ(found[1].weight(), 10);
  record.forget();
  record.count(tall);
  EXPECT_EQ(read_any_problems(file).size(), 3U);  // a child's row
}

TEST(Record, ATruncatedFileGetsItsRowsAgain) {
  const test::TemporaryFolder folder;
  const std::string file = (folder / "shapes.csv").string();
  Record record(file);
  for (int i = 0; i < 5; ++i) record.count(make_gemm(8, 8, 8));
  record.count(make_gemm(32, 8, 8));
  std::ofstream(file, std::ios::trunc).flush();
  record.count(make_gemm(16, 8, 8));
  double calls = 0;
  for (const Problem& one : read_any_problems(file)) calls += one.weight();
  EXPECT_EQ(calls, 7);
  EXPECT_EQ(read_any_problems(file).size(), 3U);
}

#ifdef DLFO_EH_SEGMENT_TYPE
TEST(FindObject, AgreesWithGlibc) {
  int local = 0;
  for (void* const address : {reinterpret_cast<void*>(&kscout_find_object), reinterpret_cast<void*>(&strlen),
                              reinterpret_cast<void*>(&read_any_problems)}) {
    dl_find_object ours{}, theirs{};
    ASSERT_EQ(_dl_find_object(address, &theirs), 0);
    ASSERT_EQ(kscout_find_object(address, &ours), 0);
    EXPECT_EQ(ours.dlfo_eh_frame, theirs.dlfo_eh_frame);
    EXPECT_GE(address, ours.dlfo_map_start);
    EXPECT_LT(address, ours.dlfo_map_end);
  }
  dl_find_object none{};
  EXPECT_EQ(kscout_find_object(&local, &none), -1);
}
#endif

}  // namespace
}  // namespace kscout::preload
