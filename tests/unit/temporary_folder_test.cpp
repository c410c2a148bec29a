// Tests the temporary folder of other tests (support/).
#include "support/temporary_folder.h"

#include <cstdlib>
#include <fstream>
#include <optional>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace kscout {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

TEST(TemporaryFolder, IsNobodyElsesAndGoesWithWhatIsInIt) {
  fs::path was;
  {
    const TemporaryFolder one, other;
    EXPECT_NE(one.path(), other.path());
    EXPECT_TRUE(fs::is_empty(one.path()));
    fs::create_directories(one / "a/b");
    std::ofstream(one / "a/b/c") << "text";
    was = one.path();
  }
  EXPECT_FALSE(fs::exists(was));
}

TEST(TemporaryFolder, OutlivesForkedChildren) {
  std::optional<TemporaryFolder> folder(std::in_place);
  const pid_t child = fork();
  if (child == 0) {
    folder.reset();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::is_directory(folder->path()));
}

}  // namespace
}  // namespace kscout
