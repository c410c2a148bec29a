#pragma once
/// \file
/// Skips tests of backend cuda, with a message, where there is no GPU.
#include <gtest/gtest.h>

#include <kscout/backend.h>
#include <kscout/error.h>

#include "backend/cuda/cuda_backend.h"

namespace kscout::test {

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cuda_missing(); !why.empty()) GTEST_SKIP() << "NO GPU TESTED: " << why;
    try {
      gpu().device();
    } catch (const Error& error) {
      GTEST_SKIP() << "NO GPU TESTED: " << error.what();
    }
  }
  static Backend& gpu() { return backend("cuda"); }
};

}  // namespace kscout::test
