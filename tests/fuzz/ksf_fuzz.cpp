// Fuzzes a whole model with damage and a corrected checksum: it is rejected, or all functions of the model
// work.
#include "fuzz/ksf_input.h"
#include "support/toy_model.h"

using namespace kscout;

const std::string& fuzz::good_ksf() {
  static const std::string file = toy::model().bytes();
  return file;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    toy::exercise(Model::parse(fuzz::ksf_input(data, size)));
  } catch (const Error&) {  // the documented answer to damage
  }
  return 0;
}
