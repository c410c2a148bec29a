// The family for a problem; null when the model has none for its operation, types and layout. Whether the
// problem reads C does not matter: a family that reads C also applies to problems that do not, and vice
// versa. Of an epilogue that another family answers for, the names of configs are those of that family.
inline const Family* family_of(const Problem& p) {
  if (!is_of_op(p)) return nullptr;
  const Signature wanted = signature_of(p);
  for (const Epilogue epilogue :
       {wanted.epilogue, answering_epilogues[static_cast<std::size_t>(wanted.epilogue)]}) {
    for (const bool accumulate : {wanted.accumulate, !wanted.accumulate}) {
      for (const Family& f : families) {
        const Signature& s = f.signature;
        if (s.dtype_a == wanted.dtype_a && s.dtype_b == wanted.dtype_b && s.dtype_c == wanted.dtype_c &&
            s.dtype_acc == wanted.dtype_acc && s.layout == wanted.layout && s.epilogue == epilogue &&
            s.accumulate == accumulate) {
          return &f;
        }
      }
    }
  }
  return nullptr;
}

// The score of a config by the first `trees` trees. q: of features_of_problem().
inline double score_by(std::size_t trees, const Family& f, const double* q, int config) {
  double row[feature_count];
  features(q, f.feature_values + static_cast<std::ptrdiff_t>(config) * features_config_values, row);
  return score_sign *
         forest_score(score_forest, trees, [&row](std::uint32_t feature) { return row[feature]; });
}

// Keeps of the configs marked in `kept` those that the first trees score best.
inline void keep_by_first_trees(const Family& f, const double* q, std::uint8_t* kept) {
  BestOf<static_cast<int>(kept_by_first_trees)> best;
  for (int i = 0; i < f.size; ++i) {
    if (kept[i] != 0) best.add(i, score_by(first_trees, f, q, i));
    kept[i] = 0;
  }
  for (int i = 0; i < best.count; ++i) kept[best.config[i]] = 1;
}

// Calls use(config, score) for the applicable configs, in family order; higher is better. With `shortlist`,
// scores only the configs on the shortlist; writes the arrays `kept` and `applicable` (one byte per config).
template <class Use>
inline void each_score(const Problem& p, const Family& f, bool shortlist, std::uint8_t* applicable,
                       std::uint8_t* kept, Use&& use) {
  for (int i = 0; i < f.size; ++i) applicable[i] = kept[i] = 0;
  if (!is_described(p)) return;
  double q[features_problem_values], rule_q[max_rule_problem_values];
  features_of_problem(p, q);
  f.rules_of_problem(p, rule_q);
  for (int i = 0; i < f.size; ++i) {
    const double* const values = f.rule_values + static_cast<std::ptrdiff_t>(i) * f.rule_values_count;
    applicable[i] = f.applies(rule_q, values) ? 1 : 0;
  }
  keep_shortlist(p, f, applicable, kept);
  if (first_trees > 0) keep_by_first_trees(f, q, kept);
  const std::uint8_t* const scored = shortlist ? kept : applicable;
  for (int i = 0; i < f.size; ++i) {
    if (scored[i] != 0) use(i, score_by(score_forest.trees, f, q, i));
  }
}

// Writes one score per config of the family; -infinity: does not apply to the problem. Lowers the scores of
// configs outside the shortlist by one amount, so that all of them are below the shortlist's: the highest
// score belongs to the choice.
inline void score(const Problem& p, const Family& f, double* scores) {
  std::uint8_t applicable[max_configs], kept[max_configs];
  for (int i = 0; i < f.size; ++i) scores[i] = -infinity;
  each_score(p, f, false, applicable, kept, [scores](int i, double score) { scores[i] = score; });
  put_behind(scores, applicable, kept, static_cast<std::size_t>(f.size));
}

// A choice. config is -1 when the model has no family for the problem, or no config applies.
struct Choice {
  int config = -1;                     // position in the family
  const char* name = nullptr;          // of the kernel
  const std::int32_t* axes = nullptr;  // axis_count values, in the order of axis_names
  double score = unknown;
  double tflops = unknown;      // predicted TFLOPS
  double time_us = unknown;     // predicted microseconds
  double confidence = unknown;  // probability of being within 3 % of the best; unknown without calibration
};

// Whether the library's first suggestion answers: the problem is far from the trained ones, and the first
// config is predicted to be hardly faster than the suggestion. suggestion_score: NaN when it does not apply.
inline bool is_guarded(const Problem& p, const Family& f, double score, double suggestion_score) {
  if (!has_guard || !(distance_of(p, f) >= guard_distance)) return false;
  return std::log(predicted_tflops(p, score, score) / predicted_tflops(p, suggestion_score, score)) <
         guard_lead;
}

// Returns the best config of a problem with valid sizes (of a GEMM: none negative, batch at least 1; of a
// convolution: at least 1, groups divide the channels, the filter fits the padded image); of equal scores the
// first. Allocates nothing; thread-safe.
inline Choice select(const Problem& p) {
  Choice choice;
  const Family* const f = family_of(p);
  if (!f) return choice;
  Best best;
  std::uint8_t applicable[max_configs], kept[max_configs];
  double suggestion_score = unknown;
  each_score(p, *f, true, applicable, kept, [&](int i, double score) {
    best.add(i, score);
    if (i == f->suggestion) suggestion_score = score;
  });
  if (best.count == 0) return choice;
  choice.config = best.config[0];
  choice.score = best.score[0];
  choice.confidence = confidence_of(p, *f, best);
  if (choice.config != f->suggestion && is_guarded(p, *f, choice.score, suggestion_score)) {
    choice.config = f->suggestion;  // counts as equally fast
    choice.confidence = unknown;
  }
  choice.name = f->names[choice.config];
  choice.axes = f->configs + static_cast<std::ptrdiff_t>(choice.config) * axis_count;
  choice.tflops = predicted_tflops(p, choice.score, choice.score);
  const double flops = flop_count(p);
  if (flops > 0 && choice.tflops > 0) choice.time_us = flops / choice.tflops * 1e-6;
  return choice;
}
