// A module for backend cuda whose GPUs are this machine's CPU (the second one claims to be an H100). It
// implements the interface of src/backend/cuda/module.h in plain memory, with a library that names four
// algorithms. Split-K slices are summed one by one. Code above that interface can so be tested without a GPU.
//
// HOST_GPU_LOG names a file that gets a line for each opened GPU, prepared algorithm, run and allocation.
// HOST_GPU_FAIL= prepare|run|allocate makes that fail; busy: each timed call finds the GPU idle.
// With HOST_GPU_SKIP, nothing is computed.
// HOST_GPU_CUBLASLT is the release of the library. Compiled with HOST_GPU_NEXT, the library is a later
// release: it numbers algorithms anew, each of them takes certain attributes only (takes()), and
// algorithm 123 computes wrong results with option 1.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/cuda/module.h"
#include "backend/cuda/module/hopper_conv_tiles.h"
#include "instruments/elements.h"
#include "op/gemm/gemm_reference.h"
#include "provider/groupwise/groupwise.h"

namespace kscout::cuda {
namespace {

thread_local std::string reason;

CallStatus say(CallStatus answer, std::string why) {
  reason = std::move(why);
  return answer;
}

void log(const std::string& line) {
  const char* const file = std::getenv("HOST_GPU_LOG");
  std::FILE* const to = file ? std::fopen(file, "a") : nullptr;
  if (!to) return;
  std::fprintf(to, "%s\n", line.c_str());
  std::fclose(to);
}

/// HOST_GPU_FAIL names what fails: "run", or "run:3" for the third time only.
bool has_to_fail(const char* at) {
  static std::atomic<long> times = 0;
  const char* const named = std::getenv("HOST_GPU_FAIL");
  const std::size_t length = std::strlen(at);
  if (!named || std::strncmp(named, at, length) != 0) return false;
  if (named[length] == ':') return ++times == std::atol(named + length + 1);
  return named[length] == 0;
}

std::string text(const CublasLtConfig& a) {
  return fmt::format("a{}_{}x{}x{}_st{}_s{}", a.algorithm, a.tile_m, a.tile_n, a.tile_k, a.stages, a.split_k);
}

double now_us() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_nsec);
}

#ifdef HOST_GPU_NEXT
constexpr std::int32_t kRelease = 130200;
/// Of the three algorithms that most configs of the H200's models name: 66 is 166 now, 24 is 124, 23 is 123.
/// The new 24 is another algorithm; algorithms of vectors are no more.
bool takes(const CublasLtConfig& a) {
  if (a.algorithm == 166) return a.cluster_m > 0 && a.tile_k > 0 && a.stages == 0;
  if (a.algorithm == 124) return a.tile_m >= 64 && a.tile_k == 0;
  if (a.algorithm == 123) return a.cluster_m == 0 && a.stages > 0;
  if (a.algorithm == 107) return a.tile_k == 32;
  return a.algorithm == 109 && a.tile_m == 32;
}
bool is_wrong(const CublasLtConfig& a) { return a.algorithm == 123 && a.custom == 1; }
constexpr std::int32_t kFirst = 107, kSecond = 109, kThird = 166;
#else
constexpr std::int32_t kRelease = 130100;
constexpr std::int32_t kFirst = 7, kSecond = 9, kThird = 66;
bool takes(const CublasLtConfig&) { return true; }
bool is_wrong(const CublasLtConfig&) { return false; }
#endif

constexpr std::size_t kAlignment = 256;  // of memory, as the GPU's

// Of kinds that the shipped models know (select/algorithm_kind.h).
constexpr CublasLtConfig kSuggested[] = {{kRelease, 0, kFirst, 64, 64, 32, 3, 1, 0, 0, 0, 0, 0, 0},
                                         {kRelease, 0, kFirst, 128, 64, 32, 3, 1, 0, 1, 0, 0, 0, 0},
                                         {kRelease, 0, kSecond, 32, 8, 0, 0, 1, 0, 0, 0, 0, 0, 0},
                                         {kRelease, 0, kThird, 64, 64, 64, 0, 9, 2, 0, 0, 0, 1, 1}};
