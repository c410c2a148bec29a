// Makes the sets of convolutions: those of families/conv_sets.toml, and those of code.

#include "op/conv/conv_sets.h"

#include <algorithm>

#include "core/fail.h"
#include "core/files.h"
#include "core/names.h"
#include "op/grid_sets.h"

namespace kscout {
namespace {

/// Sets of sizes that a grid names together; a single size has its field's name.
struct GridName {
  std::string_view name;
  std::vector<std::int64_t ConvProblem::*> fields;
};

std::span<const GridName> grid_names() {
  using C = ConvProblem;
  static const GridName names[] = {
      {"ck", {&C::c, &C::k}},
      {"ckg", {&C::c, &C::k, &C::g}},
      {"hw", {&C::h, &C::w}},
      {"yx", {&C::y, &C::x}},
      {"zyx", {&C::z, &C::y, &C::x}},
      {"stride", {&C::stride_h, &C::stride_w}},
      {"dilation", {&C::dilation_h, &C::dilation_w}},
      {"pad", {&C::left_pad_h, &C::right_pad_h, &C::left_pad_w, &C::right_pad_w}},
      {"pad_d", {&C::left_pad_d, &C::right_pad_d}},
      {"pad_h", {&C::left_pad_h, &C::right_pad_h}},
      {"pad_w", {&C::left_pad_w, &C::right_pad_w}},
  };
  return names;
}

void assign(ConvProblem& problem, std::string_view name, std::int64_t value) {
  const auto known = std::ranges::find(grid_names(), name, &GridName::name);
  if (known != grid_names().end()) {
    for (const auto field : known->fields) problem.*field = value;
    return;
  }
  bool found = false;
  for_each_field<ConvProblem>([&](const auto& field) {
    if constexpr (std::is_same_v<typename std::remove_cvref_t<decltype(field)>::value, std::int64_t>) {
      if (field.name != name) return;
      problem.*field.member = value;
      found = true;
    }
  });
  if (!found) fail(Errc::corrupt_data, "'{}' is no size of a convolution", name);
}

/// Gives a volume its layout, and a grid without pads those that keep the size at stride 1.
ConvProblem completed(ConvProblem p, std::string_view grid) {
  if (p.d > 1 || p.z > 1) p.layout = Layout::ndhwgc;
  if (grid.find("pad") != std::string_view::npos) return p;
  p.left_pad_d = p.right_pad_d = p.dilation_d * (p.z - 1) / 2;
  p.left_pad_h = p.right_pad_h = p.dilation_h * (p.y - 1) / 2;
  p.left_pad_w = p.right_pad_w = p.dilation_w * (p.x - 1) / 2;
  return p;
}

const GridSets& grid_sets() {
  static const GridSets sets("families/conv_sets.toml");
  return sets;
}

std::vector<ConvProblem> convs_of_grids(std::string_view name, DType dtype) {
  const std::string& op = grid_sets().named(name).op;
  std::vector<ConvProblem> problems;
  grid_sets().each(
      name, make_conv(op.empty() ? Op::conv_fwd : parse<Op>(op), dtype), assign,
      [&](const ConvProblem& p, std::string_view grid) { problems.push_back(completed(p, grid)); });
  return problems;
}

constexpr std::string_view kLayersFile = "families/conv_layers.txt";

std::vector<ConvProblem> layers_of_networks(DType dtype) {
  auto layers = parse_problems_of<ConvProblem>(embedded_file(kLayersFile), kLayersFile, dtype);
  for (ConvProblem& layer : layers)
    layer.layout = layer.d > 1 || layer.z > 1 ? Layout::ndhwgc : Layout::nhwgc;
  return layers;
}

/// The filter of every fifth problem is packed once.
std::vector<ConvProblem> edge_convs(DType dtype) {
  auto problems = convs_of_grids("edges", dtype);
  std::erase_if(problems, [](const ConvProblem& problem) { return !is_valid(problem); });
  for (std::size_t i = 4; i < problems.size(); i += 5) problems[i].prepacked = true;
  return problems;
}

using Make = std::vector<ConvProblem> (*)(const ProblemSetRequest&);
struct NamedSet {
  ProblemSetInfo info;
  Make make;
  bool weighted = false;  ///< a repeated shape is called more often; otherwise it means nothing
};

const NamedSet kSets[] = {
    {{"conv_networks",
      "layers of public networks for 1, 8 and 32 images, weighted by calls (families/conv_networks.toml)"},
     [](const ProblemSetRequest& of) { return convs_of_networks(of.dtype, of.models); },
     true},
    {{"conv_layers",
      "layers of 1,048 public networks, one of each channels, groups and filter, weighted by calls "
      "(families/conv_layers.txt)"},
     [](const ProblemSetRequest& of) { return layers_of_networks(of.dtype); },
     true},
    {{"conv_random",
      "log-random sizes, seeded: dense, grouped, depthwise, 1-D, 3-D; any stride, dilation and pad",
      /*makes_count=*/true},
     random_convs},
    {{"conv_edge",
      "edge cases: odd channels, filters of the image's size, wide pads, one pixel, 1-D, multipliers"},
     [](const ProblemSetRequest& of) { return edge_convs(of.dtype); }},
};

/// The set of code with this name; null for one of grids. Throws invalid_argument for an unknown name.
const NamedSet* set_of_code(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ProblemSetInfo& set : conv_sets()) names.push_back(set.name);
  index_of_word("problem set", name, names);
  const auto found = std::ranges::find(kSets, name, [](const NamedSet& set) { return set.info.name; });
  return found == std::end(kSets) ? nullptr : found;
}

}  // namespace

