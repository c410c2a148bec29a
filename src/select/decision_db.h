#pragma once
/// \file
/// Stores decisions found by timing in an SQLite file that processes share, and looks them up.
///
///     DecisionDb db(default_decision_db());
///     db.put({.problem = print(problem), .config = name, .device = ..., .time_us = 12.5, .timed = 3});
///     for (const StoredDecision& one : db.read()) ...
///     for (const StoredTiming& one : db.timings()) ...     // every config that was timed: train --db learns from it
///
/// Each call opens a connection and closes it at its end, so that processes may fork and share the file. No
/// call is on a hot path. Columns: docs/formats/decisions.md.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <kscout/device.h>
#include <kscout/fields.h>
#include <kscout/provider.h>
#include <kscout/selector.h>

#include "core/thread_limit.h"

namespace kscout {

/// The conditions under which a timing is valid. Another device, driver or version of the library makes it
/// stale; another backend has other kernels.
struct DecisionOrigin {
  std::string device;        ///< device_identity()
  std::string driver;        ///< driver version of the backend; empty for cpu
  std::string version;       ///< version of this library
  std::string backend = {};  ///< its name; empty: any
};

/// The fastest config of those that were timed for a problem.
struct StoredDecision {
  std::string problem;  ///< one-line form with weight 1
  std::string config;   ///< its name
  std::string device, driver, version;
  std::string backend = {};
  std::string limits = {};  ///< print(Limits) of the choice that was timed; empty: without limits
  double time_us = std::numeric_limits<double>::quiet_NaN();
  /// Time of the second fastest; NaN: only one was timed.
  double next_us = std::numeric_limits<double>::quiet_NaN();
  std::int64_t timed = 0;  ///< number of timed configs
  std::int64_t at = 0;     ///< seconds since 1970

  DecisionOrigin origin() const { return {device, driver, version, backend}; }
  /// Whether the decision is valid for `origin`. A decision without a backend (old files) is valid for all
  /// backends.
  bool holds(const DecisionOrigin& of) const {
    const bool same_backend = backend.empty() || of.backend.empty() || backend == of.backend;
    return same_backend && device == of.device && driver == of.driver && version == of.version;
  }
};
template <>
struct Fields<StoredDecision> {
  using T = StoredDecision;
  static constexpr auto list = std::tuple{
      Field{"problem", &T::problem, "1", "problem, one-line form"},
      Field{"config", &T::config, "1", "name of the fastest config that was timed"},
      Field{"device", &T::device, "1", "name and facts of the device"},
      Field{"driver", &T::driver, "1", "version of the driver; empty for cpu"},
      Field{"version", &T::version, "1", "version of the library"},
      Field{"backend", &T::backend, "1", "backend that ran the config; empty: unknown"},
      Field{"limits", &T::limits, "1", "limits of the choice that was timed; empty: none"},
      Field{"time_us", &T::time_us, "us", "median time of the config"},
      Field{"next_us", &T::next_us, "us", "median time of the second fastest"},
      Field{"timed", &T::timed, "1", "configs that were timed"},
      Field{"at", &T::at, "s", "time of the measurement, since 1970-01-01 UTC"},
  };
};

/// One config that was timed for a problem, whether it was the fastest or not.
struct StoredTiming {
  std::string problem;  ///< one-line form with weight 1
  std::string config;   ///< its name
  std::string device, driver, version, backend;
  double time_us = std::numeric_limits<double>::quiet_NaN();
  std::int64_t at = 0;  ///< seconds since 1970
};
template <>
struct Fields<StoredTiming> {
  using T = StoredTiming;
  static constexpr auto list = std::tuple{
      Field{"problem", &T::problem, "1", "problem, one-line form"},
      Field{"config", &T::config, "1", "name of the config"},
      Field{"device", &T::device, "1", "name and facts of the device"},
      Field{"driver", &T::driver, "1", "version of the driver; empty for cpu"},
      Field{"version", &T::version, "1", "version of the library"},
      Field{"backend", &T::backend, "1", "backend that ran the config"},
      Field{"time_us", &T::time_us, "us", "median time"},
      Field{"at", &T::at, "s", "time of the measurement, since 1970-01-01 UTC"},
  };
};

/// Whether a product of a program's library is right, as the guard of `kscout exec` found.
struct StoredVerdict {
  std::string call;       ///< the problem, and all on which the library's choice may depend
  std::string device;     ///< name of the GPU
  std::string library;    ///< name and release
  std::string verdict;    ///< right, replaced or unavoidable
  std::string algorithm;  ///< of the library, that replaces its own choice, in hexadecimal digits; or empty
  std::int64_t at = 0;    ///< seconds since 1970
};
template <>
struct Fields<StoredVerdict> {
  using T = StoredVerdict;
  static constexpr auto list = std::tuple{
      Field{"call", &T::call, "1", "the problem, and all on which the library's choice may depend"},
      Field{"device", &T::device, "1", "name of the GPU"},
      Field{"library", &T::library, "1", "name and release of the library"},
      Field{"verdict", &T::verdict, "1", "right; replaced by another algorithm; unavoidable"},
      Field{"algorithm", &T::algorithm, "1", "the algorithm that replaces the library's choice"},
      Field{"at", &T::at, "s", "time of the examination, since 1970-01-01 UTC"},
  };
};

class DecisionDb {
 public:
  /// Stores the path; opens nothing.
  explicit DecisionDb(std::filesystem::path file) : file_(std::move(file)) {}
  const std::filesystem::path& file() const noexcept { return file_; }

