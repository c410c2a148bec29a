/// \file
/// Fuzzes problem texts: what parses prints as a text that parses to the same problem.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <kscout/conv_problem.h>
#include <kscout/error.h>
#include <kscout/problem.h>

#include "op/given_fields.h"

namespace {

template <class P>
void check_line(std::string_view text, P (*parse)(std::string_view)) {
  P problem;
  try {
    problem = parse(text);
  } catch (const kscout::Error&) {
    return;
  }
  const std::string line = print(problem);
  if (parse(line) == problem) return;
  std::fprintf(stderr, "'%s' does not read back as the problem it was printed from\n", line.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto op = kscout::line_op(text); op && kscout::is_direction(*op)) {
    check_line(text, kscout::parse_conv_problem);
  } else {
    check_line(text, kscout::parse_problem);
  }
  return 0;
}
