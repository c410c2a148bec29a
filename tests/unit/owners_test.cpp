#include "core/owners.h"

#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kscout/selector.h>

#include "core/files.h"
#include "select/class_table.h"
#include "select/decision_db.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

/// Sets a variable, or removes it, until the end of the scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) const { value ? setenv(name_, value, 1) : unsetenv(name_); }
  const char* name_;
  std::optional<std::string> before_;
};

TEST(Home, ARelativeFolderIsNoHome) {
  for (const char* const home : {static_cast<const char*>(nullptr), "", ".", "mine"}) {
    for (const char* const data : {static_cast<const char*>(nullptr), "", "data"}) {
      const Variable of_home("HOME", home), of_data("XDG_DATA_HOME", data);
      EXPECT_EQ(user_folder("XDG_DATA_HOME", ".local/share"), "");
      EXPECT_EQ(user_model_folder(), "");
      EXPECT_EQ(default_decision_db(), "");
      EXPECT_EQ(default_class_file(), "");
      for (const fs::path& folder : model_search_path()) EXPECT_TRUE(folder.is_absolute()) << folder;
      test::expect_error(Errc::invalid_argument, "neither is an absolute path",
                         [] { DecisionDb(default_decision_db()).put(std::span<const StoredDecision>()); });
      test::expect_error(Errc::invalid_argument, "neither is an absolute path",
                         [] { store_classes(default_class_file(), {}); });
    }
  }
  const Variable home("HOME", "/home/me"), data("XDG_DATA_HOME", "relative");
  EXPECT_EQ(user_model_folder(), "/home/me/.local/share/kscout/models");
  const Variable absolute("XDG_DATA_HOME", "/data");
  EXPECT_EQ(user_model_folder(), "/data/kscout/models");
}

class Owners : public testing::Test {
 protected:
  Owners() {
    fs::create_directories(file_.parent_path());
    write_file_atomically(file_, "x");
  }

  const test::TemporaryFolder folder_;
  const fs::path file_ = folder_ / "models" / "one" / "model.ksf";
};

TEST_F(Owners, WhatOthersMayWriteIsRefused) {
  EXPECT_EQ(why_others_write(file_), "");
  EXPECT_EQ(why_others_write(folder_ / "none"), "");
  for (const fs::path& place : {file_, folder_ / "models" / "one", folder_ / "models"}) {
    const fs::perms before = fs::status(place).permissions();
    fs::permissions(place, fs::perms::others_write, fs::perm_options::add);
    const std::string remedy = "chmod go-w '" + place.string() + "'";
    test::expect_error(Errc::device_failure, {file_.string(), remedy},
                       [&] { refuse_if_others_write(file_); });
    fs::permissions(place, before);
  }
  EXPECT_EQ(why_others_write(file_), "");
}

TEST_F(Owners, WhatIsWrittenIsUsedWhateverTheUmask) {
  const fs::path classes = folder_ / "a" / "b" / "classes.json",
                 db = folder_ / "c" / "d" / "decisions.sqlite";
  const mode_t before = umask(0);
  const fs::path model = make_part_folder(folder_ / "e" / "model") / "model.ksf";
  store_classes(classes, {});
  DecisionDb(db).put(std::span<const StoredDecision>());
  write_file_atomically(model, "x", kOwnersMode);
  umask(before);
  for (const fs::path& file : {classes, db, model}) EXPECT_EQ(why_others_write(file), "");
  fs::permissions(model, fs::perms::others_write | fs::perms::group_write, fs::perm_options::add);
  keep_others_out(model);
  EXPECT_EQ(why_others_write(model), "");
}

TEST_F(Owners, ALinkIsAsSafeAsItsFolderAndItsTarget) {
  fs::create_directory(folder_ / "links");
  const fs::path link = folder_ / "links" / "model.ksf";
  fs::create_symlink(file_, link);
  EXPECT_EQ(why_others_write(link), "");
  for (const fs::path& place : {folder_ / "links", folder_ / "models"}) {
    fs::permissions(place, fs::perms::others_write, fs::perm_options::add);
    EXPECT_NE(why_others_write(link).find(place.string()), std::string::npos);
    fs::permissions(place, fs::perms::others_write, fs::perm_options::remove);
  }
}

TEST_F(Owners, AStickyFolderHoldsOnlyFilesOfItsUser) {
  fs::permissions(folder_ / "models", fs::perms::all | fs::perms::sticky_bit);
  EXPECT_EQ(why_others_write(file_), "");
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files to others";
  constexpr uid_t kOther = 54321;
  ASSERT_EQ(chown((folder_ / "models" / "one").c_str(), kOther, static_cast<gid_t>(-1)), 0);
  EXPECT_NE(why_others_write(file_).find("belongs to user 54321"), std::string::npos);
  fs::permissions(folder_ / "models", fs::perms::owner_all);
  EXPECT_EQ(why_others_write(file_), "") << "the caller chose the folder";
}

TEST_F(Owners, AGroupWithOthersMayNotWrite) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files to groups";
  const fs::path place = folder_ / "models";
  fs::permissions(place, fs::perms::group_write, fs::perm_options::add);
  EXPECT_EQ(why_others_write(file_), "") << "root's own group";
  ASSERT_EQ(chown(place.c_str(), static_cast<uid_t>(-1), 54321), 0);
  EXPECT_NE(why_others_write(file_).find("chmod go-w"), std::string::npos);
  ASSERT_EQ(chown(place.c_str(), 54321, 54321), 0);
  EXPECT_EQ(why_others_write(file_), "") << "a group of one, without an entry";
}

TEST_F(Owners, ALibraryThatOthersMayWriteIsNotOpened) {
  EXPECT_EQ(safe_loader_name("libm.so.6"), "libm.so.6");
  EXPECT_EQ(safe_loader_name(file_), file_.string());
  fs::permissions(file_, fs::perms::others_write, fs::perm_options::add);
  test::expect_error(Errc::device_failure, "chmod go-w", [&] { safe_loader_name(file_); });
}

}  // namespace
}  // namespace kscout
