#include "core/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kscout/error.h>

#include "core/links.h"
#include "core/part_name.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

class Files : public testing::Test {
 protected:
  std::size_t count() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_.path()),
                                                  std::filesystem::directory_iterator()));
  }

  const test::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "a";
};

TEST_F(Files, ReadBackAndReplaced) {
  const std::string bytes("one\0two", 7);
  write_file_atomically(file_, bytes);
  EXPECT_EQ(read_file(file_), bytes);
  write_file_atomically(file_, "");
  EXPECT_EQ(read_file(file_), "");
  EXPECT_EQ(count(), 1u) << "a part is left behind";
}

TEST_F(Files, TheFirstForeignEntryIsNamed) {
  const auto own = [](const std::filesystem::directory_entry& entry) {
    return entry.path().extension() == ".log";
  };
  EXPECT_EQ(foreign_entry(folder_ / "none", own), "");
  EXPECT_EQ(foreign_entry(folder_.path(), own), "");
  for (const char* const name : {"z.log", "c.txt", "b.txt"}) write_file_atomically(folder_ / name, "");
  EXPECT_EQ(foreign_entry(folder_.path(), own), folder_ / "b.txt");
  test::expect_error(Errc::device_failure, {"z.log"}, [&] { foreign_entry(folder_ / "z.log", own); });
}

TEST_F(Files, LinksStayAndTheirFileIsReplaced) {
  const std::filesystem::path link = folder_ / "link", chain = folder_ / "chain";
  std::filesystem::create_symlink("a", link);
  std::filesystem::create_symlink(link, chain);
  write_file_atomically(chain, "through a link to nothing");
  EXPECT_EQ(read_file(file_), "through a link to nothing");
  write_file_atomically(link, "again");
  EXPECT_EQ(read_file(file_), "again");
  EXPECT_TRUE(std::filesystem::is_symlink(link) && std::filesystem::is_symlink(chain));
  EXPECT_EQ(count(), 3u) << "a part is left behind";
}

TEST_F(Files, APlantedLinkIsNotFollowed) {
  const std::filesystem::path victim = folder_ / "victim";
  write_file_atomically(victim, "precious");
  for (const char* const ending : {"a", "b"})
    std::filesystem::create_symlink(
        "victim", folder_ / (std::string(ending) + "." + std::to_string(getpid()) + ".part"));
  write_file_atomically(file_, "mine");
  create_file_atomically(folder_ / "b", "mine");
  EXPECT_EQ(read_file(victim), "precious");
  for (const char* const name : {"a", "b"}) {
    EXPECT_EQ(read_file(folder_ / name), "mine");
    EXPECT_FALSE(std::filesystem::is_symlink(folder_ / name));
  }
}

TEST_F(Files, FoldersOfPartsAreNewAndNobodyForeseesTheirNames) {
  const std::filesystem::path one = make_part_folder(folder_ / "deep" / "model"),
                              two = make_part_folder(folder_ / "deep" / "model");
  EXPECT_NE(one, two);
  for (const auto& part : {one, two}) {
    EXPECT_TRUE(std::filesystem::is_empty(part));
    EXPECT_EQ(finished_name(part.filename().string()), "model") << part;
  }
  test::expect_error(Errc::device_failure, "cannot create", [&] {
    write_file_atomically(file_, "no folder");
    make_part_folder(file_ / "model");
  });
  std::filesystem::path gone;
  {
    const TemporaryFolder own("kscout-test"), other("kscout-test");
    gone = own.path();
    EXPECT_NE(own.path(), other.path());
    EXPECT_EQ(std::filesystem::status(gone).permissions(), std::filesystem::perms::owner_all);
    write_file_atomically(gone / "file", "");
  }
  EXPECT_FALSE(std::filesystem::exists(gone));
}

TEST_F(Files, APartNamesItsFile) {
  EXPECT_EQ(finished_name("manifest.json.4711.part"), "manifest.json") << "of earlier releases";
  const AtomicFile out(file_);
  const auto part = std::filesystem::directory_iterator(folder_.path())->path().filename().string();
  EXPECT_NE(part, "a");
  EXPECT_EQ(finished_name(part), "a") << part;
  for (const char* const name : {"a.part", "a.tar.part", ".part", "a.Xy12.part", "a.abcdefg.part"})
    EXPECT_EQ(finished_name(name), name);
}

