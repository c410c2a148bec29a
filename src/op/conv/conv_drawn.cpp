// Draws random convolutions with integers only, and lists those at the edges of what kernels support.

#include <algorithm>
#include <iterator>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/fail.h"
#include "op/conv/conv_sets.h"
#include "op/generator.h"

namespace kscout {

namespace {

/// Limits of a drawn problem where the request has none: a sweep must be able to measure it.
constexpr double kMaxDrawnFlops = 2e10, kMaxDrawnBytes = 1e9;

class ConvDraw {
 public:
  ConvDraw(Generator& random, DType dtype) : random_(random), p_(make_conv(Op::conv_fwd, dtype)) {}

  ConvProblem draw() {
    p_.n = random_.below(2) == 0 ? 1 : random_.by_octave(1, 64);
    const std::uint64_t kind = random_.below(20);
    const bool is_1d = kind == 18, is_3d = kind == 19;
    draw_sizes(is_1d, is_3d);
    draw_channels(kind);
    const bool is_pointwise = kind >= 6 && kind <= 9;
    if (is_3d) draw_axis(p_.d, p_.z, p_.stride_d, p_.dilation_d, p_.left_pad_d, p_.right_pad_d, 5, false);
    if (!is_1d)
      draw_axis(p_.h, p_.y, p_.stride_h, p_.dilation_h, p_.left_pad_h, p_.right_pad_h, 11, is_pointwise);
    const bool square = !is_1d && random_.below(10) < 7;
    if (square) {
      std::tie(p_.x, p_.stride_w, p_.dilation_w, p_.left_pad_w, p_.right_pad_w) =
          std::tie(p_.y, p_.stride_h, p_.dilation_h, p_.left_pad_h, p_.right_pad_h);
    } else {
      draw_axis(p_.w, p_.x, p_.stride_w, p_.dilation_w, p_.left_pad_w, p_.right_pad_w, is_1d ? 31 : 11,
                is_pointwise);
    }
    return p_;
  }

 private:
  void draw_sizes(bool is_1d, bool is_3d) {
    if (is_3d) {
      p_.layout = Layout::ndhwgc;
      p_.d = random_.by_octave(2, 32);
    }
    const std::int64_t largest = is_3d ? 128 : 512;
    p_.h = is_1d ? 1 : edge(largest);
    if (is_1d) {
      p_.w = random_.by_octave(1, 4096);
    } else {
      p_.w = random_.below(10) < 6 ? p_.h : edge(largest);
    }
  }

  /// Three in four as networks have them, the others log-uniform from 1 on.
  std::int64_t edge(std::int64_t largest) {
    return random_.below(4) != 0 ? random_.by_octave(7, largest) : random_.by_octave(1, largest);
  }
  std::int64_t channels() {
    return random_.below(4) != 0 ? random_.by_octave(2, 128) * 8 : random_.by_octave(1, 1024);
  }

  /// Dense for kinds 0 to 9, 16 and up; grouped for 10 to 12; depthwise for 13 to 15.
  void draw_channels(std::uint64_t kind) {
    std::int64_t c = channels(), k = channels();
    p_.g = 1;
    if (kind >= 10 && kind <= 12) {
      p_.g = random_.by_octave(2, 64);
      c = random_.by_octave(1, 128);
      k = random_.below(3) != 0 ? c : random_.by_octave(1, 128);
    } else if (kind >= 13 && kind <= 15) {
      p_.g = c;
      c = 1;
      k = random_.below(4) != 0 ? 1 : random_.between(2, 4);
    } else if (kind == 16) {
      c = random_.between(1, 4);  // the first layer of a network
    } else if (kind == 18 && random_.below(2) == 0) {
      p_.g = c;
      c = k = 1;
    }
    p_.c = p_.g * c;
    p_.k = p_.g * k;
  }

  void draw_axis(std::int64_t size, std::int64_t& filter, std::int64_t& stride, std::int64_t& dilation,
                 std::int64_t& left, std::int64_t& right, std::int64_t max_filter, bool is_pointwise) {
    constexpr std::int64_t kUsual[] = {1, 3, 3, 3, 5, 7};
    filter =
        random_.below(10) < 7 ? kUsual[random_.below(std::size(kUsual))] : random_.between(1, max_filter);
    filter = is_pointwise ? 1 : std::min(filter, max_filter);
    stride = random_.below(10) < 6 ? 1 : random_.below(4) != 0 ? 2 : random_.between(3, 4);
    dilation = filter == 1 || random_.below(10) < 8 ? 1 : random_.between(2, 4);
    const std::int64_t reach = (filter - 1) * dilation;
    const std::uint64_t pads = random_.below(10);
    if (pads < 7) {
      left = right = reach / 2;
    } else if (pads == 7) {
      left = right = 0;
    } else if (pads == 8) {
      left = random_.between(0, reach);
      right = random_.between(0, reach);
    } else {
      left = filter + random_.between(0, 1);
      right = random_.between(0, filter);
    }
    if (size + left + right <= reach) left = right = reach;  // the filter must fit
  }

