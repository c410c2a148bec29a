// Element types of the product's operands A, B and C, layout and epilogue: what a family of configs is for.
struct Signature {
  DType dtype_a, dtype_b, dtype_c, dtype_acc;
  Layout layout;
  Epilogue epilogue;
  bool accumulate;
};

// A matrix product, `groups` times.
struct Product {
  std::int64_t m, n, k, groups;
};