TEST_F(Files, NewFilesHaveThePermissionsOfTheProcess) {
  const mode_t before = umask(027);
  write_file_atomically(file_, "x");
  umask(before);
  struct stat about {};
  ASSERT_EQ(stat(file_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0640u);
}

TEST_F(Files, PipesAreWritten) {
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  const int reader = open(file_.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  std::filesystem::create_symlink("a", folder_ / "link");
  write_file_atomically(file_, "one ");
  write_file_atomically(folder_ / "link", "two");
  char bytes[16] = {};
  EXPECT_EQ(read(reader, bytes, sizeof(bytes)), 7);
  EXPECT_STREQ(bytes, "one two");
  close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(file_));
  EXPECT_EQ(count(), 2u);
}

TEST_F(Files, PermissionsStay) {
  write_file_atomically(file_, "secret");
  std::filesystem::permissions(file_,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  write_file_atomically(file_, "new");
  EXPECT_EQ(std::filesystem::status(file_).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(Files, CreatedOnce) {
  create_file_atomically(file_, "first");
  create_file_atomically(file_, "second");
  EXPECT_EQ(read_file(file_), "first");
  EXPECT_EQ(count(), 1u) << "a part is left behind";
}

TEST_F(Files, AbsentIsNotUnreadable) {
  EXPECT_TRUE(is_absent(file_));
  EXPECT_FALSE(is_absent(folder_.path()));
  try {
    read_file(file_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::not_found);
  }
  try {
    read_file(folder_.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::device_failure);
  }
}

TEST_F(Files, AFailedWriteLeavesNothing) {
  std::filesystem::create_directory(file_);
  EXPECT_THROW(write_file_atomically(file_, "x"), Error);
  EXPECT_EQ(count(), 1u);
}

TEST_F(Files, ASmallFileDoesNotBecomeALargeText) {
  const std::string zeros(std::size_t{65} << 20, '0');
  write_file_atomically(file_, gzip(zeros));
  test::expect_error(Errc::corrupt_data, {file_.string(), "when decompressed", "67108864"},
                     [&] { read_maybe_gzip(file_); });
  write_file_atomically(file_, gzip(zeros.substr(0, std::size_t{8} << 20)));
  EXPECT_EQ(read_maybe_gzip(file_).size(), std::size_t{8} << 20);
  EXPECT_NO_THROW(check_decompressed(std::size_t{1} << 20, std::size_t{200} << 20, "log"));
  EXPECT_THROW(check_decompressed(std::size_t{1} << 20, (std::size_t{200} << 20) + 1, "log"), Error);
  EXPECT_THROW(check_decompressed(kMaxFileBytes, kMaxFileBytes + 1, "log"), Error);
}

TEST_F(Files, ACutGzipFileKeepsItsBeginningWhereThatIsAsked) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += std::to_string(i * i) + '\n';
  const std::string whole = gzip(text);
  EXPECT_EQ(gunzip(whole + gzip("more"), "two"), text + "more") << "several files in one";
  bool cut = false;
  EXPECT_EQ(gunzip(whole, "whole", &cut), text);
  EXPECT_FALSE(cut);
  for (std::size_t length = 0; length < whole.size(); length += 41) {
    const std::string_view begin = std::string_view(whole).substr(0, length);
    EXPECT_THROW(gunzip(begin, "cut"), Error);
    cut = false;
    EXPECT_TRUE(text.starts_with(gunzip(begin, "cut", &cut))) << length;
    EXPECT_TRUE(cut);
  }
  std::string damaged = whole;
  damaged[whole.size() / 2] ^= 1;
  cut = false;
  EXPECT_THROW(gunzip(damaged, "damaged", &cut), Error);
  EXPECT_THROW(gunzip(whole + "tail", "tail", &cut), Error);
}

TEST_F(Files, AByteOrderMarkIsNoText) {
  write_file_atomically(file_,
                        "\xEF\xBB\xBF"
                        "text");
  EXPECT_EQ(read_plain_text(file_), "text");
  EXPECT_EQ(read_maybe_gzip(file_), "text");
  write_file_atomically(file_, gzip("\xEF\xBB\xBF"
                                    "text"));
  EXPECT_EQ(read_maybe_gzip(file_), "text");
}

TEST_F(Files, DevicesThatNeverEndAreRefused) {
  test::expect_error(Errc::device_failure, "/dev/zero: is a device; name a file or a pipe",
                     [] { read_file("/dev/zero"); });
  EXPECT_EQ(read_file("/dev/null"), "");
}

}  // namespace
}  // namespace kscout
