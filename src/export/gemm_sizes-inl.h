inline Signature signature_of(const Problem& p) {
  return {p.dtype_a, p.dtype_b, p.dtype_c, p.dtype_acc, p.layout, p.epilogue, p.accumulate};
}
inline Product product_of(const Problem& p) { return {p.m, p.n, p.k, p.batch}; }
inline bool is_of_op(const Problem&) { return true; }
inline double flop_count(const Problem& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.batch);
}
inline double min_bytes(const Problem& p) {
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const auto bytes = [](DType type) { return element_bytes[static_cast<int>(type)]; };
  const double c_bytes = m * n * bytes(p.dtype_c) * (p.accumulate ? 2 : 1);
  return static_cast<double>(p.batch) * (m * k * bytes(p.dtype_a) + k * n * bytes(p.dtype_b) + c_bytes);
}