  Generator& random_;
  ConvProblem p_;
};

/// One problem with equal sizes, strides and pads along h and w.
struct EdgeCase {
  std::int64_t c = 16, k = 16, g = 1, edge = 7, filter = 3, stride = 1, pad = 1, dilation = 1;
};

/// Lists each case for one and for three images. The filter of every fifth problem is packed once.
class EdgeCases {
 public:
  explicit EdgeCases(DType dtype) : dtype_(dtype) {}

  void add(const EdgeCase& one) { add(problem_of(one)); }
  void add(ConvProblem problem) {
    for (const std::int64_t images : {1, 3}) {
      problem.n = images;
      problem.prepacked = problems_.size() % 5 == 4;
      if (is_valid(problem)) problems_.push_back(problem);
    }
  }
  /// An image of height 1.
  void add_1d(std::int64_t c, std::int64_t k, std::int64_t g, std::int64_t width, std::int64_t filter,
              std::int64_t stride) {
    ConvProblem p = make_conv(Op::conv_fwd, dtype_);
    p.c = c, p.k = k, p.g = g, p.w = width, p.x = filter, p.stride_w = stride;
    p.left_pad_w = p.right_pad_w = filter / 2;
    add(p);
  }
  /// A filter that is not square, with strides and pads that differ along the axes and sides.
  void add_oblong(std::int64_t y, std::int64_t x) {
    ConvProblem p = make_conv(Op::conv_fwd, dtype_);
    p.c = 24, p.k = 20, p.h = p.w = 17, p.y = y, p.x = x, p.stride_w = 2;
    p.left_pad_h = y - 1, p.right_pad_w = x;
    add(p);
  }
  /// The same geometry along a third axis of 5.
  void add_3d(const EdgeCase& one) {
    ConvProblem p = problem_of(one);
    p.layout = Layout::ndhwgc;
    p.d = 5;
    p.z = one.filter;
    p.stride_d = one.stride;
    p.dilation_d = one.dilation;
    p.left_pad_d = p.right_pad_d = one.pad;
    add(p);
  }
  std::vector<ConvProblem> take() { return std::move(problems_); }

 private:
  ConvProblem problem_of(const EdgeCase& one) const {
    ConvProblem p = make_conv(Op::conv_fwd, dtype_);
    p.c = one.c, p.k = one.k, p.g = one.g;
    p.h = p.w = one.edge;
    p.y = p.x = one.filter;
    p.stride_h = p.stride_w = one.stride;
    p.dilation_h = p.dilation_w = one.dilation;
    p.left_pad_h = p.left_pad_w = p.right_pad_h = p.right_pad_w = one.pad;
    return p;
  }

