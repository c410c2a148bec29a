#include "evaluate/backward_check.h"

#include <algorithm>
#include <numeric>

#include <kscout/family.h>

#include "core/fail.h"

namespace kscout {

namespace {

/// Square images and filters.
struct Shape {
  std::int64_t n, c, k, image, filter, stride, pad;
};
constexpr Shape kDataShapes[] = {{32, 1, 1, 5, 3, 1, 0},
                                 {64, 1, 1, 5, 3, 1, 0},
                                 {128, 256, 128, 32, 3, 1, 1},
                                 {2, 128, 256, 32, 3, 1, 1},
                                 {2, 256, 256, 14, 1, 1, 0}};
constexpr Shape kWeightShapes[] = {{1, 64, 64, 7, 1, 1, 0},       {2, 64, 128, 14, 1, 1, 0},
                                   {8, 128, 128, 28, 3, 1, 1},    {16, 128, 256, 14, 3, 1, 1},
                                   {32, 256, 512, 28, 3, 1, 1},   {64, 512, 1024, 14, 3, 2, 1},
                                   {128, 1024, 2048, 28, 5, 1, 2}};
ConvProblem problem_of(const Shape& s, Op op, DType dtype) {
  ConvProblem p = make_conv(op, dtype, Layout::nhwgc);
  p.n = s.n, p.c = s.c, p.k = s.k;
  p.h = p.w = s.image;
  p.y = p.x = s.filter;
  p.stride_h = p.stride_w = s.stride;
  p.left_pad_h = p.left_pad_w = p.right_pad_h = p.right_pad_w = s.pad;
  return p;
}

/// Six tiles with compv3 and mem: those of rule set `first` that stage 64 of K.
ConfigTable kernels(const Model& model) {
  return enumerate({.provider = std::string(model.provider()),
                    .signature = model.data().families.front().signature,
                    .device = model.device(),
                    .rules = "first",
                    .filter = "c.tile_k == 64"})
      .configs;
}

}  // namespace

BackwardCheck check_backward(const Model& model) {
  const Family& family = model.data().families.front();
  const Op op = family.configs.space().op;
  if (model.provider() != "ck_tile" || (op != Op::conv_bwd_data && op != Op::conv_bwd_weight)) {
    fail(Errc::invalid_argument,
         "the backward check asks models of ck_tile's conv_bwd_data or conv_bwd_weight; this one is of {} {}",
         model.provider(), word(op));
  }
  const DType dtype = family.signature.dtype_a;
  const ConfigTable configs = kernels(model);
  if (configs.size() < BackwardCheck::shown) {
    fail(Errc::unsupported,
         "rule set 'first' has {} kernels of {} with tile_k 64 on {}; the check asks for {}", configs.size(),
         word(family.signature.dtype_a), model.device().name, BackwardCheck::shown);
  }
  const std::span<const Shape> shapes =
      op == Op::conv_bwd_data ? std::span<const Shape>(kDataShapes) : kWeightShapes;
  BackwardCheck check;
  for (const Shape& shape : shapes) {
    const ConvProblem problem = problem_of(shape, op, dtype);
    const auto tflops = model.predicted_tflops(problem, model.score_configs(problem, configs));
    std::vector<std::size_t> order(tflops.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return tflops[i]; });
    BackwardCheck::Line& line = check.lines.emplace_back();
    line.problem = problem;
    for (std::size_t i = 0; i < BackwardCheck::shown; ++i) {
      line.best.push_back(configs[order[i]]);
      line.tflops.push_back(tflops[order[i]]);
    }
    line.gap = line.tflops.front() > 0 ? 1 - line.tflops.back() / line.tflops.front() : 0;
    const Axis& pipeline = configs.space().axes[configs.space().axis_index("pipeline")];
    ++check.pipelines[axis_value_text(pipeline, line.best.front()["pipeline"])];
  }
  const auto count = static_cast<double>(check.lines.size());
  check.least = check.most = check.lines.front().tflops.front();
  for (const auto& line : check.lines) {
    check.mean += line.tflops.front() / count;
    check.mean_gap += line.gap / count;
    check.least = std::min(check.least, line.tflops.front());
    check.most = std::max(check.most, line.tflops.front());
  }
  return check;
}

}  // namespace kscout
