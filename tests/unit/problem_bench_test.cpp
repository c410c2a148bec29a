#include "measure/problem_bench.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include <kscout/error.h>
#include <kscout/family.h>

#include "measure/measured_backend.h"
#include "provider/native/native.h"
#include "support/stand_in_instruments.h"

namespace kscout {
namespace {

/// Takes as many microseconds as the config's first axis says, on a machine whose core has a neighbour, which
/// makes everything three times slower, for 2 ms of every 5 ms.
class ShakenLaunch final : public Launch {
 public:
  ShakenLaunch(const GemmProblem& problem, double calm_us, double& now_us)
      : bytes_(static_cast<std::size_t>(problem.m * problem.n) * sizeof(float)),
        calm_us_(calm_us),
        now_us_(now_us) {}
  std::size_t workspace_bytes() const noexcept override { return 0; }
  void run(const Buffers& given, void*, Stream) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
    now_us_ += std::fmod(now_us_, 5000) < 2000 ? 3 * calm_us_ : calm_us_;
    std::memset(buffers.c, 0, bytes_);  // right for K = 0
  }

 private:
  std::size_t bytes_;
  double calm_us_;
  double& now_us_;
};

class ShakenBackend : public Backend {
 public:
  std::string_view name() const noexcept override { return "shaken"; }
  std::string_view provider() const noexcept override { return "native"; }
  Family family(const Signature&, std::string_view) override { return {}; }
  const Device& device() override { return device_; }
  std::string refusal(ProblemRef, const KernelConfig&) override { return {}; }
  std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig& config) override {
    return std::make_unique<ShakenLaunch>(problem.as<GemmProblem>(), config[std::size_t{0}], clock.now_us);
  }

  StandInInstruments clock;

 private:
  Device device_;
};

/// Configs that take so many microseconds each.
std::vector<Candidate> taking_us(Backend& backend, std::initializer_list<std::int32_t> calm) {
  std::vector<Candidate> candidates;
  for (const std::int32_t us : calm) {
    candidates.push_back({&backend, KernelConfig(native_gemm_space)});
    candidates.back().config[std::size_t{0}] = us;
  }
  return candidates;
}

std::vector<Measurement> second_pass(ProblemBench& bench, std::span<const Candidate> configs) {
  std::vector<Measurement> rows(configs.size());
  bench.contenders(configs, [&](std::size_t i, const Outcome& outcome) {
    EXPECT_TRUE(outcome.reason.empty()) << outcome.reason;
    rows[i] = outcome.measured;
  });
  return rows;
}

constexpr double kNoBudgetUs = 1e12;  // of rounds, whose budget is in this machine's time

// Finds the fastest beside one that is 1.1 times slower, while a neighbour makes calls 3 times slower.
TEST(ProblemBench, RoundsFindTheFastestBesideANeighbour) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    ShakenBackend backend;
    ProblemBench bench({.rounds_budget_us = kNoBudgetUs}, seed, backend.clock);
    bench.open(make_gemm(4, 4, 0));
    const auto rows = second_pass(bench, taking_us(backend, {90, 44, 40, 65, 301}));
    for (const std::size_t slower : {0, 1, 3, 4}) EXPECT_LT(rows[2].time_us, rows[slower].time_us);
    EXPECT_EQ(rows[2].status, Status::ok);
    EXPECT_EQ(rows[2].repeats, Protocol{}.rounds);
    EXPECT_EQ(rows[4].status, Status::pruned_early)
        << "7.5 times slower in each screening sample, or more than 2.5 times at the luckiest";
    EXPECT_GE(rows[4].time_us, 301);
  }
}

TEST(ProblemBench, TheBudgetDecidesHowManyContend) {
  ShakenBackend backend;
  ProblemBench bench({.rounds = 10, .rounds_budget_us = 1}, 1, backend.clock);
  bench.open(make_gemm(4, 4, 0));
  const auto configs = taking_us(backend, {20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20});
  const auto rows = second_pass(bench, configs);
  EXPECT_EQ(std::ranges::count(rows, Status::ok, &Measurement::status), 12) << "the least that contend";
  EXPECT_EQ(std::ranges::count(rows, Status::pruned_early, &Measurement::status), 4);
  for (const Measurement& row : rows) EXPECT_EQ(row.repeats, row.status == Status::ok ? 8 : 3);
}

