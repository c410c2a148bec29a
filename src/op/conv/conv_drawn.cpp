// Draws random convolutions with integers only.

#include <algorithm>
#include <iterator>
#include <tuple>
#include <unordered_set>
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

}  // namespace

std::vector<ConvProblem> random_convs(const ProblemSetRequest& request) {
  const std::size_t count = request.count ? request.count : 200;
  const double max_flops = std::min(1e9 * request.max_gflop, kMaxDrawnFlops),
               max_bytes = std::min(request.max_bytes, kMaxDrawnBytes);
  const std::uint64_t seed = request.seed_of(Op::conv_fwd);
  Generator random(seed), packing(~seed);  // two, so that packing changes no sizes
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

}  // namespace kscout
