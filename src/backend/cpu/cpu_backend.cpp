#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <kscout/family.h>

#include "backend/cpu/conv_plan.h"
#include "backend/cpu/grouped_plan.h"
#include "backend/cpu/plan.h"
#include "backend/cpu/thread_pool.h"
#include "core/device_facts.h"
#include "core/fail.h"
#include "family/legality.h"

namespace kscout {

namespace {

cpu::ThreadPool& pool() {
  static cpu::ThreadPool instance;
  return instance;
}

/// Runs `part(i)` for i < parts, in the pool's threads when there are several.
template <class Part>
void run_parts(int parts, const Part& part) {
  if (parts == 1) return part(0);
  pool().run(
      parts, [](void* data, int i) { (*static_cast<const Part*>(data))(i); },
      const_cast<void*>(static_cast<const void*>(&part)));
}

class CpuLaunch final : public Launch {
 public:
  explicit CpuLaunch(const cpu::Plan& plan) : plan_(plan), empty_(plan.m == 0 || plan.n == 0) {}

  std::size_t workspace_bytes() const noexcept override {
    return sizeof(float) * static_cast<std::size_t>(plan_.workspace_floats);
  }

  std::size_t packed_bytes() const noexcept override {
    return plan_.prepacked_b ? sizeof(float) * static_cast<std::size_t>(plan_.batches * plan_.packed_batch)
                             : 0;
  }

  void pack(const void* b, void* packed, Stream) override {
    if (!plan_.prepacked_b) return;
    run_parts(plan_.config.threads(), [&](int part) {
      cpu::pack_b(plan_, static_cast<const float*>(b), static_cast<float*>(packed), part);
    });
  }

  void run(const Buffers& given, void* workspace, Stream) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
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

class ConvLaunch final : public Launch {
 public:
  ConvLaunch(cpu::ConvPlan plan, bool prepacked) : plan_(std::move(plan)), prepacked_(prepacked) {}

  std::size_t workspace_bytes() const noexcept override {
    return sizeof(float) *
           static_cast<std::size_t>((prepacked_ ? 0 : plan_.packed_floats) + plan_.workspace_floats);
  }

  std::size_t packed_bytes() const noexcept override {
    return prepacked_ ? sizeof(float) * static_cast<std::size_t>(plan_.packed_floats) : 0;
  }

  void pack(const void* b, void* packed, Stream) override {
    run_parts(plan_.config.threads(), [&](int part) {
      cpu::pack_filter(plan_, static_cast<const float*>(b), static_cast<float*>(packed), part);
    });
  }

  void run(const Buffers& given, void* workspace, Stream stream) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
    check_reach("cpu", {}, buffers.space);
    const int parts = plan_.config.threads();
    float* own = static_cast<float*>(workspace);
    const float* packed = static_cast<const float*>(buffers.packed_b);
    if (!prepacked_ && plan_.packed_floats > 0) {
      pack(buffers.b, own, stream);
      packed = own;
      own += plan_.packed_floats;
    }
    run_parts(parts, [&](int part) { cpu::run_conv_part(plan_, buffers, packed, own, part); });
    if (plan_.partial_floats == 0) return;
    run_parts(parts, [&](int part) { cpu::sum_conv_parts(plan_, buffers, own, part); });
  }

 private:
  cpu::ConvPlan plan_;
  bool prepacked_;
};

std::unique_ptr<Launch> prepare_gemm(ProblemRef of, const KernelConfig& config) {
  const NativeConfig c = NativeConfig::from(config);
  return std::make_unique<CpuLaunch>(cpu::make_plan(of.as<GemmProblem>(), c, *cpu::kernel_set(c.isa)));
}

std::unique_ptr<Launch> prepare_conv(ProblemRef of, const KernelConfig& config) {
  const auto conv = of.as<ConvProblem>();
  const NativeConvConfig c = NativeConvConfig::from(config);
  if (c.kind == NativeConvKind::gemm) return std::make_unique<CpuLaunch>(cpu::make_product_plan(conv, c));
  return std::make_unique<ConvLaunch>(cpu::make_conv_plan(conv, c), conv.prepacked);
}

class GroupedLaunch final : public Launch {
 public:
  explicit GroupedLaunch(cpu::GroupedPlan plan) : plan_(std::move(plan)) {}

