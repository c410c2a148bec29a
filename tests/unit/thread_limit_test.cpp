// Tests the thread limit of kernels, and the warning when other programs use the CPUs.
#include "core/thread_limit.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <map>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kscout/error.h>
#include <kscout/provider.h>
#include <kscout/selector.h>

#include "measure/load_watch.h"
#include "support/expect_error.h"

namespace kscout {
namespace {

using test::expect_error;

ReadText recorded(const std::map<std::string, std::string>& files) {
  return [files](const std::string& path) {
    const auto found = files.find(path);
    return found == files.end() ? std::string() : found->second;
  };
}

TEST(ThreadLimit, QuotasOfBothCgroupVersionsAreRead) {
  EXPECT_TRUE(std::isinf(cpu_quota(recorded({}))));
  const std::pair<std::string, std::string> second{"/proc/self/cgroup", "0::/app/job\n"};
  EXPECT_EQ(cpu_quota(recorded({second, {"/sys/fs/cgroup/app/job/cpu.max", "150000 100000\n"}})), 1.5);
  EXPECT_EQ(cpu_quota(recorded({second,
                                {"/sys/fs/cgroup/app/job/cpu.max", "max 100000\n"},
                                {"/sys/fs/cgroup/app/cpu.max", "400000 100000\n"}})),
            4)
      << "the least of the groups above counts";
  EXPECT_EQ(
      cpu_quota(recorded({{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "300000 100000"}})), 3)
      << "a container sees its own group as the root";
  const std::pair<std::string, std::string> first{"/proc/self/cgroup", "7:memory:/x\n4:cpu,cpuacct:/box\n"};
  EXPECT_EQ(cpu_quota(recorded({first,
                                {"/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "200000\n"},
                                {"/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n"},
                                {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
                                {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}})),
            2);
  EXPECT_EQ(throttled_periods(
                recorded({second, {"/sys/fs/cgroup/app/job/cpu.stat", "nr_periods 9\nnr_throttled 5\n"}})),
            5);
}

TEST(ThreadLimit, MemoryLimitsOfBothCgroupVersionsAreRead) {
  EXPECT_TRUE(std::isinf(memory_quota(recorded({}))));
  const std::pair<std::string, std::string> second{"/proc/self/cgroup", "0::/app/job\n"};
  EXPECT_EQ(memory_quota(recorded({second,
                                   {"/sys/fs/cgroup/app/job/memory.max", "max\n"},
                                   {"/sys/fs/cgroup/app/memory.max", "2000000000\n"}})),
            2e9);
  EXPECT_EQ(memory_quota(recorded({{"/proc/self/cgroup", "7:memory:/x\n4:cpu,cpuacct:/box\n"},
                                   {"/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1000000000\n"},
                                   {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"}})),
            1e9);
  constexpr const char* kLimits = "/proc/self/limits";
  EXPECT_EQ(memory_quota(recorded({{kLimits,
                                    "Limit          Soft Limit  Hard Limit  Units\n"
                                    "Max processes             4             4  processes\n"
                                    "Max address space 300000000   unlimited  bytes\n"}})),
            3e8);
  EXPECT_TRUE(std::isinf(memory_quota(recorded({{kLimits, "Max address space  unlimited  unlimited\n"}}))));
}

/// Sets a variable while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Variable() { before_.empty() ? unsetenv(name_) : setenv(name_, before_.c_str(), 1); }

 private:
  const char* name_;
  std::string before_;
};

TEST(ThreadLimit, TheCallGoesBeforeTheEnvironmentAndThatBeforeTheMachine) {
  Device here = detect_cpu();
  Device elsewhere = here;
  elsewhere.name = "elsewhere";
  const Variable openmp("OMP_NUM_THREADS", "1,4");
  if (here.cores >= 2) {
    EXPECT_EQ(thread_limit(0, here).threads, 1);
    EXPECT_EQ(thread_limit(0, here).because, "OMP_NUM_THREADS");
    EXPECT_EQ(thread_limit(0, here).refusal(2),
              "the config computes with 2 threads, 1 is allowed (OMP_NUM_THREADS)");
  }
  EXPECT_EQ(thread_limit(0, elsewhere).because, "") << "this machine's limits are not those of another";
  EXPECT_EQ(thread_limit(3, here).threads, 3);
  const Variable own("KSCOUT_THREADS", "2");
  EXPECT_EQ(thread_limit(0, elsewhere).threads, 2);
  EXPECT_EQ(thread_limit(0, here).because, "KSCOUT_THREADS");
  EXPECT_EQ(thread_limit(5, here).threads, 5);
  for (const char* const wrong : {"0", "-1", "two", "2x"}) {
    const Variable bad("KSCOUT_THREADS", wrong);
    expect_error(Errc::invalid_argument, "KSCOUT_THREADS=", [&] { thread_limit(0, here); });
  }
}

TEST(ThreadLimit, SelectorsChooseAmongConfigsOfFewerThreads) {
  Device device = device_preset("epyc-7763");
  device.name = "elsewhere";
  device.cores = 2;
  const GemmProblem problem = make_gemm(2048, 2048, 2048);
  const auto max_threads = [&](const Selector& selector) {
    int most = 0;
    for (const Choice& choice : selector.rank(problem, 100000))
      most = std::max(most, host_threads(choice.config));
    return most;
  };
  EXPECT_EQ(max_threads(Selector::analytic({.device = device})), 2);
  EXPECT_EQ(max_threads(Selector::analytic({.device = device, .threads = 2})), 2);
  EXPECT_EQ(max_threads(Selector::analytic({.device = device, .threads = 1})), 1);
  const Variable own("KSCOUT_THREADS", "1");
  Selector selector = Selector::analytic({.device = device});
  EXPECT_EQ(max_threads(selector), 1);
  {
    const Variable more("KSCOUT_THREADS", "2");
    selector.refresh();
    EXPECT_EQ(max_threads(selector), 2) << "refresh() reads the environment again";
  }
  const Variable forced("KSCOUT_FORCE", "native_gemm_fp32_rcr__avx2_tiled_6x16_packab_b72x256x512_n_s1_t1x2");
  expect_error(Errc::invalid_argument, "KSCOUT_FORCE: native_gemm_fp32_rcr__avx2_tiled_6x16_packab",
               [&] { selector.refresh(); });
}

TEST(Selector, NeverAnswersWithKernelsThatCannotRunOnTheDevice) {
  const Device h200 = device_preset("h200");
  expect_error(Errc::unsupported,
               "provider native: its kernels cannot run on h200 (NVIDIA gpu); take provider cublaslt", [&] {
                 Selector::analytic({.provider = "native", .device = h200}).select(make_gemm(64, 64, 64));
               });
  const GemmProblem bf16 = make_gemm(64, 64, 64, DType::bf16);
  EXPECT_EQ(Selector::analytic({.device = h200}).select(bf16).config.space->provider, "cublaslt");
  EXPECT_EQ(Selector::analytic({.device = device_preset("gfx942")}).select(bf16).config.space->provider,
            "ck_tile");
  EXPECT_EQ(Selector::analytic({.device = device_preset("epyc-7763")})
                .select(make_gemm(64, 64, 64))
                .config.space->provider,
            "native");
  expect_error(Errc::unsupported, "rule 'fp32-channels-last' refused", [] {
    Selector::analytic({.device = device_preset("epyc-7763")})
        .select(parse_conv_problem("conv_fwd:1x64x7x7:64x1x1:bf16:nhwgc"));
  });
  const ConvProblem conv = parse_conv_problem("conv_fwd:1x64x7x7:64x1x1:bf16:nhwgc");
  EXPECT_EQ(Selector::analytic({.device = h200}).select(conv).config.space->provider, "cudnn");
  Device other = h200;
  other.vendor = "Intel";
  expect_error(Errc::unsupported, "no provider has kernels of conv_fwd for it",
               [&] { Selector::analytic({.device = other}).select(conv); });
}

TEST(LoadWatch, NamesTheLikelyCauseOfASlowKernel) {
  EXPECT_NE(likely_cause({.cpus = 2, .others = 0.97}, 2)
                .find("other processes kept 0.97 of 2 CPUs busy, and the kernel waits for all of its 2 "
                      "threads; --threads 1"),
            std::string::npos)
      << likely_cause({.cpus = 2, .others = 0.97}, 2);
  EXPECT_NE(likely_cause({.cpus = 8, .others = 1}, 2).find("time it on an idle machine"), std::string::npos);
  EXPECT_NE(likely_cause({.cpus = 2, .others = 1}, 1).find("time it on an idle machine"), std::string::npos);
  EXPECT_NE(likely_cause({.cpus = 2, .others = 0, .throttled = true}, 2).find("CPU quota"),
            std::string::npos);
  EXPECT_NE(likely_cause({.cpus = 2, .others = 0}, 2).find("nothing else ran"), std::string::npos);
  const std::string of_gpu = likely_cause({.cpus = 2, .others = 2, .throttled = true}, 0);
  EXPECT_NE(of_gpu.find("the GPU's load was not watched"), std::string::npos) << of_gpu;
  EXPECT_EQ(of_gpu.find("CPU"), std::string::npos) << of_gpu;
  EXPECT_NE(likely_cause({.cpus = 2, .others = std::nan("")}, 2).find("too short"), std::string::npos);
}

/// /proc/stat of a machine whose usable CPUs were all busy for so many ticks.
TEST(LoadWatch, CountsWhatOthersComputed) {
  std::string stat;
  const auto set = [&](int ticks) {
    stat = "cpu 1 1 1 1 1 1 1 1\n";
    for (const int cpu : usable_cpus())
      stat += "cpu" + std::to_string(cpu) + " " + std::to_string(ticks) + " 0 0 500 9 0 0 0 7 7\n";
  };
  set(100);
  std::int64_t seconds = 7;
  const LoadWatch watch([&](const std::string& path) { return path == "/proc/stat" ? stat : std::string(); },
                        [&] { return seconds * 1'000'000'000; });
  EXPECT_TRUE(std::isnan(watch.seen().others)) << "too short to say";
  seconds += 1000;
  const auto ticks_per_s = static_cast<int>(sysconf(_SC_CLK_TCK));
  set(100 + 250 * ticks_per_s);
  Load load = watch.seen();
  EXPECT_EQ(load.cpus, static_cast<double>(usable_cpus().size()));
  EXPECT_NEAR(load.others, 0.25 * load.cpus, 0.05) << "this process computes much less than 50 s meanwhile";
  set(100 + 9999 * ticks_per_s);
  load = watch.seen();
  EXPECT_EQ(load.others, load.cpus) << "no more than there are";
  EXPECT_EQ(load.throttled, 0);
  EXPECT_DOUBLE_EQ(load.seconds, 1000);
}

/// /proc/stat of a machine whose usable CPUs were busy for so many ticks together.
std::string stat_of(double ticks) {
  return "cpu" + std::to_string(usable_cpus().front()) + " " + std::to_string(std::lround(ticks)) +
         " 0 0 1\n";
}

TEST(LoadWatch, ChildrenThatWereWaitedForAreNoOthers) {
  constexpr double kChildS = 0.3;
  double busy_s = 0;
  std::int64_t seconds = 0;
  const LoadWatch watch(
      [&](const std::string& path) {
        return path == "/proc/stat" ? stat_of(busy_s * static_cast<double>(sysconf(_SC_CLK_TCK))) : "";
      },
      [&] { return seconds * 1'000'000'000; });
  const pid_t child = fork();
  if (child == 0) {
    while (static_cast<double>(std::clock()) < kChildS * CLOCKS_PER_SEC) {
    }
    _exit(0);
  }
  ASSERT_GT(child, 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  seconds = 1;
  busy_s = kChildS;
  EXPECT_EQ(watch.seen().others, 0);
}

TEST(LoadWatch, ThrottlingIsAShareOfTheTime) {
  int stopped = 5;
  std::int64_t seconds = 0;
  const LoadWatch watch(
      [&](const std::string& path) {
        if (path == "/proc/self/cgroup") return std::string("0::/\n");
        if (path == "/sys/fs/cgroup/cpu.stat") return "nr_throttled " + std::to_string(stopped) + "\n";
        return std::string();
      },
      [&] { return seconds * 1'000'000'000; });
  seconds = 10;
  EXPECT_EQ(watch.seen().throttled, 0);
  stopped += 25;  // of the 100 periods of ten seconds
  EXPECT_DOUBLE_EQ(watch.seen().throttled, 0.25);
  stopped += 1000;
  EXPECT_EQ(watch.seen().throttled, 1);
}

TEST(LoadWatch, SaysWhenAMachineIsTooBusyForTimings) {
  EXPECT_EQ(busy_text({.cpus = 2, .others = 0.97}),
            "other processes kept 0.97 of 2 CPUs busy, 48 % (limit 10 %); stop them");
  EXPECT_EQ(busy_text({.cpus = 2, .others = 0, .throttled = 0.25}, 0.2),
            "the CPU quota stopped processes of this cgroup in 25 % of the time (limit 20 %); raise it");
  EXPECT_EQ(busy_text({.cpus = 2, .others = 0.2, .throttled = 0.1}), "") << "as much as is allowed";
  EXPECT_EQ(busy_text({.cpus = 2, .others = std::nan("")}), "") << "too short to say";
  EXPECT_EQ(busy_text({.cpus = 2, .others = 2, .throttled = 1}, 1), "") << "a limit of 1 allows everything";
  EXPECT_EQ(busy_text({}), "");
}

TEST(LoadWatch, JoinsTimesByTheirLength) {
  const Load idle{.cpus = 2, .others = 0, .throttled = 0, .seconds = 30};
  const Load busy{.cpus = 2, .others = 1, .throttled = 0.5, .seconds = 10};
  const Load both = joined(idle, busy);
  EXPECT_EQ(both.cpus, 2);
  EXPECT_DOUBLE_EQ(both.others, 0.25);
  EXPECT_DOUBLE_EQ(both.throttled, 0.125);
  EXPECT_EQ(both.seconds, 40);
  EXPECT_EQ(joined({}, busy).others, 1);
  EXPECT_EQ(joined(busy, {.cpus = 2, .others = std::nan(""), .seconds = 0.01}).others, 1);
}

}  // namespace
}  // namespace kscout
