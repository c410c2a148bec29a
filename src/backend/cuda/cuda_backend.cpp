
#include "backend/cuda/cuda_backend.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>

#include <dlfcn.h>

#include <kscout/family.h>
#include <kscout/grouped_gemm.h>
#include <kscout/provider.h>

#include "backend/cuda/cudnn_library.h"
#include "backend/driver_facts.h"
#include "backend/library/found_libraries.h"
#include "core/fail.h"
#include "family/family_file.h"
#include "family/legality.h"
#include "family/rules.h"
#include "instruments/elements.h"
#include "op/gemm/gemm_views.h"
#include "op/operation.h"
#include "provider/cublaslt/cublaslt.h"
#include "provider/cutlass/cutlass.h"
#include "provider/groupwise/groupwise.h"
#include "provider/hopper/hopper.h"
#include "provider/joint.h"

namespace kscout {

namespace {

using namespace cuda;

constexpr unsigned kFactsSeconds = 60;  // a driver takes seconds at its first use after boot

int& chosen_device() {
  static int ordinal = 0;
  return ordinal;
}

/// An open driver would not work in a child, and then a query in this process adds no cost.
bool driver_is_loaded() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr; }

/// Facts of a GPU, and the release of cuDNN (0: not here).
struct FoundFacts {
  Facts gpu;
  std::int32_t cudnn;
};

/// Reads the facts of a GPU in a child, which returns plain bytes.
FoundFacts find_facts(int ordinal) {
  const auto find = [ordinal] {
    FoundFacts found{};
    cuda::check(load_module(), load_module().facts(ordinal, &found.gpu));
    found.cudnn = cudnn::version();
    return found;
  };
  return driver_is_loaded() ? find() : ask_driver<FoundFacts>(kFactsSeconds, "the GPU's driver", find);
}

/// The facts of one GPU; read once.
struct Known {
  explicit Known(int ordinal) : found(find_facts(ordinal)), device(describe(found.gpu)) {}
  FoundFacts found;
  Device device;
};

/// The facts of the chosen GPU. References to them stay valid.
const Known& known_gpu() {
  static std::mutex mutex;
  static std::map<int, Known> found;
  const std::scoped_lock lock(mutex);
  return found.try_emplace(chosen_device(), chosen_device()).first->second;
}

const Facts& facts() { return known_gpu().found.gpu; }
std::int32_t cudnn_here() { return known_gpu().found.cudnn; }

/// The library also suggests algorithms that give wrong results. Throws unsupported for those that rules
/// exclude.
void refuse_wrong_suggestion(const GemmProblem& problem, const Algorithm& named) {
  const bool unknown = named.suggestion > 0;  // the algorithm has attributes without a name here
  if (unknown) return;
  static const auto rules = [] {
    std::vector<Rule> found;
    std::ranges::copy_if(family_file("cublaslt", Op::gemm).rules, std::back_inserter(found),
                         &Rule::suggested);
    return found;
  }();
  const KernelConfig config = config_of(named, facts().cublaslt_version).kernel_config();
  if (const auto rule = refusing_rule(rules, problem, config, known_gpu().device)) {
    fail(Errc::unsupported, "{}: cuBLASLt suggests {}, which rule {} refuses: {}", print(problem),
         config_name(signature_of(problem), config), rule->name, rule->because);
  }
}

struct DestroyMatmul {
  void operator()(Matmul* matmul) const noexcept { matmul->destroy(); }
};

class CudaLaunch final : public Launch {
 public:
  CudaLaunch(Module& module, const GemmProblem& problem, const CublasLtConfig& config,
             std::uint64_t workspace = kCublasLtWorkspace)
      : module_(module) {
    if (problem.m == 0 || problem.n == 0) return;
    Matmul* made = nullptr;
    check(module, module.matmul(shape_of(problem), algorithm_of(config), workspace, &made));
    matmul_.reset(made);
    if (config.suggestion > 0) refuse_wrong_suggestion(problem, matmul_->algorithm());
  }
  CudaLaunch(Module& module, const GemmProblem& problem, const HopperConfig& config) : module_(module) {
    Matmul* made = nullptr;
    check(module,
          module.hopper_matmul(shape_of(problem), {config.tile_n, config.cluster, config.split_k}, &made));
    matmul_.reset(made);
  }
  CudaLaunch(Module& module, const GroupedGemmProblem& problem, const HopperGroupedConfig& config)
      : module_(module) {
    if (problem.m_sum == 0 || problem.n == 0) return;
    const auto rows = problem.m.sizes();
    Matmul* made = nullptr;
    check(module, module.hopper_grouped(shape_of(problem), {config.tile_n, config.cluster, 1}, rows.data(),
                                        static_cast<std::int32_t>(rows.size()), &made));
    matmul_.reset(made);
  }

