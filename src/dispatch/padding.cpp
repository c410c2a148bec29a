#include "dispatch/padding.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/fail.h"
#include "op/operation.h"

namespace kscout {

namespace {

constexpr std::int64_t kPartAlignment = 256;

bool whole_bytes(const Signature& types) {
  return std::ranges::all_of(std::initializer_list<DType>{types.dtype_a, types.dtype_b, types.dtype_c},
                             [](DType dtype) { return bytes_per_element(dtype) >= 1; });
}

bool is_prepacked(ProblemRef problem) { return operation(problem.kind()).is_prepacked(problem); }

}  // namespace

ExecutionForm direct_form(ProblemRef problem) { return {.problem = problem.value()}; }

std::vector<ExecutionForm> padded_forms(ProblemRef problem, MemoryKind memory) {
  std::vector<ExecutionForm> forms;
  if (!whole_bytes(signature_of(problem))) return forms;
  const Problem unchanged = problem.value();
  const auto add = [&](const ExecutionForm& form) {
    const auto same = [&](const ExecutionForm& other) { return other.problem == form.problem; };
    if (form.problem == unchanged || std::ranges::any_of(forms, same)) return;
    if (is_valid(form.problem)) forms.push_back(form);
  };
  operation(problem.kind()).for_each_form(problem, memory, add);
  std::ranges::stable_sort(forms, {}, [](const ExecutionForm& form) {
    return std::tuple(form.calls, flop_count(form.problem), form.copy_bytes);
  });
  return forms;
}

PaddedLaunch::PaddedLaunch(ProblemRef problem, const ExecutionForm& form, std::unique_ptr<Launch> inner,
                           Memory& memory)
    : operands_(operation(problem.kind()).copied_operands(problem, form)),
      calls_(form.calls),
      inner_(std::move(inner)),
      memory_(memory) {
  for (CopiedOperand* const one : {&operands_.a, &operands_.b, &operands_.c, &operands_.bias})
    one->bytes = one->copied ? round_up(one->bytes, kPartAlignment) : 0;
  if (is_prepacked(problem)) packed_copy_ = std::exchange(operands_.b.bytes, 0);
}

std::size_t PaddedLaunch::workspace_bytes() const noexcept {
  const auto& [a, b, c, bias] = operands_;
  return static_cast<std::size_t>(a.bytes + b.bytes + c.bytes + bias.bytes) + inner_->workspace_bytes();
}

void PaddedLaunch::run(const GemmBuffers& buffers, void* workspace, Stream stream) {
  run_all(buffers, workspace, stream, true);
}

void PaddedLaunch::run_copies(const GemmBuffers& buffers, void* workspace, Stream stream) {
  run_all(buffers, workspace, stream, false);
}

std::size_t PaddedLaunch::packed_bytes() const noexcept {
  return static_cast<std::size_t>(packed_copy_) + inner_->packed_bytes();
}

void PaddedLaunch::pack(const void* b, void* packed, Stream stream) {
  const void* filter = b;
  if (packed_copy_ > 0) {
    move(operands_.b.in, b, packed, stream);
    filter = packed;
  }
  inner_->pack(filter, static_cast<std::byte*>(packed) + packed_copy_, stream);
}

void PaddedLaunch::move(const OperandCopy& how, const void* from, void* to, Stream stream) {
  MatrixCopy copy = how.copy;
  for (std::int64_t i = 0; i < how.repeats; ++i) {
    copy.from = static_cast<const std::byte*>(from) + i * how.from_step;
    copy.to = static_cast<std::byte*>(to) + i * how.to_step;
    if (how.element_bytes == 0) {
      memory_.copy(copy, stream);
    } else {
      memory_.transpose(copy, how.element_bytes, stream);
    }
  }
}

void PaddedLaunch::run_all(const GemmBuffers& buffers, void* workspace, Stream stream, bool compute) {
  const auto& [a, b, c, bias] = operands_;
  std::byte* const of_a = static_cast<std::byte*>(workspace);
  std::byte* const of_b = of_a + a.bytes;
  std::byte* const of_c = of_b + b.bytes;
  std::byte* const of_bias = of_c + c.bytes;
  const auto copied_in = [&](const CopiedOperand& one, const void* operand, std::byte* to) -> const void* {
    if (!one.copied) return operand;
    move(one.in, operand, to, stream);
    return to;
  };
  GemmBuffers inner = buffers;
  if (packed_copy_ > 0) {
    inner.b = buffers.packed_b;
    inner.packed_b = static_cast<const std::byte*>(buffers.packed_b) + packed_copy_;
  }
  inner.bias = copied_in(bias, buffers.bias, of_bias);
  for (std::int64_t call = 0; call < calls_; ++call) {
    inner.a = copied_in(a, static_cast<const std::byte*>(buffers.a) + call * a.item_bytes, of_a);
    if (packed_copy_ == 0)
      inner.b = copied_in(b, static_cast<const std::byte*>(buffers.b) + call * b.item_bytes, of_b);
    auto* const result = static_cast<std::byte*>(buffers.c) + call * c.item_bytes;
    inner.c = c.copied ? of_c : result;
    if (c.copied && buffers.beta != 0) move(c.in, result, inner.c, stream);
    if (compute) inner_->run(inner, of_bias + bias.bytes, stream);
    if (c.copied) move(c.back, inner.c, result, stream);
  }
}

std::unique_ptr<Launch> padded_launch(ProblemRef problem, const ExecutionForm& form,
                                      std::unique_ptr<Launch> inner, Memory& memory) {
  if (!form.padded() && form.calls == 1) return inner;
  return std::make_unique<PaddedLaunch>(problem, form, std::move(inner), memory);
}

}  // namespace kscout
