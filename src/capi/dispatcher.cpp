#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <kscout/error.h>

#include "capi/capi.h"
#include "core/fail.h"
#include "op/operation.h"

using namespace kscout;
using namespace kscout::capi;

namespace {

static_assert(KSCOUT_FALLBACK_ANALYTIC == static_cast<int>(Fallback::analytic) &&
              KSCOUT_FALLBACK_EXHAUSTIVE + 1 == EnumWords<Fallback>::words.size());
static_assert(sizeof(kscout_buffers) == 9 * 8 + 6 * 8, "part of ABI version 1");
static_assert(sizeof(kscout_conv_buffers) == 6 * 8 + 6 * 8, "part of ABI version 1");
static_assert(sizeof(kscout_policy) == 2 * 4 + 4 * 8 + 6 * 8, "part of ABI version 1");
static_assert(sizeof(kscout_space) == 8, "part of ABI version 1");
static_assert(KSCOUT_MEMORY_HOST == static_cast<int>(MemoryKind::host) &&
              KSCOUT_MEMORY_CUDA == static_cast<int>(MemoryKind::cuda) &&
              KSCOUT_MEMORY_HIP + 1 == EnumWords<MemoryKind>::words.size());

const kscout_buffers& checked(const kscout_buffers* given) {
  const kscout_buffers& buffers = required(given, "buffers");
  refuse_reserved(buffers.reserved, 0, "buffers", "kscout_buffers_init");
  return buffers;
}
const kscout_conv_buffers& checked(const kscout_conv_buffers* given) {
  const kscout_conv_buffers& buffers = required(given, "buffers");
  refuse_reserved(buffers.reserved, 0, "buffers", "kscout_conv_buffers_init");
  return buffers;
}

/// Throws invalid_argument for an unknown kind, and for host memory with an ordinal.
MemorySpace space_of(const kscout_space& space) {
  const auto kind = enumerator<MemoryKind>(space.kind);
  if (space.ordinal < 0 || (kind == MemoryKind::host && space.ordinal != 0)) {
    throw Error(Errc::invalid_argument,
                fmt::format("space.ordinal={}: 0 in the host's memory, the GPU's number "
                            "elsewhere",
                            space.ordinal));
  }
  return {kind, space.ordinal};
}

GemmBuffers operands_of(const kscout_buffers& b) {
  return {.a = b.a,
          .b = b.b,
          .c = b.c,
          .alpha = b.alpha,
          .beta = b.beta,
          .bias = b.bias,
          .space = space_of(b.space)};
}
ConvTensors operands_of(const kscout_conv_buffers& b) {
  return {.in = b.in, .wei = b.wei, .out = b.out, .space = space_of(b.space), .bias = b.bias};
}

const kscout_operands& checked(const kscout_operands* given) {
  const kscout_operands& operands = required(given, "operands");
  refuse_reserved(operands.reserved, 0, "operands", "kscout_operands_init");
  return operands;
}

kscout::Buffers operands_of(const kscout_operands& b) {
  kscout::Buffers buffers{.alpha = b.alpha, .beta = b.beta, .space = space_of(b.space)};
  std::ranges::copy(b.operand, buffers.operand.begin());
  return buffers;
}

template <class Buffers>
RunOn place_of(const Buffers& b) {
  return {.stream = {b.stream},
          .workspace = b.workspace,
          .workspace_bytes = b.workspace_bytes,
          .limits = limits_of(b.limits, b.max_workspace_bytes)};
}

DispatchPolicy policy_of(const kscout_policy* given) {
  kscout_policy from;
  kscout_policy_init(&from);
  if (given) from = *given;
  refuse_reserved(from.reserved, 0, "policy", "kscout_policy_init");
  if (from.copies_bytes < -1)
    fail(Errc::invalid_argument, "copies_bytes={}: must be a number of bytes, 0 (2 GiB) or -1 (no copies)",
         from.copies_bytes);
  const auto copies_bytes = from.copies_bytes == 0
                                ? DispatchPolicy{}.copies_bytes
                                : static_cast<std::size_t>(std::max<std::int64_t>(from.copies_bytes, 0));
  return {.fallback = enumerator<Fallback>(from.fallback),
          .rules = text_or(from.rules, "default"),
          .refine = {.top = from.refine_top, .seconds = from.refine_seconds},
          .db = text_or(from.db, ""),
          .threads = from.threads,
          .calls = from.calls,
          .limits = limits_of(from.limits, from.max_workspace_bytes),
          .copies_bytes = copies_bytes};
}

Dispatcher& dispatcher_of(kscout_dispatcher* handle) { return required(handle, "dispatcher").dispatcher; }

// Code shared by kscout_gemm and kscout_conv.

/// Nothing when the caller does not specify the memory.
std::optional<MemorySpace> space_of(const kscout_space* space) {
  return space ? std::optional(space_of(*space)) : std::nullopt;
}

template <class Problem>
kscout_status solution(kscout_dispatcher* dispatcher, const Problem* problem, const kscout_space* space,
                       kscout_choice* choice) {
  return guarded([&] {
    refuse_null(choice, "choice");
    store(dispatcher_of(dispatcher).get_solution(problem_of(problem), space_of(space)).choice, *choice);
  });
}

template <class Problem>
kscout_status workspace_bytes(kscout_dispatcher* dispatcher, const Problem* problem,
                              const kscout_space* space, size_t* bytes) {
  return guarded([&] {
    refuse_null(bytes, "bytes");
    *bytes = dispatcher_of(dispatcher).workspace_bytes(problem_of(problem), space_of(space));
  });
}

template <class Problem, class Buffers>
kscout_status run(kscout_dispatcher* dispatcher, const Problem* problem, const Buffers* buffers,
                  kscout_choice* choice) {
  return guarded([&] {
    const Buffers& given = checked(buffers);
    const auto done = dispatcher_of(dispatcher).run(problem_of(problem), operands_of(given), place_of(given));
    if (choice) store(done.choice, *choice);
  });
}

template <class Problem, class Buffers>
kscout_status run_config(kscout_dispatcher* dispatcher, const Problem* problem, const kscout_config* config,
                         const Buffers* buffers) {
  return guarded([&] {
    const Buffers& given = checked(buffers);
    dispatcher_of(dispatcher)
        .run_explicit(problem_of(problem), config_of(config), operands_of(given), place_of(given));
  });
}

/// `make`: the dispatcher's function that packs.
template <class Make, class Problem, class Buffers>
kscout_status pack(Make make, kscout_dispatcher* dispatcher, const Problem* problem, const Buffers* buffers,
                   kscout_packed_filter** packed) {
  return guarded([&] {
    refuse_null(packed, "packed");
    const Buffers& given = checked(buffers);
    PackedFilter made =
        (dispatcher_of(dispatcher).*make)(problem_of(problem), operands_of(given), {given.stream});
    *packed = new kscout_packed_filter{std::move(made)};
  });
}

}  // namespace

