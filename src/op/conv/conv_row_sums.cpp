#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <numeric>
#include <span>
#include <thread>

#include "instruments/freivalds.h"
#include "op/conv/conv_reference.h"
#include "op/struct_operation.h"

namespace kscout {

namespace {

MatrixView pixels_of(DType dtype, const ConvImage& image, std::int64_t images) {
  const std::int64_t pixels = image.pixels(), channels = image.channels;
  if (image.channels_last)
    return {dtype, images * pixels, channels, channels, images * pixels * channels, true};
  return {dtype, pixels, channels, pixels, pixels * channels, false};
}

MatrixView matrix_of(const ConvProblem& p) {
  const ConvGeometry g(p);
  const DType dtype = signature_of(p).dtype_c;
  if (p.op == Op::conv_bwd_weight) {
    const std::int64_t rows = p.k * g.taps();
    return {dtype, rows, g.c_of_group, g.c_of_group, rows * g.c_of_group, true};
  }
  return pixels_of(dtype, p.op == Op::conv_fwd ? g.out : g.in, p.n);
}

/// Elements of an operand as doubles.
std::vector<double> read(Instruments& device, DType dtype, const void* data, std::int64_t first,
                         std::int64_t count) {
  const std::size_t bytes = element_bytes(dtype);
  std::vector<std::byte> copy(static_cast<std::size_t>(count) * bytes);
  device.memory().read(copy.data(),
                       static_cast<const std::byte*>(data) + static_cast<std::size_t>(first) * bytes,
                       copy.size(), {});
  std::vector<double> values(static_cast<std::size_t>(count));
  with_element(dtype, [&]<class E>() {
    for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = E::load(copy.data(), i);
  });
  return values;
}

/// Reads an image pixel by pixel with its channels, for any layout.
std::vector<double> read_image(Instruments& device, DType dtype, const void* data, const ConvImage& image,
                               std::int64_t n) {
  const std::int64_t pixels = image.pixels(), channels = image.channels, size = pixels * channels;
  std::vector<double> values = read(device, dtype, data, n * size, size);
  if (image.channels_last || pixels == 1 || channels == 1) return values;
  std::vector<double> turned(values.size());
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
      turned[static_cast<std::size_t>(pixel * channels + c)] =
          values[static_cast<std::size_t>(c * pixels + pixel)];
  }
  return turned;
}

/// Calls work(part, first, end) for kParts parts of 0..count, as many at a time as the process has CPUs. The
/// parts are the same on every machine, so that sums over them are too.
constexpr std::int64_t kParts = 16;
template <class Work>
void in_parts(std::int64_t count, const Work& work) {
  std::atomic<std::int64_t> next = 0;
  const auto take = [&] {
    for (std::int64_t part = next++; part < kParts; part = next++)
      work(part, part * count / kParts, (part + 1) * count / kParts);
  };
  std::vector<std::future<void>> others;
  const unsigned cpus = std::min<unsigned>(std::thread::hardware_concurrency(), kParts);
  for (unsigned i = 1; i < cpus; ++i) others.push_back(std::async(std::launch::async, take));
  take();
  for (std::future<void>& other : others) other.get();
}

class Sums {
 public:
  Sums(const ConvProblem& problem, const GemmOperands& operands, const ConvRows& rows, double max_products)
      : problem_(problem),
        g_(problem),
        signature_(signature_of(problem)),
        operands_(operands),
        device_(operands.device()),
        rows_(rows),
        max_products_(max_products),
        weights_norm_(std::sqrt(dot(rows.weights.data(), rows.weights.data(), rows.view.columns))) {}

  std::vector<RowSum> run() {
    if (problem_.op == Op::conv_bwd_weight) {
      of_filter();
    } else {
      of_image();
    }
    return std::move(sums_);
  }

 private:
  static double dot(const double* a, const double* b, std::int64_t count) {
    return lane_sum(count, [&](std::int64_t i) { return a[i] * b[i]; });
  }

