// A whole model under damage whose checksum was made right again: refused, or a model that can be asked.
#include "fuzz/ksf_input.h"
#include "support/toy_model.h"

using namespace kscout;

namespace {

const std::string& good() {
  static const std::string file = toy::model().bytes();
  return file;
}

}  // namespace

#ifdef KSCOUT_FUZZ
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return fuzz::mutate_ksf(data, size, max_size, seed, good());
}
#endif

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    toy::exercise(Model::parse(fuzz::ksf_input(data, size, good())));
  } catch (const Error&) {  // the documented answer to damage
  }
  return 0;
}
