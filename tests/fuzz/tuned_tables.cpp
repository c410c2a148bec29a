/// \file
/// Fuzzes tables of tuned operators with any text: what is read is written as a text that reads back the
/// same.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <kscout/error.h>

#include "export/miopen_find_db.h"
#include "export/tuned_gemms.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const std::string again = kscout::read_find_db(text, "fuzz").text();
    if (again != text && again != std::string(text) + '\n') {
      std::fprintf(stderr, "a find database is not written as it was read\n");
      std::abort();
    }
  } catch (const kscout::Error&) {
  }
  kscout::TunedGemms tuned;
  try {
    tuned = kscout::read_tuned_gemms(text, "fuzz");
  } catch (const kscout::Error&) {
    return 0;
  }
  const kscout::TunedTable table = kscout::tuned_for_hipblaslt(tuned.rows, tuned.git_version);
  const kscout::TunedTable second =
      kscout::tuned_for_hipblaslt(kscout::read_tuned_gemms(table.text, "table").rows, tuned.git_version);
  if (second.text != table.text) {
    std::fprintf(stderr, "'%s' does not read back\n", table.text.c_str());
    std::abort();
  }
  return 0;
}
