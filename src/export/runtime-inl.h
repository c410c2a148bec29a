// Definitions that every exported header needs, besides formulas (src/expr/formula-inl.h) and tree evaluation
// (src/forest/trees-inl.h). This text is pasted into the header's namespace. The header is C++17 without
// dependencies.

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

struct Forest {
  std::size_t trees;
  bool average;
  const std::uint32_t* tree_nodes;  // first node of each tree, and the end
  const std::uint32_t* tree_leaves;
  const double* threshold;  // go left when value <= threshold; of a categorical node: index of its set
  const std::uint32_t* feature;
  const std::int32_t* left;  // node of the same tree, or ~leaf
  const std::int32_t* right;
  const std::uint8_t* decision;  // bits of Decision
  const double* leaf_value;
  const std::uint32_t* set_words;
  const std::uint32_t* set_bits;

  double predict(const double* row) const {
    return forest_score(*this, trees, [row](std::uint32_t f) { return row[f]; });
  }
};
