#include "preload/guard.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <kscout/backend.h>
#include <kscout/family.h>

#include "backend/cuda/cuda_backend.h"
#include "core/problem_text.h"
#include "dispatch/any_address.h"
#include "preload/apart.h"
#include "preload/say.h"

namespace kscout::preload {

namespace {

/// More memory than this is not taken to examine a problem.
constexpr std::size_t kMaxBytes = std::size_t{256} << 20;
/// The largest alignment on which a choice may depend, of addresses and of memory for operands.
constexpr std::uintptr_t kAlignment = 256;

std::uint8_t alignment_of(const void* address) noexcept {
  return static_cast<std::uint8_t>(std::countr_zero(reinterpret_cast<std::uintptr_t>(address) | kAlignment));
}

/// The numbers 1 and 0 as alpha and beta may be.
struct Factors {
  std::array<std::uint32_t, 2> one{}, zero{};
};
std::optional<Factors> factors_of(int scale_type) noexcept {
  constexpr int kR32F = 0, kR16F = 2, kR32I = 10;
  switch (scale_type) {
    case kR32F:
      return Factors{.one = {std::bit_cast<std::uint32_t>(1.0F)}};
    case kR16F:
      return Factors{.one = {0x3c00}};
    case kR32I:
      return Factors{.one = {1}};
    default:
      return std::nullopt;
  }
}

using Algorithm = std::array<std::uint64_t, 8>;  // cublasLtMatmulAlgo_t

std::string digits_of(const Algorithm& algorithm) { return fmt::format("{:016x}", fmt::join(algorithm, "")); }
bool from_digits(std::string_view digits, Algorithm& algorithm) {
  constexpr std::size_t kDigits = 16;
  if (digits.size() != kDigits * algorithm.size()) return false;
  for (std::size_t i = 0; i < algorithm.size(); ++i) {
    const char* const first = digits.data() + i * kDigits;
    const auto [stop, error] = std::from_chars(first, first + kDigits, algorithm[i], 16);
    if (error != std::errc() || stop != first + kDigits) return false;
  }
  return true;
}

/// Memory of the GPU for the operands of one problem.
class SideMemory {
 public:
  explicit SideMemory(const Driver& driver) : driver_(driver) {}
  ~SideMemory() {
    if (memory_) driver_.release(memory_);
  }
  SideMemory(const SideMemory&) = delete;
  SideMemory& operator=(const SideMemory&) = delete;

  /// A piece with the same alignment as an address.
  void add(std::size_t bytes, const void* like) {
    size_ = (size_ + kAlignment - 1) / kAlignment * kAlignment +
            reinterpret_cast<std::uintptr_t>(like) % kAlignment;
    pieces_.push_back({size_, bytes});
    size_ += bytes;
  }
  std::size_t size() const noexcept { return size_; }
  bool allocate() noexcept { return driver_.allocate(&memory_, size_) == 0; }
  void* at(std::size_t piece) const noexcept {
    return reinterpret_cast<void*>(memory_ + pieces_[piece].offset);  // NOLINT: an address of the GPU
  }
  bool write(std::size_t piece, std::span<const std::byte> bytes, void* stream) const noexcept {
    return bytes.empty() ||
           driver_.to_gpu(memory_ + pieces_[piece].offset, bytes.data(), bytes.size(), stream) == 0;
  }
  bool read(std::size_t piece, std::span<std::byte> bytes, void* stream) const noexcept {
    return driver_.to_host(bytes.data(), memory_ + pieces_[piece].offset, bytes.size(), stream) == 0 &&
           driver_.wait(stream) == 0;
  }

