// Chooses a shortlist. The library and every exported header share this text (C++17, no dependency). All
// arithmetic is integer, so every machine chooses the same configs.

inline constexpr int shortlist_features = 62;

// log2(x) in 256ths, rounded down; x below 1 counts as 1. Squares the mantissa once per bit of the result.
inline std::int32_t shortlist_log2(std::int64_t x) {
  std::uint64_t mantissa = x < 1 ? 1 : static_cast<std::uint64_t>(x);
  std::int32_t whole = 0;
  while ((mantissa >> whole) > 1) ++whole;
  mantissa = whole > 31 ? mantissa >> (whole - 31) : mantissa << (31 - whole);  // in [2^31, 2^32)
  std::int32_t log = whole;
  for (int bit = 0; bit < 8; ++bit) {
    mantissa = (mantissa * mantissa) >> 31;
    const bool above = (mantissa >> 32) != 0;
    if (above) mantissa >>= 1;
    log = 2 * log + (above ? 1 : 0);
  }
  return log;
}

// The network's inputs for a product of m x k and k x n matrices, in 256ths: logarithms of sizes, whether 2
// to 128 divide the sizes, the used fraction of tiles of several sizes, the logarithm of the number of waves
// of tiles on the device's cores, and the used fraction of these waves.
inline void describe_product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch,
                             bool a_row_major, bool b_row_major, std::int64_t cores, std::int32_t* out) {
  const auto held = [](std::int64_t size) { return size < 1 ? 1 : size < (1 << 24) ? size : 1 << 24; };
  m = held(m), n = held(n), k = held(k), cores = held(cores);
  batch = batch < 1 ? 1 : batch < 4096 ? batch : 4096;
  const std::int32_t log_m = shortlist_log2(m), log_n = shortlist_log2(n), log_k = shortlist_log2(k);
  const std::int32_t log_batch = shortlist_log2(batch), log_cores = shortlist_log2(cores);
  for (const std::int32_t log : {log_m, log_n, log_k, log_batch, log_m + log_n + log_batch, log_m + log_k,
                                 log_n + log_k, log_m + log_n + log_k + log_batch, log_m - log_n,
                                 log_k - (log_m < log_n ? log_n : log_m), log_m < log_n ? log_m : log_n}) {
    *out++ = log;
  }
  for (const std::int64_t size : {m, n, k}) {
    for (const int divisor : {2, 4, 8, 16, 32, 64, 128}) *out++ = size % divisor == 0 ? 256 : 0;
  }
  const auto tiles_of = [](std::int64_t size, std::int64_t tile) { return (size + tile - 1) / tile; };
  for (const std::int64_t size : {m, n}) {
    for (const int tile : {16, 32, 64, 128, 192, 256})
      *out++ = static_cast<std::int32_t>(256 * size / (tiles_of(size, tile) * tile));
  }
  constexpr int tiles[][2] = {{64, 64},  {64, 128}, {128, 64},  {128, 128},
                              {64, 256}, {256, 64}, {128, 256}, {256, 128}};
  for (const auto& tile : tiles) {
    const std::int64_t rows = tiles_of(m, tile[0]), columns = tiles_of(n, tile[1]),
                       all = rows * columns * batch;
    *out++ = shortlist_log2(rows) + shortlist_log2(columns) + log_batch - log_cores;
    *out++ = static_cast<std::int32_t>(256 * all / (tiles_of(all, cores) * cores));
  }
  *out++ = a_row_major ? 256 : 0;
  *out++ = b_row_major ? 256 : 0;
}

// The inputs of the first layer: ((value - mean) * factor) / 2^16.
inline void shortlist_inputs(const std::int32_t* features, const std::int32_t* mean,
                             const std::int32_t* factor, std::int16_t* inputs) {
  for (int i = 0; i < shortlist_features; ++i) {
    const std::int64_t input = ((std::int64_t{features[i]} - mean[i]) * factor[i]) >> 16;
    inputs[i] = static_cast<std::int16_t>(input < -32767 ? -32767 : input < 32766 ? input : 32766);
  }
}

// One output of a layer: (bias + sum of weights times inputs) * factor / 2^24, clamped to the range from
// `least` to 32766. Sums of up to 128 inputs and a bias of up to 2^30 fit in 32 bits.
inline std::int16_t shortlist_output(const std::int16_t* inputs, int count, const std::int8_t* weights,
                                     std::int32_t bias, std::int32_t factor, int least) {
  std::int32_t sum = 0;
  for (int i = 0; i < count; ++i) sum += static_cast<std::int16_t>(weights[i]) * inputs[i];
  const std::int64_t output = ((std::int64_t{sum} + bias) * factor) >> 24;
  return static_cast<std::int16_t>(output < least ? least : output < 32766 ? output : 32766);
}

// Keeps `most` of the configs with allowed[i] != 0: first those of `always`, then those with the highest
// totals; ties keep the earlier config. Writes 1 to kept[i] for kept configs and 0 for all others; returns
// the number of kept configs. Overwrites `totals`.
inline std::size_t keep_top_totals(std::int16_t* totals, const std::uint8_t* allowed,
                                   const std::uint8_t* always, std::size_t configs, std::size_t most,
                                   std::uint8_t* kept) {
  // Values that shortlist_layer() never produces.
  constexpr int never = -32768, surely = 32767;
  for (std::size_t i = 0; i < configs; ++i) {
    totals[i] = static_cast<std::int16_t>(always[i] != 0 ? surely : totals[i]);
    totals[i] = static_cast<std::int16_t>(allowed[i] != 0 ? totals[i] : never);
  }
  // Bisection for the `most`-th largest total: the largest value that at least `most` configs reach.
  int reached = never, beyond = surely + 1;
  while (beyond - reached > 1) {
    const int middle = reached + (beyond - reached) / 2;
    const auto least = static_cast<std::int16_t>(middle);
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < configs; ++i) count += totals[i] >= least ? 1 : 0;
    (count >= most ? reached : beyond) = middle;
  }
  std::size_t room = most, found = 0;
  for (std::size_t i = 0; i < configs; ++i) room -= totals[i] > reached ? 1 : 0;
  for (std::size_t i = 0; i < configs; ++i) {
    const bool equal = totals[i] == reached && totals[i] != never && room > 0;
    room -= equal ? 1 : 0;
    kept[i] = totals[i] > reached || equal ? 1 : 0;
    found += kept[i];
  }
  return found;
}

// Lowers the scores of allowed configs that are not kept by one common amount, so that they rank after every
// kept config and keep their order. Scores of configs that are not allowed do not change.
inline void put_behind(double* scores, const std::uint8_t* allowed, const std::uint8_t* kept,
                       std::size_t configs) {
  const double infinite = std::numeric_limits<double>::infinity();
  double least = infinite, most = -infinite;
  for (std::size_t i = 0; i < configs; ++i) {
    if (kept[i] != 0 && scores[i] < least) least = scores[i];
    if (kept[i] == 0 && allowed[i] != 0 && scores[i] > most) most = scores[i];
  }
  const double behind = std::nextafter(least, -infinite);
  if (!(most > behind)) return;
  for (std::size_t i = 0; i < configs; ++i) {
    if (kept[i] == 0 && allowed[i] != 0) scores[i] = behind + (scores[i] - most);
  }
}
