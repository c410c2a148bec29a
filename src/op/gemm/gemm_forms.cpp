#include "op/gemm/gemm_forms.h"

#include <algorithm>

namespace kscout {

MatrixView view_a(const GemmProblem& p) noexcept {
  const bool row = row_major_a(p.layout);
  const std::int64_t ld = leading_dimensions(p).a;
  return {p.dtype_a, p.m, p.k, ld, ld * (row ? p.m : p.k), row};
}

MatrixView view_b(const GemmProblem& p) noexcept {
  const bool row = row_major_b(p.layout);
  const std::int64_t ld = leading_dimensions(p).b;
  return {p.dtype_b, p.k, p.n, ld, ld * (row ? p.k : p.n), row};
}

MatrixView view_c(const GemmProblem& p) noexcept {
  const std::int64_t ld = leading_dimensions(p).c;
  return {p.dtype_c, p.m, p.n, ld, ld * p.m, true};
}

CopiedOperands copied_operands(const GemmProblem& problem, const ExecutionForm& form) {
  const GemmProblem p = form.problem.gemm();
  CopiedOperands all{{copied_operand(view_a(problem), view_a(p), form.copied[kA], p.batch),
                      copied_operand(view_b(problem), view_b(p), form.copied[kB], p.batch),
                      copied_operand(view_c(problem), view_c(p), form.copied[kC], p.batch)}};
  const auto bias = [](const GemmProblem& of) { return MatrixView{of.dtype_c, 1, of.n, of.n, of.n, true}; };
  if (has_bias(problem.epilogue)) {
    all.at[3] = copied_operand(bias(problem), bias(p), p.n != problem.n, 1);
    all.at[3].item_bytes = 0;  // all items share one line
  }
  return all;
}

namespace {

/// The problem with sizes rounded up; operands with a changed shape (or all) are copied and packed.
ExecutionForm make_form(const GemmProblem& problem, std::int64_t m, std::int64_t n, std::int64_t k,
                        bool pack_all, bool single_items) {
  GemmProblem p = problem;
  ExecutionForm form;
  const bool new_m = m != p.m, new_n = n != p.n, new_k = k != p.k;
  p.m = m;
  p.n = n;
  p.k = k;
  const auto copy = [&](bool changed, std::int64_t& leading, bool& copies) {
    copies = changed || (pack_all && leading != 0);
    if (copies) leading = 0;
  };
  copy(new_m || new_k, p.lda, form.copied[kA]);
  copy(new_n || new_k, p.ldb, form.copied[kB]);
  copy(new_m || new_n, p.ldc, form.copied[kC]);
  if (single_items) {
    form.calls = p.batch;
    p.batch = 1;
  }
  form.problem = p;
  return with_copy_bytes(problem, form);
}

}  // namespace

void for_each_form(const GemmProblem& problem, const std::function<void(const ExecutionForm&)>& add) {
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
}

namespace {

/// Whether the lines of an operand begin at other addresses than multiples of 16 bytes.
bool is_unaligned(const MatrixView& view) noexcept {
  return view.lines() > 1 && view.leading * bytes_of(view.dtype) % 16 != 0;
}

}  // namespace

namespace {

/// Rounds sizes up until every line is of whole `grain_bytes`.
ExecutionForm widened(const GemmProblem& problem, std::int64_t grain_bytes) {
  ExecutionForm form;
  GemmProblem p = problem;
  const auto widen = [&](const MatrixView& view, std::int64_t& size, std::int64_t& leading) {
    if (!is_unaligned(view)) return false;
    size = round_up(view.length(), grain_bytes / bytes_of(view.dtype));
    leading = 0;
    return true;
  };
  const auto copy = [](bool copied, std::int64_t& leading, bool& copies) {
    copies |= copied;
    if (copies) leading = 0;
  };
  // A larger size can give another operand more lines, or lines without their gaps; until all are aligned.
  for (bool done = false; !done;) {
    const bool a = widen(view_a(p), row_major_a(p.layout) ? p.k : p.m, p.lda);
    const bool b = widen(view_b(p), row_major_b(p.layout) ? p.n : p.k, p.ldb);
    const bool c = widen(view_c(p), p.n, p.ldc);
    const bool new_m = p.m != problem.m, new_n = p.n != problem.n, new_k = p.k != problem.k;
    copy(a || new_m || new_k, p.lda, form.copied[kA]);
    copy(b || new_n || new_k, p.ldb, form.copied[kB]);
    copy(c || new_m || new_n, p.ldc, form.copied[kC]);
    done = !(a || b || c);
  }
  form.problem = p;
  return with_copy_bytes(problem, form);
}

/// Puts gaps behind the lines of A and B, up to whole `grain_bytes`.
ExecutionForm with_gaps(const GemmProblem& problem, std::int64_t grain_bytes) {
  ExecutionForm form;
  GemmProblem p = problem;
  const auto gap = [&](const MatrixView& view, std::int64_t& leading, bool& copies) {
    copies = is_unaligned(view);
    if (copies) leading = round_up(view.length(), grain_bytes / bytes_of(view.dtype));
  };
  gap(view_a(problem), p.lda, form.copied[kA]);
  gap(view_b(problem), p.ldb, form.copied[kB]);
  form.problem = p;
  return with_copy_bytes(problem, form);
}

}  // namespace

void for_each_aligned_form(const GemmProblem& problem, const std::function<void(const AlignedForm&)>& add) {
  const bool stores = is_unaligned(view_c(problem));
  if (!stores && !is_unaligned(view_a(problem)) && !is_unaligned(view_b(problem))) return;
  for (const std::int64_t grain_bytes : {128, 16}) {
    const ExecutionForm wide = widened(problem, grain_bytes);
    if (!stores) add({with_gaps(problem, grain_bytes), wide.problem});
    add({wide, wide.problem});
  }
}

}  // namespace kscout
