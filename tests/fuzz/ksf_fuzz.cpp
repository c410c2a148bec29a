// A .ksf file under damage. An input is 4-byte edits of a good model: 3 bytes of position, 1 of value;
// afterwards size and checksum are made right, so that the search gets past them. An input that starts with
// the mark is read as it is.
#include <cstdint>
#include <string>

#include <kscout/error.h>

#include "forest/ksf.h"
#include "support/toy_model.h"

using namespace kscout;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string good = toy::model().bytes();
  std::string file(reinterpret_cast<const char*>(data), size);
  if (!file.starts_with("\x89KSF")) {
    file = good;
    for (std::size_t i = 0; i + 4 <= size; i += 4) {
      const std::size_t at =
          (data[i] | std::size_t{data[i + 1]} << 8 | std::size_t{data[i + 2]} << 16) % file.size();
      file[at] = static_cast<char>(data[i + 3]);
    }
    if (size % 4 == 3)
      file.resize(32 + (data[size - 1] | std::size_t{data[size - 2]} << 8) % (file.size() - 32));
    seal_ksf(file);
  }
  try {
    toy::exercise(Model::parse(file));
  } catch (const Error&) {  // the documented answer to damage
  }
  return 0;
}
