// Probability that the first config of a family's ranking is within 3 % of the best config.
inline double confidence_of(const Problem& p, const Family& f, const Best& best) {
  if (best.count < 2) return 1;
  const auto log_tflops = [&](int i) { return std::log(predicted_tflops(p, best.score[i], best.score[0])); };
  const auto gap_to = [&](int place) {
    const double gap = log_tflops(0) - log_tflops((place < best.count ? place : best.count) - 1);
    return std::log((gap < 0 ? 0.0 : gap) + confidence_min_gap);
  };
  const Product product = product_of(p);
  const std::int64_t sizes[] = {product.m, product.n, product.k, product.groups};
  const double gaps[] = {gap_to(2), gap_to(3), gap_to(max_ranked)};
  double log_odds = f.confidence_bias, octaves_beyond = 0;
  for (int i = 0; i < 3; ++i) log_odds += confidence_weight[i] * gaps[i];
  for (int i = 0; i < 4; ++i) {
    const double size = std::log2(static_cast<double>(sizes[i] < 1 ? 1 : sizes[i]));
    const double low = confidence_low[i], high = confidence_high[i];
    const double held = size < low ? low : high < size ? high : size;
    octaves_beyond += std::fabs(size - held);
    log_odds += confidence_weight[3 + i] * held;
  }
  const double outside = has_region ? distance_of(p, f) - confidence_inside : 0.0;
  log_odds += confidence_weight[7] * (outside < 0 ? 0.0 : outside);
  return 1 / (1 + std::exp(-log_odds)) * std::exp2(-octaves_beyond);
}
