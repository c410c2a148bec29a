#pragma once
/// \file
/// Makes a temporary folder of models, and an environment in which no other model is found.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "core/files.h"
#include "support/temporary_folder.h"
#include "support/toy_model.h"

namespace kscout::toy {

namespace fs = std::filesystem;

class ModelsFolder : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "empty");
    setenv("KSCOUT_MODEL_PATH", (folder_ / "empty").c_str(), 1);
    setenv("XDG_DATA_HOME", (folder_ / "data").c_str(), 1);
    forget_switches();
    install(folder_ / "model", toy::model());
  }
  void TearDown() override { forget_switches(); }
  static void forget_switches() {
    for (const char* name : {"KSCOUT_FORCE", "KSCOUT_DISABLE", "KSCOUT_LOG", "KSCOUT_DB"}) unsetenv(name);
  }
  static void install(const fs::path& folder, const Model& model) {
    fs::create_directories(folder);
    write_file_atomically(folder / "model.ksf", model.bytes());
  }
  /// The toy's model as if it had been trained on another device.
  static Model model_of(const Device& device) {
    ModelData data = toy::model().data();
    for (Family& family : data.families) family.device = device;
    return Model(std::move(data));
  }
  const test::TemporaryFolder folder_;
};

}  // namespace kscout::toy
