
#include "provider/name_reader.h"

namespace kscout {

std::string gemm_signature_text(const Signature& s) {
  const Signature usual = signature_of(make_gemm(0, 0, 0, s.dtype_a, s.layout));
  std::string text = fmt::format("{}_{}", word(s.dtype_a), word(s.layout));
  if (s.dtype_b != usual.dtype_b) text += fmt::format("_B{}", word(s.dtype_b));
  if (s.dtype_c != usual.dtype_c) text += fmt::format("_C{}", word(s.dtype_c));
  if (s.dtype_acc != usual.dtype_acc) text += fmt::format("_Acc{}", word(s.dtype_acc));
  if (s.epilogue != Epilogue::none) text += fmt::format("_{}", word(s.epilogue));
  return s.accumulate ? text + "_acc" : text;
}

Signature read_gemm_signature(NameReader& in, std::string_view next) {
  const auto dtype = [&] { return static_cast<DType>(in.word("dtype", EnumWords<DType>::words)); };
  const DType a = dtype();
  in.literal("_");
  const auto layout = static_cast<Layout>(in.word("layout", kGemmLayoutWords));
  Signature s = signature_of(make_gemm(0, 0, 0, a, layout));
  if (in.optional("_B")) s.dtype_b = dtype();
  if (in.optional("_C")) s.dtype_c = dtype();
  if (in.optional("_Acc")) s.dtype_acc = dtype();
  s.accumulate = in.optional("_acc");
  if (!s.accumulate && !in.rest.starts_with(next)) {
    in.literal("_");
    s.epilogue = static_cast<Epilogue>(in.word("epilogue", EnumWords<Epilogue>::words));
    if (s.epilogue == Epilogue::none) in.bad("an epilogue; 'none' is left out");
    s.accumulate = in.optional("_acc");
  }
  return s;
}

}  // namespace kscout
