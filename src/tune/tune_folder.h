#pragma once
/// \file
/// Manages the folder in which `kscout tune` measures for one model.
///
///     const TuneFolder tune_folder("models/mine");        // models/mine.sweep, locked
///     for (const auto& sweep : tune_folder.sweeps()) ...  // measurements that no installed model contains
///     run_sweep(plan, {.folder = tune_folder.new_sweep()});
#include <filesystem>
#include <vector>

namespace kscout {

/// A folder beside the model's. It holds one folder per sweep whose measurements no installed model contains
/// yet, and the model that was not installed. One tune at a time uses it.
class TuneFolder {
 public:
  /// Creates and locks the folder. Throws device_failure while another tune works there, invalid_argument
  /// when the folder holds files that tune did not write.
  explicit TuneFolder(const std::filesystem::path& model);
  /// Unlocks the folder, and removes it when nothing was measured.
  ~TuneFolder();
  TuneFolder(const TuneFolder&) = delete;
  TuneFolder& operator=(const TuneFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Where a new model is written before it is installed.
  std::filesystem::path candidate() const { return path_ / "model"; }

  /// Folders of sweeps, in the order of their names. Earlier versions measured into this folder itself.
  std::vector<std::filesystem::path> sweeps() const;
  /// A folder for another sweep; it does not exist yet.
  std::filesystem::path new_sweep() const;
  /// Removes the sweeps and the model that was not installed. Returns whether there were any.
  bool clear() const;
  /// clear(), then removes the lock, and the folder when it is then empty.
  void remove() const;

 private:
  void open_lock();
  bool holds_only_the_lock() const;
  void remove_lock() const;
  /// Whether the locked file still has its name.
  bool lock_is_there() const;

  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace kscout
