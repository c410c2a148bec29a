#include "preload/guard.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/problem_text.h"
#include "preload/apart.h"
#include "preload/say.h"

namespace kscout::preload {

namespace {

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

}  // namespace

/// A call, whichever its function is. Its operands are the program's.
struct Guard::Examined {
  CallOperands operands;
  std::function<std::unique_ptr<LibraryProduct>(const SideReferences&)> product;
};

Guard::Guard(kscout_find find) : find_(find), driver_(Driver::found_by(find)) {}

bool Guard::is_suspicious(const GemmProblem& p) noexcept {
  constexpr std::int64_t kDeep = 1024, kLarge = std::int64_t{1} << 18;
  const bool is_narrow = p.dtype_a != DType::fp32 && p.dtype_a != DType::fp64;
  return is_narrow && p.k >= kDeep && p.m * p.n <= kLarge;
}

void Guard::in_child() noexcept { off_ = true; }

bool Guard::count(Guarded verdict) noexcept {
  const auto add = [](std::atomic<std::uint64_t>& to) { to.fetch_add(1, std::memory_order_relaxed); };
  if (verdict == Guarded::replaced) add(counts_.replaced);
  if (verdict == Guarded::unavoidable) add(counts_.unavoidable);
  if (verdict == Guarded::unknown) add(counts_.unknown);
  return verdict == Guarded::replaced;
}

namespace {

bool is_drawn(const GemmProblem& problem) noexcept {
  constexpr std::size_t kOneOf = 1000;
  return quick_hash(problem) % kOneOf == 0;
}

}  // namespace

Guard::Decision* Guard::decide(const GuardedKey& key, const Examined& call) noexcept {
  if (Decision* const known = decisions_.find(key)) return known;
  if (driver_.captures(call.operands.stream)) return nullptr;
  try {
    const std::scoped_lock lock(deciding_);
    if (Decision* const known = decisions_.find(key)) return known;
    const CaptureAside aside(driver_);
    return decisions_.add(key, tally_, [&](Decision& made) { examine(made, call); });
  } catch (...) {  // no memory: the next call tries again
    return nullptr;
  }
}

bool Guard::computes(kscout_entry entry, const kscout_gemm_call& call, const Library& library,
                     const GemmProblem& problem, void* workspace, std::size_t workspace_bytes) noexcept {
  if (off_ || !(is_suspicious(problem) || is_drawn(problem))) return false;
  CallOperands on{.handle = call.handle,
                  .a = call.a,
                  .b = call.b,
                  .c = call.c,
                  .alpha = call.alpha,
                  .beta = call.beta,
                  .workspace = workspace,
                  .workspace_bytes = workspace_bytes};
  if (!library.get_stream || library.get_stream(call.handle, &on.stream) != 0) return count(Guarded::unknown);
  const GuardedKey key{.problem = problem,
                       .details = details_of(call, library),
                       .alignments = {alignment_of(call.a), alignment_of(call.b), alignment_of(call.c)},
                       .entry = static_cast<std::uint8_t>(entry),
                       .workspace_bytes = workspace_bytes,
                       .algorithm = {static_cast<std::uint64_t>(call.algorithm)}};
  const auto product = [&](const SideReferences&) { return LibraryProduct::of(find_, entry, call); };
  Decision* const known = decide(key, {on, product});
  if (!count(known ? known->verdict : Guarded::unknown)) return false;
  return known->product->run_by(known->algorithm, on) == 0;
}

bool Guard::computes(const kscout_matmul_call& call, const Library& library,
                     const GemmProblem& problem) noexcept {
  if (off_ || !(is_suspicious(problem) || is_drawn(problem))) return false;
  GuardedKey key{.problem = problem,
                 .details = details_of(call, library),
                 .alignments = {alignment_of(call.a), alignment_of(call.b), alignment_of(call.d)},
                 .entry = kscout_cublasLtMatmul,
                 .workspace_bytes = call.workspace_bytes};
  if (call.algorithm) std::memcpy(key.algorithm.data(), call.algorithm, sizeof key.algorithm);
  const CallOperands on{.handle = call.handle,
                        .a = call.a,
                        .b = call.b,
                        .c = call.d,
                        .workspace = call.workspace,
                        .workspace_bytes = call.workspace_bytes,
                        .stream = call.stream};
  const auto product = [&](const SideReferences& side) { return LibraryProduct::of(find_, call, side); };
  Decision* const known = decide(key, {on, product});
  if (!count(known ? known->verdict : Guarded::unknown)) return false;
  return run_by(find_, known->algorithm, call) == 0;
}

void Guard::examine(Decision& decision, const Examined& call) {
  // A and B of the problem are the call's B and A.
  enum Piece : std::size_t { kA, kB, kC, kBias, kOne, kMaximum };
  const CallDetails& details = decision.key.details;
  GemmProblem problem = decision.key.problem;
  problem.accumulate = problem.accumulate && details.is_in_place;
  const auto factors = factors_of(details.scale_type);
  if (!driver_.has_copies() || !factors || details.has_other_scales || !ExactProduct::knows(problem)) return;
  const CallOperands& of = call.operands;
  const ExactProduct exact(problem, {details.stride_a, details.stride_b, details.stride_c});
  SideMemory memory(driver_);
  memory.add(exact.bytes_a(), of.b);
  memory.add(exact.bytes_b(), of.a);
  memory.add(exact.bytes_c(), of.c);
  memory.add(exact.bytes_bias(), nullptr);
  memory.add(sizeof(float), nullptr);
  memory.add(sizeof(float), nullptr);
  if (memory.size() > kMostBytes || !memory.allocate()) return;

  void* const stream = of.stream;
  std::vector<std::byte> bytes;
  const auto filled = [&](std::size_t size, const auto& fill) {
    bytes.resize(size);
    fill(std::span(bytes));
    return std::span<const std::byte>(bytes);
  };
  const float one = 1;
  if (!memory.write(kA, filled(exact.bytes_a(), [&](auto to) { exact.fill_a(to); }), stream) ||
      !memory.write(kB, filled(exact.bytes_b(), [&](auto to) { exact.fill_b(to); }), stream) ||
      !memory.write(kBias, filled(exact.bytes_bias(), [&](auto to) { exact.fill_bias(to); }), stream) ||
      !memory.write(kOne, std::as_bytes(std::span(&one, 1)), stream))
    return;
  CallOperands side = of;
  side.a = memory.at(kB);
  side.b = memory.at(kA);
  side.c = memory.at(kC);
  side.alpha = factors->one.data();
  side.beta = problem.accumulate ? factors->one.data() : factors->zero.data();
  auto product = call.product({memory.at(kBias), memory.at(kOne), memory.at(kMaximum)});
  if (!product) return;

  std::vector<std::byte> c(exact.bytes_c());
  /// Of a run on these operands; `unknown` where the library or the driver refuses.
  std::string fault;
  const auto verdict_of = [&](const auto& run) {
    if (!memory.write(kC, filled(c.size(), [&](auto to) { exact.fill_c(to); }), stream) || run() != 0 ||
        !memory.read(kC, c, stream))
      return Guarded::unknown;
    const auto found = exact.fault(c);
    if (found && fault.empty()) fault = found->text;
    return found ? Guarded::unavoidable : Guarded::right;
  };
  decision.verdict = verdict_of([&] { return product->run(side); });
  counts_.examined.fetch_add(1, std::memory_order_relaxed);
  if (decision.verdict != Guarded::unavoidable) return;
  counts_.wrong.fetch_add(1, std::memory_order_relaxed);
  for (const LtAlgorithm& one_of : product->suggestions(side)) {
    if (verdict_of([&] { return product->run_by(one_of, side); }) != Guarded::right) continue;
    decision.verdict = Guarded::replaced;
    decision.algorithm = one_of;
    decision.product = std::move(product);
    break;
  }
  const bool avoided = decision.verdict == Guarded::replaced;
  if (avoided && told_.exchange(true)) return;
  kscout_say("%s: the library computes it wrong (%s); %s", print(problem).c_str(), fault.c_str(),
             avoided ? "another of its algorithms computes it (--report counts such calls)"
                     : "nothing else computes it right");
}

}  // namespace kscout::preload
