#include <array>
#include <vector>

#include <kscout/backend.h>
#include <kscout/conv_operands.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/hip/hip_backend.h"
#include "core/fail.h"
#include "core/names.h"

namespace kscout {

namespace {

struct Entry {
  std::string_view name;
  Backend& (*get)();
  /// Why it is not on this machine; empty when it is.
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

Backend& backend(std::string_view name) {
  const Entry& entry = kBackends[index_of_word("backend", name, kNames)];
  if (const std::string why = entry.missing(); !why.empty())
    fail(Errc::unsupported, "backend {}: {}", name, why);
  return entry.get();
}

GemmBuffers operands_of(Op direction, const ConvTensors& tensors) noexcept {
  const auto [a, b, c] = by_operand(direction, tensors.in, tensors.wei, tensors.out);
  return {.a = a, .b = b, .c = c};
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

}  // namespace kscout
