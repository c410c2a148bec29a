// Computes the ln TFLOPS that a score (higher is better) stands for before calibration. The library and every
// exported header share this text. `target` and `scale` are positions among the words of kscout::Target and
// kscout::Scale.
inline double claimed_log_tflops(int target, int scale, double score, double top_score, double flops,
                                 double bytes) {
  // Lower bound for the predictions of an extrapolating tree: no logarithm exists below 0.
  const double least = 1e-9;
  const auto above = [least](double value) { return value > least ? value : least; };
  const auto learned = [&](double x) {
    return above(scale == 0 ? std::expm1(x) : scale == 1 ? x : std::exp(x));
  };
  const double work = flops > 1 ? flops : 1;
  if (target == 0) return std::log(learned(score));                 // tflops
  if (target == 1) return std::log(work * 1e-6 / learned(-score));  // latency
  // bandwidth
  if (target == 2) return std::log(work * 1e-6 / above(bytes * 1e-3 / learned(score)));
  return target == 3 ? score : score - top_score;  // relative, rank: relative to the best
}
