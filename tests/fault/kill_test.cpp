// Tests sweeps that are killed, run out of disk space, or may not write: a resumed sweep ends with the keys
// of an uninterrupted one.
#include <csignal>
#include <fstream>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kscout/error.h>

#include "fault/toy.h"
#include "measure/timing.h"
#include "support/paths.h"
#include "support/share.h"
#include "support/temporary_folder.h"
#include "sweep/journal.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

constexpr int kProblems = 4, kConfigs = 8;

constexpr int kMoments = static_cast<int>(test::share_of(200));

/// Starts toy_sweep; `prepare` runs in the child before it.
template <class F>
pid_t start_sweep(const fs::path& folder, F&& prepare, int problem_count = kProblems) {
  const std::string folder_text = folder.string(), problems = std::to_string(problem_count),
                    configs = std::to_string(kConfigs);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prepare();
  execl(paths::toy_sweep, "toy_sweep", folder_text.c_str(), paths::toy_worker, problems.c_str(),
        configs.c_str(), nullptr);
  _exit(127);
}
pid_t start_sweep(const fs::path& folder) {
  return start_sweep(folder, [] {});
}

int exit_code_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void expect_complete(const fs::path& folder, int problems = kProblems) {
  const SweepState state = read_state(folder, toy::space);  // throws when a key is there twice
  std::size_t first_pass = 0;
  std::set<std::uint32_t> with_contenders;
  for (const auto& row : state.rows) {
    EXPECT_TRUE(row.measured.status == Status::ok || row.measured.status == Status::pruned_early)
        << word(row.measured.status);
    if (row.key.pass == 1) ++first_pass;
    if (row.key.pass == 2) with_contenders.insert(row.key.problem);
  }
  // Rows are distinct and within the plan, so that the count says that all keys are there.
  EXPECT_EQ(first_pass, static_cast<std::size_t>(problems * kConfigs));
  EXPECT_EQ(with_contenders.size(), static_cast<std::size_t>(problems));
  EXPECT_EQ(state.last_end, "done");
}

