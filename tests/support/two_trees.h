#pragma once
/// \file
/// A model of LightGBM in text form.
#include <string>

namespace kscout::test {

/// Two trees over (x, y): the first splits x by a threshold, then y by a category; the second is a single
/// leaf.
inline const std::string kTwoTrees = R"(tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=regression
feature_names=x y
feature_infos=[0:1] [0:1]
tree_sizes=300 100

Tree=0
num_leaves=3
num_cat=1
split_feature=0 1
split_gain=1 1
threshold=0.5 0
decision_type=10 1
left_child=1 -1
right_child=-3 -2
leaf_value=1 2 4
cat_boundaries=0 1
cat_threshold=6
is_linear=0
shrinkage=1


Tree=1
num_leaves=1
num_cat=0
leaf_value=0.25
is_linear=0
shrinkage=1


end of trees

feature_importances:
x=1
)";

}  // namespace kscout::test
