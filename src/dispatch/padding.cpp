#include "dispatch/padding.h"

#include <algorithm>
#include <array>
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

/// Whether the copy of B is part of what the caller packs once.
bool packs(ProblemRef problem, const ExecutionForm& form) {
  return form.packs || operation(problem.kind()).is_prepacked(problem);
}

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

std::vector<AlignedForm> aligned_forms(ProblemRef problem) {
  std::vector<AlignedForm> forms;
  if (!whole_bytes(signature_of(problem))) return forms;
  operation(problem.kind()).for_each_aligned_form(problem, [&](const AlignedForm& one) {
    if (is_valid(one.form.problem) && is_valid(one.chosen_for)) forms.push_back(one);
  });
  return forms;
}

ExecutionForm with_packed_operand(ProblemRef problem, ExecutionForm form) {
  const std::size_t packable = operation(problem.kind()).packable;
  form.packs = packable < form.copied.size() && form.copied[packable] && form.calls == 1;
  return with_copy_bytes(problem, form);
}

double predicted_copies_us(const ExecutionForm& form, const Device& device) {
  // Measured on an H100 (docs/bench/gemm_odd.md).
  constexpr double kShareOfBandwidth = 0.85, kLaunchUs = 4;
  if (!form.padded()) return 0;
  const auto copies = std::ranges::count(form.copied, true) - (form.packs ? 1 : 0);
  return form.copy_bytes / (kShareOfBandwidth * device.memory_gb_s * 1e3) +
         kLaunchUs * static_cast<double>(copies * form.calls);
}

PaddedLaunch::PaddedLaunch(ProblemRef problem, const ExecutionForm& form, std::unique_ptr<Launch> inner,
                           Memory& memory)
    : operands_(operation(problem.kind()).copied_operands(problem, form)),
      result_(operation(problem.kind()).operands(problem).result().at),
      packable_(operation(problem.kind()).packable),
      calls_(form.calls),
      inner_(std::move(inner)),
      memory_(memory) {
  for (CopiedOperand& one : operands_.at) one.bytes = one.copied ? round_up(one.bytes, kPartAlignment) : 0;
  if (packs(problem, form)) packed_copy_ = std::exchange(operands_.at[packable_].bytes, 0);
}

std::size_t copies_bytes(ProblemRef problem, const ExecutionForm& form) {
  if (!form.padded()) return 0;
  std::size_t bytes = 0;
  const CopiedOperands operands = operation(problem.kind()).copied_operands(problem, form);
  for (std::size_t at = 0; at < operands.at.size(); ++at) {
    const CopiedOperand& one = operands.at[at];
    if (!one.copied || (at == operation(problem.kind()).packable && packs(problem, form))) continue;
    bytes += static_cast<std::size_t>(round_up(one.bytes, kPartAlignment));
  }
  return bytes;
}

std::size_t PaddedLaunch::workspace_bytes() const noexcept {
  std::size_t bytes = inner_->workspace_bytes();
  for (const CopiedOperand& one : operands_.at) bytes += static_cast<std::size_t>(one.bytes);
  return bytes;
}

void PaddedLaunch::run(const Buffers& buffers, void* workspace, Stream stream) {
  run_all(buffers, workspace, stream, true);
}

void PaddedLaunch::run_copies(const Buffers& buffers, void* workspace, Stream stream) {
  run_all(buffers, workspace, stream, false);
}

std::size_t PaddedLaunch::packed_bytes() const noexcept {
  return static_cast<std::size_t>(packed_copy_) + inner_->packed_bytes();
}

void PaddedLaunch::pack(const void* b, void* packed, Stream stream) {
  const void* filter = b;
  if (packed_copy_ > 0) {
    move(operands_.at[packable_].in, b, packed, stream);
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

void PaddedLaunch::run_all(const Buffers& buffers, void* workspace, Stream stream, bool compute) {
  std::array<std::byte*, Buffers::max_operands> copies;
  std::byte* place = static_cast<std::byte*>(workspace);
  for (std::size_t at = 0; at < copies.size(); ++at) {
    copies[at] = place;
    place += operands_.at[at].bytes;
  }
  Buffers inner = buffers;
  if (packed_copy_ > 0) {
    inner.operand[packable_] = buffers.packed;
    inner.packed = static_cast<const std::byte*>(buffers.packed) + packed_copy_;
  }
  for (std::int64_t call = 0; call < calls_; ++call) {
    try {
      run_item(buffers, inner, copies, place, call, stream, compute);
    } catch (const Error& error) {
      if (call > 0 && buffers.beta != 0) throw PartialResult(error.code(), error.what());
      throw;
    }
  }
}

void PaddedLaunch::run_item(const Buffers& buffers, Buffers& inner, std::span<std::byte* const> copies,
                            std::byte* place, std::int64_t call, Stream stream, bool compute) {
  for (std::size_t at = 0; at < copies.size(); ++at) {
    const CopiedOperand& one = operands_.at[at];
    if (!one.copied && !buffers.operand[at]) continue;
    if (at == packable_ && packed_copy_ > 0) continue;
    const void* const own = static_cast<const std::byte*>(buffers.operand[at]) + call * one.item_bytes;
    inner.operand[at] = one.copied ? copies[at] : own;
    if (!one.copied || (at == result_ && buffers.beta == 0)) continue;
    if (call == 0 || at == result_ || one.item_bytes != 0) move(one.in, own, copies[at], stream);
  }
  if (compute) inner_->run(inner, place, stream);
  const CopiedOperand& result = operands_.at[result_];
  if (!result.copied) return;
  auto* const own = static_cast<std::byte*>(const_cast<void*>(buffers.operand[result_]));
  move(result.back, copies[result_], own + call * result.item_bytes, stream);
}

std::unique_ptr<Launch> padded_launch(ProblemRef problem, const ExecutionForm& form,
                                      std::unique_ptr<Launch> inner, Memory& memory) {
  if (!form.padded() && form.calls == 1) return inner;
  return std::make_unique<PaddedLaunch>(problem, form, std::move(inner), memory);
}

}  // namespace kscout
