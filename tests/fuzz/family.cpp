/// \file
/// Fuzzes family files with any text: each is read, or rejected as corrupt data; and so as the declaration of
/// a provider.
#include <cstddef>
#include <cstdint>

#include <kscout/error.h>

#include "family/declared.h"
#include "family/family_file.h"

namespace {

using namespace kscout;

constexpr std::string_view kWords[] = {"off", "on"};
constexpr Axis kAxes[] = {{"m", "1", ""}, {"n", "1", ""}, {"mode", "1", "", kWords}};
constexpr ConfigSpace kSpace{"toy", Op::gemm, kAxes};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = [&](auto&& parse) {
    try {
      parse();
    } catch (const Error& error) {
      if (error.code() != Errc::corrupt_data) throw;
    }
  };
  read([&] { parse_family(text, "fuzz.toml", kSpace); });
  read([&] { read_declaration(text, "fuzz.toml"); });
  return 0;
}