  DType dtype_;
  std::vector<ConvProblem> problems_;
};

void add_odd_channels(EdgeCases& cases) {
  for (const std::int64_t c : {1, 3, 5, 17}) {
    for (const std::int64_t k : {1, 3, 7, 33}) {
      for (const std::int64_t g : {1, 3}) {
        cases.add({.c = c * g, .k = k * g, .g = g, .edge = 14});
        cases.add({.c = c * g, .k = k * g, .g = g, .edge = 9, .filter = 1, .pad = 0});
      }
      cases.add_3d({.c = c, .k = k, .edge = 5});
    }
  }
  for (const std::int64_t g : {2, 5, 7, 32, 64}) {
    for (const std::int64_t c : {1, 2, 4, 8, 12}) {
      for (const std::int64_t k : {1, 2, 3, 8}) cases.add({.c = c * g, .k = k * g, .g = g, .edge = 10});
    }
  }
  for (const std::int64_t multiplier : {2, 3, 4, 5}) {
    for (const std::int64_t g : {3, 16, 33}) {
      cases.add({.c = g, .k = multiplier * g, .g = g, .edge = 12});
      cases.add({.c = g, .k = multiplier * g, .g = g, .edge = 11, .filter = 5, .stride = 2, .pad = 2});
    }
  }
}

void add_filters(EdgeCases& cases) {
  for (const auto& [c, k] : {std::pair<std::int64_t, std::int64_t>{3, 8}, {16, 32}, {64, 5}}) {
    for (const std::int64_t filter : {1, 2, 3, 4, 6, 7, 11}) {
      cases.add({.c = c, .k = k, .edge = filter, .filter = filter, .pad = 0});  // one output
      cases.add({.c = c, .k = k, .edge = 13, .filter = filter, .pad = filter / 2});
      cases.add({.c = c, .k = k, .edge = 9, .filter = filter, .stride = 4, .pad = 0});
      for (const std::int64_t more : {0, 1, 4})
        cases.add({.c = c, .k = k, .edge = 6, .filter = filter, .pad = filter + more});
    }
    for (const std::int64_t stride : {2, 3, 5}) {
      for (const std::int64_t dilation : {1, 2, 3})
        cases.add({.c = c, .k = k, .edge = 19, .stride = stride, .pad = 2, .dilation = dilation});
      cases.add_3d({.c = c, .k = k, .edge = 8, .stride = stride});
      cases.add({.c = c, .k = k, .edge = 12, .filter = 1, .stride = stride, .pad = 0});
    }
  }
  for (const auto& [y, x] : {std::pair<std::int64_t, std::int64_t>{1, 7}, {7, 1}, {2, 5}, {4, 3}})
    cases.add_oblong(y, x);
}

void add_sizes(EdgeCases& cases) {
  for (const std::int64_t c : {1, 3, 4}) {  // large images, few channels
    for (const std::int64_t k : {1, 3, 8}) {
      cases.add({.c = c, .k = k, .edge = 511});
      cases.add({.c = c, .k = k, .edge = 384, .filter = 5, .stride = 2, .pad = 2});
    }
  }
  for (const std::int64_t c : {511, 1000, 2048}) {  // one pixel, many channels
    for (const std::int64_t k : {511, 1000, 2048})
      cases.add({.c = c, .k = k, .edge = 1, .filter = 1, .pad = 0});
    cases.add({.c = c, .k = 64, .edge = 1});
    cases.add({.c = c, .k = c, .g = c, .edge = 1});
    cases.add({.c = c, .k = c, .g = c, .edge = 3, .filter = 3, .pad = 0});
  }
  for (const std::int64_t width : {1, 15, 400, 4001}) {
    for (const std::int64_t filter : {1, 2, 3, 10, 31, 128}) {
      cases.add_1d(1, 32, 1, width, filter, 5);
      cases.add_1d(24, 40, 1, width, filter, 1);
      cases.add_1d(48, 48, 48, width, filter, 1);
      cases.add_1d(32, 32, 4, width, filter, 2);
    }
  }
}

}  // namespace

std::vector<ConvProblem> random_convs(const ConvSetRequest& request) {
  const std::size_t count = request.count ? request.count : 200;
  const double max_flops = std::min(1e9 * request.max_gflop, kMaxDrawnFlops),
               max_bytes = std::min(request.max_bytes, kMaxDrawnBytes);
  Generator random(request.seed), packing(~request.seed);  // two, so that packing changes no sizes
  std::vector<ConvProblem> problems;
  std::unordered_set<ConvProblem> seen;
  const std::size_t tries = 1000 + 200 * count;
  for (std::size_t i = 0; i < tries && problems.size() < count; ++i) {
    ConvProblem drawn = ConvDraw(random, request.dtype).draw();
    drawn.prepacked = packing.below(4) == 0;
    if (is_valid(drawn) && flop_count(drawn) <= max_flops && min_bytes(drawn) <= max_bytes &&
        seen.insert(drawn).second)
      problems.push_back(drawn);
  }
  if (problems.size() < count) {
    fail(Errc::invalid_argument,
         "conv_random: {} of {} problems found in {} draws; raise the limits on flops and bytes or ask for "
         "fewer",
         problems.size(), count, tries);
  }
  return problems;
}

ConvProblem in_direction(ConvProblem problem, Op direction) noexcept {
  problem.op = direction;
  problem.prepacked = problem.prepacked && direction != Op::conv_bwd_weight;
  return problem;
}

std::vector<ConvProblem> with_packing(std::span<const ConvProblem> problems, Packing packing) {
  std::vector<ConvProblem> packed;
  for (ConvProblem problem : problems) {
    const bool reads_filter = problem.op != Op::conv_bwd_weight;
    const bool twice = packing == Packing::both && reads_filter;
    problem.prepacked = packing == Packing::once && reads_filter;
    if (twice) problem.weight /= 2;
    packed.push_back(problem);
    problem.prepacked = true;
    if (twice) packed.push_back(problem);
  }
  return packed;
}

std::vector<ConvProblem> edge_convs(DType dtype) {
  EdgeCases cases(dtype);
  add_odd_channels(cases);
  add_filters(cases);
  add_sizes(cases);
  return cases.take();
}

}  // namespace kscout
