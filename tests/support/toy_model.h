#pragma once
/// \file
/// Builds a small model over the toy family by hand: every kind of decision, two targets, the forest of the
/// best TFLOPS.
#include "forest/forest.h"
#include "support/random_shortlist.h"
#include "support/toy.h"

namespace kscout::toy {

/// One tree of three nodes: numerical with a default way, categorical, numerical where zero is missing.
inline Forest forest(std::uint32_t features, std::uint32_t numerical, std::uint32_t category, double top) {
  Forest forest;
  forest.feature_count = features;
  forest.tree_nodes = {0, 3, 3};
  forest.tree_leaves = {0, 4, 5};
  forest.threshold = {6.5, 0, 64};
  forest.feature = {numerical, category, 0};
  forest.left = {1, -1, -3};
  forest.right = {2, -2, -4};
  forest.decision = {2 | 8, 1, 4};
  forest.leaf_value = {-0.5, -0.1, top, -0.3, -0.05};
  forest.set_words = {0, 2};
  forest.set_bits = {0x10100, 1};
  return forest;
}

inline Model model() {
  ModelData data;
  data.families = {family(Layout::rcr), family(Layout::crr)};
  data.schema = schema();
  const auto features = static_cast<std::uint32_t>(data.schema->size());
  const auto inner_m = static_cast<std::uint32_t>(data.schema->index("inner_m"));
  data.targets = {{Target::relative, forest(features, inner_m, inner_m + 1, -0.01), 0.02, 0.9},
                  {Target::tflops, forest(features, inner_m + 1, inner_m, 0.3), 0, 1}};
  data.best_tflops = forest(3, 1, 2, -3);
  data.best_features = {0, 1, 3};
  data.shortlist = random_shortlist(data.families[0].configs, 2, 4);
  data.fingerprint = "0123456789abcdef";
  return Model(std::move(data));
}

/// Calls every function of a model, so that errors of reading show up.
inline double exercise(const Model& model) {
  double sum = 0;
  for (const GemmProblem& p : {make_gemm(17, 33, 600), make_gemm(64, 4, 1, DType::fp32, Layout::crr)}) {
    const Family* const of = model.family(signature_of(p));
    if (!of) continue;
    std::vector<double> scores(of->configs.size());
    for (const ModelTarget& target : model.data().targets) {
      model.score(p, target.target, scores);
      for (const double tflops : model.predicted_tflops(p, target.target, scores)) sum += tflops;
    }
    sum += of->configs[of->default_config][0];
  }
  return sum;
}

}  // namespace kscout::toy