  CudaLaunch(Module& module, const ConvProblem& problem, const GroupwiseConfig& c) : module_(module) {
    Matmul* made = nullptr;
    check(module, module.groupwise_conv(
                      shape_of(problem),
                      {c.depthwise, c.tile_m, c.tile_n, c.merge, c.vector, c.pixels, c.split_k}, &made));
    matmul_.reset(made);
  }

  CudaLaunch(Module& module, const ConvProblem& problem, const HopperConfig& c) : module_(module) {
    Matmul* made = nullptr;
    check(module, module.hopper_conv(shape_of(problem), {c.tile_n, c.cluster, c.split_k}, &made));
    matmul_.reset(made);
  }

  std::size_t workspace_bytes() const noexcept override { return matmul_ ? matmul_->workspace_bytes() : 0; }

  void run(const Buffers& given, void* workspace, Stream stream) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
    check_reach("cuda", space_, buffers.space);
    if (!matmul_) return;
    const MatmulCall call{.a = buffers.a,
                          .b = buffers.b,
                          .c = buffers.c,
                          .bias = buffers.bias,
                          .scale_a = buffers.scale_a,
                          .scale_b = buffers.scale_b,
                          .alpha = buffers.alpha,
                          .beta = buffers.beta,
                          .workspace = workspace};
    check(module_, matmul_->run(call, stream.handle));
  }

 private:
  Module& module_;
  MemorySpace space_ = gpu_memory().space();
  std::unique_ptr<Matmul, DestroyMatmul> matmul_;  ///< null: C is empty
};

/// What cuBLASLt's kernels for 16-bit types reach at most, in floating-point operations per cycle and
/// multiprocessor, where lines do not begin at multiples of 16 bytes; 0 where all do. A model that was
/// trained with CUTLASS's kernels for such lines promises more. Measured on an H100
/// (docs/bench/gemm_odd.md).
double unaligned_flop_per_cycle(const GemmProblem& problem) {
  constexpr double kStoresAtTwoBytes = 420, kLoadsAtTwoBytes = 700, kAtFourBytes = 1050;
  const auto alignment = [](const MatrixView& view) {
    return view.lines() <= 1 || view.leading % 8 == 0 ? 16 : view.leading % 2 == 0 ? 4 : 2;
  };
  const int loads = std::min(alignment(view_a(problem)), alignment(view_b(problem)));
  const int stores = alignment(view_c(problem));
  if (stores == 2) return kStoresAtTwoBytes;
  if (loads == 2) return kLoadsAtTwoBytes;
  return std::min(loads, stores) == 4 ? kAtFourBytes : 0;
}

class CudaBackend final : public MeasuredBackend {
 public:
  std::string_view name() const noexcept override { return "cuda"; }
  std::string_view provider() const noexcept override { return "cublaslt"; }
  std::string_view provider_for(Op op) const noexcept override {
    static const Device any = device_preset("h200");  // device() would ask the driver
    return default_provider(op, any);
  }
  bool executes(std::string_view provider) const noexcept override {
    static constexpr std::string_view kOwn[] = {"cublaslt", "cudnn", "hopper", "groupwise", "cutlass"};
    return executes_with_libraries(provider, kOwn);
  }

  Family family(const Signature& signature, std::string_view rules) override {
    return enumerate({.provider = std::string(provider_for(signature.op)),
                      .signature = signature,
                      .device = device(),
                      .rules = std::string(rules),
                      .filter = {}});
  }

  Memory& memory() override { return gpu_memory(); }
  Instruments& instruments() override { return gpu_instruments(); }

  const Device& device() override { return known_gpu().device; }
  std::map<std::string, std::string> versions() override {
    auto versions = versions_of(facts());
    if (cudnn_here() != 0) versions["cudnn_version"] = std::to_string(cudnn_here());
    versions.merge(FoundLibraries::of("cuda").versions());
    return versions;
  }

