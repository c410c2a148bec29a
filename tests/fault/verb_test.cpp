// Tests `kscout sweep` as a program: defects decide its exit code, signals end it cleanly.
#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/paths.h"
#include "support/temporary_folder.h"
#include "sweep/journal.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

class SweepVerb : public ::testing::Test {
 protected:
  pid_t start(std::vector<std::string> words) {
    words.insert(words.begin(), {"kscout", "sweep", "--rules", "tiny", "--out", (folder_ / "out").string()});
    const pid_t pid = fork();
    if (pid != 0) return pid;
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execv(paths::program, argv.data());
    _exit(127);
  }
  static int wait_for(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  const test::TemporaryFolder folder_;
};

TEST_F(SweepVerb, WrongRowsEndWithOne) {
  EXPECT_EQ(wait_for(start({"--problems", "smoke", "--max-problems", "4", "--worker", paths::faulty_worker})),
            1);
  const SweepStatus status = sweep_status(folder_ / "out");
  EXPECT_EQ(status.problems_done, 4u);
  EXPECT_GT(status.count(Status::wrong), 0u);
  EXPECT_GT(status.count(Status::ok), 0u);
  for (const auto& row : read_sweep(folder_ / "out").rows) {
    EXPECT_TRUE(row.measured.status != Status::wrong || std::isnan(row.measured.time_us));
  }
}

TEST_F(SweepVerb, SignalsEndItInOrderAndItContinues) {
  const std::vector<std::string> words = {"--problems", "random",         "--max-gflop",
                                          "0.01",       "--max-problems", "40"};
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t pid = start(words);
    const auto journal = folder_ / "out/journal.log";
    std::error_code absent;
    const auto size = fs::file_size(journal, absent);
    const auto grown = (absent ? 0 : size) + 500;
    while (kill(pid, 0) == 0) {
      const auto now = fs::file_size(journal, absent);
      if (!absent && now > grown) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    kill(pid, signal);
    EXPECT_EQ(wait_for(pid), 128 + signal);
    EXPECT_EQ(read_state(folder_ / "out").last_end, "interrupted");
  }
  const auto kept = read_state(folder_ / "out").rows;
  EXPECT_GT(kept.size(), 5u);
  EXPECT_EQ(wait_for(start(words)), 0);
  const auto all = read_state(folder_ / "out");
  EXPECT_EQ(all.last_end, "done");
  EXPECT_TRUE(std::equal(
      kept.begin(), kept.end(), all.rows.begin(),
      [](const JournalRow& a, const JournalRow& b) { return a.key == b.key && a.measured == b.measured; }));
}

}  // namespace
}  // namespace kscout
