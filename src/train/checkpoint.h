#pragma once
/// \file
/// Saves the finished targets of a training, so that an interrupted training continues with the missing ones.
///
///     const Checkpoint checkpoint("models/mine.train", digits_of_everything_that_decides_the_result);
///     if (auto before = checkpoint.load(Target::relative)) ...
///     checkpoint.save(trained);
///
/// One file per target. A file that is damaged or belongs to another training counts as absent: its target is
/// trained again.
#include <filesystem>
#include <optional>
#include <string>

#include "train/train.h"

namespace kscout {

class Checkpoint {
 public:
  /// An empty folder name disables checkpoints. `training` is a text that identifies the training: it changes
  /// with every input that changes a target's trees.
  Checkpoint(std::filesystem::path folder, std::string training)
      : folder_(std::move(folder)), training_(std::move(training)) {}

  /// The target as saved: cross-validated, and, where `text` is not empty, with its trees.
  std::optional<TrainedTarget> load(Target target) const;
  /// Replaces the target's file. Throws not_found, device_failure.
  void save(const TrainedTarget& target) const;
  const std::filesystem::path& folder() const noexcept { return folder_; }

 private:
  std::filesystem::path file_of(Target target) const;

  std::filesystem::path folder_;
  std::string training_;
};

/// Throws invalid_argument, naming the entry, when a checkpoint folder holds anything but checkpoints. Call
/// it before the training, which removes the folder at its end.
void check_checkpoint_folder(const std::filesystem::path& folder);

/// Removes the files of Checkpoint in the folder, and then the folder if it is empty. Throws device_failure.
void remove_checkpoint(const std::filesystem::path& folder);

}  // namespace kscout
