// Tests kernel libraries: valid contents of indexes, the time of opening, and the messages for broken ones.
#include <cstdlib>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include <kscout/dispatcher.h>
#include <kscout/error.h>

#include "backend/library/library_backend.h"
#include "backend/library/seal.h"
#include "libraries/toy_index.h"
#include "support/expect_error.h"
#include "support/heap.h"
#include "support/random_gemm.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

using nlohmann::ordered_json;
using namespace test;

class Library : public testing::Test {
 protected:
  const TemporaryFolder folder;
  void TearDown() override {
    unsetenv("KSCOUT_LIBRARY_PATH");
    unsetenv("TOY_LIBRARY_OPENED");
  }
  std::filesystem::path write(const ordered_json& index, const std::string& name = "toy") const {
    const auto file = folder / (name + ".kscout-library.json");
    write_file_atomically(file, index.dump(1));
    return file;
  }
};

ordered_json good_index() { return toy::index(toy::library_file("toy_good")); }

void expect_run(Dispatcher& dispatcher, const GemmProblem& problem, std::uint64_t seed = 1) {
  SCOPED_TRACE(print(problem));
  Rng rng(seed);
  const Operands x(problem, rng, Guarded::Edge::behind);
  const GemmBuffers buffers{
      .a = x.a.data(), .b = x.b.data(), .c = x.c.data(), .alpha = 1.5, .beta = problem.accumulate ? -0.5 : 0};
  dispatcher.run(problem, buffers);
  expect_product(problem, buffers, x);
}

TEST_F(Library, IsOpenedByTheFirstRunOnly) {
  const auto opened = folder / "opened";
  setenv("TOY_LIBRARY_OPENED", opened.c_str(), 1);
  Registry registry;
  Backend& toy = registry.add_library(write(good_index()));
  const GemmProblem problem = make_gemm(16, 32, 48);
  EXPECT_EQ(registry.kernels(signature_of(problem)).front().family.configs.size(), 1U);
  Dispatcher dispatcher(registry);
  const Solution solution = dispatcher.get_solution(problem);
  EXPECT_EQ(solution.backend, &toy);
  EXPECT_FALSE(solution.form.padded());
  EXPECT_EQ(registry.supports(problem, solution.choice.config).backend, &toy);
  EXPECT_FALSE(std::filesystem::exists(opened)) << "listing, selecting and asking open nothing";
  expect_run(dispatcher, problem);
  EXPECT_TRUE(std::filesystem::exists(opened));
}

TEST_F(Library, StandsBesideTheMachinesOwnKernels) {
  setenv("KSCOUT_LIBRARY_PATH", folder.path().c_str(), 1);
  write(toy::index(toy::library_file("toy_good"), "second", 32), "b");
  write(toy::index(toy::library_file("toy_good"), "first"), "a");
  const Registry registry = Registry::here();
  std::vector<std::string_view> names;
  for (const auto& one : registry.backends()) {
    if (one->name() != "cuda") names.push_back(one->name());  // where there is a GPU
  }
  EXPECT_EQ(names, (std::vector<std::string_view>{"cpu", "first", "second"}));
  EXPECT_EQ(registry.kernels(signature_of(make_gemm(8, 8, 8)), "tiny").size(), registry.backends().size());
  expect_error(Errc::invalid_argument, "did you mean 'first'", [&] { registry.backend("frist"); });
  expect_error(Errc::invalid_argument, "named 'first'",
               [&] { Registry(registry).add_library(folder / "a.kscout-library.json"); });
  setenv("KSCOUT_LIBRARY_PATH", (folder / "absent.kscout-library.json").c_str(), 1);
  expect_error(Errc::not_found, "absent", [] { Registry::here(); });
}

TEST_F(Library, OfOneKernelThereIsOne) {
  Registry registry;
  registry.add_library(write(toy::index(toy::library_file("toy_good"), "first"), "a"));
  const auto same = write(toy::index(toy::library_file("toy_good"), "second"), "b");
  expect_error(Errc::invalid_argument,
               "a.kscout-library.json and " + same.string() + " both have kernel " +
                   toy::config_name(Layout::rcr, false),
               [&] { registry.add_library(same); });
  EXPECT_EQ(registry.backends().size(), 1U);
  ordered_json native = good_index();
  native["kernels"] = {{{"config", "native_gemm_fp32_rcr__avx2_tiled_6x16_packab_b144x256x4096_n_s1_t1x1"},
                        {"kernel", "toy_rcr"}}};
  expect_error(Errc::corrupt_data, "kernel of provider native, whose kernels this program has itself",
               [&] { registry.add_library(write(native)); });
}

