// Compares every form, kind and instruction set of backend `cpu` with a float64 triple loop, on random
// problems.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/backend.h>
#include <kscout/error.h>

#include "backend/cpu/cpu_backend.h"
#include "family/legality.h"
#include "support/random_gemm.h"
#include "support/share.h"

namespace kscout {
namespace {

using namespace test;

KernelConfig as_record(const NativeConfig& c) {
  KernelConfig record(native_gemm_space);
  const std::int32_t values[] = {static_cast<std::int32_t>(c.isa),
                                 static_cast<std::int32_t>(c.kind),
                                 c.mr,
                                 c.nr,
                                 c.pack_a,
                                 c.pack_b,
                                 c.prefetch,
                                 c.mc,
                                 c.kc,
                                 c.nc,
                                 static_cast<std::int32_t>(c.order),
                                 c.split_k,
                                 c.threads_m,
                                 c.threads_n};
  std::ranges::copy(values, record.value.begin());
  return record;
}

/// A config of the given set and kind that is legal under the signature on the device, which must have the
/// set.
NativeConfig random_config(Rng& rng, NativeIsa isa, NativeKind kind, const Signature& signature,
                           const Device& device = backend("cpu").device()) {
  const std::int32_t lanes = native_lanes(isa);
  for (;;) {
    NativeConfig c{};
    c.isa = isa;
    c.kind = kind;
    const bool outer = native_form(kind, signature.layout) == NativeForm::outer;
    c.mr = static_cast<std::int32_t>(pick(rng, 1, outer ? 16 : 8));
    c.nr = static_cast<std::int32_t>(outer ? pick(rng, 1, 4) * lanes : pick(rng, 1, 8));
    c.pack_a = pick(rng, 0, 1) != 0;
    c.pack_b = pick(rng, 0, 1) != 0;
    c.prefetch = pick(rng, 0, 1) ? 32 : 0;
    c.order = static_cast<NativeOrder>(pick(rng, 0, 2));
    c.split_k = c.threads_m = c.threads_n = 1;
    if (kind != NativeKind::small) {
      c.mc = one_of(rng, {0, 12, 48, 64});
      c.kc = one_of(rng, {0, 16, 33, 64});
      c.nc = one_of(rng, {0, 16, 64, 100});
      std::int32_t* const shares[] = {&c.split_k, &c.threads_m, &c.threads_n};
      const auto cores = static_cast<std::int64_t>(device.cores);
      if (pick(rng, 0, 1))
        *one_of(rng, shares) = static_cast<std::int32_t>(pick(rng, 1, std::min<std::int64_t>(4, cores)));
    }
    if (legal_refusal(signature, as_record(c), device).empty()) return c;
  }
}

void check_one(const GemmProblem& p, const NativeConfig& config, Rng& rng, double alpha, double beta) {
  SCOPED_TRACE(print(p) + " by " + native_provider().print(signature_of(p), as_record(config)));
  const auto edge = pick(rng, 0, 1) ? Guarded::Edge::behind : Guarded::Edge::before;
  const Operands x(p, rng, edge);
  const auto launch = backend("cpu").prepare(p, as_record(config));
  // Workspace must be aligned to 64 bytes; its end is guarded as well, after the round-up.
  const Guarded workspace((launch->workspace_bytes() + 63) / 64 * 16);
  std::fill_n(workspace.data(), (launch->workspace_bytes() + 63) / 64 * 16,
              std::numeric_limits<float>::quiet_NaN());
  const Guarded bias(static_cast<std::size_t>(p.n), edge);
  std::generate_n(bias.data(), p.n, [&] { return static_cast<float>(pick(rng, -8, 8)) / 4; });
  const GemmBuffers buffers{.a = x.a.data(),
                            .b = x.b.data(),
                            .c = x.c.data(),
                            .alpha = alpha,
                            .beta = beta,
                            .bias = has_bias(p.epilogue) ? bias.data() : nullptr};
  const std::size_t a_elements = operand_elements(p).a;
  if (alpha == 0) std::fill_n(x.a.data(), a_elements, std::numeric_limits<float>::quiet_NaN());
  launch->run(buffers, workspace.data());
  if (alpha == 0) std::fill_n(x.a.data(), a_elements, 0.0F);  // as in BLAS, A was not read
  expect_product(p, buffers, x);
}

/// Half of all problems have an epilogue.
Epilogue random_epilogue(Rng& rng) {
  if (pick(rng, 0, 1)) return Epilogue::none;
  return static_cast<Epilogue>(pick(rng, 1, EnumWords<Epilogue>::words.size() - 1));
}

struct Case {
  NativeIsa isa;
  NativeKind kind;
};

class CpuGemm : public testing::TestWithParam<Case> {};

TEST_P(CpuGemm, MatchesFloat64OnRandomProblems) {
  const auto [isa, kind] = GetParam();
  if (!machine_has(isa))
    GTEST_SKIP() << "this machine lacks the instruction set: its kernels are NOT tested here";
  for (std::uint64_t seed = 0; seed < share_of(400); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    GemmProblem p = random_problem(rng);
    p.epilogue = random_epilogue(rng);
    const NativeConfig config = random_config(rng, isa, kind, signature_of(p));
    const double alpha = one_of(rng, {1.0, -0.5, 2.0, 0.0});
    check_one(p, config, rng, alpha, p.accumulate ? one_of(rng, {1.0, -1.5}) : 0.0);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CpuGemm, ComputesEdgesOfEverySize) {
  const auto [isa, kind] = GetParam();
  if (!machine_has(isa))
    GTEST_SKIP() << "this machine lacks the instruction set: its kernels are NOT tested here";
  Rng rng(1);
  constexpr std::int64_t sizes[] = {0, 1, 17, 97};
  for (const Layout layout : {Layout::rcr, Layout::rrr, Layout::crr, Layout::ccr}) {
    for (const std::int64_t m : sizes) {
      for (const std::int64_t n : sizes) {
        for (const std::int64_t k : sizes) {
          GemmProblem p = make_gemm(m, n, k, DType::fp32, layout);
          p.accumulate = pick(rng, 0, 1) != 0;
          p.epilogue = random_epilogue(rng);
          p.lda = leading_dimensions(p).a + 1000;  // large strides
          if (!in_share(static_cast<std::uint64_t>(pick(rng, 0, 999)))) continue;
          check_one(p, random_config(rng, isa, kind, signature_of(p)), rng, 1, p.accumulate ? 0.5 : 0);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

/// Every epilogue under every layout, on one thread, on two that share C, and on two split-K slices.
TEST_P(CpuGemm, AppliesEveryEpilogueOnce) {
  const auto [isa, kind] = GetParam();
  if (!machine_has(isa))
    GTEST_SKIP() << "this machine lacks the instruction set: its kernels are NOT tested here";
  const bool shares = kind != NativeKind::small && backend("cpu").device().cores >= 2;
  Rng rng(1);
  for (std::size_t word = 0; word < EnumWords<Epilogue>::words.size(); ++word) {
    for (const Layout layout : {Layout::rcr, Layout::rrr, Layout::crr, Layout::ccr}) {
      GemmProblem p = make_gemm(37, 53, 131, DType::fp32, layout);
      p.epilogue = static_cast<Epilogue>(word);
      for (int sharing = 0; sharing < (shares ? 4 : 1); ++sharing) {
        NativeConfig config = random_config(rng, isa, kind, signature_of(p));
        config.split_k = sharing == 1 ? 2 : 1;
        config.threads_m = sharing == 2 ? 2 : 1;
        config.threads_n = sharing == 3 ? 2 : 1;
        if (kind != NativeKind::small)
          config.kc = 33;  // several blocks along K; the last applies the epilogue
        if (!legal_refusal(signature_of(p), as_record(config), backend("cpu").device()).empty()) continue;
        p.batch = pick(rng, 1, 2);
        p.accumulate = pick(rng, 0, 1) != 0;
        check_one(p, config, rng, -0.5, p.accumulate ? 0.5 : 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// Floats between the beginning of a page and an operand. NumPy's large arrays begin 4 behind a page.
constexpr std::size_t kOffsets[] = {0, 1, 4, 15};

/// C of operands that begin `offset` floats behind a page; what surrounds C must survive.
std::vector<float> product_at(const GemmProblem& p, const NativeConfig& config, const Operands& x,
                              std::size_t offset) {
  const auto launch = backend("cpu").prepare(p, as_record(config));
  const Guarded workspace((launch->workspace_bytes() + 63) / 64 * 16);
  const OperandElements sizes = operand_elements(p);
  const auto room = [&](std::int64_t floats) { return static_cast<std::size_t>(floats) + offset; };
  const Guarded a(room(sizes.a), Guarded::Edge::before), b(room(sizes.b), Guarded::Edge::before);
  const Guarded c(room(sizes.c) + 16, Guarded::Edge::before);
  std::copy_n(x.a.data(), sizes.a, a.data() + offset);
  std::copy_n(x.b.data(), sizes.b, b.data() + offset);
  std::fill_n(c.data(), room(sizes.c) + 16, kGap);
  std::copy_n(x.before.data(), sizes.c, c.data() + offset);
  launch->run(GemmBuffers{.a = a.data() + offset,
                          .b = b.data() + offset,
                          .c = c.data() + offset,
                          .alpha = -0.5,
                          .beta = p.accumulate ? 1.0 : 0.0},
              workspace.data());
  EXPECT_EQ(std::count(c.data(), c.data() + offset, kGap), static_cast<std::ptrdiff_t>(offset));
  EXPECT_EQ(std::count(c.data() + room(sizes.c), c.data() + room(sizes.c) + 16, kGap), 16);
  return {c.data() + offset, c.data() + room(sizes.c)};
}

/// Kernels begin at vector boundaries of their operands where all lines have them in common.
TEST_P(CpuGemm, GivesEqualBitsAtEveryAddress) {
  const auto [isa, kind] = GetParam();
  if (!machine_has(isa))
    GTEST_SKIP() << "this machine lacks the instruction set: its kernels are NOT tested here";
  for (std::uint64_t seed = 0; seed < share_of(200); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    GemmProblem p = random_problem(rng);
    if (pick(rng, 0, 3)) {  // long lines that begin alike
      p = make_gemm(pick(rng, 1, 9), pick(rng, 1, 9), 0, DType::fp32, static_cast<Layout>(pick(rng, 0, 3)));
      p.k = pick(rng, 250, 700);
      (pick(rng, 0, 1) ? p.m : p.n) = pick(rng, 100, 600);
      const LeadingDimensions packed = leading_dimensions(p);
      p.lda = (packed.a + 15) / 16 * 16;
      p.ldb = (packed.b + 15) / 16 * 16;
    }
    const NativeConfig config = random_config(rng, isa, kind, signature_of(p));
    SCOPED_TRACE(print(p) + " by " + native_provider().print(signature_of(p), as_record(config)));
    const Operands x(p, rng, Guarded::Edge::behind);
    const std::vector<float> first = product_at(p, config, x, kOffsets[0]);
    for (const std::size_t offset : kOffsets) {
      const std::vector<float> c = product_at(p, config, x, offset);
      ASSERT_TRUE(c.empty() || std::memcmp(c.data(), first.data(), c.size() * sizeof(float)) == 0)
          << offset << " floats";
    }
    if (HasFailure()) return;
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const NativeIsa isa : {NativeIsa::scalar, NativeIsa::avx2, NativeIsa::avx512}) {
    for (const NativeKind kind : {NativeKind::tiled, NativeKind::dot, NativeKind::skinny_m,
                                  NativeKind::skinny_n, NativeKind::small}) {
      cases.push_back({isa, kind});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Every, CpuGemm, testing::ValuesIn(all_cases()), [](const auto& suite) {
  return axis_value_text(native_gemm_space.axes[0], static_cast<std::int32_t>(suite.param.isa)) + "_" +
         axis_value_text(native_gemm_space.axes[1], static_cast<std::int32_t>(suite.param.kind));
});

TEST(CpuBackend, RefusesWhatItCannotRun) {
  const GemmProblem p = make_gemm(8, 8, 8);
  KernelConfig config =
      native_provider().parse("native_gemm_fp32_rcr__scalar_tiled_6x2_packab_b12x16x16_n_s1_t1x1").config;
  EXPECT_EQ(backend("cpu").refusal(p, config), "");
  config.set("pack_b", 0);
  EXPECT_EQ(
      backend("cpu").refusal(p, config),
      "rule 'outer-packs-columns': outer-product tiles load vectors along rows of B; a column-major B needs "
      "pack_b=pack (s.layout = rcr, c.kind = tiled, c.pack_b = none)");
  EXPECT_THROW(backend("cpu").prepare(p, config), Error);
  config.set("pack_b", 1);
  config.set("threads_n", 4096);
  EXPECT_NE(backend("cpu").refusal(p, config).find("4096 threads"), std::string::npos);
  config.set("threads_n", 1);
  GemmProblem half = make_gemm(8, 8, 8, DType::fp16);
  EXPECT_NE(backend("cpu").refusal(half, config).find("fp32 only"), std::string::npos);
  EXPECT_THROW(backend("cpou"), Error);
}

/// One column of C per value: A is 1, B has the values, so that C is the epilogue of each.
TEST(CpuBackend, EpiloguesOfSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity(), large = 1e30F, tiny = 1e-30F;
  const std::vector<float> values = {infinity, large, 100, 1,    tiny,   0,
                                     -tiny,    -1,    -6,  -100, -large, std::nanf("")};
  const std::vector<float> relu = {infinity, large, 100, 1, tiny, 0, 0, 0, 0, 0, 0, std::nanf("")};
  const std::vector<float> gelu = {infinity,        large, 100,       0.84119199F,
                                   tiny / 2,        0,     -tiny / 2, -0.15880801F,
                                   -8.4396467e-11F, 0,     0,         std::nanf("")};
  const auto n = static_cast<std::int64_t>(values.size());
  for (const NativeIsa isa : {NativeIsa::scalar, NativeIsa::avx2, NativeIsa::avx512}) {
    if (!machine_has(isa)) continue;
    for (const auto& [epilogue, expected] :
         {std::pair(Epilogue::relu, relu), std::pair(Epilogue::gelu, gelu)}) {
      GemmProblem p = make_gemm(1, n, 1, DType::fp32, Layout::rrr);
      p.epilogue = epilogue;
      const std::string name = fmt::format(
          "native_gemm_fp32_rrr_{}__{}_small_1x{}_nopack_b0x0x0_n_s1_t1x1", word(epilogue),
          axis_value_text(native_gemm_space.axes[0], static_cast<std::int32_t>(isa)), native_lanes(isa));
      const float one = 1;
      std::vector<float> c(values.size());
      const auto launch = backend("cpu").prepare(p, parse_config_name(name).config);
      launch->run(GemmBuffers{.a = &one, .b = values.data(), .c = c.data()}, nullptr);
      for (std::size_t i = 0; i < c.size(); ++i) {
        if (std::isnan(expected[i]) || std::isinf(expected[i])) {
          EXPECT_TRUE(std::isnan(c[i]) == std::isnan(expected[i]) &&
                      std::isinf(c[i]) == std::isinf(expected[i]))
              << name << " of " << values[i] << " is " << c[i];
        } else {
          EXPECT_NEAR(c[i], expected[i], 1e-5 * std::abs(expected[i])) << name << " of " << values[i];
        }
      }
    }
  }
}

TEST(NativeNames, ReadBackForRandomConfigs) {
  const Device device = device_preset("xeon-8480");  // has every set; the one that runs the test may not
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    Signature signature = signature_of(random_problem(rng));
    signature.epilogue = random_epilogue(rng);
    const auto isa = static_cast<NativeIsa>(pick(rng, 0, 2));
    const auto kind = static_cast<NativeKind>(pick(rng, 0, 4));
    const NamedConfig named{signature, as_record(random_config(rng, isa, kind, signature, device))};
    const std::string name = native_provider().print(named.signature, named.config);
    ASSERT_EQ(parse_config_name(name), named) << name;
  }
}

TEST(NativeNames, RefuseWhatIsNoName) {
  const std::string good = "native_gemm_fp32_rcr__avx2_tiled_6x16_packab_b144x256x4096_n_s1_t1x2";
  EXPECT_EQ(provider("native").print(parse_config_name(good).signature, parse_config_name(good).config),
            good);
  for (std::size_t cut = 0; cut + 1 < good.size(); ++cut) {
    EXPECT_THROW(parse_config_name(good.substr(0, cut)), Error) << good.substr(0, cut);
  }
  EXPECT_THROW(parse_config_name(good + "0x"), Error);
  EXPECT_THROW(parse_config_name("native_gemm_fp32_rcr__avx2_tiled_06x16_packab_b144x256x4096_n_s1_t1x2"),
               Error);
  EXPECT_THROW(parse_config_name("native_gemm_fp16_rcr__avx2_tiled_6x16_packab_b144x256x4096_n_s1_t1x2"),
               Error);
  EXPECT_THROW(provider("nativ"), Error);
}

}  // namespace
}  // namespace kscout
