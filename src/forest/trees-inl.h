// Walks trees as LightGBM does. The library includes this text (forest.h), and every exported header contains
// it in its own namespace: C++17 without any dependency.

/// How a node treats a missing value.
enum class Missing : std::uint8_t {
  none,  ///< NaN counts as 0
  zero,  ///< 0 and NaN follow the default direction
  nan,   ///< NaN follows the default direction
};

/// The bits of a node's decision byte: bit 0 = categorical, bit 1 = the default direction is left, bits 2-3 =
/// Missing.
struct Decision {
  static constexpr std::uint8_t categorical = 1;
  static constexpr std::uint8_t default_left = 2;
  static constexpr std::uint8_t most = 11;  ///< largest legal value
  static constexpr Missing missing(std::uint8_t decision) noexcept {
    return static_cast<Missing>((decision >> 2) & 3);
  }
};

/// LightGBM's zero: its constant is the float 1e-35 widened to double.
inline constexpr double kForestZero = static_cast<double>(1e-35f);

inline bool is_forest_zero(double value) noexcept { return value >= -kForestZero && value <= kForestZero; }

/// The value that a numerical node compares in place of a missing one: -infinity goes left and NaN goes right
/// for every threshold.
inline double absent_value(std::uint8_t decision) noexcept {
  return (decision & Decision::default_left) != 0 ? -std::numeric_limits<double>::infinity()
                                                  : std::numeric_limits<double>::quiet_NaN();
}

/// The value that a numerical node compares in place of `value`: the node goes left when the result is <=
/// threshold. Nodes that treat missing values alike therefore differ by their thresholds only.
inline double compared_value(double value, std::uint8_t decision) noexcept {
  const Missing missing = Decision::missing(decision);
  const bool is_nan = value != value;
  if (is_nan && missing != Missing::nan) value = 0;
  const bool absent = missing == Missing::nan ? is_nan : missing == Missing::zero && is_forest_zero(value);
  if (absent) return absent_value(decision);
  return is_forest_zero(value) ? 0.0 : value;
}

/// Words [begin, end) of `bits` are a set: when bit c % 32 of its word c / 32 is set, category c goes left.
template <class Bits>
bool categorical_left(double value, const Bits& bits, std::size_t begin, std::size_t end) noexcept {
  if (!(value > -1.0 && value < 2147483648.0)) return false;  // NaN, negative, or larger than an int
  const auto category = static_cast<std::uint32_t>(value);
  const std::size_t word = begin + category / 32;
  return word < end && ((bits[word] >> (category % 32)) & 1U) != 0;
}

/// The leaf that a row reaches in one tree, counted from the tree's first leaf; value_of(f) returns feature f
/// of the row. `forest` has the arrays of struct Forest.
template <class Trees, class ValueOf>
std::size_t reached_leaf(const Trees& forest, std::size_t tree, ValueOf&& value_of) noexcept {
  const std::size_t first = forest.tree_nodes[tree];
  std::int32_t node = forest.tree_nodes[tree + 1] == first ? -1 : 0;
  while (node >= 0) {
    const std::size_t at = first + static_cast<std::size_t>(node);
    const std::uint8_t decision = forest.decision[at];
    const double value = value_of(forest.feature[at]);
    bool left = false;
    if ((decision & Decision::categorical) != 0) {
      const auto set = static_cast<std::size_t>(forest.threshold[at]);
      left = categorical_left(value, forest.set_bits, forest.set_words[set], forest.set_words[set + 1]);
    } else {
      left = compared_value(value, decision) <= forest.threshold[at];
    }
    node = left ? forest.left[at] : forest.right[at];
  }
  return static_cast<std::size_t>(~node);
}

/// The sum or the mean of the trees' leaves.
template <class Trees, class ValueOf>
double forest_score(const Trees& forest, std::size_t trees, ValueOf&& value_of) noexcept {
  double sum = 0;
  for (std::size_t tree = 0; tree < trees; ++tree) {
    sum += forest.leaf_value[forest.tree_leaves[tree] + reached_leaf(forest, tree, value_of)];
  }
  return forest.average && trees > 0 ? sum / static_cast<double>(trees) : sum;
}
