#include <fmt/format.h>

#include "core/fail.h"
#include "lightgbm/lightgbm.h"

namespace kscout {

namespace {

/// Writes key=value value ...\n
template <class Range>
void put(std::string& to, std::string_view key, const Range& values) {
  fmt::format_to(std::back_inserter(to), "{}={}\n", key, fmt::join(values, " "));
}
// 17 digits restore the double exactly; LightGBM prints the same number.
void put_doubles(std::string& to, std::string_view key, std::span<const double> values) {
  fmt::format_to(std::back_inserter(to), "{}={:.17g}\n", key, fmt::join(values, " "));
}

/// Category sets of one tree, numbered in the order of its nodes.
struct Sets {
  std::vector<std::uint32_t> bounds = {0}, words;

  std::size_t add(const Forest& forest, std::size_t set) {
    words.insert(words.end(), forest.set_bits.begin() + forest.set_words[set],
                 forest.set_bits.begin() + forest.set_words[set + 1]);
    bounds.push_back(static_cast<std::uint32_t>(words.size()));
    return bounds.size() - 2;
  }
};

std::string tree_text(const Forest& forest, std::size_t tree) {
  const std::size_t first = forest.tree_nodes[tree], nodes = forest.tree_nodes[tree + 1] - first;
  const std::size_t first_leaf = forest.tree_leaves[tree], leaves = forest.tree_leaves[tree + 1] - first_leaf;
  std::vector<double> thresholds(forest.threshold.begin() + static_cast<std::ptrdiff_t>(first),
                                 forest.threshold.begin() + static_cast<std::ptrdiff_t>(first + nodes));
  Sets sets;
  for (std::size_t node = 0; node < nodes; ++node) {
    if ((forest.decision[first + node] & Decision::categorical) == 0) continue;
    thresholds[node] = static_cast<double>(sets.add(forest, static_cast<std::size_t>(thresholds[node])));
  }
  const auto of_nodes = [&](const auto& all) { return std::span(all).subspan(first, nodes); };
  std::string text =
      fmt::format("Tree={}\nnum_leaves={}\nnum_cat={}\n", tree, leaves, sets.bounds.size() - 1);
  if (nodes > 0) {
    put(text, "split_feature", of_nodes(forest.feature));
    put_doubles(text, "threshold", thresholds);
    put(text, "decision_type", of_nodes(forest.decision));
    put(text, "left_child", of_nodes(forest.left));
    put(text, "right_child", of_nodes(forest.right));
  }
  put_doubles(text, "leaf_value", std::span(forest.leaf_value).subspan(first_leaf, leaves));
  if (!sets.words.empty() || sets.bounds.size() > 1) {
    put(text, "cat_boundaries", sets.bounds);
    put(text, "cat_threshold", sets.words);
  }
  text += "is_linear=0\nshrinkage=1\n\n\n";
  return text;
}

void check_names(const LightgbmModel& model) {
  if (model.feature_names.size() != model.forest.feature_count || model.feature_names.empty()) {
    fail(Errc::invalid_argument, "LightGBM text: {} names for {} features", model.feature_names.size(),
         model.forest.feature_count);
  }
  for (const std::string& name : model.feature_names) {
    if (name.empty() || name.find_first_of(" \t\r\n=") != std::string::npos) {
      fail(Errc::invalid_argument, "LightGBM text cannot hold a feature named '{}'", name);
    }
  }
}

}  // namespace

std::string lightgbm_text(const LightgbmModel& model) {
  check_names(model);
  const Forest& forest = model.forest;
  std::vector<std::string> trees;
  std::vector<std::size_t> sizes;
  for (std::size_t tree = 0; tree < forest.tree_count(); ++tree) {
    trees.push_back(tree_text(forest, tree));
    sizes.push_back(trees.back().size());
  }
  std::string text = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n";
  fmt::format_to(std::back_inserter(text), "max_feature_idx={}\n", forest.feature_count - 1);
  if (!model.objective.empty()) {
    const bool sqrt = model.link == Link::signed_square;
    fmt::format_to(std::back_inserter(text), "objective={}{}\n", model.objective, sqrt ? " sqrt" : "");
  }
  if (forest.average) text += "average_output\n";
  put(text, "feature_names", model.feature_names);
  // The range of each feature's training values is unknown; "none" would mean that no tree reads the feature.
  put(text, "feature_infos", std::vector<std::string_view>(forest.feature_count, "[-inf:inf]"));
  put(text, "tree_sizes", sizes);
  text += '\n';
  for (const std::string& tree : trees) text += tree;
  text += "end of trees\n";
  return text;
}

LightgbmModel lightgbm_model(Forest forest, const Schema& schema, bool ranks) {
  LightgbmModel made;
  made.forest = std::move(forest);
  made.objective = ranks ? "lambdarank" : "regression";
  for (const Feature& feature : schema.features()) made.feature_names.push_back(feature.id);
  return made;
}

}  // namespace kscout
