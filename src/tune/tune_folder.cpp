#include "tune/tune_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/owners.h"
#include "core/part_name.h"
#include "sweep/journal.h"
#include "sweep/sweep.h"

namespace kscout {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLock = "lock";

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> found;
  for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry);
  return found;
}

bool is_number(const fs::path& entry) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return fs::is_directory(fs::symlink_status(entry)) && std::ranges::all_of(entry.filename().string(), digit);
}

/// Whether an entry is the model that was not installed, finished or not.
bool is_new_model(const fs::path& entry) {
  const std::string name = entry.filename().string();
  if (!fs::is_directory(fs::symlink_status(entry)) || finished_name(name) != "model") return false;
  return name != "model" || fs::is_empty(entry) || fs::exists(entry / "model.ksf");
}

bool remove_sweep(const fs::path& folder) {
  bool any = false;
  for (const fs::directory_entry& file : entries_of(folder)) any |= is_sweep_file(file) && fs::remove(file);
  return any;
}

/// An entry that tune did not create; empty when there is none.
fs::path foreign_to_tune(const fs::path& folder) {
  fs::path in_a_sweep;
  const fs::path other = foreign_entry(folder, [&](const fs::directory_entry& entry) {
    if (is_number(entry)) {
      if (in_a_sweep.empty()) in_a_sweep = foreign_entry(entry, is_sweep_file);
      return true;
    }
    if (entry.path().filename() == kLock) return fs::is_regular_file(entry) && fs::is_empty(entry);
    return is_sweep_file(entry) || is_new_model(entry);
  });
  return other.empty() ? in_a_sweep : other;
}

}  // namespace

TuneFolder::TuneFolder(const fs::path& model) : path_(fs::path(model).concat(".sweep")) {
  const bool had_lock = fs::exists(path_ / kLock);
  // Another tune that ends removes its lock file, perhaps after this one has opened it. A lock on a removed
  // file excludes nobody, so the file is opened again.
  do {
    if (lock_ >= 0) close(lock_);
    open_lock();
    if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
      close(lock_);
      fail(Errc::device_failure, "another kscout tune works on {}: wait for it, or give another --out",
           model.string());
    }
  } while (!lock_is_there());
  if (const fs::path other = foreign_to_tune(path_); !other.empty()) {
    if (!had_lock) fs::remove(path_ / kLock);
    close(lock_);
    fail(Errc::invalid_argument,
         "{} is where kscout tune measures, but it holds {}: move that, or give another --out",
         path_.string(), other.lexically_relative(path_).string());
  }
}

TuneFolder::~TuneFolder() {
  if (lock_is_there() && holds_only_the_lock()) remove_lock();  // nothing was measured
  close(lock_);
}

std::vector<fs::path> TuneFolder::sweeps() const {
  std::vector<fs::path> found;
  if (fs::exists(path_ / kManifestName)) found.push_back(path_);
  for (const fs::path& entry : entries_of(path_)) {
    if (fs::exists(entry / kManifestName)) found.push_back(entry);
  }
  std::ranges::sort(found);
  return found;
}

fs::path TuneFolder::new_sweep() const {
  for (int number = 1;; ++number) {
    if (fs::path folder = path_ / std::to_string(number); !fs::exists(folder)) return folder;
  }
}

bool TuneFolder::clear() const {
  bool any = remove_sweep(path_);
  for (const fs::path& entry : entries_of(path_)) {
    if (is_number(entry)) {
      any |= remove_sweep(entry);
      if (fs::is_empty(entry)) any |= fs::remove(entry);
    } else if (is_new_model(entry)) {
      any |= fs::remove_all(entry) > 0;
    }
  }
  return any;
}

void TuneFolder::remove() const {
  clear();
  remove_lock();
}

void TuneFolder::open_lock() {
  make_own_folders(path_);
  lock_ = open((path_ / kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0)
    fail(Errc::device_failure, "{}: cannot write there: {}", path_.string(), std::strerror(errno));
}

bool TuneFolder::holds_only_the_lock() const {
  std::error_code ignored;
  std::size_t count = 0;
  for (fs::directory_iterator entry(path_, ignored), end; entry != end; entry.increment(ignored)) ++count;
  return count == 1;
}

void TuneFolder::remove_lock() const {
  std::error_code in_use;  // used by another tune, or contains foreign files
  fs::remove(path_ / kLock, in_use);
  fs::remove(path_, in_use);
}

bool TuneFolder::lock_is_there() const {
  struct stat locked {
  }, named{};
  return fstat(lock_, &locked) == 0 && stat((path_ / kLock).c_str(), &named) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

}  // namespace kscout