  std::string absence(const Signature& signature, const KernelConfig& asked) override {
    const KernelConfig config = member_config(asked);
    if (is_cudnn(config)) return cudnn_absence(config);
    if (is_compiled(config)) {
      std::string why;
      FoundLibraries::of("cuda").holder(signature, config, &why);
      return why;
    }
    if (is_hopper(config) || is_groupwise(config)) return {};
    const int wanted = CublasLtConfig::from(config).version, here = facts().cublaslt_version;
    if (wanted == 0 || wanted == here) return {};
    return fmt::format(
        "the config is for cuBLASLt {}, installed is {}: its algorithms have other numbers; kscout harvest "
        "--refresh MODEL finds a model's algorithms in this release",
        wanted, here);
  }

  std::string refusal(ProblemRef of, const KernelConfig& asked) override {
    const KernelConfig config = member_config(asked);
    if (is_cudnn(config)) return cudnn_refusal(of, config);
    if (is_groupwise(config) || is_hopper(config)) return own_refusal(of, config);
    if (of.is<GroupedGemmProblem>()) return fmt::format("the config computes {}", word(config.space->op));
    const Signature signature = signature_of(of);
    if (is_compiled(config)) {
      std::string why = signature_refusal(*config.space, signature);
      if (!why.empty()) return why;
      LibraryBackend* const library = FoundLibraries::of("cuda").holder(signature, config, &why);
      return library ? library->refusal(of, config) : why;
    }
    if (!of.is<GemmProblem>()) {
      return fmt::format("backend cuda executes {} by providers cudnn, hopper and groupwise",
                         operation(of.kind()).plural);
    }
    const auto problem = of.as<GemmProblem>();
    std::string why = signature_refusal(*config.space, signature);
    if (why.empty()) why = absence(signature, config);
    if (!why.empty()) return why;
    const CublasLtConfig c = CublasLtConfig::from(config);
    if (why = legal_refusal(signature, config, device()); !why.empty()) return why;
    if (problem.split_k == 1 && c.split_k > 1)
      return fmt::format("the problem asks for no split of K, the config has split_k={}", c.split_k);
    if (problem.k == 0) return "k = 0: cuBLASLt takes products only";
    return {};
  }

  double min_us(ProblemRef of, const KernelConfig& asked) override {
    if (!of.is<GemmProblem>()) return 0;
    const auto problem = of.as<GemmProblem>();
    const KernelConfig config = member_config(asked);
    if (bytes_per_element(problem.dtype_a) != 2 || is_compiled(config) || is_hopper(config)) return 0;
    const double rate = unaligned_flop_per_cycle(problem) * device().cores * device().max_clock_mhz;
    return rate > 0 ? flop_count(problem) / rate : 0;
  }

  std::unique_ptr<Launch> prepare(ProblemRef of, const KernelConfig& asked) override {
    kscout::check(of);
    const KernelConfig config = member_config(asked);
    if (const std::string why = refusal(of, config); !why.empty())
      fail(Errc::unsupported, "{}: {}", print(of), why);
    if (is_cudnn(config)) return prepare_cudnn(of.as<ConvProblem>(), CudnnConfig::from(config), device());
    if (is_groupwise(config)) {
      return std::make_unique<CudaLaunch>(open_module(), of.as<ConvProblem>(), GroupwiseConfig::from(config));
    }
    if (is_hopper(config) && of.is<ConvProblem>()) {
      return std::make_unique<CudaLaunch>(open_module(), of.as<ConvProblem>(), HopperConfig::from(config));
    }
    if (of.is<GroupedGemmProblem>()) {
      return std::make_unique<CudaLaunch>(open_module(), of.as<GroupedGemmProblem>(),
                                          HopperGroupedConfig::from(config));
    }
    if (is_compiled(config)) {
      open_module();  // a library's own CUDA runtime then also uses the sweep's device
      std::string why;
      return FoundLibraries::of("cuda").holder(signature_of(of), config, &why)->prepare(of, config);
    }
    const auto problem = of.as<GemmProblem>();
    Module& module = open_module();
    if (is_hopper(config)) return std::make_unique<CudaLaunch>(module, problem, HopperConfig::from(config));
    return std::make_unique<CudaLaunch>(module, problem, CublasLtConfig::from(config));
  }

