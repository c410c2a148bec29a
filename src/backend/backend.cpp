// Lists the backends, and implements what all of them have in common.
#include <array>
#include <vector>

#include <kscout/backend.h>
#include <kscout/conv_problem.h>

#include "backend/callables/callable_backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/hip/hip_backend.h"
#include "core/fail.h"
#include "core/names.h"
#include "family/legality.h"

namespace kscout {

namespace {

struct Entry {
  std::string_view name;
  Backend& (*get)();
  /// Why the backend is missing on this machine; empty when it is present.
  std::string (*missing)();
};

constexpr std::array kBackends = {
    Entry{"cpu", cpu_backend, [] { return std::string(); }},
    Entry{"cuda", cuda_backend, cuda_missing},
    Entry{"hip", hip_backend, hip_missing},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kBackends.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kBackends[i].name;
  return names;
}();

}  // namespace

void check_workspace(const Launch& launch, const Limits& limits) {
  const std::size_t bytes = launch.workspace_bytes();
  if (limits.workspace_bytes < 0 || bytes <= static_cast<std::size_t>(limits.workspace_bytes)) return;
  fail(Errc::unsupported, "a workspace of {} bytes, the limit is {}", bytes, limits.workspace_bytes);
}

std::vector<KernelConfig> Backend::suggestions(ProblemRef /*problem*/, std::size_t /*count*/) {
  fail(Errc::unsupported, "backend {} has no library that suggests kernels; backend cuda has", name());
}

std::unique_ptr<Launch> Backend::prepare_within(ProblemRef problem, const KernelConfig& config,
                                                const Limits& limits) {
  if (limits.deterministic) {
    if (const std::string why = deterministic_refusal(problem, config, device()); !why.empty())
      fail(Errc::unsupported, "{}: {}", kscout::print(problem), why);
  }
  auto launch = prepare(problem, config);
  check_workspace(*launch, limits);
  return launch;
}

void check_reach(std::string_view backend, const MemorySpace& reached, const MemorySpace& given) {
  if (given == reached) return;
  fail(Errc::invalid_argument,
       "the operands are in memory {}, backend {} reaches {}; copy them there, or take a backend that "
       "reaches them "
       "(buffers say in `space` where they are)",
       print(given), backend, print(reached));
}

std::function<std::vector<KernelConfig>(ProblemRef, std::size_t)> suggestions_of(Backend& backend) {
  return [&backend](ProblemRef problem, std::size_t count) -> std::vector<KernelConfig> {
    try {
      return backend.suggestions(problem, count);
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      return {};  // it has no library that names kernels
    }
  };
}

std::function<std::vector<KernelConfig>(ProblemRef, std::size_t)> suggestions_here(const Device& device) {
  if (device.kind != DeviceKind::gpu) return nullptr;
  try {
    Backend& gpu = backend("cuda");
    if (gpu.device().name == device.name) return suggestions_of(gpu);
  } catch (const Error&) {  // no NVIDIA GPU, or no CUDA module
  }
  return nullptr;
}

Backend& backend(std::string_view name) {
  if (name.starts_with(kCallablesPrefix)) return callable_backend(name);
  const Entry& entry = kBackends[index_of_word("backend", name, kNames)];
  if (const std::string why = entry.missing(); !why.empty())
    fail(Errc::unsupported, "backend {}: {}", name, why);
  return entry.get();
}

std::span<const std::string_view> backend_names() noexcept {
  static const std::vector<std::string_view> here = [] {
    std::vector<std::string_view> names;
    for (const Entry& entry : kBackends) {
      if (entry.missing().empty()) names.push_back(entry.name);
    }
    return names;
  }();
  return here;
}

GemmBuffers operands_of(Op direction, const ConvTensors& tensors) noexcept {
  const auto [a, b, c] = by_operand(direction, tensors.in, tensors.wei, tensors.out);
  return {.a = a, .b = b, .c = c, .bias = tensors.bias, .space = tensors.space};
}

}  // namespace kscout
