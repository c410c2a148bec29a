#include "dispatch/padding.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/fail.h"
#include "measure/operands.h"

namespace kscout {

namespace {

constexpr std::int64_t kGrains[] = {2, 4, 8, 16, 32, 64, 128, 256};
constexpr std::int64_t kPartAlignment = 256;

std::int64_t round_up(std::int64_t value, std::int64_t grain) { return (value + grain - 1) / grain * grain; }

bool whole_bytes(const Signature& types) {
  return std::ranges::all_of(std::initializer_list<DType>{types.dtype_a, types.dtype_b, types.dtype_c},
                             [](DType dtype) { return bytes_per_element(dtype) >= 1; });
}

std::int64_t bytes_of(DType dtype) { return static_cast<std::int64_t>(bytes_per_element(dtype)); }

// ---- Copies of operands.

/// Copies the elements that both views have, and fills the rest of `to` with zeros.
OperandCopy copy_of(const MatrixView& from, const MatrixView& to, std::int64_t items) {
  const std::int64_t bytes = bytes_of(from.dtype);
  const bool transposed = from.row_major != to.row_major;
  const std::int64_t lines = std::min(from.lines(), transposed ? to.length() : to.lines());
  const std::int64_t length = std::min(from.length(), transposed ? to.lines() : to.length());
  return {.copy = {.from = nullptr,
                   .to = nullptr,
                   .lines = lines,
                   .line_bytes = length * bytes,
                   .to_lines = to.lines(),
                   .to_line_bytes = to.length() * bytes,
                   .from_pitch = from.leading * bytes,
                   .to_pitch = to.leading * bytes,
                   .items = items,
                   .from_item = from.batch_stride * bytes,
                   .to_item = to.batch_stride * bytes},
          .element_bytes = transposed ? bytes : 0};
}

CopiedOperand copied_operand(const MatrixView& from, const MatrixView& to, bool copied, std::int64_t items) {
  const std::int64_t bytes = bytes_of(from.dtype);
  return {.copied = copied,
          .in = copy_of(from, to, items),
          .back = copy_of(to, from, items),
          .bytes = to.batch_stride * items * bytes,
          .item_bytes = from.batch_stride * bytes};
}

CopiedOperands copied_operands(const GemmProblem& problem, const ExecutionForm& form) {
  const GemmProblem& p = form.problem.gemm();
  CopiedOperands all{.a = copied_operand(view_a(problem), view_a(p), form.copies_a, p.batch),
                     .b = copied_operand(view_b(problem), view_b(p), form.copies_b, p.batch),
                     .c = copied_operand(view_c(problem), view_c(p), form.copies_c, p.batch)};
  const auto bias = [](const GemmProblem& of) { return MatrixView{of.dtype_c, 1, of.n, of.n, of.n, true}; };
  if (has_bias(problem.epilogue))  // all items share one line
    all.bias = copied_operand(bias(problem), bias(p), p.n != problem.n, 1);
  return all;
}

/// An image of a convolution: per image and group, a matrix (channels, pixels).
struct Image {
  DType dtype;
  std::int64_t images, groups, channels, pixels;
  bool channels_last;