TEST_F(Library, RefusesByItsRules) {
  Registry registry;
  registry.add_library(write(good_index()));
  Dispatcher dispatcher(registry);
  const KernelConfig config = parse_config_name(toy::config_name(Layout::rcr, false)).config;
  EXPECT_EQ(registry.supports(make_gemm(8, 16, 16), config).refusal, "");
  EXPECT_NE(registry.supports(make_gemm(8, 16, 17), config).refusal.find("'k-by-16'"), std::string::npos);
  float a[8 * 16] = {}, b[16 * 16] = {}, c[8 * 16] = {};
  expect_error(Errc::unsupported, "rule 'm-by-8' of library toy: no tails along m",
               [&] { dispatcher.run_explicit(make_gemm(7, 16, 16), config, {.a = a, .b = b, .c = c}); });
  expect_error(Errc::unsupported, "has no kernel", [&] {
    const KernelConfig other = parse_config_name(toy::config_name(Layout::rcr, false, 128)).config;
    dispatcher.run_explicit(make_gemm(8, 16, 16), other, {.a = a, .b = b, .c = c});
  });
  expect_error(Errc::unsupported, "no backend here executes", [&] {
    const auto native =
        parse_config_name("native_gemm_fp32_rcr__avx2_tiled_6x16_packab_b144x256x4096_n_s1_t1x1");
    dispatcher.run_explicit(make_gemm(8, 16, 16), native.config, {.a = a, .b = b, .c = c});
  });
  expect_error(Errc::unsupported, "has no kernels for gemm fp16",
               [&] { dispatcher.get_solution(make_gemm(8, 16, 16, DType::fp16)); });
}

TEST_F(Library, KernelsThatRefuseOnlyWhenAskedArePassedOver) {
  ordered_json index = good_index();
  index["kernels"] = {{{"config", toy::config_name(Layout::rcr, false, 32)}, {"kernel", "toy_never"}},
                      {{"config", toy::config_name(Layout::rcr, false, 64)}, {"kernel", "toy_rcr"}},
                      {{"config", toy::config_name(Layout::rcr, false, 128)}, {"kernel", "toy_never"}}};
  Registry registry;
  registry.add_library(write(index));
  Dispatcher dispatcher(registry);
  const GemmProblem problem = make_gemm(16, 32, 48);
  expect_run(dispatcher, problem);
  EXPECT_EQ(dispatcher.get_solution(problem).choice.config["tile_m"], 64);

  index["kernels"].erase(1);
  Registry all_failing;
  all_failing.add_library(write(index));
  Dispatcher none(all_failing);
  expect_error(Errc::unsupported, "this kernel never runs", [&] { none.workspace_bytes(problem); });
}

TEST_F(Library, RunsInTheCallersWorkspaceWithoutAllocating) {
  Registry registry;
  registry.add_library(write(good_index()));
  Dispatcher dispatcher(registry);
  GemmProblem problem = make_gemm(13, 17, 19, DType::fp32, Layout::crr);
  problem.accumulate = true;
  Rng rng(5);
  const Operands x(problem, rng, Guarded::Edge::behind);
  const GemmBuffers buffers{.a = x.a.data(), .b = x.b.data(), .c = x.c.data(), .beta = 2};
  const std::size_t bytes = dispatcher.workspace_bytes(problem);
  const Guarded workspace((bytes + 63) / 64 * 16);
  const HeapWatch watch;
  const Solution solution =
      dispatcher.run(problem, buffers, {.workspace = workspace.data(), .workspace_bytes = bytes});
  EXPECT_EQ(watch.allocations(), 0U);
  EXPECT_TRUE(solution.form.padded());
  expect_product(problem, buffers, x);
}

struct BadIndex {
  const char* what;
  Errc code;
  const char* says;
  std::function<void(ordered_json&)> spoil;
};

