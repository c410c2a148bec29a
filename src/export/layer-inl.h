// A layer of the network that chooses shortlists.
struct ShortlistLayer {
  int inputs, outputs;
  const std::int8_t* weights;
  const std::int32_t* bias;
  const std::int32_t* factor;

  std::int16_t output(int o, const std::int16_t* from, int least) const {
    return shortlist_output(from, inputs, weights + static_cast<std::ptrdiff_t>(o) * inputs, bias[o],
                            factor[o], least);
  }
};
