#pragma once
/// \file
/// Keeps the targets of a training that are finished, so that the same training goes on after an
/// interruption.
///
///     const Checkpoint checkpoint("models/mine.train", digits_of_everything_that_decides_the_result);
///     if (auto before = checkpoint.load(Target::relative)) ...
///     checkpoint.save(trained);
///
/// One file per target. What does not belong to the training, or is damaged, counts as absent: it is trained
/// again.
#include <filesystem>
#include <optional>
#include <string>

#include "train/train.h"

namespace kscout {

class Checkpoint {
 public:
  /// With an empty folder nothing is kept. `training` changes with whatever changes a target's trees.
  Checkpoint(std::filesystem::path folder, std::string training)
      : folder_(std::move(folder)), training_(std::move(training)) {}

  /// The target as it was saved: cross-validated, and where `text` is not empty with its trees.
  std::optional<TrainedTarget> load(Target target) const;
  /// Replaces what is kept of the target. Throws not_found, device_failure.
  void save(const TrainedTarget& target) const;
  const std::filesystem::path& folder() const noexcept { return folder_; }

 private:
  std::filesystem::path file_of(Target target) const;

  std::filesystem::path folder_;
  std::string training_;
};

/// Throws invalid_argument, naming the entry, when a folder for kept targets holds anything else: to be asked
/// before the training, since the folder goes at its end.
void check_checkpoint_folder(const std::filesystem::path& folder);

/// Removes what Checkpoint keeps in the folder, and the folder when nothing else is in it. Throws
/// device_failure.
void remove_checkpoint(const std::filesystem::path& folder);

}  // namespace kscout
