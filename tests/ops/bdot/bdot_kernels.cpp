// Its kernels on a CPU: one loop with 1, 4 or 16 partial sums.
#include "backend/cpu/cpu_backend.h"
#include "core/fail.h"
#include "core/files.h"
#include "ops/bdot/bdot.h"
#include "provider/name_reader.h"
#include "provider/native/native.h"
#include "provider/typed_config.h"

namespace kscout {

extern const std::span<const EmbeddedFile> kBdotFiles;

namespace {

struct BdotConfig {
  std::int32_t sums;
};
constexpr std::tuple kFields{&BdotConfig::sums};
constexpr Axis kAxes[] = {{"sums", "1", "partial sums that are kept at once"}};
constexpr ConfigSpace kSpace{"native", kBdot, kAxes};
constexpr const ConfigSpace* kSpaces[] = {&kSpace};

template <int sums>
void dot_products(const BdotProblem& p, const float* a, const float* b, float* c) {
  for (std::int64_t i = 0; i < p.batch; ++i, a += p.n, b += p.n) {
    float partial[sums] = {};
    std::int64_t j = 0;
    for (; j + sums <= p.n; j += sums) {
      for (int s = 0; s < sums; ++s) partial[s] += a[j + s] * b[j + s];
    }
    for (; j < p.n; ++j) partial[0] += a[j] * b[j];
    float sum = 0;
    for (const float one : partial) sum += one;
    c[i] = sum;
  }
}

class BdotLaunch final : public Launch {
 public:
  BdotLaunch(const BdotProblem& problem, std::int32_t sums) : problem_(problem), sums_(sums) {}
  std::size_t workspace_bytes() const noexcept override { return 0; }
  void run(const Buffers& buffers, void*, Stream) override {
    check_reach("cpu", {}, buffers.space);
    const auto* const a = static_cast<const float*>(buffers.operand[0]);
    const auto* const b = static_cast<const float*>(buffers.operand[1]);
    auto* const c = static_cast<float*>(const_cast<void*>(buffers.operand[2]));
    if (sums_ == 1) return dot_products<1>(problem_, a, b, c);
    if (sums_ == 4) return dot_products<4>(problem_, a, b, c);
    dot_products<16>(problem_, a, b, c);
  }

 private:
  BdotProblem problem_;
  std::int32_t sums_;
};

std::string print_bdot(const Signature&, const KernelConfig& config) {
  return fmt::format("native_bdot_fp32__s{}", typed_config<BdotConfig>(config, kSpace, kFields).sums);
}

NamedConfig parse_bdot(std::string_view name) {
  NameReader in("native", name);
  NamedConfig result{{.op = kBdot}, KernelConfig(kSpace)};
  in.literal("native_bdot_fp32__s");
  result.config.set("sums", in.number("sums"));
  if (!in.rest.empty()) in.bad("the end");
  return result;
}

Traits bdot_traits(const Signature&, const KernelConfig& config) {
  Traits traits;
  traits.inner_k = config["sums"];
  traits.workers = 1;
  return traits;
}

std::unique_ptr<Launch> prepare_bdot(ProblemRef problem, const KernelConfig& config) {
  return std::make_unique<BdotLaunch>(problem.as<BdotProblem>(), config["sums"]);
}

constexpr Op kOps[] = {kBdot};

}  // namespace

std::span<const NativeKernels> further_native_kernels() noexcept {
  static constexpr NativeKernels kernels[] = {{
      .prefix = "native_bdot_",
      .spaces = kSpaces,
      .needs =
          [](const KernelConfig&) {
            return NativeNeeds{NativeIsa::scalar, 1};
          },
      .print = print_bdot,
      .parse = parse_bdot,
      .traits = bdot_traits,
  }};
  return kernels;
}

std::span<const CpuKernels> further_cpu_kernels() noexcept {
  static constexpr CpuKernels kernels[] = {{kOps, prepare_bdot}};
  return kernels;
}

std::span<const EmbeddedFile> further_files() noexcept { return kBdotFiles; }

}  // namespace kscout
