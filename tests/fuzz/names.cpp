/// \file
/// Fuzzes kernel names of all providers with any text: a name that is read prints as a name that reads back
/// as the same.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <kscout/error.h>
#include <kscout/provider.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kscout;
  NamedConfig named;
  try {
    named = parse_config_name({reinterpret_cast<const char*>(data), size});
  } catch (const Error& error) {
    if (error.code() == Errc::invalid_argument) return 0;
    throw;
  }
  const std::string name = provider(named.config.space->provider).print(named.signature, named.config);
  if (parse_config_name(name) != named) {
    std::fprintf(stderr, "'%s' does not read back as the kernel it was printed from\n", name.c_str());
    std::abort();
  }
  return 0;
}
