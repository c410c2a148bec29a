// Marks in `kept` the configs to score: of those marked in `applicable`, the family's shortlist, or all when
// there is no shortlist.
inline void keep_shortlist(const Problem& p, const Family& f, const std::uint8_t* applicable,
                           std::uint8_t* kept) {
  const auto configs = static_cast<std::size_t>(f.size);
  if (!f.outputs) {
    for (std::size_t i = 0; i < configs; ++i) kept[i] = applicable[i];
    return;
  }
  std::int32_t described[shortlist_features];
  std::int16_t inputs[max_shortlist_inputs], hidden[max_shortlist_inputs], totals[max_configs];
  const Product product = product_of(p);
  describe_product(product.m, product.n, product.k, product.groups,
                   p.layout == Layout::rcr || p.layout == Layout::rrr,
                   p.layout == Layout::rrr || p.layout == Layout::crr, shortlist_cores, described);
  shortlist_inputs(described, shortlist_mean, shortlist_factor, inputs);
  for (int o = 0; o < shortlist_first.outputs; ++o) hidden[o] = shortlist_first.output(o, inputs, 0);
  for (int o = 0; o < shortlist_second.outputs; ++o) inputs[o] = shortlist_second.output(o, hidden, 0);
  for (std::size_t i = 0; i < configs; ++i) {
    const int output = f.outputs[i];
    totals[i] = output < 0 ? std::int16_t{-32767} : shortlist_last.output(output, inputs, -32766);
  }
  keep_top_totals(totals, applicable, f.always, configs, shortlisted, kept);
}
