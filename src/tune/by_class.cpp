#include "tune/by_class.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/files.h"
#include "evaluate/evaluate_model.h"
#include "select/model.h"

namespace kscout {

namespace {

/// A feature in proportion to a problem's operations.
constexpr std::string_view kTimeAtPeak = "ideal_us";

/// Classes that follow each other: from `first` to `last`.
struct Run {
  std::size_t first, last;
};

std::vector<Run> runs_of(const InClass& in) {
  std::vector<Run> runs;
  for (std::size_t c = 0; c < in.size(); ++c) {
    if (!in[c]) continue;
    if (!runs.empty() && runs.back().last + 1 == c) {
      runs.back().last = c;
    } else {
      runs.push_back({c, c});
    }
  }
  return runs;
}

/// Appends a tree below nodes that lead to it inside the run, and to a leaf of 0 outside.
void append_tree(Forest& forest, const Forest& from, std::size_t tree, const Run& run,
                 const ClassSwitch& classes) {
  struct Gate {
    double limit;
    bool tree_is_left;
  };
  std::vector<Gate> gates;
  if (run.first > 0) gates.push_back({classes.limits[run.first - 1], false});
  if (run.last < classes.limits.size()) gates.push_back({classes.limits[run.last], true});
  const std::size_t node = from.tree_nodes[tree], nodes = from.tree_nodes[tree + 1] - node;
  const std::size_t leaf = from.tree_leaves[tree], leaves = from.tree_leaves[tree + 1] - leaf;
  const auto shift = static_cast<std::int32_t>(gates.size());
  const auto outside = ~static_cast<std::int32_t>(leaves);
  for (std::size_t g = 0; g < gates.size(); ++g) {
    const bool last = g + 1 == gates.size();
    const std::int32_t inside = last && nodes == 0 ? ~0 : static_cast<std::int32_t>(g) + 1;
    // Every gate has a leaf of its own for the rows outside.
    const std::int32_t zero = outside - static_cast<std::int32_t>(g);
    forest.threshold.push_back(gates[g].limit);
    forest.feature.push_back(classes.feature);
    forest.left.push_back(gates[g].tree_is_left ? inside : zero);
    forest.right.push_back(gates[g].tree_is_left ? zero : inside);
    forest.decision.push_back(0);
  }
  const auto shifted = [&](std::int32_t child) { return child < 0 ? child : child + shift; };
  for (std::size_t i = node; i < node + nodes; ++i) {
    const bool categorical = (from.decision[i] & Decision::categorical) != 0;
    double threshold = from.threshold[i];
    if (categorical) {
      const auto set = static_cast<std::size_t>(threshold);
      threshold = static_cast<double>(forest.set_count());
      forest.set_bits.insert(forest.set_bits.end(), from.set_bits.begin() + from.set_words[set],
                             from.set_bits.begin() + from.set_words[set + 1]);
      forest.set_words.push_back(static_cast<std::uint32_t>(forest.set_bits.size()));
    }
    forest.threshold.push_back(threshold);
    forest.feature.push_back(from.feature[i]);
    forest.left.push_back(shifted(from.left[i]));
    forest.right.push_back(shifted(from.right[i]));
    forest.decision.push_back(from.decision[i]);
  }
  forest.leaf_value.insert(forest.leaf_value.end(),
                           from.leaf_value.begin() + static_cast<std::ptrdiff_t>(leaf),
                           from.leaf_value.begin() + static_cast<std::ptrdiff_t>(leaf + leaves));
  forest.leaf_value.insert(forest.leaf_value.end(), gates.size(), 0.0);
  forest.tree_nodes.push_back(static_cast<std::uint32_t>(forest.threshold.size()));
  forest.tree_leaves.push_back(static_cast<std::uint32_t>(forest.leaf_value.size()));
}

}  // namespace

std::optional<ClassSwitch> class_switch(const Schema& schema, const Device& device) {
  const auto feature = std::ranges::find(schema.features(), kTimeAtPeak, &Feature::id);
  if (feature == schema.features().end()) return std::nullopt;
  ClassSwitch classes{static_cast<std::uint32_t>(feature - schema.features().begin()), {}};
  const double gflop_per_us = assumed_peak_tflops(device) / 1e3;
  std::ranges::transform(kSizeClassLimits, classes.limits.begin(),
                         [&](double gflop) { return gflop / gflop_per_us; });
  return classes;
}

void append_in_classes(Forest& forest, const Forest& from, std::size_t first, const InClass& in,
                       const ClassSwitch& classes) {
  for (const Run& run : runs_of(in)) {
    for (std::size_t tree = first; tree < from.tree_count(); ++tree)
      append_tree(forest, from, tree, run, classes);
  }
}

namespace {

namespace fs = std::filesystem;

/// The forest of a model with one target, when it begins with the trees of `base`.
std::optional<Forest> forest_after(const Forest& base, const fs::path& folder) {
  if (folder.empty()) return std::nullopt;
  const Model model = Model::load(folder);
  if (model.data().targets.size() != 1) return std::nullopt;
  const Forest& forest = model.data().targets.front().forest;
  if (forest.tree_count() < base.tree_count() || first_trees(forest, base.tree_count()) != base)
    return std::nullopt;
  return forest;
}

/// Model folders differ in one forest only.
void write_forest(const fs::path& folder, const ModelData& data, Forest forest) {
  ModelData changed = data;
  changed.targets.front().forest = std::move(forest);
  write_file_atomically(folder / "model.ksf", Model(std::move(changed)).bytes());
}

using Results = std::vector<ProblemResult>;

Results evaluated(const fs::path& folder, const CompactTable& held_out) {
  ModelEvaluationOptions how;
  how.in_sample = true;  // the caller knows that they are held out
  return evaluate_model(folder, held_out, how).evaluation.results;
}

/// How much more efficient choices are on the problems of one size class.
struct Gain {
  double mean = 0, standard_error = std::numeric_limits<double>::infinity();
};

Gain gain_in(SizeClass size, const Results& with, const Results& without) {
  std::vector<double> gains;
  for (std::size_t p = 0; p < with.size(); ++p) {
    if (size_class(with[p].problem) == size) gains.push_back(with[p].efficiency() - without[p].efficiency());
  }
  Gain gain;
  const auto n = static_cast<double>(gains.size());
  if (n > 0) gain.mean = std::accumulate(gains.begin(), gains.end(), 0.0) / n;
  if (n < 2) return gain;
  double squares = 0;
  for (const double one : gains) squares += (one - gain.mean) * (one - gain.mean);
  gain.standard_error = std::sqrt(squares / (n - 1) / n);
  return gain;
}

}  // namespace

std::optional<TreesByClass> keep_best_trees(const TreesToCompare& models, const CompactTable& held_out) {
  const Model candidate = Model::load(models.candidate);
  const Forest base = Model::load(models.base, &candidate.device()).data().targets.front().forest;
  const auto classes = class_switch(*candidate.data().schema, candidate.device());
  const auto added = forest_after(base, models.candidate), before = forest_after(base, models.before);
  if (!classes || !added) return std::nullopt;
  const auto results_with = [&](const Forest& forest) {
    write_forest(models.candidate, candidate.data(), forest);
    return evaluated(models.candidate, held_out);
  };
  const Results with_new = results_with(*added), with_none = results_with(base);
  const Results with_before = before ? results_with(*before) : with_none;
  TreesByClass kept;
  for (std::size_t c = 0; c < kSizeClasses; ++c) {
    const auto size = static_cast<SizeClass>(c);
    const bool older = gain_in(size, with_before, with_none).mean > 0;
    const Gain gain = gain_in(size, with_new, older ? with_before : with_none);
    kept[c] = gain.mean > gain.standard_error ? TreesOf::candidate : older ? TreesOf::before : TreesOf::none;
  }
  Forest forest = base;
  const auto append = [&](const std::optional<Forest>& from, TreesOf of) {
    InClass in{};
    std::ranges::transform(kept, in.begin(), [&](TreesOf one) { return one == of; });
    if (from) append_in_classes(forest, *from, base.tree_count(), in, *classes);
  };
  append(added, TreesOf::candidate);
  append(before, TreesOf::before);
  write_forest(models.candidate, candidate.data(), std::move(forest));
  return kept;
}

}  // namespace kscout
