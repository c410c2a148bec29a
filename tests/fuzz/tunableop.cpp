/// \file
/// Fuzzes files of PyTorch's TunableOp with any text: each problem that is read is legal, and its name reads
/// back as the problem.
#include "op/gemm/tunableop.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <kscout/error.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kscout::TunableOpFile file;
  try {
    file = kscout::read_tunableop({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const kscout::Error&) {
    return 0;
  }
  for (const kscout::GemmProblem& problem : file.problems) {
    std::string name;
    try {
      name = kscout::tunableop_key(problem).text();
    } catch (const kscout::Error& error) {
      if (error.code() == kscout::Errc::unsupported) continue;  // a combination that no release writes
      std::abort();
    }
    if (kscout::read_tunableop(std::string(name) + "\n", "name").problems.at(0) != problem) {
      std::fprintf(stderr, "'%s' does not read back\n", name.c_str());
      std::abort();
    }
  }
  return 0;
}
