// What a score (higher is better) claims in ln TFLOPS before calibration: the same text in the library and in
// every exported header. target: its position among the words of kscout::Target.
inline double claimed_log_tflops(int target, double score, double top_score, double flops, double bytes) {
  const double least = 1e-9;  // of what an extrapolating tree may claim: below it there is no logarithm
  const auto above = [least](double value) { return value > least ? value : least; };
  const double work = flops > 1 ? flops : 1;
  if (target == 0) return std::log(above(std::expm1(score)));                 // tflops
  if (target == 1) return std::log(work * 1e-6 / above(std::expm1(-score)));  // latency
  if (target == 2)
    return std::log(work * 1e-6 / above(bytes * 1e-3 / above(std::expm1(score))));  // bandwidth
  return target == 3 ? score : score - top_score;  // relative, rank: against the best
}
