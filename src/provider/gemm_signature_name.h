#pragma once
/// \file
/// A GEMM's signature inside a kernel's name: dtype "_" layout { "_" type } ["_" epilogue] ["_acc"], where a
/// type
/// ("B", "C" or "Acc" and a dtype) is written when it is not what A's type usually gets (make_gemm).
///
///     std::string text = gemm_signature_text(signature);         // "fp8_rcr_Cbf16_bias_gelu_acc"
///     Signature again = read_gemm_signature(reader, "__");       // up to what follows it in the name
#include <string>
#include <string_view>

#include <kscout/problem.h>

#include "provider/name_reader.h"

namespace kscout {

std::string gemm_signature_text(const Signature& signature);

/// `next`: how the name goes on behind the signature.
Signature read_gemm_signature(NameReader& in, std::string_view next);

}  // namespace kscout