  /// Draws as many of `candidates` as the budget allows; at least one.
  std::vector<std::int64_t> drawn(const std::vector<std::int64_t>& candidates,
                                  double products_of_each) const {
    const double share = max_products_ / (products_of_each * static_cast<double>(candidates.size()));
    if (share >= 1) return candidates;
    std::vector<std::int64_t> chosen;
    std::uint64_t random = fields_hash(problem_);
    for (const std::int64_t one : candidates) {
      random = mix_hash(random, 1);
      if (static_cast<double>(random >> 11) * 0x1p-53 < share) chosen.push_back(one);
    }
    if (chosen.empty()) chosen.push_back(candidates[random % candidates.size()]);
    return chosen;
  }
  std::vector<std::int64_t> drawn(std::int64_t count, double products_of_each) const {
    std::vector<std::int64_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), std::int64_t{0});
    return drawn(all, products_of_each);
  }

  /// The rows of all images or, where the budget does not allow all, of a few: each image that has a drawn
  /// row is read whole.
  std::vector<std::int64_t> drawn_rows(std::int64_t pixels, double products_of_each) const {
    constexpr std::int64_t kImages = 16;
    if (problem_.n <= kImages || max_products_ >= products_of_each * static_cast<double>(rows_.count()))
      return drawn(rows_.count(), products_of_each);
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < kImages; ++i) {
      const std::int64_t image = i * (problem_.n - 1) / (kImages - 1);  // the first and the last among them
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel) rows.push_back(image * pixels + pixel);
    }
    return drawn(rows, products_of_each);
  }

  /// `norms`: sum over the row's elements of |a| |b| times the element's weight. `products`: products per
  /// element. gemm_reference.h derives the tolerance.
  RowSum row_sum(std::int64_t row, double products_sum, double norms, std::int64_t products) const {
    const double value = products_sum + bias_sum_;
    const double store = round_off(signature_.dtype_c);
    // Includes the round-off of our own sums.
    const double unit = sum_round_off(signature_.dtype_a, signature_.dtype_acc, products) + 0x1p-50;
    const double root = std::sqrt(std::max(1.0, static_cast<double>(products)));
    const double size = norms * std::min(1.0, 2 / root) + bias_norm_;  // the signs of products are random
    const double parts = problem_.op == Op::conv_bwd_weight ? kPartsSlack * store * size : 0;
    return {row, value,
            kSlack * (unit * norms + store * size + step(signature_.dtype_c) * weights_norm_) + parts};
  }

  /// For each pixel of `of`, the pixel that each tap combines with it; -1: none.
  std::vector<std::int64_t> met_pixels(const ConvImage& of) const {
    const bool output = &of == &g_.out;
    std::vector<std::int64_t> met;
    met.reserve(static_cast<std::size_t>(of.pixels() * g_.taps()));
    for (std::int64_t pixel = 0; pixel < of.pixels(); ++pixel) {
      for (std::int64_t tap = 0; tap < g_.taps(); ++tap)
        met.push_back(output ? g_.met_input(pixel, tap) : g_.met_output(pixel, tap));
    }
    return met;
  }

  // ---- C is an image: sums over the image that is read, with the filters of all channels of C added up

  void of_image() {
    const bool forward = problem_.op == Op::conv_fwd;
    const ConvImage& from = forward ? g_.in : g_.out;
    const ConvImage& to = forward ? g_.out : g_.in;
    const std::int64_t channels = from.channels, taps = g_.taps();
    add_filters();
    add_bias();
    const std::vector<std::int64_t> met = met_pixels(to);
    const std::vector<std::int64_t> chosen = drawn_rows(to.pixels(), static_cast<double>(taps * channels));
    sums_.resize(chosen.size());
    in_parts(static_cast<std::int64_t>(chosen.size()),
             [&](std::int64_t, std::int64_t first, std::int64_t end) {
               std::int64_t image = -1;
               std::vector<double> values, squares;
               for (std::int64_t i = first; i < end; ++i) {
                 const std::int64_t row = chosen[static_cast<std::size_t>(i)];
                 if (row / to.pixels() != image) {
                   image = row / to.pixels();
                   values = read_image(device_, signature_.dtype_a, operands_.a(), from, image);
                   squares = weighted_squares(values, from);
                 }
                 double value = 0, square = 0;
                 std::int64_t taps_met = 0;
                 for (std::int64_t tap = 0; tap < taps; ++tap) {
                   const std::int64_t pixel = met[static_cast<std::size_t>(row % to.pixels() * taps + tap)];
                   if (pixel < 0) continue;
                   value += dot(values.data() + pixel * channels, filter_.data() + tap * channels, channels);
                   square += squares[static_cast<std::size_t>(pixel)];
                   ++taps_met;
                 }
                 sums_[static_cast<std::size_t>(i)] =
                     row_sum(row, value, std::sqrt(square), taps_met * channels / g_.groups);
               }
             });
  }

  /// Computes the weighted sum of the bias over the channels of C, which every row has, and its norm.
  void add_bias() {
    if (!has_bias(problem_.epilogue)) return;
    const auto bias = read(device_, signature_.dtype_c, operands_.operand(kBias), 0, problem_.k);
    double squares = 0;
    for (std::size_t k = 0; k < bias.size(); ++k) {
      const double term = rows_.weights[k] * bias[k];
      bias_sum_ += term;
      squares += term * term;
    }
    bias_norm_ = std::sqrt(squares);
  }

  /// Computes filter_ by tap and channel of the image that is read, and filter_squares_ by group: weighted
  /// sums over the channels of C.
  void add_filters() {
    const bool forward = problem_.op == Op::conv_fwd;
    const std::int64_t taps = g_.taps(), width = g_.c_of_group, channels = forward ? problem_.c : problem_.k;
    filter_.assign(static_cast<std::size_t>(taps * channels), 0);
    filter_squares_.assign(static_cast<std::size_t>(problem_.g), 0);
    const auto all = read(device_, signature_.dtype_b, operands_.b(), 0, problem_.k * taps * width);
    for (std::int64_t k = 0; k < problem_.k; ++k) {
      const std::int64_t group = k / g_.k_of_group, first_c = group * width;
      const double* const own = all.data() + k * taps * width;
      double& squares = filter_squares_[static_cast<std::size_t>(group)];
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        double* const sums = filter_.data() + tap * channels;
        for (std::int64_t c = 0; c < width; ++c) {
          const double weight = rows_.weights[static_cast<std::size_t>(forward ? k : first_c + c)];
          const double term = weight * own[tap * width + c];
          sums[forward ? first_c + c : k] += term;
          squares += term * term;
        }
      }
    }
  }

  /// For each pixel, the sum of squares, weighted per group by filter_squares_.
  std::vector<double> weighted_squares(const std::vector<double>& values, const ConvImage& image) const {
    const std::int64_t width = image.channels / g_.groups;
    std::vector<double> squares(static_cast<std::size_t>(image.pixels()), 0);
    const double* own = values.data();
    for (double& sum : squares) {
      for (std::int64_t group = 0; group < g_.groups; ++group, own += width)
        sum += filter_squares_[static_cast<std::size_t>(group)] * dot(own, own, width);
    }
    return squares;
  }

  // ---- C is the filter: output channels times sums over the input channels of their group

  void of_filter() {
    const std::int64_t taps = g_.taps(), pixels = g_.out.pixels();
    const std::vector<std::int64_t> met = met_pixels(g_.out);
    const std::vector<std::int64_t> chosen =
        drawn(problem_.k, static_cast<double>(problem_.n * pixels) * static_cast<double>(taps));
    const std::vector<Run> runs = runs_of(chosen);
    const auto some = static_cast<std::int64_t>(chosen.size()),
               count = static_cast<std::int64_t>(runs.size());
    struct Accumulators {
      std::vector<double> value, square_a, square_b;
      std::vector<std::int64_t> times_met;
      void add(const Accumulators& other) {
        const auto add_to = [](auto& to, const auto& from) {
          for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
        };
        add_to(value, other.value);
        add_to(square_a, other.square_a);
        add_to(square_b, other.square_b);
        add_to(times_met, other.times_met);
      }
    };
    const auto zeros = [](std::int64_t size) {
      return std::vector<double>(static_cast<std::size_t>(size), 0);
    };
    std::vector<Accumulators> of_part(kParts, {zeros(taps * some), zeros(some), zeros(taps * count),
                                               std::vector<std::int64_t>(static_cast<std::size_t>(taps), 0)});
    in_parts(problem_.n, [&](std::int64_t part, std::int64_t first, std::int64_t end) {
      Accumulators& own = of_part[static_cast<std::size_t>(part)];
      for (std::int64_t n = first; n < end; ++n) {
        const auto output =
            chosen_channels(read_image(device_, signature_.dtype_a, operands_.a(), g_.out, n), chosen);
        const InputSums input =
            input_sums(read_image(device_, signature_.dtype_b, operands_.b(), g_.in, n), runs);
        for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
          const double* const from = output.data() + pixel * some;
          for (std::int64_t i = 0; i < some; ++i)
            own.square_a[static_cast<std::size_t>(i)] += from[i] * from[i];
          for (std::int64_t tap = 0; tap < taps; ++tap) {
            const std::int64_t other = met[static_cast<std::size_t>(pixel * taps + tap)];
            if (other < 0) continue;
            ++own.times_met[static_cast<std::size_t>(tap)];
            double* const sums = own.value.data() + tap * some;
            for (std::int64_t r = 0; r < count; ++r) {
              const Run& run = runs[static_cast<std::size_t>(r)];
              const double with = input.value[static_cast<std::size_t>(other * count + r)];
              for (std::int64_t i = run.first; i < run.end; ++i) sums[i] += from[i] * with;
              own.square_b[static_cast<std::size_t>(tap * count + r)] +=
                  input.square[static_cast<std::size_t>(other * count + r)];
            }
          }
        }
      }
    });
    Accumulators& all = of_part.front();
    for (std::size_t part = 1; part < of_part.size(); ++part) all.add(of_part[part]);
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t i = runs[static_cast<std::size_t>(r)].first;
           i < runs[static_cast<std::size_t>(r)].end; ++i) {
        for (std::int64_t tap = 0; tap < taps; ++tap) {
          sums_.push_back(row_sum(chosen[static_cast<std::size_t>(i)] * taps + tap,
                                  all.value[static_cast<std::size_t>(tap * some + i)],
                                  std::sqrt(all.square_a[static_cast<std::size_t>(i)] *
                                            all.square_b[static_cast<std::size_t>(tap * count + r)]),
                                  all.times_met[static_cast<std::size_t>(tap)]));
        }
      }
    }
  }

  /// Adjacent chosen output channels of one group.
  struct Run {
    std::int64_t first, end, group;
  };
  std::vector<Run> runs_of(std::span<const std::int64_t> chosen) const {
    std::vector<Run> runs;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const std::int64_t group = chosen[i] / g_.k_of_group;
      if (runs.empty() || runs.back().group != group) runs.push_back({at, at, group});
      runs.back().end = at + 1;
    }
    return runs;
  }

  /// The chosen channels of each pixel of an output image.
  std::vector<double> chosen_channels(std::vector<double> image, std::span<const std::int64_t> chosen) const {
    const auto some = static_cast<std::int64_t>(chosen.size());
    if (some == problem_.k) return image;
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(g_.out.pixels() * some));
    for (std::int64_t pixel = 0; pixel < g_.out.pixels(); ++pixel) {
      for (const std::int64_t k : chosen)
        values.push_back(image[static_cast<std::size_t>(pixel * problem_.k + k)]);
    }
    return values;
  }

  /// By pixel of an input image and by run: sums over the input channels of the run's group.
  struct InputSums {
    std::vector<double> value, square;
  };
  InputSums input_sums(const std::vector<double>& image, std::span<const Run> runs) const {
    const double* const weights = rows_.weights.data();
    const std::int64_t width = g_.c_of_group;
    InputSums sums;
    sums.value.reserve(static_cast<std::size_t>(g_.in.pixels()) * runs.size());
    sums.square.reserve(sums.value.capacity());
    for (std::int64_t pixel = 0; pixel < g_.in.pixels(); ++pixel) {
      for (const Run& run : runs) {
        const double* const own = image.data() + pixel * problem_.c + run.group * width;
        sums.value.push_back(dot(own, weights, width));
        sums.square.push_back(
            lane_sum(width, [&](std::int64_t c) { return own[c] * own[c] * weights[c] * weights[c]; }));
      }
    }
    return sums;
  }

  const ConvProblem& problem_;
  ConvGeometry g_;
  Signature signature_;
  const GemmOperands& operands_;
  Instruments& device_;
  const ConvRows& rows_;
  double max_products_, weights_norm_;
  double bias_sum_ = 0, bias_norm_ = 0;  ///< of every row; 0 without a bias
  std::vector<double> filter_, filter_squares_;
  std::vector<RowSum> sums_;
};

}  // namespace

ConvRows::ConvRows(const ConvProblem& problem)
    : view(matrix_of(problem)), items(view.row_major ? 1 : problem.n), weights(row_weights(view.columns)) {}

std::vector<RowSum> row_sums(const ConvProblem& problem, const GemmOperands& operands, const ConvRows& rows,
                             double max_products) {
  return Sums(problem, operands, rows, max_products).run();
}

}  // namespace kscout
