// What every exported header computes with besides formulas (src/expr/formula-inl.h). This text is pasted
// into the header's namespace, which is C++17 without any dependency; the library's own trees are in
// src/forest/forest.cpp, and tests/unit/export_test.cpp holds the two against each other bit for bit.

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

// Decision trees as LightGBM walks them.
struct Forest {
  int trees;
  bool average;
  const std::uint32_t* tree_nodes;  // first node of each tree, and the end
  const std::uint32_t* tree_leaves;
  const double* threshold;  // left when value <= threshold; of a categorical node: its set's number
  const std::uint32_t* feature;
  const std::int32_t* left;  // node of the same tree, or ~leaf
  const std::int32_t* right;
  const std::uint8_t* decision;  // 1 categorical, 2 default left, bits 2-3 missing: 0 none, 1 zero, 2 NaN
  const double* leaf_value;
  const std::uint32_t* set_words;
  const std::uint32_t* set_bits;

  static bool is_zero(double x) {
    const double zero = static_cast<double>(1e-35f);  // LightGBM's
    return x >= -zero && x <= zero;
  }
  static bool numerical_left(double value, double at, int how) {
    const int missing = (how >> 2) & 3;
    const bool is_nan = value != value;
    if (is_nan && missing != 2) value = 0;
    const bool absent = missing == 2 ? is_nan : missing == 1 && is_zero(value);
    if (absent) return (how & 2) != 0;
    return (is_zero(value) ? 0.0 : value) <= at;
  }
  bool categorical_left(double value, std::size_t set) const {
    if (!(value > -1.0 && value < 2147483648.0)) return false;
    const std::uint32_t category = static_cast<std::uint32_t>(value);
    const std::uint32_t word = set_words[set] + category / 32;
    return word < set_words[set + 1] && ((set_bits[word] >> (category % 32)) & 1U) != 0;
  }
  double tree(int t, const double* row) const {
    const std::size_t first = tree_nodes[t];
    std::int32_t node = tree_nodes[t + 1] == first ? -1 : 0;
    while (node >= 0) {
      const std::size_t at = first + static_cast<std::size_t>(node);
      const double value = row[feature[at]];
      const bool goes_left = (decision[at] & 1) != 0
                                 ? categorical_left(value, static_cast<std::size_t>(threshold[at]))
                                 : numerical_left(value, threshold[at], decision[at]);
      node = goes_left ? left[at] : right[at];
    }
    return leaf_value[tree_leaves[t] + static_cast<std::size_t>(~node)];
  }
  double predict(const double* row) const {
    double sum = 0;
    for (int t = 0; t < trees; ++t) sum += tree(t, row);
    return average && trees > 0 ? sum / trees : sum;
  }
};
