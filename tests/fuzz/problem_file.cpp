/// \file
/// Fuzzes files of problems with any text: each problem that is read is legal and prints as a text that reads
/// back.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <kscout/error.h>

#include "op/problem_sets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<kscout::GemmProblem> problems;
  try {
    problems =
        kscout::parse_problems_of<kscout::GemmProblem>({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const kscout::Error&) {
    return 0;
  }
  for (const auto& problem : problems) {
    const std::string line = kscout::print(problem);
    if (kscout::parse_problems_of<kscout::GemmProblem>(line, "line").at(0) != problem) {
      std::fprintf(stderr, "'%s' does not read back\n", line.c_str());
      std::abort();
    }
  }
  return 0;
}
