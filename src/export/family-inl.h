// Which configs may serve a signature. Config i has the name names[i] and the axes configs[i * axis_count +
// axis].
struct Family {
  DType dtype_a, dtype_b, dtype_c, dtype_acc;
  Layout layout;
  Epilogue epilogue;
  bool accumulate;
  int size;                     // number of configs
  int default_config;           // what runs when nothing better is known
  const std::int32_t* outputs;  // by config: the network's output that it has, or -1; null: no shortlist
  const std::uint8_t* always;   // 1: on every shortlist
  double confidence_bias;       // of the log of the odds that a choice is right
  const char* const* names;
  const std::int32_t* configs;
  const double* feature_values;  // what the formulas of features read of each config
  const double* rule_values;     // the same for the rules
  int rule_values_count;
  void (*rules_of_problem)(const Problem&, double*);
  bool (*applies)(const double*, const double*);
};
