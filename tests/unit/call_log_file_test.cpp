// Tests logs as files: compressed, cut, and with a byte-order mark.
#include <filesystem>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "core/files.h"
#include "logs/call_log.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

std::set<std::string> problems_of(const CallLog& log) {
  std::set<std::string> texts;
  for (Problem problem : log.problems) {
    problem.set_weight(1);
    texts.insert(print(problem));
  }
  return texts;
}

TEST(CallLogFile, ACutGzipFileKeepsWhatCanBeRead) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "log.gz";
  std::size_t kept = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(paths::in_repository("tests/fuzz/corpus/call_log"))) {
    const std::string packed = gzip(read_file(entry.path()));
    write_file_atomically(file, packed);
    std::set<std::string> known;
    try {
      const CallLog whole = read_call_log_file(file);
      EXPECT_EQ(whole.summary().find("gzip"), std::string::npos);
      known = problems_of(whole);
    } catch (const Error&) {  // no log
    }
    for (const std::size_t length : {packed.size() / 2, packed.size() * 3 / 4, packed.size() - 9}) {
      write_file_atomically(file, packed.substr(0, length));
      try {
        const CallLog log = read_call_log_file(file);
        EXPECT_NE(log.summary().find("1 of a gzip file that is cut short"), std::string::npos);
        for (const std::string& problem : problems_of(log))
          EXPECT_TRUE(known.contains(problem)) << entry.path() << " cut to " << length << ": " << problem;
        ++kept;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::corrupt_data) << error.what();
      }
    }
  }
  EXPECT_GT(kept, 5u);
}

}  // namespace
}  // namespace kscout