TEST_F(Library, IndexesAreCheckedWhole) {
  const std::string good_name = toy::config_name(Layout::rcr, false);
  const BadIndex cases[] = {
      {"format", Errc::corrupt_data, "another format", [](auto& i) { i["format"] = "x"; }},
      {"version", Errc::unsupported, "version 2; this program reads 1", [](auto& i) { i["version"] = 2; }},
      {"abi", Errc::unsupported, "calls ABI 1", [](auto& i) { i["abi"] = 7; }},
      {"member", Errc::corrupt_data, "unknown member 'kernel'", [](auto& i) { i["kernel"] = 1; }},
      {"no name", Errc::corrupt_data, "needs 'name', a text", [](auto& i) { i.erase("name"); }},
      {"backend", Errc::corrupt_data, "unknown backend 'cdua'", [](auto& i) { i["backend"] = "cdua"; }},
      {"device", Errc::not_found, "h20", [](auto& i) { i["device"] = "h20"; }},
      {"checksum", Errc::corrupt_data, "16 hexadecimal", [](auto& i) { i["checksum"] = "fnv1a64:12"; }},
      {"no kernels", Errc::corrupt_data, "names no kernels", [](auto& i) { i.erase("kernels"); }},
      {"config", Errc::corrupt_data, "names an unknown config: 'toy_1'",
       [](auto& i) { i["kernels"][3]["config"] = "toy_1"; }},
      {"twice", Errc::corrupt_data, "a second time", [](auto& i) { i["kernels"][1] = i["kernels"][0]; }},
      {"rule", Errc::corrupt_data, "serves[0] does not compile",
       [](auto& i) { i["serves"][0]["admits"] = "p.q % 8"; }},
      {"ops of a rule", Errc::corrupt_data, "serves[0] has an unknown op 'gem'; did you mean 'gemm'?",
       [](auto& i) { i["serves"][0]["ops"] = ordered_json::array({"gem"}); }},
      {"providers", Errc::corrupt_data, "of provider cutlass",
       [](auto& i) {
         i["kernels"][2]["config"] =
             "cutlass_gemm_bf16_rcr__mma80_64x64x32_w32x32_c1x1_stream_k_smem_s2_a2__along_m_z1_data_"
             "parallel_k1";
       }},
  };
  for (const BadIndex& one : cases) {
    SCOPED_TRACE(one.what);
    ordered_json index = good_index();
    one.spoil(index);
    const auto file = write(index);
    expect_error(one.code, one.says, [&] { Registry().add_library(file); });
  }
  const std::string text = good_index().dump();
  for (std::size_t length = 0; length < text.size(); length += 7) {
    EXPECT_THROW(parse_library_index(std::string_view(text).substr(0, length), "cut"), Error) << length;
  }
}

struct BadLibrary {
  const char* library;
  Errc code;
  const char* says;
};

/// That a library can be selected from, and what comes of making one of its kernels ready.
void expect_failure(const std::filesystem::path& index, Errc code, const char* says) {
  const GemmProblem problem = make_gemm(8, 16, 16);
  Registry registry;
  registry.add_library(index);
  Dispatcher dispatcher(registry);
  EXPECT_NE(dispatcher.get_solution(problem).backend, nullptr) << "selecting needs no library";
  expect_error(code, says, [&] { dispatcher.workspace_bytes(problem); });
}

TEST_F(Library, OfOnesOwnIsSealedAndSealedAgain) {
  const auto own = folder / "mine.so";
  std::filesystem::copy_file(toy::library_file("toy_named"), own);
  const auto index = seal_library(own);
  EXPECT_EQ(index, folder / "mine.kscout-library.json");
  EXPECT_EQ(read_library_index(index).name, "mine");
  EXPECT_EQ(read_library_index(index).configs.size(), 1U);
  // Rules that were written by hand stay when the object is built again.
  ordered_json edited = ordered_json::parse(read_file(index));
  edited["serves"] = good_index()["serves"];
  write_file_atomically(index, edited.dump());
  std::ofstream(own, std::ios::app) << "another build";
  expect_failure(index, Errc::corrupt_data, "seal it again: kscout generate --seal");
  seal_library(own, "mine");
  EXPECT_EQ(read_library_index(index).applicability.at(Op::gemm).size(), 4U);
  Registry registry;
  registry.add_library(index);
  Dispatcher dispatcher(registry);
  expect_run(dispatcher, make_gemm(16, 32, 48));
  expect_error(Errc::invalid_argument, "--name other", [&] { seal_library(own, "other"); });
  expect_error(Errc::not_found, "absent.so", [&] { seal_library(folder / "absent.so"); });
  expect_error(Errc::invalid_argument, "kernel 'toy_rcr' is not named like a config",
               [&] { seal_library(toy::library_file("toy_good")); });
  expect_error(Errc::corrupt_data, "states 1000000 kernels",
               [&] { seal_library(toy::library_file("toy_many")); });
  expect_error(Errc::corrupt_data, "kernel 2 of 13 has no name",
               [&] { seal_library(toy::library_file("toy_no_name")); });
  std::ofstream(folder / "text.so") << "no shared object";
  expect_error(Errc::corrupt_data, "cannot be loaded", [&] { seal_library(folder / "text.so"); });
}