  std::int64_t elements() const { return images * groups * channels * pixels; }
  /// The matrices of one group, or of all groups as one.
  MatrixView view(std::int64_t of_groups) const {
    const std::int64_t all = groups * channels;
    return {dtype, of_groups * channels, pixels, channels_last ? all : pixels, all * pixels, !channels_last};
  }
  /// Elements from group to group.
  std::int64_t group_stride() const { return channels_last ? channels : channels * pixels; }
};

bool is_channels_last(Layout layout) { return layout == Layout::nhwgc || layout == Layout::ndhwgc; }

Image input_of(const ConvProblem& p) {
  return {p.dtype_in, p.n, p.g, p.c / p.g, p.d * p.h * p.w, is_channels_last(p.layout)};
}
Image output_of(const ConvProblem& p) {
  const ConvOutput o = output_sizes(p);
  return {p.dtype_out, p.n, p.g, p.k / p.g, o.d * o.h * o.w, is_channels_last(p.layout)};
}
/// The filter of one group, as a row for each output channel and position.
MatrixView filter_of(const ConvProblem& p) {
  const std::int64_t rows = p.k / p.g * p.z * p.y * p.x, columns = p.c / p.g;
  return {p.dtype_wei, rows, columns, columns, rows * columns, true};
}

bool is_same_memory(const Image& one, const Image& other) {
  const bool one_order = one.pixels == 1 || one.groups * one.channels == 1;
  return one.channels == other.channels && (one_order || one.channels_last == other.channels_last);
}

OperandCopy copy_of(const Image& from, const Image& to) {
  if (from.channels_last == to.channels_last && from.channels_last) {  // every group of a pixel is a line
    const auto lines = [](const Image& of) {
      const std::int64_t rows = of.images * of.pixels * of.groups;
      return MatrixView{of.dtype, rows, of.channels, of.channels, of.elements(), true};
    };
    return copy_of(lines(from), lines(to), 1);
  }
  if (from.channels_last == to.channels_last) {  // the groups of all images lie one after the other
    const auto planes = [](const Image& of) {
      return MatrixView{of.dtype, of.channels, of.pixels, of.pixels, of.channels * of.pixels, true};
    };
    return copy_of(planes(from), planes(to), from.images * from.groups);
  }
  const std::int64_t together = from.channels == to.channels ? from.groups : 1;
  OperandCopy one = copy_of(from.view(together), to.view(together), from.images);
  one.repeats = from.groups / together;
  one.from_step = from.group_stride() * bytes_of(from.dtype);
  one.to_step = to.group_stride() * bytes_of(to.dtype);
  return one;
}

CopiedOperand copied_operand(const Image& from, const Image& to) {
  return {.copied = !is_same_memory(from, to),
          .in = copy_of(from, to),
          .back = copy_of(to, from),
          .bytes = to.elements() * bytes_of(to.dtype)};
}

CopiedOperands copied_operands(const ConvProblem& problem, const ExecutionForm& form) {
  const ConvProblem& p = form.problem.conv();
  const bool other_filter = p.c != problem.c || p.k != problem.k;
  const auto [a, b, c] = by_operand(p.op, copied_operand(input_of(problem), input_of(p)),
                                    copied_operand(filter_of(problem), filter_of(p), other_filter, p.g),
                                    copied_operand(output_of(problem), output_of(p)));
  return {.a = a, .b = b, .c = c, .bias = {}};
}

CopiedOperands copied_operands(ProblemRef problem, const ExecutionForm& form) {
  return problem.visit([&](const auto& of) { return copied_operands(of, form); });
}

/// Bytes that a copy reads and writes.
double bytes_moved(const OperandCopy& how) {
  const MatrixCopy& one = how.copy;
  const auto area = [](std::int64_t lines, std::int64_t bytes) {
    return static_cast<double>(lines) * static_cast<double>(bytes);
  };
  return (area(one.lines, one.line_bytes) + area(one.to_lines, one.to_line_bytes)) *
         static_cast<double>(one.items * how.repeats);
}

bool is_prepacked(ProblemRef problem) { return problem.conv() && problem.conv()->prepacked; }

// ---- Forms.

/// Sets the bytes that the copies of one run read and write.
ExecutionForm with_copy_bytes(ProblemRef problem, ExecutionForm form) {
  const CopiedOperands all = copied_operands(problem, form);
  const auto add = [&](bool copied, const OperandCopy& how) {
    if (copied) form.copy_bytes += bytes_moved(how) * static_cast<double>(form.calls);
  };
  add(form.copies_a, all.a.in);
  add(form.copies_b && !is_prepacked(problem), all.b.in);
  add(form.copies_c, all.c.back);
  add(form.copies_c && signature_of(problem).accumulate, all.c.in);
  return form;
}

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
  copy(new_m || new_k, p.lda, form.copies_a);
  copy(new_n || new_k, p.ldb, form.copies_b);
  copy(new_m || new_n, p.ldc, form.copies_c);
  if (single_items) {
    form.calls = p.batch;
    p.batch = 1;
  }
  form.problem = p;
  return with_copy_bytes(problem, form);
}

/// The problem in a layout, with channels per group rounded up.
ExecutionForm make_form(const ConvProblem& problem, Layout layout, std::int64_t c_of_group,
                        std::int64_t k_of_group) {
  ConvProblem p = problem;
  p.layout = layout;
  p.c = p.g * c_of_group;
  p.k = p.g * k_of_group;
  ExecutionForm form{.problem = p};
  const CopiedOperands all = copied_operands(problem, form);
  form.copies_a = all.a.copied;
  form.copies_b = all.b.copied;
  form.copies_c = all.c.copied;
  return with_copy_bytes(problem, form);
}

/// Calls `add(form)` for the forms of a problem, some of them several times.
template <class Add>
void for_each_form(const GemmProblem& problem, MemoryKind, Add&& add) {
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

Layout other_layout(Layout layout) {
  switch (layout) {
    case Layout::nhwgc:
      return Layout::ngchw;
    case Layout::ngchw:
      return Layout::nhwgc;
    case Layout::ndhwgc:
      return Layout::ngcdhw;
    default:
      return Layout::ndhwgc;
  }
}

template <class Add>
void for_each_form(const ConvProblem& problem, MemoryKind memory, Add&& add) {
  const std::int64_t c = problem.c / problem.g, k = problem.k / problem.g;
  std::vector<Layout> layouts = {problem.layout};
  if (memory == MemoryKind::host) layouts.push_back(other_layout(problem.layout));
  for (const Layout layout : layouts) {
    add(make_form(problem, layout, c, k));
    for (const std::int64_t grain : kGrains) {
      add(make_form(problem, layout, round_up(c, grain), k));
      add(make_form(problem, layout, c, round_up(k, grain)));
      add(make_form(problem, layout, round_up(c, grain), round_up(k, grain)));
    }
  }
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
    if (form.problem.visit([](const auto& of) { return is_valid(of); })) forms.push_back(form);
  };
  problem.visit([&](const auto& of) { for_each_form(of, memory, add); });
  std::ranges::stable_sort(forms, {}, [](const ExecutionForm& form) {
    return std::tuple(form.calls, flop_count(form.problem), form.copy_bytes);
  });
  return forms;
}

PaddedLaunch::PaddedLaunch(ProblemRef problem, const ExecutionForm& form, std::unique_ptr<Launch> inner,
                           Memory& memory)
    : operands_(copied_operands(problem, form)),
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