/// Packs the config's first axis, and counts runs on what another config packed.
class PackingBackend final : public ShakenBackend {
 public:
  std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig& config) override {
    class Packing final : public Launch {
     public:
      Packing(PackingBackend& backend, std::int32_t number, std::size_t bytes)
          : backend_(backend), number_(number), bytes_(bytes) {}
      std::size_t workspace_bytes() const noexcept override { return 0; }
      std::size_t packed_bytes() const noexcept override { return number_ == 0 ? 0 : sizeof number_; }
      void pack(const void*, void* packed, Stream) override {
        backend_.clock.now_us += 400;
        std::memcpy(packed, &number_, sizeof number_);
      }
      void run(const Buffers& given, void*, Stream) override {
        const GemmBuffers buffers = GemmBuffers::of(given);
        backend_.clock.now_us += 30;
        std::memset(buffers.c, 0, bytes_);
        if (number_ != 0) backend_.mixed += std::memcmp(buffers.packed_b, &number_, sizeof number_) != 0;
      }

     private:
      PackingBackend& backend_;
      std::int32_t number_;
      std::size_t bytes_;
    };
    const auto bytes =
        static_cast<std::size_t>(problem.as<GemmProblem>().m * problem.as<GemmProblem>().n) * sizeof(float);
    return std::make_unique<Packing>(*this, config[std::size_t{0}], bytes);
  }
  int mixed = 0;
};

TEST(ProblemBench, PackingIsTimedApartAndEveryRunHasItsOwn) {
  PackingBackend backend;
  ProblemBench bench({}, 1, backend.clock);
  bench.open(make_gemm(4, 4, 0));
  const auto configs = taking_us(backend, {0, 1, 2, 3});
  for (const Candidate& one : configs) {
    const Measurement first = bench.coarse(one, std::numeric_limits<double>::infinity()).measured;
    EXPECT_EQ(first.status, Status::ok);
    if (&one == &configs.front()) {
      EXPECT_TRUE(std::isnan(first.setup_us));
    } else {
      EXPECT_EQ(first.setup_us, 400);
    }
  }
  const auto rows = second_pass(bench, configs);
  EXPECT_TRUE(std::isnan(rows[0].setup_us)) << "it packs nothing";
  for (const std::size_t i : {1, 2, 3}) {
    EXPECT_EQ(rows[i].setup_us, 400);
    EXPECT_DOUBLE_EQ(rows[i].time_us, 30) << "packing is no part of the time";
  }
  EXPECT_EQ(backend.mixed, 0);
}

/// Right, but calls `from` to `to` of the config whose first axis is 1 write behind C.
class SpoilingBackend final : public ShakenBackend {
 public:
  SpoilingBackend(int from, int to) : from_(from), to_(to) {}
  std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig& config) override {
    class Spoiling final : public Launch {
     public:
      Spoiling(std::size_t bytes, int from, int to, double& now_us)
          : bytes_(bytes), from_(from), to_(to), now_us_(now_us) {}
      std::size_t workspace_bytes() const noexcept override { return 0; }
      void run(const Buffers& given, void*, Stream) override {
        const GemmBuffers buffers = GemmBuffers::of(given);
        ++calls_;
        now_us_ += 100;
        std::memset(buffers.c, 0, bytes_ + (calls_ >= from_ && calls_ <= to_));
      }

     private:
      std::size_t bytes_;
      int from_, to_, calls_ = 0;
      double& now_us_;
    };
    const auto bytes =
        static_cast<std::size_t>(problem.as<GemmProblem>().m * problem.as<GemmProblem>().n) * sizeof(float);
    const bool spoils = config[std::size_t{0}] == 1;
    return std::make_unique<Spoiling>(bytes, spoils ? from_ : 1, spoils ? to_ : 0, clock.now_us);
  }

 private:
  int from_, to_;
};

/// Statuses of three configs, the second of which spoils; calls 1 to 3 are its screening samples.
std::vector<Status> statuses_beside(int from, int to) {
  std::vector<Status> statuses;
  SpoilingBackend backend(from, to);
  ProblemBench bench({.cache = CacheState::cold, .rounds = 8}, 1, backend.clock);
  bench.open(make_gemm(4, 4, 0));
  bench.contenders(taking_us(backend, {0, 1, 0}),
                   [&](std::size_t, const Outcome& outcome) { statuses.push_back(outcome.measured.status); });
  return statuses;
}

