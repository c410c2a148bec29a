#include "dispatch/padding.h"

#include <algorithm>
#include <tuple>

#include "core/fail.h"
#include "measure/operands.h"

namespace kscout {

namespace {

constexpr std::int64_t kGrains[] = {2, 4, 8, 16, 32, 64, 128, 256};
constexpr std::size_t kPartAlignment = 256;

std::int64_t round_up(std::int64_t value, std::int64_t grain) { return (value + grain - 1) / grain * grain; }

bool whole_bytes(const GemmProblem& p) {
  return std::ranges::all_of(std::initializer_list<DType>{p.dtype_a, p.dtype_b, p.dtype_c},
                             [](DType dtype) { return bytes_per_element(dtype) >= 1; });
}

double view_bytes(const MatrixView& view) {
  return static_cast<double>(view.rows) * static_cast<double>(view.columns) * bytes_per_element(view.dtype);
}

/// Bytes that the copies of one run read and write.
double copy_bytes(const GemmProblem& problem, const ExecutionForm& form) {
  double bytes = 0;
  const auto moves = [&](const MatrixView& from, const MatrixView& to) {
    bytes += view_bytes(from) + view_bytes(to);
  };
  if (form.copies_a) moves(view_a(problem), view_a(form.problem));
  if (form.copies_b) moves(view_b(problem), view_b(form.problem));
  if (form.copies_c) bytes += 2 * view_bytes(view_c(problem));  // copied back: only the requested part
  if (form.copies_c && problem.accumulate) moves(view_c(problem), view_c(form.problem));
  return bytes * static_cast<double>(problem.batch);
}

/// The problem with sizes rounded up; operands with a changed shape (or all) are copied and packed.
ExecutionForm make_form(const GemmProblem& problem, std::int64_t m, std::int64_t n, std::int64_t k,
                        bool pack_all, bool single_items) {
  ExecutionForm form = direct_form(problem);
  GemmProblem& p = form.problem;
  const bool new_m = m != p.m, new_n = n != p.n, new_k = k != p.k;
  p.m = m;
  p.n = n;
  p.k = k;
  const auto copy = [&](bool changed, std::int64_t& leading, bool& copies) {
    copies = changed || (pack_all && leading != 0);
    if (copies) leading = 0;
  };
  copy(new_m || new_k, p.lda, form.copies_a);
  copy(new_n || new_k, p.ldb, form.copies_b);
  copy(new_m || new_n, p.ldc, form.copies_c);
  if (single_items) {
    form.calls = p.batch;
    p.batch = 1;
  }
  form.copy_bytes = copy_bytes(problem, form);
  return form;
}

MatrixCopy copy_of(const MatrixView& from, const MatrixView& to, std::int64_t items) {
  const auto bytes = static_cast<std::int64_t>(bytes_per_element(from.dtype));
  return {.from = nullptr,
          .to = nullptr,
          .lines = from.lines(),
          .line_bytes = from.length() * bytes,
          .to_lines = to.lines(),
          .to_line_bytes = to.length() * bytes,
          .from_pitch = from.leading * bytes,
          .to_pitch = to.leading * bytes,
          .items = items,
          .from_item = from.batch_stride * bytes,
          .to_item = to.batch_stride * bytes};
}

/// The copy from the padded matrix to the caller's.
MatrixCopy copy_back(const MatrixCopy& in) {
  MatrixCopy out = in;
  out.to_lines = in.lines;
  out.to_line_bytes = in.line_bytes;
  std::swap(out.from_pitch, out.to_pitch);
  std::swap(out.from_item, out.to_item);
  return out;
}

}  // namespace

ExecutionForm direct_form(const GemmProblem& problem) {
  ExecutionForm form;
  form.problem = problem;
  return form;
}

std::vector<ExecutionForm> padded_forms(const GemmProblem& problem) {
  std::vector<ExecutionForm> forms;
  if (!whole_bytes(problem)) return forms;
  const auto add = [&](const ExecutionForm& form) {
    const auto same = [&](const ExecutionForm& other) { return other.problem == form.problem; };
    if (form.problem == problem || std::ranges::any_of(forms, same)) return;
    forms.push_back(form);
  };
  const std::initializer_list<bool> both = {false, true};
  for (const bool single_items : both) {
    if (single_items && problem.batch == 1) continue;
    for (const bool pack_all : both) {
      add(make_form(problem, problem.m, problem.n, problem.k, pack_all, single_items));
      for (const std::int64_t grain : kGrains) {
        for (int sizes = 1; sizes < 8; ++sizes) {
          const auto size = [&](int bit, std::int64_t now) {
            return (sizes & bit) != 0 ? round_up(std::max<std::int64_t>(now, 1), grain) : now;
          };
          add(make_form(problem, size(1, problem.m), size(2, problem.n), size(4, problem.k), pack_all,
                        single_items));
        }
      }
    }
  }
  std::ranges::stable_sort(forms, {}, [](const ExecutionForm& form) {
    return std::tuple(form.calls, flop_count(form.problem), form.copy_bytes);
  });
  return forms;
}

PaddedLaunch::PaddedLaunch(const GemmProblem& problem, const ExecutionForm& form,
                           std::unique_ptr<Launch> inner, Memory& memory)
    : calls_(form.calls), inner_(std::move(inner)), memory_(memory) {
  const auto place = [&](Part& part, bool copied, const MatrixView& from, const MatrixView& to) {
    part.in = copy_of(from, to, form.problem.batch);
    part.item_bytes = part.in.from_item;
    part.copied = copied;
    part.offset = copies_bytes_;
    if (!copied) return;
    const auto bytes = static_cast<std::size_t>(part.in.to_item * form.problem.batch);
    copies_bytes_ += (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  };
  place(a_, form.copies_a, view_a(problem), view_a(form.problem));
  place(b_, form.copies_b, view_b(problem), view_b(form.problem));
  place(c_, form.copies_c, view_c(problem), view_c(form.problem));
  const auto bias_view = [](const GemmProblem& p) { return MatrixView{p.dtype_c, 1, p.n, p.n, p.n, true}; };
  if (has_bias(problem.epilogue) && form.problem.n != problem.n) {
    place(bias_, true, bias_view(problem), bias_view(form.problem));
    bias_.in.items = 1;  // all items share one line
  }
}

std::size_t PaddedLaunch::workspace_bytes() const noexcept {
  return copies_bytes_ + inner_->workspace_bytes();
}

void PaddedLaunch::run(const GemmBuffers& buffers, void* workspace, Stream stream) {
  run_all(buffers, workspace, stream, true);
}

void PaddedLaunch::run_copies(const GemmBuffers& buffers, void* workspace, Stream stream) {
  run_all(buffers, workspace, stream, false);
}

void PaddedLaunch::run_all(const GemmBuffers& buffers, void* workspace, Stream stream, bool compute) {
  auto* const base = static_cast<std::byte*>(workspace);
  const auto move = [&](const MatrixCopy& how, const void* from, void* to) {
    MatrixCopy copy = how;
    copy.from = from;
    copy.to = to;
    memory_.copy(copy, stream);
  };
  const auto copied_in = [&](const Part& part, const void* operand) -> const void* {
    if (!part.copied) return operand;
    move(part.in, operand, base + part.offset);
    return base + part.offset;
  };
  GemmBuffers inner = buffers;
  inner.bias = copied_in(bias_, buffers.bias);
  for (std::int64_t call = 0; call < calls_; ++call) {
    inner.a = copied_in(a_, static_cast<const std::byte*>(buffers.a) + call * a_.item_bytes);
    inner.b = copied_in(b_, static_cast<const std::byte*>(buffers.b) + call * b_.item_bytes);
    auto* const c = static_cast<std::byte*>(buffers.c) + call * c_.item_bytes;
    inner.c = c_.copied ? base + c_.offset : c;
    if (c_.copied && buffers.beta != 0) move(c_.in, c, inner.c);
    if (compute) inner_->run(inner, base + copies_bytes_, stream);
    if (c_.copied) move(copy_back(c_.in), inner.c, c);
  }
}

std::unique_ptr<Launch> padded_launch(const GemmProblem& problem, const ExecutionForm& form,
                                      std::unique_ptr<Launch> inner, Memory& memory) {
  if (!form.padded() && form.calls == 1) return inner;
  return std::make_unique<PaddedLaunch>(problem, form, std::move(inner), memory);
}

}  // namespace kscout