constexpr auto kSuggestions = static_cast<std::int32_t>(std::size(kSuggested));

std::int32_t library_release() {
  const char* const named = std::getenv("HOST_GPU_CUBLASLT");
  return named ? std::atoi(named) : kRelease;
}

MatrixView view(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t leading,
                std::int64_t stride, bool row_major) {
  return {dtype, rows, columns, leading, stride, row_major};
}

double load(const MatrixView& of, const void* data, std::int64_t at) {
  return with_element(of.dtype, [&]<class E>() { return E::load(data, at); });
}

/// How many products of each sum of K the algorithm adds up: 9 forgets the last when K is odd, 66 the last
/// ones when its parts are whole tiles that together are shorter than K.
std::int64_t depth_of(const CublasLtConfig& a, std::int64_t k) {
  if (a.algorithm == kSecond) return k / 2 * 2;
  if (is_wrong(a)) return k / 2;
  if (a.algorithm != kThird) return k;
  const std::int64_t part = (k / a.split_k + a.tile_k - 1) / a.tile_k * a.tile_k;
  return std::min(k, part * a.split_k);
}

class HostMatmul final : public Matmul {
 public:
  HostMatmul(const MatmulShape& shape, const CublasLtConfig& algorithm) : s_(shape), algorithm_(algorithm) {}
  /// Of cuBLASLt's algorithms all but one have a workspace, of other kernels those that divide K.
  std::uint64_t workspace_bytes() const noexcept override {
    const bool none = algorithm_.algorithm == 0 ? algorithm_.split_k <= 1 : algorithm_.algorithm == kSecond;
    return none ? 0 : 256;
  }
  CublasLtConfig algorithm() const noexcept override { return algorithm_; }
  void destroy() noexcept override { delete this; }

  CallStatus run(const MatmulCall& call, void* stream) noexcept override {
    log(fmt::format("run {} workspace {} stream {}", text(algorithm_), call.workspace, stream));
    if (has_to_fail("run")) return say(CallStatus::failed, "it has to");
    if (std::getenv("HOST_GPU_SKIP")) return CallStatus::done;
    const bool row_a = row_major_a(s_.layout), row_b = row_major_b(s_.layout);
    const MatrixView a = view(s_.dtype_a, s_.m, s_.k, s_.lda, s_.stride_a, row_a),
                     b = view(s_.dtype_b, s_.k, s_.n, s_.ldb, s_.stride_b, row_b),
                     c = view(s_.dtype_c, s_.m, s_.n, s_.ldc, s_.stride_c, true);
    const std::int64_t depth = depth_of(algorithm_, s_.k), slices = std::max(algorithm_.split_k, 1);
    const std::int64_t slice = std::max<std::int64_t>((depth + slices - 1) / slices, 1);
    for (std::int64_t item = 0; item < s_.batch; ++item) {
      for (std::int64_t i = 0; i < s_.m; ++i) {
        for (std::int64_t j = 0; j < s_.n; ++j) {
          float sum = 0, part = 0;
          for (std::int64_t l = 0; l < depth; ++l) {
            part += static_cast<float>(load(a, call.a, a.at(item, i, l)) * load(b, call.b, b.at(item, l, j)));
            if ((l + 1) % slice != 0 && l + 1 < depth) continue;
            sum += std::exchange(part, 0.0F);
          }
          double value = call.alpha * static_cast<double>(sum);
          if (call.beta != 0) value += call.beta * load(c, call.c, c.at(item, i, j));
          if (call.bias) value += load(c, call.bias, j);
          with_element(s_.dtype_c, [&]<class E>() {
            E::store(call.c, c.at(item, i, j), apply_epilogue(s_.epilogue, value));
          });
        }
      }
    }
    return CallStatus::done;
  }

 private:
  MatmulShape s_;
  CublasLtConfig algorithm_;
};

