#pragma once
/// \file
/// Asks a family's rules whether a provider has kernels for a signature, so that names and rules agree.
/// src/family/legality.cpp compiles and evaluates the rules.
///
///     check_signature(*this, signature);   // in Provider::print
#include <string>

#include <kscout/config.h>
#include <kscout/problem.h>
#include <kscout/provider.h>

namespace kscout {

/// Why no config of a space can run the signature, by the `legal` rules that read only the signature; empty
/// when no such rule refuses it.
std::string signature_refusal(const ConfigSpace& space, const Signature& signature);

/// Throws unsupported with the reason of signature_refusal(), and the errors of Provider::space.
void check_signature(const Provider& provider, const Signature& signature);

}  // namespace kscout
