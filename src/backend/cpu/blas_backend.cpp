#include "backend/cpu/blas_backend.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <dlfcn.h>

#include <kscout/family.h>

#include "backend/cpu/cpu_backend.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/owners.h"

namespace kscout {

namespace {

// cblas.h and dnnl.h of the libraries' documentation.
constexpr int kCblasRowMajor = 101, kCblasNoTrans = 111, kCblasTrans = 112;
template <class Integer>
using CblasSgemm = void (*)(int order, int trans_a, int trans_b, Integer m, Integer n, Integer k, float alpha,
                            const float* a, Integer lda, const float* b, Integer ldb, float beta, float* c,
                            Integer ldc);
using DnnlSgemm = int (*)(char trans_a, char trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
                          float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                          float beta, float* c, std::int64_t ldc);

/// A library by its name here.
struct BlasName {
  std::string_view name;
  const char* variable;
  std::vector<const char*> files;
  const char* package;
};
const BlasName kBlasNames[] = {
    {"openblas", "KSCOUT_OPENBLAS", {"libopenblas.so.0", "libopenblas.so"}, "libopenblas0"},
    {"onednn", "KSCOUT_ONEDNN", {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"}, "libdnnl2 or oneapi-dnnl"}};

void* open_library(const BlasName& of) {
  const std::string named = environment(of.variable);
  std::string reason;
  const auto open = [&](const char* file) {
    void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) reason = dlerror();
    return library;
  };
  if (!named.empty()) {
    if (void* const library = open(safe_loader_name(named).c_str())) return library;
  } else {
    for (const char* const file : of.files)
      if (void* const library = open(file)) return library;
  }
  fail(Errc::unsupported, "{} cannot be loaded: {}; install {}, or name its file with {}", of.name, reason,
       of.package, of.variable);
}

/// What stands before and behind the names of OpenBLAS's functions; with 64_ its integers have 64 bits.
struct Spelling {
  std::string_view before, behind;
  bool is_long() const noexcept { return !behind.empty(); }
};
/// Installed libraries, those of SciPy's and of NumPy's wheel, and installed ones with long integers.
constexpr Spelling kSpellings[] = {{"", ""}, {"scipy_", ""}, {"scipy_", "64_"}, {"", "64_"}};

using Versions = std::map<std::string, std::string>;

/// The file that a function was loaded from; a library may have it from another one.
Versions file_of(void* function) {
  Dl_info info{};
  if (dladdr(function, &info) == 0 || !info.dli_fname) return {};
  std::error_code ignored;
  const auto real = std::filesystem::canonical(info.dli_fname, ignored);
  return {{"file", real.empty() ? info.dli_fname : real.string()}};
}

/// The functions may be null. The config is "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH Zen MAX_THREADS=64".
Versions openblas_versions(void* sgemm, void* get_config, void* get_core) {
  using Text = const char* (*)();
  Versions versions = file_of(sgemm);
  if (get_config) {
    std::istringstream config(reinterpret_cast<Text>(get_config)());
    std::string name, release;
    if (config >> name >> release) versions["release"] = release;
  }
  if (get_core) versions["kernels"] = reinterpret_cast<Text>(get_core)();
  return versions;
}

Versions onednn_versions(void* library) {
  struct Version {
    int major, minor, patch;  // others follow
  };
  // dnnl_cpu_isa_t, those values that have one meaning over all releases; AMX has another one in release 2.
  static const std::map<int, const char*> kIsas = {{0x1, "sse41"},
                                                   {0x3, "avx"},
                                                   {0x7, "avx2"},
                                                   {0x27, "avx512_core"},
                                                   {0x67, "avx512_core_vnni"},
                                                   {0xe7, "avx512_core_bf16"},
                                                   {0x1ef, "avx512_core_fp16"},
                                                   {0x3e7, "avx512_core_amx"},
                                                   {0xfef, "avx512_core_amx"},
                                                   {0x1fef, "avx512_core_amx_fp16"}};
  Versions versions = file_of(dlsym(library, "dnnl_sgemm"));
  if (void* const get = dlsym(library, "dnnl_version")) {
    const Version& release = *reinterpret_cast<const Version* (*)()>(get)();
    versions["release"] = fmt::format("{}.{}.{}", release.major, release.minor, release.patch);
  }
  if (void* const get = dlsym(library, "dnnl_get_effective_cpu_isa")) {
    if (const auto isa = kIsas.find(reinterpret_cast<int (*)()>(get)()); isa != kIsas.end())
      versions["kernels"] = isa->second;
  }
  return versions;
}

/// One product of row-major matrices, C = A B + beta C.
struct Sgemm {
  CblasSgemm<int> cblas = nullptr;
  CblasSgemm<std::int64_t> long_cblas = nullptr;
  DnnlSgemm dnnl = nullptr;

  void operator()(const GemmProblem& p, const LeadingDimensions& ld, const float* a, const float* b, float* c,
                  float beta) const {
    const bool rows_a = row_major_a(p.layout), rows_b = row_major_b(p.layout);
    const auto call = [&]<class Integer>(CblasSgemm<Integer> sgemm) {
      const auto whole = [](std::int64_t size) { return static_cast<Integer>(size); };
      sgemm(kCblasRowMajor, rows_a ? kCblasNoTrans : kCblasTrans, rows_b ? kCblasNoTrans : kCblasTrans,
            whole(p.m), whole(p.n), whole(p.k), 1, a, whole(ld.a), b, whole(ld.b), beta, c, whole(ld.c));
    };
    if (cblas) {
      call(cblas);
    } else if (long_cblas) {
      call(long_cblas);
    } else {
      dnnl(rows_a ? 'N' : 'T', rows_b ? 'N' : 'T', p.m, p.n, p.k, 1, a, ld.a, b, ld.b, beta, c, ld.c);
    }
  }
};

class BlasLaunch final : public Launch {
 public:
  BlasLaunch(const GemmProblem& problem, const Sgemm& sgemm)
      : problem_(problem), leading_(leading_dimensions(problem)), sgemm_(sgemm) {
    const OperandElements all = operand_elements(problem);
    item_ = {all.a / problem.batch, all.b / problem.batch, all.c / problem.batch};
  }

  std::size_t workspace_bytes() const noexcept override { return 0; }
  void run(const Buffers& given, void* /*workspace*/, Stream /*stream*/) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
    const bool biased = has_bias(problem_.epilogue);
    for (std::int64_t i = 0; i < problem_.batch; ++i) {
      float* const c = static_cast<float*>(buffers.c) + i * item_.c;
      if (biased) {
        for (std::int64_t row = 0; row < problem_.m; ++row)
          std::copy_n(static_cast<const float*>(buffers.bias), problem_.n, c + row * leading_.c);
      }
      sgemm_(problem_, leading_, static_cast<const float*>(buffers.a) + i * item_.a,
             static_cast<const float*>(buffers.b) + i * item_.b, c,
             biased ? 1.0F : static_cast<float>(buffers.beta));
      if (problem_.epilogue != Epilogue::relu && problem_.epilogue != Epilogue::bias_relu) continue;
      for (std::int64_t row = 0; row < problem_.m; ++row) {
        for (float* x = c + row * leading_.c; x != c + row * leading_.c + problem_.n; ++x)
          *x = std::max(*x, 0.0F);
      }
    }
  }

 private:
  GemmProblem problem_;
  LeadingDimensions leading_;
  OperandElements item_{};  ///< elements of one item of the batch
  Sgemm sgemm_;
};

class BlasBackend final : public Backend {
 public:
  explicit BlasBackend(const BlasName& of) : of_(of) {
    // Idle threads of OpenBLAS spin for 2^26 cycles otherwise, and slow down what is timed next. It reads the
    // variable when it is loaded.
    if (of.name == "openblas") setenv("OPENBLAS_THREAD_TIMEOUT", "18", /*overwrite=*/0);
    void* const library = open_library(of);
    const std::string_view symbol = of.name == "onednn" ? "dnnl_sgemm" : "cblas_sgemm";
    if (of.name == "onednn") {
      sgemm_.dnnl = reinterpret_cast<DnnlSgemm>(dlsym(library, symbol.data()));
      if (sgemm_.dnnl) {
        versions_ = onednn_versions(library);
        return;
      }
    } else {
      for (const Spelling& spelling : kSpellings)
        if (takes(library, spelling)) return;
    }
    fail(Errc::unsupported, "{} has no function {}; name another file with {}", of.name, symbol, of.variable);
  }

  std::string_view name() const noexcept override { return of_.name; }
  std::string_view provider() const noexcept override { return of_.name; }
  bool executes(std::string_view /*provider*/) const noexcept override { return true; }
  Family family(const Signature& /*signature*/, std::string_view /*rules*/) override {
    fail(Errc::unsupported, "{} chooses its kernels itself: it has no configs", of_.name);
  }
  const Device& device() override { return cpu_backend().device(); }
  std::string refusal(ProblemRef of, const KernelConfig& /*config*/) override {
    if (of.op() != Op::gemm) return fmt::format("{} is timed on GEMMs only", of_.name);
    const auto p = of.as<GemmProblem>();
    if (p.dtype_a != DType::fp32 || p.dtype_b != DType::fp32 || p.dtype_c != DType::fp32)
      return fmt::format("{} is timed on fp32 only", of_.name);
    if (p.epilogue == Epilogue::gelu || p.epilogue == Epilogue::bias_gelu)
      return fmt::format("{} has no gelu", of_.name);
    if (p.accumulate && has_bias(p.epilogue))
      return fmt::format("{} has no product that adds both C and a bias", of_.name);
    const LeadingDimensions ld = leading_dimensions(p);
    if (std::max({p.m, p.n, p.k, ld.a, ld.b, ld.c}) > std::numeric_limits<int>::max())
      return fmt::format("{} takes sizes below 2^31", of_.name);
    return {};
  }
  std::map<std::string, std::string> versions() override { return versions_; }
  std::unique_ptr<Launch> prepare(ProblemRef of, const KernelConfig& config) override {
    check(of);
    if (const std::string why = refusal(of, config); !why.empty())
      fail(Errc::unsupported, "{}: {}", print(of), why);
    return std::make_unique<BlasLaunch>(of.as<GemmProblem>(), sgemm_);
  }

 private:
  /// Takes the functions of OpenBLAS if they have these names.
  bool takes(void* library, const Spelling& spelling) {
    const auto find = [&](std::string_view name) {
      return dlsym(library, fmt::format("{}{}{}", spelling.before, name, spelling.behind).c_str());
    };
    void* const sgemm = find("cblas_sgemm");
    if (!sgemm) return false;
    if (spelling.is_long()) {
      sgemm_.long_cblas = reinterpret_cast<CblasSgemm<std::int64_t>>(sgemm);
    } else {
      sgemm_.cblas = reinterpret_cast<CblasSgemm<int>>(sgemm);
    }
    versions_ = openblas_versions(sgemm, find("openblas_get_config"), find("openblas_get_corename"));
    if (void* const set_threads = find("openblas_set_num_threads"))
      reinterpret_cast<void (*)(int)>(set_threads)(static_cast<int>(cpu_backend().device().cores));
    return true;
  }

  const BlasName& of_;
  Sgemm sgemm_;
  std::map<std::string, std::string> versions_;
};

}  // namespace

Backend& blas_backend(std::string_view library) {
  if (library == "openblas") {
    static BlasBackend openblas(kBlasNames[0]);
    return openblas;
  }
  if (library == "onednn") {
    static BlasBackend onednn(kBlasNames[1]);
    return onednn;
  }
  fail(Errc::invalid_argument, "'{}' is no BLAS library; known are openblas and onednn", library);
}

}  // namespace kscout