  std::size_t workspace_bytes() const noexcept override {
    return sizeof(float) * static_cast<std::size_t>(plan_.workspace_floats);
  }

  void run(const Buffers& given, void* workspace, Stream) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
    check_reach("cpu", {}, buffers.space);
    float* const floats = static_cast<float*>(workspace);
    const int parts = plan_.config.threads();
    for (const cpu::GroupedPlan::Product& product : plan_.products) {
      const GemmBuffers moved = cpu::operands_of(product, buffers);
      run_parts(parts, [&](int part) { cpu::run_part(product.plan, moved, floats, part); });
    }
    if (plan_.pieces.empty()) return;
    std::atomic<std::size_t> next{0};
    run_parts(parts, [&](int part) { cpu::run_pieces(plan_, buffers, floats, part, next); });
  }

 private:
  cpu::GroupedPlan plan_;
};

constexpr Op kGemmOps[] = {Op::gemm};
constexpr Op kGroupedOps[] = {Op::grouped_gemm};

std::unique_ptr<Launch> prepare_grouped(ProblemRef of, const KernelConfig& config) {
  const NativeGroupedConfig c = NativeGroupedConfig::from(config);
  return std::make_unique<GroupedLaunch>(
      cpu::make_grouped_plan(of.as<GroupedGemmProblem>(), c, *cpu::kernel_set(c.isa)));
}

constexpr CpuKernels kKernels[] = {
    {kGemmOps, prepare_gemm}, {kDirections, prepare_conv}, {kGroupedOps, prepare_grouped}};

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
    std::string why = machine_refusal(native_kernels_of(*config.space).needs(config));
    return why.empty() ? rule_refusal(of, config, device()) : why;
  }

  std::unique_ptr<Launch> prepare(ProblemRef of, const KernelConfig& config) override {
    check(of);
    if (const std::string why = refusal(of, config); !why.empty())
      fail(Errc::unsupported, "{}: {}", print(of), why);
    if (const int threads = host_threads(config); threads > 1) pool().reserve(threads);
    for (const std::span<const CpuKernels> some :
         {std::span<const CpuKernels>(kKernels), further_cpu_kernels()}) {
      for (const CpuKernels& kernels : some) {
        if (std::ranges::find(kernels.ops, of.op()) != kernels.ops.end()) return kernels.prepare(of, config);
      }
    }
    fail(Errc::unsupported, "{}: backend cpu has no kernels for {}", print(of), word(of.op()));
  }

 private:
  /// The rules say the same of instruction sets and threads; these reasons also name the setting.
  std::string machine_refusal(const NativeNeeds& needs) {
    const auto [isa, threads] = needs;
    const Axis& axis = native_gemm_space.axes[0];
    const auto wanted = static_cast<std::int32_t>(isa);
    if (!machine_has(isa)) {
      return fmt::format("this machine has no {}; its best is {}", axis_value_text(axis, wanted),
                         device().isa);
    }
    if (wanted > parse_axis_value(axis, device().isa))
      return fmt::format("KSCOUT_ISA={} excludes {}", device().isa, axis_value_text(axis, wanted));
    if (threads > 1 && threads > device().cores) {
      return fmt::format("the config needs {} threads, this process may use {} cores", threads,
                         device().cores);
    }
    return {};
  }
};

}  // namespace

Backend& cpu_backend() {
  static CpuBackend instance;
  return instance;
}

[[gnu::weak]] std::span<const CpuKernels> further_cpu_kernels() noexcept { return {}; }

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