 private:
  struct Piece {
    std::size_t offset, bytes;
  };
  const Driver& driver_;
  std::uint64_t memory_ = 0;
  std::size_t size_ = 0;
  std::vector<Piece> pieces_;
};

/// How the file writes a call.
std::string text_of(const GuardedKey& key) {
  const CallDetails& d = key.details;
  return fmt::format(
      "{} by {}: compute {}, scale {}, math {}, multiprocessors {}, scales {}, other scales {}, factors of "
      "the "
      "GPU {}, in place {}, strides {} {} {}, alignments {}, workspace {}, algorithm {}",
      print(key.product.problem), entry_name(static_cast<kscout_entry>(key.entry)), d.compute, d.scale_type,
      d.math_mode, d.multiprocessors, d.scales, d.has_other_scales, d.has_gpu_factors, d.is_in_place,
      d.stride_a, d.stride_b, d.stride_c, fmt::join(key.alignments, " "), key.workspace_bytes,
      digits_of(key.algorithm));
}

std::string place_of(const std::string& device, const std::string& call) { return device + '\n' + call; }

/// Whether the library's choice is examined for certain: a deep K, a small C, and operands narrower than
/// fp32. docs/design/0013-guard.md has the measured limits.
bool is_suspicious(const ProductKey& product) noexcept {
  constexpr std::int64_t kDeep = 1024, kLarge = std::int64_t{1} << 18;
  const DType a = product.problem.dtype_a;
  return a != DType::fp32 && a != DType::fp64 && product.problem.k >= kDeep &&
         product.problem.m * product.problem.n <= kLarge;
}
bool is_drawn(const ProductKey& product) noexcept {
  constexpr std::size_t kOneOf = 1000;
  return quick_hash(product) % kOneOf == 0;
}

/// Whether the errata of docs/errata.md have it. Of the device, rules of these libraries read the maker only.
bool is_erratum(ProblemRef problem, const KernelConfig& config) {
  Device gpu;
  gpu.vendor = "NVIDIA";
  const Verdict verdict = rule_verdict(problem, config, gpu);
  return verdict.status == VerdictStatus::refused && !verdict.since.empty();
}

/// The kernel of ours that is predicted to be the fastest, out of those that need no workspace; null where
/// none takes the problem on this GPU.
std::unique_ptr<Launch> own_kernel(ProblemRef problem, int device) try {
  if (!cuda_missing().empty()) return nullptr;
  use_cuda_device(device);
  Backend& gpu = cuda_backend();
  for (const Choice& choice : any_address_choices(problem, gpu.device())) {
    if (!gpu.refusal(problem, choice.config).empty()) continue;
    auto launch = gpu.prepare(problem, choice.config);
    if (launch->workspace_bytes() == 0) return launch;
  }
  return nullptr;
} catch (const Error&) {  // the library has to compute it
  return nullptr;
}

void* output_of(const kscout_gemm_call& call) { return call.c; }
void* output_of(const kscout_matmul_call& call) { return call.d; }
Algorithm algorithm_of(const kscout_gemm_call& call) { return {static_cast<std::uint64_t>(call.algorithm)}; }
Algorithm algorithm_of(const kscout_matmul_call& call) {
  Algorithm own{};
  if (call.algorithm) std::memcpy(own.data(), call.algorithm, sizeof own);
  return own;
}

std::int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

/// Runs of one product whose result is known, in memory of the GPU besides the program's.
class Guard::Examination {
 public:
  /// `like`: operands whose alignments those of the runs get. A and B are the problem's.
  Examination(const Driver& driver, ExactProduct exact, const CallOperands& like, std::size_t workspace_bytes,
              const Factors& factors = {})
      : exact_(std::move(exact)), memory_(driver), stream_(like.stream) {
    memory_.add(exact_.bytes_a(), like.a);
    memory_.add(exact_.bytes_b(), like.b);
    memory_.add(exact_.bytes_c(), like.c);
    for (const std::size_t bytes : {exact_.bytes_bias(), sizeof(Numbers), sizeof(float), workspace_bytes})
      memory_.add(bytes, nullptr);
    if (memory_.size() > kMaxBytes || !memory_.allocate()) return;
    const Numbers numbers{.factors = factors};
    is_ready_ = write(kA, exact_.bytes_a(), [&](auto to) { exact_.fill_a(to); }) &&
                write(kB, exact_.bytes_b(), [&](auto to) { exact_.fill_b(to); }) &&
                write(kBias, exact_.bytes_bias(), [&](auto to) { exact_.fill_bias(to); }) &&
                memory_.write(kNumbers, std::as_bytes(std::span(&numbers, 1)), stream_);
  }

  bool is_ready() const noexcept { return is_ready_; }
  void* a() const noexcept { return memory_.at(kA); }
  void* b() const noexcept { return memory_.at(kB); }
  void* c() const noexcept { return memory_.at(kC); }
  void* workspace() const noexcept { return memory_.at(kWorkspace); }
  SideReferences references() const noexcept {
    return {memory_.at(kBias), &numbers_on_gpu()->one, memory_.at(kMaximum)};
  }
  const Factors* factors_on_gpu() const noexcept { return &numbers_on_gpu()->factors; }

  /// Of a run, which returns 0 when it has enqueued its work: `right`, `unavoidable`, or `unknown` where it
  /// or the driver refuses.
  template <class Run>
  Guarded verdict_of(const Run& run) {
    c_.resize(exact_.bytes_c());
    if (!write(kC, c_.size(), [&](auto to) { exact_.fill_c(to); }) || run() != 0 ||
        !memory_.read(kC, c_, stream_))
      return Guarded::unknown;
    const auto found = exact_.fault(c_);
    if (found && fault_.empty()) fault_ = found->text;
    return found ? Guarded::unavoidable : Guarded::right;
  }
  /// The first one, for people.
  const std::string& fault() const noexcept { return fault_; }

