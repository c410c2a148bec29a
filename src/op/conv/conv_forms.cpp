#include "op/conv/conv_forms.h"

#include <algorithm>
#include <vector>

namespace kscout {

namespace {

/// An image of a convolution: per image and group, a matrix (channels, pixels).
struct ImageTensor {
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

ImageTensor input_of(const ConvProblem& p) {
  return {p.dtype_in, p.n, p.g, p.c / p.g, p.d * p.h * p.w, is_channels_last(p.layout)};
}
ImageTensor output_of(const ConvProblem& p) {
  const ConvOutput o = output_sizes(p);
  return {p.dtype_out, p.n, p.g, p.k / p.g, o.d * o.h * o.w, is_channels_last(p.layout)};
}
/// The filter of one group, as a row for each output channel and position.
MatrixView filter_of(const ConvProblem& p) {
  const std::int64_t rows = p.k / p.g * p.z * p.y * p.x, columns = p.c / p.g;
  return {p.dtype_wei, rows, columns, columns, rows * columns, true};
}

bool is_same_memory(const ImageTensor& one, const ImageTensor& other) {
  const bool one_order = one.pixels == 1 || one.groups * one.channels == 1;
  return one.channels == other.channels && (one_order || one.channels_last == other.channels_last);
}

OperandCopy copy_of(const ImageTensor& from, const ImageTensor& to) {
  if (from.channels_last == to.channels_last && from.channels_last) {  // every group of a pixel is a line
    const auto lines = [](const ImageTensor& of) {
      const std::int64_t rows = of.images * of.pixels * of.groups;
      return MatrixView{of.dtype, rows, of.channels, of.channels, of.elements(), true};
    };
    return copy_of(lines(from), lines(to), 1);
  }
  if (from.channels_last == to.channels_last) {  // the groups of all images lie one after the other
    const auto planes = [](const ImageTensor& of) {
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

CopiedOperand copied_operand(const ImageTensor& from, const ImageTensor& to) {
  return {.copied = !is_same_memory(from, to),
          .in = copy_of(from, to),
          .back = copy_of(to, from),
          .bytes = to.elements() * bytes_of(to.dtype)};
}

}  // namespace

CopiedOperands copied_operands(const ConvProblem& problem, const ExecutionForm& form) {
  const ConvProblem p = form.problem.conv();
  const bool other_filter = p.c != problem.c || p.k != problem.k;
  const auto [a, b, c] = by_operand(p.op, copied_operand(input_of(problem), input_of(p)),
                                    copied_operand(filter_of(problem), filter_of(p), other_filter, p.g),
                                    copied_operand(output_of(problem), output_of(p)));
  return {{a, b, c}};
}

namespace {

/// The problem in a layout, with channels per group rounded up.
ExecutionForm make_form(const ConvProblem& problem, Layout layout, std::int64_t c_of_group,
                        std::int64_t k_of_group) {
  ConvProblem p = problem;
  p.layout = layout;
  p.c = p.g * c_of_group;
  p.k = p.g * k_of_group;
  ExecutionForm form{.problem = p};
  const CopiedOperands all = copied_operands(problem, form);
  for (std::size_t at = 0; at < all.at.size(); ++at) form.copied[at] = all.at[at].copied;
  return with_copy_bytes(problem, form);
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

}  // namespace

void for_each_form(const ConvProblem& problem, MemoryKind memory,
                   const std::function<void(const ExecutionForm&)>& add) {
  const std::int64_t c = problem.c / problem.g, k = problem.k / problem.g;
  std::vector<Layout> layouts = {problem.layout};
  if (memory == MemoryKind::host) layouts.push_back(other_layout(problem.layout));
  for (const Layout layout : layouts) {
    add(make_form(problem, layout, c, k));
    for (const std::int64_t grain : kGrains) {
      add(make_form(problem, layout, round_up(c, grain), k));
      if (has_bias(problem.epilogue)) continue;
      add(make_form(problem, layout, c, round_up(k, grain)));
      add(make_form(problem, layout, round_up(c, grain), round_up(k, grain)));
    }
  }
}

}  // namespace kscout