std::uintmax_t bytes_of(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  std::error_code gone;  // a file may be replaced meanwhile
  for (const auto& file : fs::directory_iterator(folder)) {
    const auto size = file.file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

/// An undisturbed sweep: how long it takes, so that the moments of death cover all of it, and what it writes.
/// The shortest of three: on a busy machine a single one may take much longer than those that follow.
struct WholeSweep {
  std::int64_t us = std::numeric_limits<std::int64_t>::max();
  std::uintmax_t bytes = 0;
};
WholeSweep whole_sweep() {
  WholeSweep whole;
  for (int i = 0; i < 3; ++i) {
    const TemporaryFolder folder;
    const std::int64_t begin = now_ns();
    EXPECT_EQ(exit_code_of(start_sweep(folder.path())), 0);
    whole.us = std::min(whole.us, (now_ns() - begin) / 1000);
    whole.bytes = bytes_of(folder.path());
    expect_complete(folder.path());
  }
  return whole;
}

/// Whether the process has ended; its exit code can still be asked for.
bool has_ended(pid_t pid) {
  siginfo_t ended{};
  return waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == pid;
}

/// Waits for a random moment of a sweep: a time, or so many bytes in its folder, which it reaches however
/// slow the machine is.
void wait_for_a_moment(std::mt19937& random, const WholeSweep& whole, bool by_bytes, pid_t pid,
                       const fs::path& folder) {
  using std::chrono::microseconds;
  if (!by_bytes) {
    std::this_thread::sleep_for(
        microseconds(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(whole.us))));
    return;
  }
  const std::uintmax_t wanted = random() % whole.bytes;
  while (!has_ended(pid) && bytes_of(folder) < wanted) std::this_thread::sleep_for(microseconds(100));
}

TEST(Kill, TheSweepAtAnyMoment) {
  const WholeSweep whole = whole_sweep();
  int moments = 0, before_end = 0, rows_kept = 0;
  // The moments must cover the sweep, or nothing was tested: where a busy machine moves too many of them to
  // its ends, more are tried.
  const auto covered = [&] { return before_end > kMoments / 4 && rows_kept > kMoments / 10; };
  for (; moments < kMoments || (!covered() && moments < 5 * kMoments); ++moments) {
    SCOPED_TRACE(moments);
    const TemporaryFolder folder;
    std::mt19937 random(static_cast<unsigned>(moments));
    const pid_t pid = start_sweep(folder.path());
    wait_for_a_moment(random, whole, moments % 2 == 1, pid, folder.path());
    kill(pid, SIGKILL);
    before_end += exit_code_of(pid) == 128 + SIGKILL;
    std::vector<JournalRow> kept;
    if (fs::exists(folder.path() / kManifestName)) kept = read_state(folder.path(), toy::space).rows;
    rows_kept += !kept.empty();
    ASSERT_EQ(exit_code_of(start_sweep(folder.path())), 0);
    expect_complete(folder.path());
    // What was measured before is still there, bit for bit.
    const auto after = read_state(folder.path(), toy::space).rows;
    ASSERT_GE(after.size(), kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_EQ(after[i].key, kept[i].key);
      EXPECT_EQ(after[i].measured, kept[i].measured);
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(covered()) << before_end << " killed before the end, " << rows_kept << " with rows";
}

/// The worker of a running sweep, or 0.
pid_t worker_of(pid_t sweep) {
  std::ifstream children("/proc/" + std::to_string(sweep) + "/task/" + std::to_string(sweep) + "/children");
  pid_t child = 0;
  children >> child;
  return child;
}

TEST(Kill, TheWorkerAtAnyMoment) {
  const WholeSweep whole = whole_sweep();
  int moments = 0, killed = 0, noticed = 0;
  // Few moments may all fall where a worker starts or has nothing left to do: then more are tried.
  const auto covered = [&] { return noticed > 0 && killed > kMoments / 8; };
  for (; moments < kMoments / 2 || (!covered() && moments < 5 * kMoments); ++moments) {
    SCOPED_TRACE(moments);
    const TemporaryFolder folder;
    std::mt19937 random(static_cast<unsigned>(moments));
    const pid_t pid = start_sweep(folder.path());
    wait_for_a_moment(random, whole, moments % 2 == 1, pid, folder.path());
    const pid_t worker = worker_of(pid);
    // A moment before its exec the child is still the sweep's own image: its death is a failed start all the
    // same.
    if (worker > 0) killed += kill(worker, SIGKILL) == 0;
    ASSERT_EQ(exit_code_of(pid), 0);
    expect_complete(folder.path());
    noticed += !read_state(folder.path(), toy::space).crashes.empty();
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(covered()) << killed << " workers killed, " << noticed << " noticed";
}

TEST(FullDisk, EveryWriteMayBeTheLast) {
  const TemporaryFolder whole;
  ASSERT_EQ(exit_code_of(start_sweep(whole.path())), 0);
  const auto manifest = fs::file_size(whole.path() / kManifestName),
             journal = fs::file_size(whole.path() / "journal.log");
  ASSERT_LT(manifest, journal) << "limits below cut the journal, not only the manifest";
  int stopped = 0;
  for (int step = 0; step < 20; ++step) {
    SCOPED_TRACE(step);
    const TemporaryFolder folder;
    const rlim_t limit = 100 + static_cast<rlim_t>(step) * journal / 20;
    const pid_t pid = start_sweep(folder.path(), [&] {
      const rlimit most{limit, limit};
      setrlimit(RLIMIT_FSIZE, &most);
      const int null = open("/dev/null", O_WRONLY);
      dup2(null, STDERR_FILENO);
    });
    const int code = exit_code_of(pid);
    EXPECT_TRUE(code == 4 || code == 0) << code;
    stopped += code == 4;
    std::size_t kept = 0;
    if (fs::exists(folder.path() / kManifestName)) {
      kept = read_state(folder.path(), toy::space).rows.size();
      EXPECT_TRUE(kept > 0 || limit < manifest + 1000) << "what fitted is there";
    }
    ASSERT_EQ(exit_code_of(start_sweep(folder.path())), 0);
    expect_complete(folder.path());
    EXPECT_GE(read_state(folder.path(), toy::space).rows.size(), kept);
  }
  EXPECT_GT(stopped, 10);
}

TEST(FullDisk, OnARealFileSystem) {
  const TemporaryFolder folder;
  const auto disk = folder.path() / "disk";
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=12k") != 0)
    GTEST_SKIP() << "needs the right to mount a tmpfs";
  // Enough rows for the journal to need more than the one or two pages that are left beside the manifest.
  constexpr int kMany = 40;
  const pid_t pid = start_sweep(
      disk, [] { dup2(open("/dev/null", O_WRONLY), STDERR_FILENO); }, kMany);
  EXPECT_EQ(exit_code_of(pid), 4);
  const std::size_t kept = read_state(disk, toy::space).rows.size();
  EXPECT_GT(kept, 0u);
  EXPECT_EQ(mount("tmpfs", disk.c_str(), "tmpfs", MS_REMOUNT, "size=1m"), 0);
  EXPECT_EQ(exit_code_of(start_sweep(
                disk, [] {}, kMany)),
            0);
  expect_complete(disk, kMany);
  umount(disk.c_str());
}

TEST(ReadOnlyFolder, IsOneClearError) {
  const TemporaryFolder parent;
  ASSERT_EQ(exit_code_of(start_sweep(parent.path() / "sweep")), 0);
  fs::remove(parent.path() / "sweep/journal.log");
  for (const auto& folder : {parent.path() / "sweep", parent.path()}) {
    fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                                fs::perms::others_exec);
    const pid_t pid = fork();
    if (pid == 0) {
      // root may write anywhere: become nobody.
      if (geteuid() == 0 && seteuid(65534) != 0) _exit(1);
      try {
        run_sweep(toy::quick_plan(kProblems, kConfigs),
                  {.folder = folder == parent.path() ? folder / "new" : folder, .worker = paths::toy_worker});
        _exit(2);
      } catch (const Error& error) {
        const bool clear = error.code() == Errc::device_failure &&
                           std::string_view(error.what()).find("Permission denied") != std::string_view::npos;
        _exit(clear ? 0 : 3);
      }
    }
    EXPECT_EQ(exit_code_of(pid), 0);
    fs::permissions(folder, fs::perms::owner_all);
  }
}

TEST(TwoSweeps, MayNotWriteOneJournal) {
  const TemporaryFolder folder;
  const auto plan = toy::plan({make_gemm(2, 2, 2)}, {toy::config(toy::Behaviour::hang, 0)});
  bool refused = false;
  std::atomic<bool> stop = false;
  std::thread first([&] {
    run_sweep(plan, {.folder = folder.path(), .worker = paths::toy_worker, .budget_s = 20, .stop = &stop});
  });
  while (!fs::exists(folder.path() / "journal.log") || fs::file_size(folder.path() / "journal.log") < 20) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  try {
    run_sweep(plan, {.folder = folder.path(), .worker = paths::toy_worker, .budget_s = 1});
  } catch (const Error& error) {
    refused = std::string_view(error.what()).find("another sweep is writing") != std::string_view::npos;
  }
  stop = true;
  first.join();
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace kscout
