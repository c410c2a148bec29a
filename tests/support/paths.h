#pragma once
/// \file
/// Names the folders and programs that tests read and start. The build writes the paths into one source
/// (paths.cpp.in); a path in any other object would make it useless to the compiler cache of another clone.

#include <filesystem>
#include <string>

namespace kscout::paths {

extern const char* const repository;  ///< the clone

/// in_repository("tests/golden/names.csv")
inline std::filesystem::path in_repository(const std::string& file) {
  return std::filesystem::path(repository) / file;
}

extern const char* const cxx;  ///< the C++ compiler of this build

extern const char* const program;  ///< kscout
extern const char* const worker;   ///< kscout-worker

extern const char* const toy_libraries;  ///< folder of the tests' kernel libraries
extern const char* const toy_sweep;
extern const char* const toy_worker;
extern const char* const faulty_worker;
extern const char* const ck_benchmark;

extern const char* const host_gpu;       ///< a module of backend cuda that runs on the host
extern const char* const host_gpu_next;  ///< the same with a later release of the library
extern const char* const stand_in_blas;
extern const char* const stand_in_cudnn;
extern const char* const stand_in_hip;
extern const char* const stand_in_old_hip;

}  // namespace kscout::paths
