#pragma once
/// \file
/// Finds the folders of a user, and refuses files that others could have written.
///
///     refuse_if_others_write(user_folder("XDG_DATA_HOME", ".local/share") / "classes.json");
#include <filesystem>
#include <string>

namespace kscout {

/// $VARIABLE/kscout, else ~/BELOW/kscout. Empty when neither the variable nor HOME holds an absolute path:
/// relative paths would name another folder wherever a program starts.
std::filesystem::path user_folder(const char* variable, const std::string& below);

/// Why there is no such folder, and the remedy: "neither XDG_DATA_HOME nor HOME is an absolute path; ...".
std::string no_user_folder(const char* variable);

/// Why another user may replace or change the file, and the remedy: its permissions, those of a folder above
/// it, or, in a folder with the sticky bit (/tmp), its owner. A group with its owner as only member is no
/// other user. Empty for a safe file, and for an absent one.
std::string why_others_write(const std::filesystem::path& file);

/// Creates the missing folders of a path so that why_others_write() does not object to them, whatever the
/// umask. Using the folder reports what went wrong.
void make_own_folders(const std::filesystem::path& folder) noexcept;
inline constexpr unsigned kOwnersFolderMode = 0755;

/// Takes from others, and from the group, the right to write a file of ours.
void keep_others_out(const std::filesystem::path& file) noexcept;

/// Throws device_failure with that reason.
void refuse_if_others_write(const std::filesystem::path& file);

/// The name with which dlopen opens a file (loader_name.h), after refuse_if_others_write(): a library is
/// code. A name without a slash is one of the loader's folders, which are the system's.
std::string safe_loader_name(const std::filesystem::path& named);

}  // namespace kscout
