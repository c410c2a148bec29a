#include "generate/emitter.h"

#include "core/fail.h"
#include "core/hash.h"

namespace kscout {

std::string kernel_symbol(std::string_view kernel_name) { return "k_" + hash_digits(text_hash(kernel_name)); }

const Emitter& emitter_of(std::string_view provider) {
  for (const Emitter* one : {&ck_tile_emitter(), &cutlass_emitter()}) {
    if (one->provider == provider) return *one;
  }
  fail(Errc::unsupported, "sources are generated for providers 'ck_tile' and 'cutlass', not for '{}'",
       provider);
}

}  // namespace kscout