/// A grouped GEMM: one product after the other.
class HostGrouped final : public Matmul {
 public:
  HostGrouped(MatmulShape shape, const HopperConfig& kernel, std::span<const std::int64_t> rows)
      : shape_(shape), kernel_(kernel), rows_(rows.begin(), rows.end()) {
    shape_.batch = 1;
  }
  std::uint64_t workspace_bytes() const noexcept override { return 0; }
  void destroy() noexcept override { delete this; }

  CallStatus run(const MatmulCall& call, void* stream) noexcept override {
    log(fmt::format("run grouped 128x{} c{}", kernel_.tile_n, kernel_.cluster));
    MatmulCall one = call;
    const auto bytes = [](DType dtype, std::int64_t elements) {
      return static_cast<std::size_t>(elements) * element_bytes(dtype);
    };
    for (const std::int64_t rows : rows_) {
      shape_.m = rows;
      HostMatmul(shape_, {}).run(one, stream);
      one.a = static_cast<const std::byte*>(one.a) + bytes(shape_.dtype_a, rows * shape_.k);
      one.b = static_cast<const std::byte*>(one.b) + bytes(shape_.dtype_b, shape_.stride_b);
      one.c = static_cast<std::byte*>(one.c) + bytes(shape_.dtype_c, rows * shape_.n);
    }
    return CallStatus::done;
  }

 private:
  MatmulShape shape_;
  HopperConfig kernel_;
  std::vector<std::int64_t> rows_;
};

/// A convolution of provider groupwise or hopper, through the walks that its kernels take.
class HostConv final : public Matmul {
 public:
  HostConv(const ConvShape& shape, const char* provider, std::int32_t split_k)
      : s_(shape), provider_(provider), split_k_(split_k) {}
  std::uint64_t workspace_bytes() const noexcept override { return split_k_ > 1 ? 256 : 0; }
  void destroy() noexcept override { delete this; }

  CallStatus run(const MatmulCall& call, void* stream) noexcept override {
    if (has_to_fail("run")) return say(CallStatus::failed, "it has to");
    log(fmt::format("run {} k{} workspace {} stream {}", provider_, split_k_, call.workspace, stream));
    const bool data = s_.direction == Direction::backward_data;
    for (std::int32_t d = 0; d < classes_of(s_.direction, s_.axes[0]); ++d) {
      for (std::int32_t h = 0; h < classes_of(s_.direction, s_.axes[1]); ++h) {
        for (std::int32_t w = 0; w < classes_of(s_.direction, s_.axes[2]); ++w) {
          walks_ = {walk_of(s_.direction, s_.axes[0], d), walk_of(s_.direction, s_.axes[1], h),
                    walk_of(s_.direction, s_.axes[2], w)};
          if (s_.direction == Direction::backward_weight) {
            run_weight(call);
          } else {
            run_images(call, data ? s_.k / s_.g : s_.c / s_.g, data ? s_.c / s_.g : s_.k / s_.g);
          }
        }
      }
    }
    return CallStatus::done;
  }

 private:
  struct Place {
    std::int64_t pixel;
    bool inside;
  };
  /// What result `at` reads by tap `tap`.
  Place source(std::int64_t image, const std::array<std::int32_t, 3>& at,
               const std::array<std::int32_t, 3>& tap) const {
    Place place{image, true};
    for (std::size_t i = 0; i < 3; ++i) {
      const Walk& walk = walks_[i];
      const std::int64_t position = walk.base + at[i] * walk.step + tap[i] * walk.tap_step;
      place.inside = place.inside && position >= 0 && position < walk.source;
      place.pixel = place.pixel * walk.source + position;
    }
    return place;
  }
  template <class Visit>
  static void each(std::int32_t a, std::int32_t b, std::int32_t c, Visit visit) {
    for (std::int32_t i = 0; i < a; ++i) {
      for (std::int32_t j = 0; j < b; ++j) {
        for (std::int32_t l = 0; l < c; ++l) visit(std::array{i, j, l});
      }
    }
  }
  std::int64_t filter_element(const std::array<std::int32_t, 3>& tap) const {
    std::int64_t element = 0;
    for (std::size_t i = 0; i < 3; ++i)
      element = element * s_.axes[i].filter + walks_[i].first_tap + tap[i] * walks_[i].next_tap;
    return element;
  }
  std::int64_t taps() const {
    return std::int64_t{s_.axes[0].filter} * s_.axes[1].filter * s_.axes[2].filter;
  }
  double element(const void* data, std::int64_t at) const {
    return with_element(s_.dtype, [&]<class E>() { return E::load(data, at); });
  }
  void store(void* data, std::int64_t at, double value) const {
    with_element(s_.dtype, [&]<class E>() { E::store(data, at, value); });
  }