std::span<const ProblemSetInfo> conv_sets() noexcept {
  static const auto infos = [] {
    std::vector<ProblemSetInfo> all(grid_sets().infos().begin(), grid_sets().infos().end());
    for (const NamedSet& set : kSets) all.push_back(set.info);
    return all;
  }();
  return infos;
}

std::vector<ConvProblem> in_layouts(std::vector<ConvProblem> problems, std::span<const Layout> layouts) {
  if (layouts.empty()) return problems;
  for (const Layout layout : layouts) {
    if (is_gemm_layout(layout))
      fail(Errc::invalid_argument, "layout {}: is a layout of GEMMs; convolutions have {}", word(layout),
           fmt::join(std::span(EnumWords<Layout>::words).subspan(kGemmLayouts), ", "));
  }
  std::vector<ConvProblem> laid_out;
  for (ConvProblem& problem : problems) {
    const int axes = spatial_rank(problem.layout);
    for (const Layout layout : layouts) {
      if (spatial_rank(layout) != axes) continue;
      problem.layout = layout;
      laid_out.push_back(problem);
    }
  }
  if (laid_out.empty() && !problems.empty()) {
    std::vector<std::string_view> words;
    for (const Layout layout : layouts) words.push_back(word(layout));
    fail(Errc::invalid_argument, "none of {} convolutions has as many axes as --layout {}", problems.size(),
         fmt::join(words, ","));
  }
  return laid_out;
}

std::vector<ConvProblem> repeated_conv_set(const ProblemSetRequest& request) {
  const NamedSet* const set = set_of_code(request.set);
  return set ? set->make(request) : convs_of_grids(request.set, request.dtype);
}

std::vector<ConvProblem> make_conv_set(const ProblemSetRequest& request) {
  std::vector<ConvProblem> problems;
  if (request.listed) {
    problems = structs_of<ConvProblem>(*request.listed);
  } else {
    const NamedSet* const set = set_of_code(request.set);
    const bool weighted = set && set->weighted;
    if (!request.models.empty() && request.set != "conv_networks")
      fail(Errc::invalid_argument, "networks are chosen from set 'conv_networks', not from '{}'",
           request.set);
    problems = merge_equal(repeated_conv_set(request));
    if (!weighted)
      for (ConvProblem& problem : problems) problem.weight = 1;
  }
  if (request.op)
    for (ConvProblem& problem : problems) problem = in_direction(problem, *request.op);
  if (!request.packing.empty()) problems = with_packing(problems, parse<Packing>(request.packing));
  problems = in_layouts(merge_equal(problems), request.layouts);
  keep_within_limits(problems, request);
  return problems;
}

std::vector<ConvProblem> make_conv_set(std::string_view name, DType dtype) {
  return make_conv_set({.set = std::string(name), .dtype = dtype});
}

}  // namespace kscout
