#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <kscout/family.h>

#include "backend/cpu/plan.h"
#include "backend/cpu/thread_pool.h"
#include "core/device_facts.h"
#include "core/fail.h"

namespace kscout {

namespace {

cpu::ThreadPool& pool() {
  static cpu::ThreadPool instance;
  return instance;
}

class CpuLaunch final : public Launch {
 public:
  explicit CpuLaunch(const cpu::Plan& plan) : plan_(plan), empty_(plan.m == 0 || plan.n == 0) {}

  std::size_t workspace_bytes() const noexcept override {
    return sizeof(float) * static_cast<std::size_t>(plan_.workspace_floats);
  }

  void run(const GemmBuffers& buffers, void* workspace, Stream) override {
    check_reach("cpu", {}, buffers.space);
    if (empty_) return;
    float* const floats = static_cast<float*>(workspace);
    if (plan_.config.threads() == 1) {
      cpu::run_part(plan_, buffers, floats, 0);
      return;
    }
    // The partial sums of split-K must be added up before the next batch item may overwrite them.
    if (plan_.config.split_k > 1 && plan_.batches > 1) {
      run_batches(buffers, floats);
    } else {
      run_once(plan_, buffers, floats);
    }
  }

 private:
  struct Task {
    const cpu::Plan& plan;
    const GemmBuffers& buffers;
    float* workspace;
  };

  static void run_once(const cpu::Plan& plan, const GemmBuffers& buffers, float* workspace) {
    Task task{plan, buffers, workspace};
    const int parts = plan.config.threads();
    pool().run(
        parts,
        [](void* data, int part) {
          const Task& t = *static_cast<const Task*>(data);
          cpu::run_part(t.plan, t.buffers, t.workspace, part);
        },
        &task);
    if (plan.config.split_k == 1) return;
    pool().run(
        parts,
        [](void* data, int part) {
          const Task& t = *static_cast<const Task*>(data);
          cpu::sum_splits(t.plan, t.buffers, t.workspace, part);
        },
        &task);
  }

  void run_batches(const GemmBuffers& buffers, float* workspace) {
    cpu::Plan one = plan_;
    one.batches = 1;
    GemmBuffers moved = buffers;
    for (std::int64_t batch = 0; batch < plan_.batches; ++batch) {
      moved.a = static_cast<const float*>(buffers.a) + batch * plan_.a.batch;
      moved.b = static_cast<const float*>(buffers.b) + batch * plan_.b.batch;
      moved.c = static_cast<float*>(buffers.c) + batch * plan_.batch_c;
      run_once(one, moved, workspace);
    }
  }

  cpu::Plan plan_;
  bool empty_;
};

class CpuBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "cpu"; }
  std::string_view provider() const noexcept override { return "native"; }

  Family family(const Signature& signature, std::string_view rules) override {
    return enumerate({.provider = "native",
                      .signature = signature,
                      .device = device(),
                      .rules = std::string(rules),
                      .filter = {}});
  }

  const Device& device() override {
    static const Device here = detect_cpu();
    return here;
  }

  std::string refusal(ProblemRef of, const KernelConfig& config) override {
    if (!of.gemm()) return "backend cpu executes GEMMs";
    const GemmProblem& problem = *of.gemm();
    const NativeConfig c = NativeConfig::from(config);
    if (std::string why = native_illegal(signature_of(problem), c); !why.empty()) return why;
    if (!machine_has(c.isa)) {
      return fmt::format("this machine has no {}; its best is {}",
                         axis_value_text(native_gemm_space.axes[0], static_cast<std::int32_t>(c.isa)),
                         device().isa);
    }
    if (problem.split_k == 1 && c.split_k > 1) {
      return fmt::format("the problem asks for no split of K, the config has split_k={}", c.split_k);
    }
    if (c.threads() > 1 && c.threads() > device().cores) {
      return fmt::format("the config needs {} threads, this process may use {} cores", c.threads(),
                         device().cores);
    }
    return {};
  }

  std::unique_ptr<Launch> prepare(ProblemRef of, const KernelConfig& config) override {
    const GemmProblem& problem = of.as_gemm();
    check(problem);
    if (const std::string why = refusal(problem, config); !why.empty()) {
      fail(Errc::unsupported, "{}: {}", print(problem), why);
    }
    const NativeConfig c = NativeConfig::from(config);
    if (c.threads() > 1) pool().reserve(c.threads());
    return std::make_unique<CpuLaunch>(cpu::make_plan(problem, c, *cpu::kernel_set(c.isa)));
  }
};

}  // namespace

Backend& cpu_backend() {
  static CpuBackend instance;
  return instance;
}

void pin_cpu_threads(bool pinned) { pool().pin(pinned); }

bool machine_has(NativeIsa isa) noexcept {
  switch (isa) {
    case NativeIsa::avx2:
      return best_instruction_set() >= InstructionSet::avx2;
    case NativeIsa::avx512:
      return best_instruction_set() >= InstructionSet::avx512;
    case NativeIsa::scalar:
      return true;
  }
  return isa == NativeIsa::scalar;
}

}  // namespace kscout