  void run_images(const MatmulCall& call, std::int64_t read, std::int64_t made) {
    const bool data = s_.direction == Direction::backward_data;
    const std::int64_t per_k = data ? read : made, per_c = data ? made : read;
    const auto size = [&](std::size_t i) { return data ? s_.axes[i].in : s_.axes[i].out; };
    for (std::int64_t image = 0; image < s_.n; ++image) {
      each(walks_[0].count, walks_[1].count, walks_[2].count, [&](const auto& at) {
        std::int64_t result = image;
        for (std::size_t i = 0; i < 3; ++i)
          result = result * size(i) + walks_[i].out_first + at[i] * walks_[i].out_step;
        for (std::int64_t channel = 0; channel < made * s_.g; ++channel) {
          const std::int64_t group = channel / made;
          double sum = 0;
          each(walks_[0].taps, walks_[1].taps, walks_[2].taps, [&](const auto& tap) {
            const Place place = source(image, at, tap);
            if (!place.inside) return;
            for (std::int64_t other = 0; other < read; ++other) {
              const std::int64_t k = group * per_k + (data ? other : channel % made);
              const std::int64_t c = data ? channel % made : other;
              sum += element(call.a, place.pixel * read * s_.g + group * read + other) *
                     element(call.b, (k * taps() + filter_element(tap)) * per_c + c);
            }
          });
          store(call.c, result * made * s_.g + channel, sum);
        }
      });
    }
  }
  void run_weight(const MatmulCall& call) {
    const std::int64_t per_k = s_.k / s_.g, per_c = s_.c / s_.g;
    each(walks_[0].taps, walks_[1].taps, walks_[2].taps, [&](const auto& tap) {
      for (std::int64_t k = 0; k < s_.k; ++k) {
        for (std::int64_t c = 0; c < per_c; ++c) {
          double sum = 0;
          for (std::int64_t image = 0; image < s_.n; ++image) {
            each(walks_[0].count, walks_[1].count, walks_[2].count, [&](const auto& at) {
              const Place place = source(image, at, tap);
              if (!place.inside) return;
              std::int64_t pixel = image;
              for (std::size_t i = 0; i < 3; ++i) pixel = pixel * walks_[i].count + at[i];
              sum += element(call.a, pixel * s_.k + k) *
                     element(call.b, place.pixel * s_.c + k / per_k * per_c + c);
            });
          }
          store(call.c, (k * taps() + filter_element(tap)) * per_c + c, sum);
        }
      }
    });
  }

  ConvShape s_;
  const char* provider_;
  std::int32_t split_k_;
  std::array<Walk, 3> walks_ = {};
};

CallStatus prepare_cublaslt(const AnyShape& shape, std::span<const std::int32_t> axes, Matmul** matmul) {
  const auto algorithm = config_from<CublasLtConfig>(axes);
  if (!algorithm.is_named() && algorithm.suggestion > kSuggestions)
    return say(CallStatus::unsupported, "fewer are suggested");
  const CublasLtConfig& chosen = algorithm.is_named() ? algorithm : kSuggested[algorithm.suggestion - 1];
  log("prepare " + text(chosen));
  if (has_to_fail("prepare")) return say(CallStatus::failed, "it has to");
  if (!takes(chosen)) return say(CallStatus::unsupported, "it has other attributes");
  if (chosen.tile_m > 128) return say(CallStatus::unsupported, "the tile is too large");
  *matmul = new HostMatmul(*shape.product, chosen);
  return CallStatus::done;
}