kscout_status kscout_registry_here(kscout_registry** registry) {
  return guarded([&] {
    refuse_null(registry, "registry");
    *registry = new kscout_registry{Registry::here()};
  });
}

kscout_status kscout_registry_add_library(kscout_registry* registry, const char* index) {
  return guarded([&] { required(registry, "registry").registry.add_library(&required(index, "index")); });
}

void kscout_registry_free(kscout_registry* registry) { delete registry; }

void kscout_policy_init(kscout_policy* policy) {
  *policy = {};
  policy->refine_seconds = Refinement{}.seconds;
}

kscout_status kscout_dispatcher_make(const kscout_registry* registry, const kscout_policy* policy,
                                     kscout_dispatcher** dispatcher) {
  return guarded([&] {
    refuse_null(dispatcher, "dispatcher");
    DispatchPolicy how = policy_of(policy);
    Dispatcher made(registry ? registry->registry : Registry::here(), std::move(how));
    *dispatcher = new kscout_dispatcher{std::move(made)};
  });
}

kscout_status kscout_dispatcher_of(const kscout_selector* selector, const char* name,
                                   const kscout_policy* policy, kscout_dispatcher** dispatcher) {
  return guarded([&] {
    refuse_null(dispatcher, "dispatcher");
    const Selector& chooses = required(selector, "selector").selector;
    Dispatcher made(chooses, backend(name ? name : "cpu"), policy_of(policy));
    *dispatcher = new kscout_dispatcher{std::move(made)};
  });
}

void kscout_dispatcher_free(kscout_dispatcher* dispatcher) { delete dispatcher; }

void kscout_buffers_init(kscout_buffers* buffers, const void* a, const void* b, void* c) {
  *buffers = {};
  buffers->a = a;
  buffers->b = b;
  buffers->c = c;
  buffers->alpha = 1;
}

void kscout_conv_buffers_init(kscout_conv_buffers* buffers, void* in, void* wei, void* out) {
  *buffers = {};
  buffers->in = in;
  buffers->wei = wei;
  buffers->out = out;
}

kscout_status kscout_dispatcher_warning(const kscout_dispatcher* dispatcher, char* text, size_t size,
                                        size_t* needed) {
  return guarded([&] {
    const auto warnings = required(dispatcher, "dispatcher").dispatcher.warnings();
    store_text(fmt::format("{}", fmt::join(warnings, "; ")), text, size, needed);
  });
}

kscout_status kscout_solution(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                              kscout_choice* choice) {
  return solution(dispatcher, problem, nullptr, choice);
}
kscout_status kscout_solution_in(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                 kscout_space space, kscout_choice* choice) {
  return solution(dispatcher, problem, &space, choice);
}
kscout_status kscout_solution_conv(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                   kscout_choice* choice) {
  return solution(dispatcher, problem, nullptr, choice);
}
kscout_status kscout_solution_conv_in(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                      kscout_space space, kscout_choice* choice) {
  return solution(dispatcher, problem, &space, choice);
}

