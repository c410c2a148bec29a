#pragma once
/// \file
/// Stores decisions found by timing in an SQLite file that processes share, and looks them up.
///
///     DecisionDb db(default_decision_db());
///     db.put({.problem = print(problem), .config = name, .device = ..., .time_us = 12.5, .timed = 3});
///     for (const StoredDecision& one : db.read()) ...
///
/// A connection is opened for each call and closed after it, so that processes may fork and share the file;
/// no call stands on a hot path. Columns: docs/formats/decisions.md.
#include <cstddef>
#include <cstdint>
#include <filesystem>
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

/// Where a timing holds. Another device, driver or version of the library makes it stale; another backend has
/// other kernels.
struct DecisionOrigin {
  std::string device;        ///< device_identity()
  std::string driver;        ///< of the backend; empty for cpu
  std::string version;       ///< of the library
  std::string backend = {};  ///< its name; empty: any
};

/// The fastest of the configs that were timed for a problem.
struct StoredDecision {
  std::string problem;  ///< one-line form, weight 1
  std::string config;   ///< its name
  std::string device, driver, version;
  std::string backend = {};
  double time_us = std::numeric_limits<double>::quiet_NaN();
  double next_us = std::numeric_limits<double>::quiet_NaN();  ///< of the second fastest; NaN: only one
  std::int64_t timed = 0;                                     ///< configs that took part
  std::int64_t at = 0;                                        ///< seconds since 1970

  DecisionOrigin origin() const { return {device, driver, version, backend}; }
  /// Whether it was found where `origin` asks for. What was kept before backends were holds for all of them.
  bool holds(const DecisionOrigin& of) const {
    const bool same_backend = backend.empty() || of.backend.empty() || backend == of.backend;
    return same_backend && device == of.device && driver == of.driver && version == of.version;
  }
};
template <>
struct Fields<StoredDecision> {
  using T = StoredDecision;
  static constexpr auto list = std::tuple{
      Field{"problem", &T::problem, "1", "what was asked"},
      Field{"config", &T::config, "1", "name of the fastest config that was timed"},
      Field{"device", &T::device, "1", "name and facts of the device"},
      Field{"driver", &T::driver, "1", "version of the driver; empty for cpu"},
      Field{"version", &T::version, "1", "version of the library"},
      Field{"backend", &T::backend, "1", "which backend ran it; empty: not known"},
      Field{"time_us", &T::time_us, "us", "median time of the config"},
      Field{"next_us", &T::next_us, "us", "median time of the second fastest"},
      Field{"timed", &T::timed, "1", "configs that were timed"},
      Field{"at", &T::at, "s", "when, since 1970-01-01 UTC"},
  };
};

class DecisionDb {
 public:
  /// Opens nothing.
  explicit DecisionDb(std::filesystem::path file) : file_(std::move(file)) {}
  const std::filesystem::path& file() const noexcept { return file_; }

  /// Adds decisions in one transaction; one of the same problem and origin is replaced. Creates file and
  /// folder; a file of an older version becomes one of this version. This and the following throw
  /// device_failure (also when another process holds the file for longer than 2 s), corrupt_data when the
  /// file is no such database, unsupported when it is of a newer version.
  void put(std::span<const StoredDecision> decisions) const;
  void put(const StoredDecision& decision) const { put(std::span(&decision, 1)); }

  /// All of them, or those that hold for an origin, ordered by problem, device, driver, version and backend.
  /// An absent file holds none.
  std::vector<StoredDecision> read(const std::optional<DecisionOrigin>& of = {}) const;

  /// Removes what `now` makes stale (another version; on its device another driver) and what is older than
  /// `before` (seconds since 1970). How many.
  std::size_t prune(const DecisionOrigin& now, std::int64_t before) const;

 private:
  std::filesystem::path file_;
};

/// "zen3-2c/1a2b3c4d": the name and a hash of all facts, so that machines of one name are told apart.
std::string device_identity(const Device& device);

/// Beside the user's models: $XDG_DATA_HOME/kscout/decisions.sqlite or
/// ~/.local/share/kscout/decisions.sqlite.
std::filesystem::path default_decision_db();

// ---- Stored decisions that hold here, ready to be looked up by many threads.
//
//     const DecisionTable table(db.read(origin), "native", {});
//     if (const Choice* known = table.find(problem)) ...
//
// What was fastest for a problem is best by every order: the problem is fixed, so TFLOPS and bandwidth
// follow from the time.

/// The choice that a timing decided: `time_us` of the config, `next_us` of the one that follows it (NaN =
/// unknown, then so is the margin).
Choice timed_choice(ProblemRef problem, const KernelConfig& config, double time_us, double next_us);

class DecisionTable {
 public:
  DecisionTable() = default;
  /// Passes over what `provider` (empty: any) does not have, what `disabled` names, what `limit` does not
  /// admit and what does not parse: a file of a time with other names does no harm. Of several for one
  /// problem the fastest counts.
  DecisionTable(std::span<const StoredDecision> decisions, std::string_view provider,
                std::span<const NamedConfig> disabled, const ThreadLimit& limit = {});

  /// Null when the problem was not timed. Allocates nothing.
  const Choice* find(ProblemRef problem) const noexcept;
  std::size_t size() const noexcept { return gemms_.size() + convs_.size(); }
  std::size_t skipped() const noexcept { return skipped_; }

 private:
  template <class Self>
  static auto& choices_of(Self& self, const GemmProblem& /*kind*/) noexcept {
    return self.gemms_;
  }
  template <class Self>
  static auto& choices_of(Self& self, const ConvProblem& /*kind*/) noexcept {
    return self.convs_;
  }

  std::unordered_map<GemmProblem, Choice> gemms_;
  std::unordered_map<ConvProblem, Choice> convs_;
  std::size_t skipped_ = 0;
};

}  // namespace kscout
