/// \file
/// Fuzzes logs that are cut: no problem appears that the whole log does not have. The first two bytes say
/// where the log is cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <kscout/error.h>

#include "logs/call_log.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::string_view whole(reinterpret_cast<const char*>(data) + 2, size - 2);
  // In JSON, an event may also stand in a text, where only a reader of the whole knows that it is none.
  if (whole.find('{') != whole.npos) return 0;
  const std::string_view cut = whole.substr(0, (data[0] * 256U + data[1]) % whole.size());
  // One line is of one format.
  if (const std::size_t at = whole.find("onednn_verbose");
      at != whole.npos && at != 0 && whole[at - 1] != '\n')
    return 0;
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
