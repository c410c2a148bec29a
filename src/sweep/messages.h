#pragma once
/// \file
/// Encodes and decodes the messages between a sweep and its workers: one JSON object per line.
///
///     sweep  -> worker  {"problem":12,"pass":1,"configs":[4,0,7],"best_us":81.2}
///     worker -> sweep   {"ready":true}                              once, after start
///                       {"row":4,"measured":{"status":"ok",...},...}  per config, in the order assigned
///                       {"done":12,"kernels_ns":...}                after the last one
///                       {"failed":"no backend 'cuda' here","code":2}  the worker cannot work at all
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/error.h>

#include "measure/problem_bench.h"

namespace kscout {

struct Assignment {
  std::uint32_t problem = 0;
  std::int32_t pass = 1;
  std::vector<std::uint32_t> configs = {};
  double best_us = std::numeric_limits<double>::infinity();  ///< fastest ok row of this problem so far
};

struct Reply {
  enum class Kind : std::uint8_t { ready, row, done, failed } kind = Kind::ready;
  std::uint32_t index = 0;  ///< config of a row, or problem of a `done`
  Outcome outcome = {};     ///< of a row
  TimeSpent spent = {};     ///< of a `done`: since the previous one
  /// Of a `done`: the device's clock at that time; NaN = not reported.
  double clock_mhz = std::numeric_limits<double>::quiet_NaN();
  Errc code = Errc::device_failure;
};

// The message without a line break.
std::string encode(const Assignment& assignment);
std::string encode(const Reply& reply);
/// Throw corrupt_data, quoting the line.
Assignment decode_assignment(std::string_view line);
Reply decode_reply(std::string_view line);

}  // namespace kscout
