/// \file
/// Fuzzes logs of applications with any text: each problem that is read is legal and reads back from its
/// text.
#include "logs/call_log.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <kscout/error.h>

#include "op/operation.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kscout::CallLog log;
  try {
    log = kscout::read_call_log({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const kscout::Error&) {
    return 0;
  }
  for (const kscout::Problem& problem : log.problems) {
    const std::string text = print(problem);
    if (kscout::parse_any_problem(text) == problem) continue;
    std::fprintf(stderr, "'%s' does not read back\n", text.c_str());
    std::abort();
  }
  return 0;
}