CallStatus prepare_hopper(const AnyShape& shape, std::span<const std::int32_t> axes, Matmul** matmul) {
  const auto kernel = config_from<HopperConfig>(axes);
  if (shape.conv) {
    if (const char* const why = hopper_conv_refusal(*shape.conv, kernel))
      return say(CallStatus::unsupported, why);
    *matmul = new HostConv(*shape.conv, "hopper", kernel.split_k);
  } else if (!shape.rows.empty()) {
    *matmul = new HostGrouped(*shape.product, kernel, shape.rows);
  } else {
    *matmul = new HostMatmul(*shape.product, {.split_k = kernel.split_k});
  }
  return CallStatus::done;
}

CallStatus prepare_groupwise(const AnyShape& shape, std::span<const std::int32_t> axes, Matmul** matmul) {
  *matmul = new HostConv(*shape.conv, "groupwise", config_from<GroupwiseConfig>(axes).split_k);
  return CallStatus::done;
}

/// Of the tests' provider (tests/ops/slices).
CallStatus prepare_slices(const AnyShape& shape, std::span<const std::int32_t> axes, Matmul** matmul) {
  *matmul = new HostMatmul(*shape.product, {.split_k = axes[0]});
  return CallStatus::done;
}

struct Kernels {
  std::string_view provider;
  CallStatus (*prepare)(const AnyShape& shape, std::span<const std::int32_t> axes, Matmul** matmul);
};
constexpr Kernels kKernels[] = {{"cublaslt", prepare_cublaslt},
                                {"hopper", prepare_hopper},
                                {"groupwise", prepare_groupwise},
                                {"slices", prepare_slices}};

class HostModule final : public Module {
 public:
  const char* error() const noexcept override { return reason.c_str(); }

  CallStatus facts(std::int32_t device, Facts* facts) noexcept override {
    *facts = {};
    std::strcpy(facts->model, device == 1 ? "NVIDIA H100 80GB HBM3" : "NVIDIA H200");
    facts->devices = 2;
    facts->compute_major = 9;
    facts->cores = 132;
    facts->max_threads_per_core = 2048;
    facts->warp_lanes = 32;
    facts->l2_bytes = 62914560;
    facts->memory_bytes = 1e9;
    facts->driver_version = 13000;
    facts->cublaslt_version = library_release();
    return device < 2 ? CallStatus::done : say(CallStatus::unsupported, "there are two");
  }
  CallStatus state(State* state) noexcept override {
    *state = {};
    return CallStatus::done;
  }
  CallStatus open(std::int32_t device) noexcept override {
    log(fmt::format("open {}", device));
    return CallStatus::done;
  }
  bool healthy() noexcept override { return true; }

  CallStatus allocate(std::uint64_t bytes, void** memory) noexcept override {
    if (has_to_fail("allocate")) return say(CallStatus::failed, "it has to");
    *memory = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
    if (!*memory) return say(CallStatus::failed, "out of memory");
    log(fmt::format("allocate {} at {}", bytes, *memory));
    return CallStatus::done;
  }
  void release(void* memory) noexcept override {
    log(fmt::format("release {}", memory));
    std::free(memory);
  }
  CallStatus copy(const MatrixCopy& copy, void*) noexcept override {
    host_memory().copy(copy, {});
    return CallStatus::done;
  }
  CallStatus set(void* to, std::uint8_t value, std::uint64_t bytes, void*) noexcept override {
    std::memset(to, value, bytes);
    return CallStatus::done;
  }
  CallStatus read(void* to_host, const void* from, std::uint64_t bytes, void*) noexcept override {
    std::memcpy(to_host, from, bytes);
    return CallStatus::done;
  }
  CallStatus write(void* to, const void* from_host, std::uint64_t bytes, void*) noexcept override {
    std::memcpy(to, from_host, bytes);
    return CallStatus::done;
  }