  /// Adds decisions and timings in one transaction; replaces one of the same problem, origin and (a timing's)
  /// config. Creates file and folder; converts a file of an older version. This function and the following
  /// ones throw device_failure (also when another process holds the file for longer than 2 s), corrupt_data
  /// when the file is not such a database, unsupported when it has a newer version.
  void put(std::span<const StoredDecision> decisions, std::span<const StoredTiming> timings = {}) const;
  void put(const StoredDecision& decision) const { put(std::span(&decision, 1)); }
  void put(std::span<const StoredVerdict> verdicts) const;

  /// Throws what put() would throw, and creates nothing.
  void check_writable() const;

  /// All decisions, or those that are valid for an origin, ordered by problem, device, driver, version and
  /// backend. Empty for a missing file.
  std::vector<StoredDecision> read(const std::optional<DecisionOrigin>& of = {}) const;

  /// All timings, ordered by problem, config and origin. Empty for a missing file or one of an older version.
  std::vector<StoredTiming> timings() const;

  /// All verdicts, ordered by call, device and library. Empty likewise.
  std::vector<StoredVerdict> verdicts() const;

  /// Removes decisions and timings that are stale for `now` (another version; on the same device, another
  /// driver), and all rows older than `before` (seconds since 1970). Returns the number of the decisions.
  std::size_t prune(const DecisionOrigin& now, std::int64_t before) const;

 private:
  std::filesystem::path file_;
};

/// "zen3-2c/1a2b3c4d": the name and a hash of all facts, so that machines of one name can be distinguished.
std::string device_identity(const Device& device);

/// The default file, next to the user's models: $XDG_DATA_HOME/kscout/decisions.sqlite or
/// ~/.local/share/kscout/decisions.sqlite. Empty without a home (core/owners.h).
std::filesystem::path default_decision_db();

// ---- Looks up the stored decisions that are valid here, for many threads.
//
//     const DecisionTable table(db.read(origin), "native", {});
//     if (const Choice* known = table.find(problem)) ...
//
// The fastest config of a problem is best in every order: the problem is fixed, so TFLOPS and bandwidth
// follow from the time.

/// The choice that a timing decided: `time_us` of the config, `next_us` of the second fastest (NaN = unknown;
/// the margin is then unknown too).
Choice timed_choice(ProblemRef problem, const KernelConfig& config, double time_us, double next_us);

class DecisionTable {
 public:
  DecisionTable() = default;
  /// Skips configs that `provider` (empty: any) does not have, that `disabled` names, or that `limit` does
  /// not admit. Also skips names that do not parse, so a file from a version with other names does no harm.
  /// Of several decisions for one problem, the fastest is used.
  DecisionTable(std::span<const StoredDecision> decisions, std::string_view provider,
                std::span<const NamedConfig> disabled, const ThreadLimit& limit = {});

  /// Null when there is no timing of the problem. Allocates nothing.
  const Choice* find(ProblemRef problem) const noexcept;
  /// The same for a timing under these limits.
  const Choice* find(ProblemRef problem, const Limits& limits) const;
  std::size_t size() const noexcept { return choices_.size(); }
  std::size_t skipped() const noexcept { return skipped_; }

 private:
  std::unordered_map<Problem, Choice> choices_;
  std::map<std::string, std::unordered_map<Problem, Choice>, std::less<>> limited_;  ///< by print(Limits)
  std::size_t skipped_ = 0;
};

}  // namespace kscout
