#pragma once
/// \file
/// What the readers of foreign formats share: lines of a file piece by piece, and rows put together.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "import/import.h"

namespace kscout {

/// Calls `use(line, number)` for each line of a file, without its end; numbers from 1.
void each_line(const std::filesystem::path& file,
               const std::function<void(std::string_view line, std::size_t number)>& use);

/// One measured (problem, kernel) as a foreign file tells it.
struct ForeignRow {
  Problem problem = {};
  std::string_view kernel = {};
  double time_us = Measurement::unknown;  ///< above 0 when it is valid
  std::int32_t repeats = 0;
  bool valid = true;
  std::size_t line = 0;
};

/// Puts rows into a table; each kernel's name is read once.
class Gatherer {
 public:
  explicit Gatherer(const ImportRequest& request);

  void add(const ForeignRow& row);
  void skip(std::size_t line, std::string reason);
  /// What the file says about its device: overrules the preset. Throws corrupt_data when it said otherwise
  /// before, or no number above 0.
  void fact(double Device::*fact, double value);
  /// With provenance; throws corrupt_data when no row came together.
  Imported finish(const std::filesystem::path& file);

 private:
  struct Kernel {
    std::uint32_t config = 0;
    Signature signature;
    std::string refusal;  ///< why the name says nothing; empty when it does
  };
  const Kernel& kernel(std::string_view name);

  const ImportRequest& request_;
  std::vector<std::pair<double Device::*, double>> facts_;  ///< told so far
  Imported imported_;
  std::unordered_map<std::string, Kernel> kernels_;
  std::unordered_map<KernelConfig, std::uint32_t> configs_;
  std::unordered_map<Problem, std::uint32_t> problems_;
  std::unordered_map<std::uint64_t, std::size_t> rows_;
  std::string last_name_;
  const Kernel* last_kernel_ = nullptr;
};

void read_ck_csv(const std::filesystem::path& file, const ImportRequest& request, Gatherer& to);
void read_ck_log(const std::filesystem::path& file, const ImportRequest& request, Gatherer& to);
void read_ck_json(const std::filesystem::path& file, const ImportRequest& request, Gatherer& to);
void read_ck_parquet(const std::filesystem::path& file, const ImportRequest& request, Gatherer& to);
void read_ck_profiler(const std::filesystem::path& file, const ImportRequest& request, Gatherer& to);

}  // namespace kscout
