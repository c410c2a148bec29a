#include "core/files.h"

#include <gtest/gtest.h>

#include <kscout/error.h>

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

}  // namespace
}  // namespace kscout
