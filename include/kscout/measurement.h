#pragma once
/// \file
/// Stores the result of one config on one problem, and tables of such rows.
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/fields.h>

namespace kscout {

/// How a run ended. Only an `ok` row can be the best; `pruned_early` (stored as `raced`) keeps a coarse time
/// of a config that could no longer be the best.
enum class Status : std::uint8_t { ok, pruned_early, wrong, crashed, timeout, unsupported, left_out };
template <>
struct EnumWords<Status> {
  static constexpr std::string_view what = "status";
  static constexpr std::array<std::string_view, 7> words = {
      "ok", "raced" /* pruned_early */, "wrong", "crashed", "timeout", "unsupported", "left_out"};
};

/// State of the caches before each run. cold = flushed; warm = as the previous run left them.
enum class CacheState : std::uint8_t { warm, cold };
template <>
struct EnumWords<CacheState> {
  static constexpr std::string_view what = "cache state";
  static constexpr std::array<std::string_view, 2> words = {"warm", "cold"};
};

/// Timing of one (problem, config). Times are those of the whole call, in microseconds; NaN when nothing was
/// timed.
struct Measurement {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  Status status = Status::ok;
  CacheState cache = CacheState::warm;
  std::int32_t pass = 1;     ///< 1 = coarse, over all configs; 2 = contenders, interleaved
  double time_us = unknown;  ///< median
  double spread = unknown;   ///< median absolute deviation / median
  std::int32_t repeats = 0;  ///< timed runs that the median is computed from
  bool noisy = false;        ///< the confidence interval was still wider than requested when the budget ended
  double error = unknown;    ///< largest ratio of error to tolerance of the verified elements; <= 1 passes
  double setup_us = unknown;  ///< what the config costs once, before its runs: packing a filter, building a
                              ///< plan; NaN = nothing
  double workspace_bytes = unknown;  ///< of a run; NaN = not recorded
  bool operator==(const Measurement& other) const;
};

template <>
struct Fields<Measurement> {
  using T = Measurement;
  static constexpr auto list = std::tuple{
      Field{"status", &T::status, "1", "ok, raced, wrong, crashed, timeout, unsupported"},
      Field{"cache", &T::cache, "1", "cache state before each run"},
      Field{"pass", &T::pass, "1", "1 coarse, 2 contenders interleaved"},
      Field{"time_us", &T::time_us, "us", "median time of the call"},
      Field{"spread", &T::spread, "1", "median absolute deviation over the median"},
      Field{"repeats", &T::repeats, "1", "timed runs"},
      Field{"noisy", &T::noisy, "1", "confidence interval wider than asked"},
      Field{"error", &T::error, "1", "largest verified error over its tolerance"},
      Field{"setup_us", &T::setup_us, "us", "time that the config needs once, before its runs"},
      Field{"workspace_bytes", &T::workspace_bytes, "bytes", "workspace of a run"},
  };
};

inline bool Measurement::operator==(const Measurement& other) const { return fields_equal(*this, other); }

/// Measurements of one op by configs of one provider (possibly a joint one) on one device. Each problem and
/// config is stored once. Journals and datasets are read into this table; training and evaluation use it.
struct MeasurementTable {
  struct Row {
    std::uint32_t problem;  ///< index into problems
    std::uint32_t config;   ///< index into configs
    Measurement measured;
    bool operator==(const Row&) const = default;
  };

  Device device;
  std::vector<Problem> problems;      ///< distinct, of one op
  std::vector<KernelConfig> configs;  ///< distinct, in family order
  std::vector<Row> rows;              ///< at most one per (problem, config, pass)
  /// Provenance: rules, filter, protocol, compiler, version, host facts, ...
  std::map<std::string, std::string> metadata;
};

}  // namespace kscout
