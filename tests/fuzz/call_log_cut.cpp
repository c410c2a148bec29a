/// \file
/// Fuzzes logs that are cut: no problem appears that the whole log does not have. The first two bytes say
/// where the log is cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <kscout/error.h>

#include "logs/call_log.h"

/// Of one line; none for a line without a call.
static std::vector<std::string_view> formats_of(std::string_view line) {
  try {
    return kscout::read_call_log(line, "line").formats;
  } catch (const kscout::Error&) {
    return {};
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::string_view whole(reinterpret_cast<const char*>(data) + 2, size - 2);
  // In JSON, an event may also stand in a text, where only a reader of the whole knows that it is none.
  if (whole.find('{') != whole.npos) return 0;
  const std::string_view cut = whole.substr(0, (data[0] * 256U + data[1]) % whole.size());
  // A line of one format that goes on as one of another is of no program.
  const std::size_t line = cut.rfind('\n') + 1;
  const std::string_view rest = whole.substr(line, whole.find('\n', cut.size()) - line);
  if (formats_of(cut.substr(line)) != formats_of(rest)) return 0;
  // A line of MIOpen that has its last field is whole: no log goes on right behind it.
  if (cut.ends_with("-t 0") || cut.ends_with("-t 1")) return 0;
  try {
    const kscout::CallLog known = kscout::read_call_log(whole, "whole");
    for (kscout::Problem problem : kscout::read_call_log(cut, "cut").problems) {
      const bool found = std::ranges::find(known.problems, problem) != known.problems.end();
      if (found) continue;
      std::fprintf(stderr, "'%s' is only in the cut log\n", print(problem).c_str());
      std::abort();
    }
  } catch (const kscout::Error&) {
  }
  return 0;
}
