// The configs for a signature. Config i has the name names[i] and the axes configs[i * axis_count + axis].
struct Family {
  Signature signature;
  int size;                        // number of configs
  int default_config;              // used when nothing better is known
  const std::int32_t* outputs;     // by config: its output of the network, or -1; null: no shortlist
  const std::uint8_t* always;      // 1: on every shortlist
  double confidence_bias;          // bias of the log-odds that a choice is right
  int suggestion;                  // the config that is the library's first suggestion, or -1
  const std::int32_t* prototypes;  // of the trained problems: log2 of m, n, k and groups; null: unknown
  int prototype_count;
  const char* const* names;
  const std::int32_t* configs;
  const double* feature_values;  // inputs of the feature formulas, per config
  const double* rule_values;     // inputs of the rules, per config
  int rule_values_count;
  void (*rules_of_problem)(const Problem&, double*);
  bool (*applies)(const double*, const double*);
};