  std::unique_ptr<Launch> prepare_within(ProblemRef of, const KernelConfig& asked,
                                         const Limits& limits) override {
    kscout::check(of);
    const KernelConfig config = member_config(asked);
    if (is_compiled(config) || is_hopper(config) || is_groupwise(config))
      return Backend::prepare_within(of, asked, limits);
    if (const std::string why = refusal(of, asked); !why.empty())
      fail(Errc::unsupported, "{}: {}", print(of), why);
    std::unique_ptr<Launch> launch;
    if (is_cudnn(config)) {
      launch = prepare_cudnn(of.as<ConvProblem>(), CudnnConfig::from(config), device(), limits.deterministic);
    } else {
      if (limits.deterministic) {
        if (const std::string why = deterministic_refusal(of, config, device()); !why.empty())
          fail(Errc::unsupported, "{}: {}", print(of), why);
      }
      const std::uint64_t workspace =
          limits.workspace_bytes < 0
              ? kCublasLtWorkspace
              : std::min(kCublasLtWorkspace, static_cast<std::uint64_t>(limits.workspace_bytes));
      launch = std::make_unique<CudaLaunch>(open_module(), of.as<GemmProblem>(), CublasLtConfig::from(config),
                                            workspace);
    }
    check_workspace(*launch, limits);
    return launch;
  }

  std::vector<KernelConfig> suggestions(ProblemRef problem, std::size_t count) override {
    kscout::check(problem);
    return library_suggestions(problem, count, facts().cublaslt_version);
  }

  std::vector<std::string> prepare_ahead(ProblemRef of, std::span<const KernelConfig> configs,
                                         double seconds) override {
    std::vector<std::string> left_out(configs.size());
    std::vector<std::size_t> places;
    std::vector<CudnnConfig> slow;
    for (std::size_t i = 0; i < configs.size(); ++i) {
      const KernelConfig config = member_config(configs[i]);
      if (!is_cudnn(config) || !cudnn_refusal(of, config).empty()) continue;
      places.push_back(i);
      slow.push_back(CudnnConfig::from(config));
    }
    if (slow.empty()) return left_out;
    const auto reasons = prepare_cudnn_ahead(of.as<ConvProblem>(), slow, device(), seconds);
    for (std::size_t i = 0; i < places.size(); ++i) left_out[places[i]] = reasons[i];
    return left_out;
  }

 private:
  /// Whether a library of compiled kernels runs the config: cutlass, or a family that a file declares.
  static bool is_compiled(const KernelConfig& config) {
    return config.space && !kscout::provider(config.space->provider).built_in();
  }

  static bool is_of(const Provider& provider, const KernelConfig& config) {
    return config.space && config.space->provider == provider.name();
  }
  static bool is_hopper(const KernelConfig& config) { return is_of(hopper_provider(), config); }
  static bool is_groupwise(const KernelConfig& config) { return is_of(groupwise_provider(), config); }
  static bool is_cudnn(const KernelConfig& config) { return is_of(cudnn_provider(), config); }
  /// Of a config of hopper or groupwise.
  std::string own_refusal(ProblemRef of, const KernelConfig& config) {
    if (config.space->op != of.op()) return fmt::format("the config computes {}", word(config.space->op));
    const std::string why = signature_refusal(*config.space, signature_of(of));
    return why.empty() ? rule_refusal(of, config, device()) : why;
  }
  static std::string cudnn_absence(const KernelConfig& asked) {
    const int wanted = CudnnConfig::from(asked).version, here = cudnn_here();
    if (here == 0) return "cuDNN cannot be used: " + cudnn::missing();
    if (wanted == 0 || wanted == here) return {};
    return fmt::format(
        "the config is for cuDNN {}, installed is {}: its engines have other numbers; find this release's "
        "with kscout harvest",
        wanted, here);
  }
  static std::string cudnn_refusal(ProblemRef of, const KernelConfig& asked) {
    if (asked.space->op != of.op()) return fmt::format("the config computes {}", word(asked.space->op));
    std::string why = signature_refusal(*asked.space, signature_of(of));
    if (why.empty()) why = cudnn_absence(asked);
    const std::int64_t split_k = of.as<ConvProblem>().split_k;
    if (why.empty() && split_k != 0)
      why = fmt::format("the problem asks for {} split-K slices; cuDNN's engines choose their own", split_k);
    return why;
  }
};

}  // namespace

