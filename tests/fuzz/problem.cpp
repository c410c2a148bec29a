/// \file
/// One-line problems from any text: what parses prints as a line that parses to the same problem.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <kscout/error.h>
#include <kscout/problem.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kscout::GemmProblem problem;
  try {
    problem = kscout::parse_problem({reinterpret_cast<const char*>(data), size});
  } catch (const kscout::Error&) {
    return 0;
  }
  const std::string line = kscout::print(problem);
  if (kscout::parse_problem(line) != problem) {
    std::fprintf(stderr, "'%s' does not read back as the problem it was printed from\n", line.c_str());
    std::abort();
  }
  return 0;
}