  CallStatus fill(DType dtype, void* data, std::int64_t count, Operand operand,
                  const std::uint32_t* flips) noexcept override {
    with_element(dtype, [&]<class E>() {
      for (std::int64_t i = 0; i < count; ++i) {
        const auto within = static_cast<std::uint32_t>(i % kFillBlock);
        const std::uint32_t bits =
            scatter((static_cast<std::uint32_t>(operand) << 16) + within + 1) ^ flips[i / kFillBlock];
        E::store(data, i, static_cast<std::int32_t>(bits) * (E::round_off == 0 ? 0x1p-28 : 0x1p-31));
      }
    });
    return CallStatus::done;
  }
  CallStatus gather(DType dtype, const void* data, const std::int64_t* indices, std::int64_t count,
                    double* out) noexcept override {
    host_instruments().gather(dtype, data, {indices, static_cast<std::size_t>(count)},
                              {out, static_cast<std::size_t>(count)});
    return CallStatus::done;
  }
  CallStatus multiply(const MatrixView& of, const void* data, std::int64_t items, const double* x,
                      bool of_each_item, Squares what, double* value, double* squares) noexcept override {
    const auto entries = static_cast<std::size_t>(of.columns * (of_each_item ? items : 1));
    const Product product = host_instruments().multiply(of, data, items, {x, entries}, what);
    std::copy(product.value.begin(), product.value.end(), value);
    std::copy(product.squares.begin(), product.squares.end(), squares);
    return CallStatus::done;
  }
  CallStatus evict() noexcept override { return CallStatus::done; }
  CallStatus stamp(int which) noexcept override {
    stamps_[which] = now_us();
    return CallStatus::done;
  }
  CallStatus elapsed(double* us) noexcept override {
    *us = std::max(stamps_[1] - stamps_[0], 0.1);
    return CallStatus::done;
  }
  CallStatus make_event(void** event) noexcept override {
    *event = &events_.emplace_back();
    return CallStatus::done;
  }
  CallStatus record_event(void* event, void*) noexcept override {
    *static_cast<double*>(event) = now_us();
    return CallStatus::done;
  }
  CallStatus between_events(void* begin, void* end, bool* passed, double* us) noexcept override {
    // Work before the first event keeps the GPU busy, unless it has to be idle.
    *passed = begin != end || has_to_fail("busy");
    *us = std::max(*static_cast<double*>(end) - *static_cast<double*>(begin), 0.1);
    return CallStatus::done;
  }
  /// A stream that captures, for tests: the one that capture() names.
  CallStatus is_capturing(void* stream, bool* captures) noexcept override {
    *captures = stream == this;
    return CallStatus::done;
  }

  CallStatus capture(void** stream) noexcept override {
    *stream = this;
    return CallStatus::done;
  }
  CallStatus end_capture() noexcept override { return CallStatus::done; }
  CallStatus replay() noexcept override { return CallStatus::done; }

  CallStatus prepare(const AnyShape& shape, std::string_view provider, std::span<const std::int32_t> axes,
                     std::uint64_t, Matmul** matmul) noexcept override {
    for (const auto& [name, prepare] : kKernels) {
      if (name == provider) return prepare(shape, axes, matmul);
    }
    return say(CallStatus::unsupported, "another provider");
  }
  CallStatus suggest(const MatmulShape&, std::uint64_t, CublasLtConfig* out, std::int32_t capacity,
                     std::int32_t* count) noexcept override {
    *count = std::min(capacity, kSuggestions);
    std::copy_n(kSuggested, *count, out);
    for (CublasLtConfig& one : std::span(out, static_cast<std::size_t>(*count)))
      one.version = library_release();
    return CallStatus::done;
  }

 private:
  double stamps_[2] = {};
  std::deque<double> events_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) Module* kscout_cuda_module(std::uint32_t abi) {
  static HostModule module;
  return abi == kModuleAbi ? &module : nullptr;
}

}  // namespace kscout::cuda
