#include "core/owners.h"

#include <array>
#include <string_view>
#include <system_error>

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/loader_name.h"
#include "core/log.h"

namespace kscout {

namespace {

namespace fs = std::filesystem;

/// Room for an entry of the databases of users and groups.
using Room = std::array<char, 1 << 14>;

/// Empty: unknown.
std::string user_name(uid_t user) {
  Room room;
  passwd entry{}, *found = nullptr;
  return getpwuid_r(user, &entry, room.data(), room.size(), &found) == 0 && found ? found->pw_name : "";
}

/// Whether the group has no member besides the user: many systems give each user such a group, of the user's
/// name, and let its members write new files.
bool is_group_of_one(gid_t group, uid_t user) {
  Room room;
  ::group entry{}, *found = nullptr;
  if (getgrgid_r(group, &entry, room.data(), room.size(), &found) != 0) return false;
  if (!found) return group == user;  // a container without entries
  const std::string name = user_name(user);
  if (name != found->gr_name) return false;
  for (char** member = found->gr_mem; *member; ++member) {
    if (name != *member) return false;
  }
  return true;
}

/// Whether users other than the owner may write.
bool others_write(const struct stat& about) {
  if ((about.st_mode & S_IWOTH) != 0) return true;
  return (about.st_mode & S_IWGRP) != 0 && !is_group_of_one(about.st_gid, about.st_uid);
}

std::string why_along(const fs::path& file) {
  fs::path place;
  bool in_sticky = false;
  uid_t owner_of_sticky = 0;
  for (const fs::path& part : file) {
    place /= part;
    struct stat link {
    }, about{};
    if (lstat(place.c_str(), &link) != 0 || stat(place.c_str(), &about) != 0) break;  // reading it fails
    const uid_t owner = link.st_uid;
    if (in_sticky && owner != geteuid() && owner != 0 && owner != owner_of_sticky) {
      const std::string name = user_name(owner);
      return fmt::format(
          "{}: {} belongs to user {} and lies in a folder where everyone may create files, so it is not "
          "used; "
          "copy it to a folder of your own",
          file.string(), place.string(), name.empty() ? std::to_string(owner) : name);
    }
    in_sticky = S_ISDIR(about.st_mode) && (about.st_mode & S_ISVTX) != 0;
    owner_of_sticky = about.st_uid;
    if (!in_sticky && others_write(about)) {
      return fmt::format(
          "{}: other users may write {} (mode {:04o}), so it is not used; chmod go-w '{}', or copy the file "
          "to "
          "a folder that only you may write",
          file.string(), place.string(), about.st_mode & 07777, place.string());
    }
  }
  return {};
}

}  // namespace

fs::path user_folder(const char* variable, const std::string& below) {
  const fs::path own = environment(variable), home = environment("HOME");
  if (own.is_absolute()) return own / "kscout";
  return home.is_absolute() ? home / below / "kscout" : fs::path();
}

std::string no_user_folder(const char* variable) {
  return fmt::format(
      "HOME is '{}' and {} is '{}': neither is an absolute path, so there is no folder of yours",
      environment("HOME"), variable, environment(variable));
}

std::string why_others_write(const fs::path& file) {
  if (is_absent(file)) return {};
  std::error_code error;
  // The path with its links: who may write their folder may let them point elsewhere. And the path without.
  std::string why = why_along(fs::absolute(file, error));
  return why.empty() ? why_along(fs::canonical(file, error)) : why;
}

void make_own_folders(const fs::path& folder) noexcept try {
  fs::path place;
  for (const fs::path& part : folder) mkdir((place /= part).c_str(), kOwnersFolderMode);
} catch (...) {  // no memory
}

void keep_others_out(const fs::path& file) noexcept {
  std::error_code ignored;
  fs::permissions(file, fs::perms::group_write | fs::perms::others_write, fs::perm_options::remove, ignored);
}

void refuse_if_others_write(const fs::path& file) {
  if (const std::string why = why_others_write(file); !why.empty()) fail(Errc::device_failure, "{}", why);
}

std::string safe_loader_name(const fs::path& named) {
  std::string name = loader_name(named);
  if (name.find('/') != std::string::npos) refuse_if_others_write(name);
  return name;
}

}  // namespace kscout
