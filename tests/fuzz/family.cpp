/// \file
/// Fuzzes family files with any text: each is read, or rejected as corrupt data.
#include <cstddef>
#include <cstdint>

#include <kscout/error.h>

#include "family/family_file.h"

namespace {

using namespace kscout;

constexpr std::string_view kWords[] = {"off", "on"};
constexpr Axis kAxes[] = {{"m", "1", ""}, {"n", "1", ""}, {"mode", "1", "", kWords}};
constexpr ConfigSpace kSpace{"toy", Op::gemm, kAxes};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    parse_family({reinterpret_cast<const char*>(data), size}, "fuzz.toml", kSpace);
  } catch (const Error& error) {
    if (error.code() != Errc::corrupt_data) throw;
  }
  return 0;
}