TEST(ProblemBench, WhoWritesOutOfBoundsInTheRoundsIsFound) {
  constexpr Status ok = Status::ok, wrong = Status::wrong;
  EXPECT_EQ(statuses_beside(5, 1000), (std::vector{ok, wrong, ok}));
  EXPECT_EQ(statuses_beside(2, 2), (std::vector{ok, wrong, ok})) << "in a look";
  EXPECT_EQ(statuses_beside(5, 5), (std::vector{wrong, wrong, wrong})) << "nobody's time counts";
}

/// Computes products with K = 1, and takes as many microseconds per row of C as the config's first axis says.
class RowsBackend final : public ShakenBackend {
 public:
  std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig& config) override {
    class Rows final : public Launch {
     public:
      Rows(const GemmProblem& of, double us, RowsBackend& backend) : of_(of), us_(us), backend_(backend) {}
      std::size_t workspace_bytes() const noexcept override { return 0; }
      void run(const Buffers& given, void*, Stream) override {
        const GemmBuffers buffers = GemmBuffers::of(given);
        const auto *const a = static_cast<const float*>(buffers.a), *const b =
                                                                        static_cast<const float*>(buffers.b);
        for (std::int64_t i = 0; i < of_.m * of_.n; ++i)
          static_cast<float*>(buffers.c)[i] = a[i / of_.n] * b[i % of_.n];
        backend_.clock.now_us += backend_.slower * us_ * static_cast<double>(of_.m);
        backend_.rows += of_.m;
      }

     private:
      GemmProblem of_;
      double us_;
      RowsBackend& backend_;
    };
    return std::make_unique<Rows>(problem.as<GemmProblem>(), config[std::size_t{0}], *this);
  }
  double slower = 1;
  std::int64_t rows = 0;
};

TEST(ProblemBench, APartOfADearProblemShowsWhatIsHopeless) {
  RowsBackend backend;
  ProblemBench bench({}, 1, backend.clock);
  bench.open(make_gemm(80, 4, 1));
  const auto configs = taking_us(backend, {100, 150, 170});
  const auto rows_of = [&](std::size_t config, double best_us) {
    backend.rows = 0;
    const Measurement measured = bench.coarse(configs[config], best_us).measured;
    EXPECT_DOUBLE_EQ(measured.time_us, backend.slower * 80 * configs[config].config[std::size_t{0}]);
    EXPECT_EQ(measured.status == Status::ok, !std::isnan(measured.error))
        << "only whole results are verified";
    return backend.rows;
  };
  EXPECT_EQ(rows_of(0, std::numeric_limits<double>::infinity()), 80);
  EXPECT_EQ(rows_of(1, 8000), 90) << "slower, but it may contend";
  EXPECT_EQ(rows_of(2, 8000), 50) << "hopeless in three calls, with two of the fastest beside them";
  EXPECT_EQ(rows_of(2, 4999), 80) << "calls are cheap";
  backend.slower = 2;
  EXPECT_EQ(rows_of(1, 8000), 130) << "other work slows the fastest as well";
}

TEST(ProblemBench, FixedRepeatsAreTakenAsTheyAre) {
  ShakenBackend backend;
  ProblemBench bench({.repeat = 5}, 1);
  bench.open(make_gemm(4, 4, 0));
  const Outcome outcome = bench.coarse(taking_us(backend, {50})[0], 1e-3);
  EXPECT_EQ(outcome.measured.status, Status::ok) << "no early pruning";
  EXPECT_EQ(outcome.measured.repeats, 5);
}

/// A device on which the first call of a kernel takes 3 ms longer than the next ones, which take 10 us.
class LoadingDevice final : public StandInInstruments {
 public:
  double time_us(Launch& launch, const Buffers& buffers, void* workspace, int calls) override {
    launch.run(buffers, workspace);
    const double us = loaded_ ? 10 : 3010.0 / calls;
    loaded_ = true;
    return us;
  }
  double loading_us() const noexcept override { return 20'000; }

 private:
  bool loaded_ = false;
};

TEST(ProblemBench, LoadingAKernelIsNoReasonToGiveItUp) {
  ShakenBackend backend;
  for (const CacheState cache : {CacheState::warm, CacheState::cold}) {
    LoadingDevice device;
    ProblemBench bench({.cache = cache, .slack_us = 0}, 1, device);
    bench.open(make_gemm(4, 4, 0));
    const Outcome outcome = bench.coarse(taking_us(backend, {0})[0], 9);
    EXPECT_EQ(outcome.measured.status, Status::ok);
    EXPECT_EQ(outcome.measured.time_us, 10);
  }
}

/// A device on which calls take 10 us, but the call of a number 100 us: the thread that starts it pauses.
class PausingDevice final : public StandInInstruments {
 public:
  explicit PausingDevice(int pause) : pause_(pause) {}
  double time_us(Launch& launch, const Buffers& buffers, void* workspace, int) override {
    launch.run(buffers, workspace);
    return ++calls_ == pause_ ? 100 : 10;
  }

