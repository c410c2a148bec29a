// Octaves from a problem's sizes to the nearest prototype of the problems that the family was trained on.
inline double distance_of(const Problem& p, const Family& f) {
  const Product product = product_of(p);
  const std::int64_t sizes[] = {product.m, product.n, product.k, product.groups};
  double at[4], nearest = infinity;
  for (int i = 0; i < 4; ++i)
    at[i] = std::log2(static_cast<double>(sizes[i] < 1 ? 1 : sizes[i])) * region_steps;
  for (int prototype = 0; prototype < f.prototype_count; ++prototype) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
      const double off = at[i] - f.prototypes[4 * prototype + i];
      sum += off * off;
    }
    nearest = sum < nearest ? sum : nearest;
  }
  return std::sqrt(nearest) / region_steps;
}
