
#include "provider/name_reader.h"

#include <iterator>

#include <fmt/compile.h>

#include <kscout/conv_problem.h>

namespace kscout {

namespace {

std::string_view letters_of(const NamePart& part, const KernelConfig& config) {
  const bool first = config[part.axis] != 0, second = config[part.axis + 1] != 0;
  return part.packed.substr(first ? 0 : 1, (first ? 1 : 0) + (second ? 1 : 0));
}

void read_letters(const NamePart& part, NameReader& in, KernelConfig& config) {
  const bool none = in.optional("nopack");
  if (!none) in.literal("pack");
  const bool first = !none && in.optional(part.packed.substr(0, 1));
  const bool second = !none && in.optional(part.packed.substr(1));
  if (!none && !first && !second)
    in.bad(fmt::format("'{}', '{}' or '{}'", part.packed.substr(0, 1), part.packed.substr(1), part.packed));
  config[part.axis] = first;
  config[part.axis + 1] = second;
}

}  // namespace

void print_axes(std::string& text, const KernelConfig& config, std::span<const NamePart> parts) {
  for (const NamePart& part : parts) {
    const std::int32_t value = config[part.axis];
    if ((part.optional || part.flag) && value == 0) continue;
    text += part.literal;
    if (part.flag) continue;
    const Axis& axis = config.space->axes[part.axis];
    if (!part.packed.empty()) {
      const std::string_view letters = letters_of(part, config);
      text += letters.empty() ? "nopack" : "pack";
      text += letters;
    } else if (!axis.words.empty()) {
      text += axis.words[static_cast<std::size_t>(value)];
    } else {
      fmt::format_to(std::back_inserter(text), FMT_COMPILE("{}"), value);
    }
  }
}

void read_axes(NameReader& in, KernelConfig& config, std::span<const NamePart> parts) {
  for (const NamePart& part : parts) {
    const Axis& axis = config.space->axes[part.axis];
    if (part.flag) {
      config[part.axis] = in.optional(part.literal);
      continue;
    }
    if (part.optional) {
      const bool is_there = in.optional(part.literal);
      config[part.axis] = is_there ? in.number(axis.name) : 0;
      if (is_there && config[part.axis] == 0) in.bad(fmt::format("a {} above 0", axis.name));
      continue;
    }
    in.literal(part.literal);
    if (!part.packed.empty()) {
      read_letters(part, in, config);
    } else {
      config[part.axis] = axis.words.empty() ? in.number(axis.name) : in.word(axis.name, axis.words);
    }
  }
  if (!in.rest.empty()) in.bad("the end");
}

std::string conv_signature_text(const Signature& s) {
  return fmt::format("{}_{}_{}", word(s.op), word(s.dtype_a), word(s.layout));
}

Signature read_conv_signature(NameReader& in) {
  const auto op = static_cast<Op>(static_cast<int>(Op::conv_fwd) + in.word("op", kDirectionWords));
  in.literal("_");
  const auto dtype = static_cast<DType>(in.word("dtype", EnumWords<DType>::words));
  in.literal("_");
  const auto layout = static_cast<Layout>(in.word("layout", EnumWords<Layout>::words));
  return signature_of(make_conv(op, dtype, layout));
}

std::string gemm_signature_text(const Signature& s) {
  const Signature usual = signature_of(make_gemm(0, 0, 0, s.dtype_a, s.layout));
  std::string text = fmt::format("{}_{}", word(s.dtype_a), word(s.layout));
  if (s.dtype_b != usual.dtype_b) text += fmt::format("_B{}", word(s.dtype_b));
  if (s.dtype_c != usual.dtype_c) text += fmt::format("_C{}", word(s.dtype_c));
  if (s.dtype_acc != usual.dtype_acc) text += fmt::format("_Acc{}", word(s.dtype_acc));
  if (s.epilogue != Epilogue::none) text += fmt::format("_{}", word(s.epilogue));
  return s.accumulate ? text + "_acc" : text;
}

Signature read_uniform_signature(NameReader& in, Op op) {
  Signature s{.op = op};
  s.dtype_a = s.dtype_b = s.dtype_c = s.dtype_acc =
      static_cast<DType>(in.word("dtype", EnumWords<DType>::words));
  in.literal("_");
  s.layout = static_cast<Layout>(in.word("layout", kGemmLayoutWords));
  return s;
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