 private:
  int pause_, calls_ = 0;
};

TEST(ProblemBench, APauseInOneColdCallIsNoReasonToGiveAKernelUp) {
  ShakenBackend backend;
  for (int pause = 1; pause <= 4; ++pause) {
    PausingDevice device(pause);
    ProblemBench bench({.cache = CacheState::cold, .slack_us = 0}, 1, device);
    bench.open(make_gemm(4, 4, 0));
    const Outcome outcome = bench.coarse(taking_us(backend, {0})[0], 9);
    EXPECT_EQ(outcome.measured.status, Status::ok) << "a pause in call " << pause;
    EXPECT_EQ(outcome.measured.time_us, 10);
    const Outcome slow = bench.coarse(taking_us(backend, {0})[0], 1);
    EXPECT_EQ(slow.measured.status, Status::pruned_early) << "each call is too slow";
  }
}

/// Computes products of 16-bit floats; the config whose first axis is 1 leaves out the last 8 of K.
class ForgetfulBackend final : public ShakenBackend {
 public:
  std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig& config) override {
    class Forgetful final : public Launch {
     public:
      Forgetful(const GemmProblem& problem, std::int64_t k) : p_(problem), k_(k) {}
      std::size_t workspace_bytes() const noexcept override { return 0; }
      void run(const Buffers& given, void*, Stream) override {
        const GemmBuffers buffers = GemmBuffers::of(given);
        const auto at = [](const void* from, std::int64_t i) {
          return std::bit_cast<float>(std::uint32_t{static_cast<const std::uint16_t*>(from)[i]} << 16);
        };
        for (std::int64_t i = 0; i < p_.m; ++i) {
          for (std::int64_t j = 0; j < p_.n; ++j) {
            float sum = 0;
            for (std::int64_t l = 0; l < k_; ++l)
              sum += at(buffers.a, i * p_.k + l) * at(buffers.b, j * p_.k + l);
            const auto bits = std::bit_cast<std::uint32_t>(sum);
            static_cast<std::uint16_t*>(buffers.c)[i * p_.n + j] =
                static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
          }
        }
      }

     private:
      GemmProblem p_;
      std::int64_t k_;
    };
    const auto& p = problem.as<GemmProblem>();
    return std::make_unique<Forgetful>(p, p.k - (config[std::size_t{0}] == 1 ? 8 : 0));
  }
};

// As in the results of libraries that docs/errata.md lists.
TEST(ProblemBench, ALostEndOfADeepKIsFound) {
  ForgetfulBackend backend;
  ProblemBench bench({.repeat = 1}, 1);
  bench.open(make_gemm(4, 8, 70000, DType::bf16));
  EXPECT_EQ(bench.coarse(taking_us(backend, {0})[0], 1e9).measured.status, Status::ok);
  EXPECT_EQ(bench.coarse(taking_us(backend, {1})[0], 1e9).measured.status, Status::wrong);
}

class OwnMemory final : public Memory {
 public:
  void* allocate(std::size_t) override { return nullptr; }
  void release(void*) noexcept override {}
  void copy(const MatrixCopy&, Stream) override {}
  void set(void*, std::byte, std::size_t, Stream) override {}
  void read(void*, const void*, std::size_t, Stream) override {}
  void write(void*, const void*, std::size_t, Stream) override {}
};

class FarBackend final : public ShakenBackend {
 public:
  Memory& memory() override { return memory_; }

 private:
  OwnMemory memory_;
};

TEST(ProblemBench, ABackendWithMemoryOfItsOwnNeedsInstrumentsOfItsOwn) {
  ShakenBackend near;
  EXPECT_EQ(&instruments_of(near), &host_instruments());
  FarBackend far;
  EXPECT_THROW(instruments_of(far), Error);
}

}  // namespace
}  // namespace kscout