 private:
  enum Piece : std::size_t { kA, kB, kC, kBias, kNumbers, kMaximum, kWorkspace };
  struct Numbers {
    float one = 1;
    Factors factors;
  };
  const Numbers* numbers_on_gpu() const noexcept { return static_cast<const Numbers*>(memory_.at(kNumbers)); }
  template <class Fill>
  bool write(Piece piece, std::size_t bytes, const Fill& fill) {
    filled_.resize(bytes);
    fill(std::span(filled_));
    return memory_.write(piece, filled_, stream_);
  }

  ExactProduct exact_;
  SideMemory memory_;
  void* stream_;
  std::vector<std::byte> c_, filled_;
  std::string fault_;
  bool is_ready_ = false;
};

/// A call, whichever its function is. Its operands are the program's.
struct Guard::Examined {
  const ProductCall& read;
  CallOperands operands;
  std::function<std::unique_ptr<LibraryProduct>(const SideReferences&)> product;
};

Guard::Guard(kscout_find find, std::filesystem::path db)
    : find_(find), driver_(Driver::found_by(find)), db_(std::move(db)), off_(!driver_.is_complete()) {}

void Guard::in_child() noexcept { off_ = true; }

bool Guard::count(Guarded verdict) noexcept {
  const auto add = [](std::atomic<std::uint64_t>& to) { to.fetch_add(1, std::memory_order_relaxed); };
  if (verdict == Guarded::replaced) add(counts_.replaced);
  if (verdict == Guarded::unavoidable) add(counts_.unavoidable);
  if (verdict == Guarded::unknown) add(counts_.unknown);
  return verdict == Guarded::replaced;
}

Guard::Decision* Guard::decide(const GuardedKey& key, const Examined& call) noexcept try {
  const std::scoped_lock lock(deciding_);
  if (Decision* const known = decisions_.find(key)) return known;
  if (!open_) run_apart([&] { open_file(); });
  const bool is_stored = stored_.contains(place_of(device_name(key.device), text_of(key)));
  const bool captures = driver_.captures(call.operands.stream);
  if (!is_stored && captures) {
    if (Decision* const known = in_captures_.find(key)) return known;
    return in_captures_.add(key, tally_, [&](Decision& made) { look_up(made, call); });
  }
  const CaptureAside aside(driver_);
  return decisions_.add(key, tally_, [&](Decision& made) {
    if (recall(made, call)) return;
    examine(made, call);
    if (made.verdict == Guarded::unknown) look_up(made, call);
  });
} catch (...) {  // no memory: the next call tries again
  return nullptr;
}

std::string Guard::device_name(int device) const {
  const auto get = reinterpret_cast<int (*)(char*, int, int)>(find_("libcuda", "cuDeviceGetName"));
  std::array<char, 128> name{};
  return get && get(name.data(), static_cast<int>(name.size()) - 1, device) == 0 ? name.data() : "";
}

void Guard::open_file() {
  open_ = true;
  const auto get_release = reinterpret_cast<std::size_t (*)()>(find_("libcublasLt", "cublasLtGetVersion"));
  if (!get_release) return;
  release_ = static_cast<std::int32_t>(get_release());
  library_ = fmt::format("cublasLt {}", release_);
  if (db_.file().empty()) return;
  try {
    for (StoredVerdict& one : db_.verdicts())
      if (one.library == library_) stored_.try_emplace(place_of(one.device, one.call), one);
  } catch (const std::exception& error) {
    kscout_say("earlier verdicts of the guard are not used: %s", error.what());
  }
}

bool Guard::recall(Decision& decision, const Examined& call) {
  const auto found = stored_.find(place_of(device_name(decision.key.device), text_of(decision.key)));
  if (found == stored_.end()) return false;
  const StoredVerdict& stored = found->second;
  const auto verdict = std::ranges::find(kGuardedWords, stored.verdict);
  if (verdict == kGuardedWords.end()) return false;
  decision.verdict = static_cast<Guarded>(verdict - kGuardedWords.begin());
  if (decision.verdict == Guarded::replaced) {
    decision.product = call.product({});
    if (!decision.product || !from_digits(stored.algorithm, decision.algorithm.opaque)) return false;
  }
  if (decision.verdict != Guarded::right) tell(decision, "as found before");
  return true;
}

void Guard::remember(const Decision& decision) {
  constexpr std::size_t kAtOnce = 256;
  if (decision.own) return;  // each process has to prepare it
  const std::string device = device_name(decision.key.device);
  if (device.empty() || library_.empty()) return;
  const bool replaced = decision.verdict == Guarded::replaced;
  unsaved_.push_back({.call = text_of(decision.key),
                      .device = device,
                      .library = library_,
                      .verdict = std::string(kGuardedWords[static_cast<std::size_t>(decision.verdict)]),
                      .algorithm = replaced ? digits_of(decision.algorithm.opaque) : std::string(),
                      .at = seconds_since_1970()});
  if (unsaved_.size() >= kAtOnce) keep([&] { db_.put(std::exchange(unsaved_, {})); });
}

void Guard::tell(const Decision& decision, const std::string& fault) noexcept {
  const bool avoided = decision.verdict == Guarded::replaced;
  if (avoided && told_.exchange(true)) return;
  kscout_say("%s: the library computes it wrong (%s); %s", print(decision.key.product.problem).c_str(),
             fault.c_str(),
             !avoided       ? "nothing else computes it right"
             : decision.own ? "a kernel of KernelScout computes it (--report counts such calls)"
                            : "another of its algorithms computes it (--report counts such calls)");
}

void Guard::store() noexcept {
  const std::unique_lock lock(deciding_,
                              std::try_to_lock);  // a thread may hold it for ever: the process ends
  if (!lock || unsaved_.empty() || db_.file().empty()) return;
  keep([&] { db_.put(std::exchange(unsaved_, {})); });
}

template <class Call>
bool Guard::computes(kscout_entry entry, const Call& call, const ProductCall& product) noexcept {
  if (off_ || !(is_suspicious(product) || is_drawn(product))) return false;
  const Operands& operands = product.operands;
  GuardedKey key{.product = {product.problem},
                 .details = product.details,
                 .alignments = {alignment_of(operands.a), alignment_of(operands.b), alignment_of(operands.c)},
                 .entry = static_cast<std::uint8_t>(entry),
                 .workspace_bytes = operands.workspace_bytes,
                 .algorithm = algorithm_of(call)};
  if (driver_.device(&key.device) != 0) return count(Guarded::unknown);
  const CallOperands on{.handle = call.handle,
                        .a = call.a,
                        .b = call.b,
                        .c = output_of(call),
                        .alpha = call.alpha,
                        .beta = call.beta,
                        .workspace = operands.workspace,
                        .workspace_bytes = operands.workspace_bytes,
                        .stream = operands.stream};
  Decision* known = decisions_.find(key);
  if (!known)
    known = decide(
        key, {product, on, [&](const auto& side) { return LibraryProduct::of(find_, entry, call, side); }});
  if (known && known->own) return count(runs_own(*known, product) ? Guarded::replaced : Guarded::unavoidable);
  if (!count(known ? known->verdict : Guarded::unknown)) return false;
  if constexpr (std::is_same_v<Call, kscout_matmul_call>) {
    return known->product->run_by(known->algorithm, call) == 0;
  } else {
    return known->product->run_by(known->algorithm, on) == 0;
  }
}
template bool Guard::computes(kscout_entry, const kscout_gemm_call&, const ProductCall&) noexcept;
template bool Guard::computes(kscout_entry, const kscout_matmul_call&, const ProductCall&) noexcept;

void Guard::look_up(Decision& decision, const Examined& call) {
  auto product = call.product({});
  if (!product) return;
  const auto is_known_wrong = [&](const LtAlgorithm& one) {
    const auto config = product->config_of(one, release_);
    return config && is_erratum(decision.key.product.problem, config->kernel_config());
  };
  const std::vector<LtAlgorithm> all = product->suggestions(call.operands);
  LtAlgorithm own{.opaque = decision.key.algorithm};
  if (decision.key.entry != kscout_cublasLtMatmul || own.opaque == Algorithm()) {
    if (all.empty()) return;
    own = all.front();
  }
  if (!is_known_wrong(own)) return;
  const auto other = std::ranges::find_if_not(all, is_known_wrong);
  decision.verdict = other == all.end() ? Guarded::unavoidable : Guarded::replaced;
  if (other != all.end()) decision.algorithm = *other, decision.product = std::move(product);
  tell(decision, "its algorithm is known to be wrong there");
}

bool Guard::knows_wrong(ProblemRef problem, const CudnnConfig& config) {
  if (config.engine == 0) return false;
  bool is_wrong = false;
  run_apart([&] {
    const KernelConfig kernel = config.kernel_config(problem.op());
    is_wrong = is_erratum(problem, kernel);
    if (is_wrong && told_convolutions_.insert(print(problem)).second)
      kscout_say("%s: cuDNN computes it by %s, which is known to be wrong there", print(problem).c_str(),
                 config_name(signature_of(problem), kernel).c_str());
  });
  return is_wrong;
}

void Guard::examine(Decision& decision, const Examined& call) {
  const CallDetails& details = decision.key.details;
  ProductKey exact = decision.key.product;
  exact.problem.accumulate = exact.problem.accumulate && details.is_in_place;
  const auto factors = factors_of(details.scale_type);
  if (!driver_.has_copies() || !factors || details.has_other_scales || !ExactProduct::knows(exact.problem))
    return;
  CallOperands side = call.operands;
  std::swap(side.a, side.b);  // A and B of the problem are the call's B and A
  Examination examination(driver_, {exact.problem, {details.stride_a, details.stride_b, details.stride_c}},
                          side, 0, *factors);
  if (!examination.is_ready()) return;
  side.a = examination.b();
  side.b = examination.a();
  side.c = examination.c();
  const Factors& of = details.has_gpu_factors ? *examination.factors_on_gpu() : *factors;
  side.alpha = of.one.data();
  side.beta = exact.problem.accumulate ? of.one.data() : of.zero.data();
  auto product = call.product(examination.references());
  if (!product) return;
  decision.verdict = examination.verdict_of([&] { return product->run(side); });
  counts_.examined.fetch_add(1, std::memory_order_relaxed);
  if (decision.verdict == Guarded::right) remember(decision);
  if (decision.verdict != Guarded::unavoidable) return;
  counts_.wrong.fetch_add(1, std::memory_order_relaxed);
  for (const LtAlgorithm& one : product->suggestions(side)) {
    if (examination.verdict_of([&] { return product->run_by(one, side); }) != Guarded::right) continue;
    decision.verdict = Guarded::replaced;
    decision.algorithm = one;
    decision.product = std::move(product);
    break;
  }
  if (decision.verdict != Guarded::replaced) replace_by_own(decision, call);
  remember(decision);
  tell(decision, examination.fault());
}

void Guard::replace_by_own(Decision& decision, const Examined& call) {
  const GuardedKey& key = decision.key;
  void *current = nullptr, *primary = nullptr;
  if (call.read.outcome != Outcome::served || driver_.current(&current) != 0 ||
      driver_.retain(&primary, key.device) != 0 || current != primary)
    return;
  auto own = own_kernel(key.product.problem, key.device);
  if (!own || verdict_of(call.read, *own, cuda_backend().space()) != Guarded::right) return;
  decision.verdict = Guarded::replaced;
  decision.own = std::move(own);
}

bool Guard::runs_own(Decision& decision, const ProductCall& product) noexcept try {
  const Operands& on = product.operands;
  if (product.outcome != Outcome::served || on.alpha == 0 || !is_aligned(on.bias, kLineAlignment))
    return false;
  const std::scoped_lock lock(decision.running);
  decision.own->run(buffers_of(on, cuda_backend().space()), nullptr, {on.stream});
  return true;
} catch (...) {  // the library computes it
  return false;
}

bool Guard::is_wrong(const ProductCall& product, Launch& launch, MemorySpace space) {
  return is_suspicious(product) && verdict_of(product, launch, space) == Guarded::unavoidable;
}

Guarded Guard::verdict_of(const ProductCall& product, Launch& launch, MemorySpace space) {
  if (!driver_.has_copies() || !ExactProduct::knows(product.problem)) return Guarded::unknown;
  const Operands& like = product.operands;
  const CallOperands operands{.a = like.a, .b = like.b, .c = like.c, .stream = like.stream};
  Examination examination(driver_, ExactProduct(product.problem), operands, launch.workspace_bytes());
  if (!examination.is_ready()) return Guarded::unknown;
  const Operands side{.a = examination.a(),
                      .b = examination.b(),
                      .bias = has_bias(product.problem.epilogue) ? examination.references().bias : nullptr,
                      .c = examination.c(),
                      .beta = product.problem.accumulate ? 1.0 : 0.0};
  const Guarded verdict = examination.verdict_of([&] {
    launch.run(buffers_of(side, space), examination.workspace(), {like.stream});
    return 0;
  });
  counts_.picks.fetch_add(1, std::memory_order_relaxed);
  if (verdict == Guarded::unavoidable) counts_.wrong_picks.fetch_add(1, std::memory_order_relaxed);
  return verdict;
}

}  // namespace kscout::preload