kscout_status kscout_workspace_bytes(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                     size_t* bytes) {
  return workspace_bytes(dispatcher, problem, nullptr, bytes);
}
kscout_status kscout_workspace_bytes_in(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                        kscout_space space, size_t* bytes) {
  return workspace_bytes(dispatcher, problem, &space, bytes);
}
kscout_status kscout_workspace_bytes_conv(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                          size_t* bytes) {
  return workspace_bytes(dispatcher, problem, nullptr, bytes);
}
kscout_status kscout_workspace_bytes_conv_in(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                             kscout_space space, size_t* bytes) {
  return workspace_bytes(dispatcher, problem, &space, bytes);
}

void kscout_operands_init(kscout_operands* operands) {
  *operands = {};
  operands->alpha = 1;
}

kscout_status kscout_solution_problem(kscout_dispatcher* dispatcher, const kscout_problem* problem,
                                      const kscout_space* space, kscout_choice* choice) {
  return solution(dispatcher, problem, space, choice);
}
kscout_status kscout_solution_copies(kscout_dispatcher* dispatcher, const kscout_problem* problem,
                                     const kscout_space* space, kscout_copies* copies) {
  return guarded([&] {
    refuse_null(copies, "copies");
    const Solution found = dispatcher_of(dispatcher).get_solution(problem_of(problem), space_of(space));
    const ExecutionForm& form = found.form;
    *copies = {found.copies_us, form.copy_bytes, form.copied[kA], form.copied[kB], form.copied[kC], 0};
  });
}
kscout_status kscout_workspace_bytes_problem(kscout_dispatcher* dispatcher, const kscout_problem* problem,
                                             const kscout_space* space, size_t* bytes) {
  return workspace_bytes(dispatcher, problem, space, bytes);
}
kscout_status kscout_run_problem(kscout_dispatcher* dispatcher, const kscout_problem* problem,
                                 const kscout_operands* operands, kscout_choice* choice) {
  return run(dispatcher, problem, operands, choice);
}
kscout_status kscout_run_config_problem(kscout_dispatcher* dispatcher, const kscout_problem* problem,
                                        const kscout_config* config, const kscout_operands* operands) {
  return run_config(dispatcher, problem, config, operands);
}

kscout_status kscout_run(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                         const kscout_buffers* buffers, kscout_choice* choice) {
  return run(dispatcher, problem, buffers, choice);
}
kscout_status kscout_run_conv(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                              const kscout_conv_buffers* buffers, kscout_choice* choice) {
  return run(dispatcher, problem, buffers, choice);
}

kscout_status kscout_run_config(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                const kscout_config* config, const kscout_buffers* buffers) {
  return run_config(dispatcher, problem, config, buffers);
}
kscout_status kscout_run_config_conv(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                     const kscout_config* config, const kscout_conv_buffers* buffers) {
  return run_config(dispatcher, problem, config, buffers);
}

kscout_status kscout_pack_filter(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                 const kscout_conv_buffers* filter, kscout_packed_filter** packed) {
  return pack(&Dispatcher::pack_filter, dispatcher, problem, filter, packed);
}
kscout_status kscout_pack_b(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                            const kscout_buffers* b, kscout_packed_filter** packed) {
  return pack(&Dispatcher::pack_b, dispatcher, problem, b, packed);
}

void kscout_packed_filter_free(kscout_packed_filter* packed) { delete packed; }

kscout_status kscout_packed_filter_workspace_bytes(const kscout_packed_filter* packed, size_t* bytes) {
  return guarded([&] {
    refuse_null(bytes, "bytes");
    *bytes = required(packed, "packed").filter.workspace_bytes();
  });
}

namespace {

template <class B>
kscout_status run_packed(kscout_dispatcher* dispatcher, const kscout_packed_filter* packed, const B* buffers,
                         kscout_choice* choice) {
  return guarded([&] {
    const B& given = checked(buffers);
    const auto done =
        dispatcher_of(dispatcher).run(required(packed, "packed").filter, operands_of(given), place_of(given));
    if (choice) store(done.choice, *choice);
  });
}

}  // namespace

kscout_status kscout_run_packed(kscout_dispatcher* dispatcher, const kscout_packed_filter* packed,
                                const kscout_conv_buffers* buffers, kscout_choice* choice) {
  return run_packed(dispatcher, packed, buffers, choice);
}
kscout_status kscout_run_packed_b(kscout_dispatcher* dispatcher, const kscout_packed_filter* packed,
                                  const kscout_buffers* buffers, kscout_choice* choice) {
  return run_packed(dispatcher, packed, buffers, choice);
}
