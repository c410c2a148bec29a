#include "peers.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <cblas.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include "backend/cpu/cpu_backend.h"
#include "core/fail.h"

namespace kscout::bench {

namespace {

struct OpenBlas {
  decltype(&scipy_cblas_sgemm) sgemm;
  std::string version, kernels;
};

template <class Function>
Function find(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (!found) fail(Errc::unsupported, "OpenBLAS has no function {}", name);
  return reinterpret_cast<Function>(found);
}

const OpenBlas& openblas() {
  static const OpenBlas loaded = [] {
    // Some machines set them for old versions. OpenBLAS reads them when it is loaded.
    unsetenv("OPENBLAS_CORETYPE");
    unsetenv("OPENBLAS_L2_SIZE");
    // Idle threads spin for 2^26 cycles otherwise, and slow down what is timed next.
    setenv("OPENBLAS_THREAD_TIMEOUT", "18", /*overwrite=*/0);
    void* const library = dlopen("libscipy_openblas.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(Errc::unsupported, "OpenBLAS cannot be loaded: {}", dlerror());
    const auto set_threads =
        find<decltype(&scipy_openblas_set_num_threads)>(library, "scipy_openblas_set_num_threads");
    set_threads(static_cast<int>(backend("cpu").device().cores));
    return OpenBlas{
        .sgemm = find<decltype(&scipy_cblas_sgemm)>(library, "scipy_cblas_sgemm"),
        .version = find<decltype(&scipy_openblas_get_config)>(library, "scipy_openblas_get_config")(),
        .kernels = find<decltype(&scipy_openblas_get_corename)>(library, "scipy_openblas_get_corename")()};
  }();
  return loaded;
}

/// The word of Device::isa for the kernels that OpenBLAS names after a CPU.
std::string_view isa_of(std::string_view openblas_kernels) {
  constexpr std::string_view kAvx512[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
  constexpr std::string_view kAvx2[] = {"Haswell", "Zen"};
  if (std::ranges::find(kAvx512, openblas_kernels) != std::end(kAvx512)) return "avx512";
  return std::ranges::find(kAvx2, openblas_kernels) != std::end(kAvx2) ? "avx2" : "scalar";
}

std::string_view isa_of(dnnl_cpu_isa_t isa) {
  const auto has = [&](dnnl_cpu_isa_t all) { return (isa & all) == all; };
  if (has(dnnl_cpu_isa_avx512_core)) return "avx512";
  return has(dnnl_cpu_isa_avx2) ? "avx2" : "scalar";
}

int level(std::string_view isa) { return isa == "avx512" ? 2 : isa == "avx2" ? 1 : 0; }

void require_as_good(std::string_view library, std::string_view kernels, std::string_view isa,
                     std::string_view remedy) {
  const std::string_view ours = backend("cpu").device().isa;
  if (level(isa) < level(ours))
    fail(Errc::unsupported, "{} computes with kernels {}, and the kernels here with {}: {}", library, kernels,
         ours, remedy);
}

struct Transposed {
  bool a, b;
  LeadingDimensions ld;
  explicit Transposed(const GemmProblem& p)
      : a(!row_major_a(p.layout)), b(!row_major_b(p.layout)), ld(leading_dimensions(p)) {}
};

}  // namespace

std::string openblas_about() {
  const OpenBlas& library = openblas();
  require_as_good("OpenBLAS", library.kernels, isa_of(library.kernels),
                  "BENCH_WHEELS of ./dev needs an OpenBLAS that knows this CPU");
  return fmt::format("{}, kernels {}", library.version, library.kernels);
}

std::string onednn_about() {
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  std::string_view kernels = dnnl_cpu_isa2str(isa);
  if (kernels.starts_with("cpu_isa_")) kernels.remove_prefix(8);
  require_as_good(
      "oneDNN", kernels, isa_of(isa),
      "start with env -u ONEDNN_MAX_CPU_ISA -u DNNL_MAX_CPU_ISA, or restrict both with KSCOUT_ISA");
  const dnnl_version_t& v = *dnnl_version();
  return fmt::format("oneDNN {}.{}.{}, kernels {}", v.major, v.minor, v.patch, kernels);
}

std::function<void()> openblas_gemm(const GemmProblem& problem, const float* a, const float* b, float* c) {
  const auto word = [](bool transposed) { return transposed ? CblasTrans : CblasNoTrans; };
  const auto whole = [](std::int64_t size) { return static_cast<blasint>(size); };
  return [=, sgemm = openblas().sgemm, m = whole(problem.m), n = whole(problem.n), k = whole(problem.k),
          of = Transposed(problem)] {
    sgemm(CblasRowMajor, word(of.a), word(of.b), m, n, k, 1, a, whole(of.ld.a), b, whole(of.ld.b), 0, c,
          whole(of.ld.c));
  };
}

std::function<void()> onednn_gemm(const GemmProblem& problem, const float* a, const float* b, float* c) {
  const auto word = [](bool transposed) { return transposed ? 'T' : 'N'; };
  return [=, m = problem.m, n = problem.n, k = problem.k, of = Transposed(problem)] {
    dnnl_sgemm(word(of.a), word(of.b), m, n, k, 1, a, of.ld.a, b, of.ld.b, 0, c, of.ld.c);
  };
}

}  // namespace kscout::bench