TEST_F(Library, OneThatHangsEndsAtTheLimit) {
  const auto index = write(toy::index(toy::library_file("toy_hangs")));
  setenv("KSCOUT_LIBRARY_SECONDS", "0.05", 1);
  expect_failure(index, Errc::device_failure,
                 "did not end within 0.05 s (KSCOUT_LIBRARY_SECONDS sets the limit)");
  setenv("KSCOUT_LIBRARY_SECONDS", "0", 1);
  expect_failure(index, Errc::invalid_argument, "KSCOUT_LIBRARY_SECONDS='0': seconds, more than 0");
  setenv("KSCOUT_LIBRARY_SECONDS", "soon", 1);
  expect_failure(index, Errc::invalid_argument, "KSCOUT_LIBRARY_SECONDS='soon': not a number");
  unsetenv("KSCOUT_LIBRARY_SECONDS");
}

TEST_F(Library, BrokenOnesAreNamedAndHarmless) {
  const BadLibrary cases[] = {
      {"toy_no_symbol", Errc::corrupt_data, "exports no kscout_kernel_library_get"},
      {"toy_old", Errc::corrupt_data, "has ABI 0"},
      {"toy_crashes", Errc::device_failure, "loading it crashed: Segmentation fault"},
      {"toy_crashes_in_get", Errc::device_failure, "loading it crashed: Aborted"},
      {"toy_exits", Errc::device_failure, "ended the process with code 7"},
      {"toy_cannot_open", Errc::device_failure, "there is no such device"},
      {"toy_many", Errc::corrupt_data, "states 1000000 kernels, and 100000 are the most"},
      {"toy_no_name", Errc::corrupt_data, "kernel 2 of 13 has no name"},
      {"toy_huge_workspace", Errc::device_failure, "asks for 18446744073709551615 bytes of workspace"},
  };
  for (const BadLibrary& one : cases) {
    SCOPED_TRACE(one.library);
    expect_failure(write(toy::index(toy::library_file(one.library))), one.code, one.says);
  }
  ordered_json index = good_index();
  index["library"] = "not_there.so";
  expect_failure(write(index), Errc::not_found, "not_there.so does not exist");

  index = good_index();
  index["name"] = "../toy\x1b[2J";
  expect_error(Errc::corrupt_data, "has name '../toy\\u001b[2J': a name has letters",
               [&] { read_library_index(write(index)); });

  index = good_index();
  index["checksum"] = "fnv1a64:0123456789abcdef";
  expect_failure(write(index), Errc::corrupt_data, "was written for fnv1a64:0123456789abcdef");

  index = good_index();
  index["kernels"][0]["kernel"] = "toy_rrc";
  expect_failure(write(index), Errc::corrupt_data, "unknown kernel 'toy_rrc'; did you mean 'toy_");

  write_file_atomically(folder / "text.so", "this is no shared object");
  index = toy::index(folder / "text.so");
  expect_failure(write(index), Errc::corrupt_data, "cannot be loaded");
}

TEST_F(Library, OfAnotherMachineCanBeListedNotRun) {
  ordered_json index = good_index();
  index["backend"] = "hip";
  index["device"] = "h200";
  Registry registry;
  Backend& backend = registry.add_library(write(index));
  EXPECT_EQ(backend.device().name, "h200");
  EXPECT_EQ(registry.kernels(signature_of(make_gemm(8, 16, 16))).size(), 1U);
  Dispatcher dispatcher(registry);
  expect_error(Errc::unsupported, "backend hip, which is not on this machine",
               [&] { dispatcher.get_solution(make_gemm(8, 16, 16)); });
}

}  // namespace
}  // namespace kscout