Backend& cuda_backend() {
  static CudaBackend instance;
  return instance;
}

void use_cuda_device(int ordinal) { chosen_device() = ordinal; }
int used_cuda_device() { return chosen_device(); }

int cuda_device_count() { return facts().devices; }

namespace cuda {

Module& open_module() {
  Module& module = load_module();
  static thread_local bool entered = false;  // the runtime stores the current device per thread
  if (!entered) check(module, module.open(chosen_device()));
  entered = true;
  return module;
}

void check(Module& module, CallStatus answer) {
  if (answer == CallStatus::done) return;
  fail(answer == CallStatus::unsupported ? Errc::unsupported : Errc::device_failure, "{}", module.error());
}

CublasLtConfig config_of(const Algorithm& a, std::int32_t version) {
  return {version,   a.suggestion, a.id,      a.tile_m, a.tile_n, a.tile_k,    a.stages,
          a.split_k, a.reduction,  a.swizzle, a.custom, a.inner,  a.cluster_m, a.cluster_n};
}

Algorithm algorithm_of(const CublasLtConfig& c) {
  return {c.suggestion, c.algorithm, c.tile_m, c.tile_n, c.tile_k,    c.stages,   c.split_k,
          c.reduction,  c.swizzle,   c.custom, c.inner,  c.cluster_m, c.cluster_n};
}

MatmulShape shape_of(const GemmProblem& p) {
  const LeadingDimensions ld = leading_dimensions(p);
  return {.dtype_a = p.dtype_a,
          .dtype_b = p.dtype_b,
          .dtype_c = p.dtype_c,
          .dtype_acc = p.dtype_acc,
          .layout = p.layout,
          .epilogue = p.epilogue,
          .accumulate = p.accumulate,
          .m = p.m,
          .n = p.n,
          .k = p.k,
          .batch = p.batch,
          .lda = ld.a,
          .ldb = ld.b,
          .ldc = ld.c,
          .stride_a = view_a(p).batch_stride,
          .stride_b = view_b(p).batch_stride,
          .stride_c = view_c(p).batch_stride};
}

MatmulShape shape_of(const GroupedGemmProblem& p) {
  return {.dtype_a = p.dtype_a,
          .dtype_b = p.dtype_b,
          .dtype_c = p.dtype_c,
          .dtype_acc = p.dtype_acc,
          .layout = p.layout,
          .epilogue = Epilogue::none,
          .accumulate = false,
          .m = p.m_sum,
          .n = p.n,
          .k = p.k,
          .batch = p.groups,
          .lda = p.k,
          .ldb = row_major_b(p.layout) ? p.n : p.k,
          .ldc = p.n,
          .stride_a = 0,
          .stride_b = p.n * p.k,
          .stride_c = 0};
}

ConvShape shape_of(const ConvProblem& p) {
  const auto number = [](std::int64_t size) { return static_cast<std::int32_t>(size); };
  const auto axis = [&](std::int64_t in, std::int64_t out, std::int64_t filter, std::int64_t stride,
                        std::int64_t dilation, std::int64_t pad) -> ConvAxis {
    return {number(in), number(out), number(filter), number(stride), number(dilation), number(pad)};
  };
  const ConvOutput out = output_sizes(p);
  return {.direction = p.op == Op::conv_fwd        ? Direction::forward
                       : p.op == Op::conv_bwd_data ? Direction::backward_data
                                                   : Direction::backward_weight,
          .dtype = p.dtype_in,
          .n = number(p.n),
          .c = number(p.c),
          .k = number(p.k),
          .g = number(p.g),
          .axes = {axis(p.d, out.d, p.z, p.stride_d, p.dilation_d, p.left_pad_d),
                   axis(p.h, out.h, p.y, p.stride_h, p.dilation_h, p.left_pad_h),
                   axis(p.w, out.w, p.x, p.stride_w, p.dilation_w, p.left_pad_w)}};
}

}  // namespace cuda

}  // namespace kscout
