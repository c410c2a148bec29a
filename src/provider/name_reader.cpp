
#include "provider/name_reader.h"

#include <iterator>

#include <fmt/compile.h>

#include <kscout/conv_problem.h>

#include "core/numbers.h"
#include "core/problem_text.h"

namespace kscout {

namespace {

/// The position of the longest word that the text begins with; `whole`: and that ends where a part does.
std::optional<std::size_t> longest_word(std::string_view text, std::span<const std::string_view> words,
                                        bool whole) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t length = words[i].size();
    const bool ends = !whole || text.size() == length || (text.size() > length && text[length] == '_');
    if (text.starts_with(words[i]) && ends && (best ? length > words[*best].size() : length > 0 || whole))
      best = i;
  }
  return best;
}

}  // namespace

std::int32_t NameReader::word(std::string_view what, std::span<const std::string_view> words) {
  const auto best = longest_word(rest, words, false);
  if (!best) {
    const auto nearest = unknown_name_message(what, next(), words);
    fail(Errc::invalid_argument, "'{}' is no {} kernel: {}", name, provider, nearest);
  }
  rest.remove_prefix(words[*best].size());
  return static_cast<std::int32_t>(*best);
}

std::string_view NameReader::part(std::string_view what) {
  if (!open_ || rest.empty()) fail(Errc::invalid_argument, "kernel name '{}' ends before its {}", name, what);
  return take(next().size());
}

std::size_t NameReader::part_word(std::string_view what, std::span<const std::string_view> words) {
  const auto best = try_word(words);
  if (best) return *best;
  fail(Errc::invalid_argument, "kernel name '{}': {}", name, unknown_name_message(what, part(what), words));
}

std::optional<std::size_t> NameReader::try_word(std::span<const std::string_view> words) {
  const auto best = longest_word(rest, words, true);
  if (best) take(words[*best].size());
  return best;
}

std::vector<std::int32_t> NameReader::dims(std::string_view what, std::size_t many) {
  const std::string_view text = part(what);
  const auto parts = split(text, 'x');
  if (parts.size() != many)
    refuse(text, fmt::format("is not a {} of the form {}", what, many == 3 ? "MxNxK" : "HxW"));
  std::vector<std::int32_t> numbers;
  for (const auto one : parts) numbers.push_back(number_of(one, what, 1));
  return numbers;
}

std::int32_t NameReader::number_after(std::string_view prefix, std::string_view what, std::int32_t least) {
  const std::string_view text = part(what);
  if (!text.starts_with(prefix)) refuse(text, fmt::format("is not a {} ({}N)", what, prefix));
  return number_of(text.substr(prefix.size()), what, least);
}

std::int32_t NameReader::number_of(std::string_view text, std::string_view what, std::int32_t least) const {
  const auto value = number_in<std::int32_t>(text);
  const bool plain = value && text[0] != '-' && (text[0] != '0' || text.size() == 1);
  if (!plain || *value < least)
    refuse(text, fmt::format("is not a whole number for {} (at least {})", what, least));
  return *value;
}

std::string_view NameReader::take(std::size_t length) {
  const std::string_view text = rest.substr(0, length);
  rest.remove_prefix(length);
  open_ = !rest.empty();
  if (open_) rest.remove_prefix(1);  // the "_"
  return text;
}

namespace {

/// "nopack", "packa", "packb" or "packab".
std::string packed_text(const KernelConfig& config, std::size_t first, std::string_view letters) {
  const bool packs_first = config[first] != 0, packs_second = config[first + 1] != 0;
  if (!packs_first && !packs_second) return "nopack";
  std::string text = "pack";
  return text += letters.substr(packs_first ? 0 : 1, packs_first && packs_second ? 2 : 1);
}

void read_packed(NameReader& in, KernelConfig& config, std::size_t first, std::string_view letters) {
  const std::string_view one = letters.substr(0, 1), other = letters.substr(1);
  const bool none = in.optional("nopack");
  if (!none) in.literal("pack");
  config[first] = !none && in.optional(one);
  config[first + 1] = !none && in.optional(other);
  if (!none && config[first] == 0 && config[first + 1] == 0)
    in.bad(fmt::format("'{}', '{}' or '{}'", one, other, letters));
}

void print_value(std::string& text, const Axis& axis, std::int32_t value) {
  if (axis.words.empty()) {
    fmt::format_to(std::back_inserter(text), FMT_COMPILE("{}"), value);
  } else {
    text += axis.words[static_cast<std::size_t>(value)];
  }
}

}  // namespace

void print_axes(std::string& text, const KernelConfig& config, std::span<const NamePart> parts) {
  for (const auto& [literal, at, form, letters] : parts) {
    const std::int32_t value = config[at];
    const bool is_left_out = (form == NameForm::optional || form == NameForm::flag) && value == 0;
    if (is_left_out || form == NameForm::covered) continue;
    text += literal;
    if (form == NameForm::packed) {
      text += packed_text(config, at, letters);
    } else if (form != NameForm::flag) {
      print_value(text, config.space->axes[at], value);
    }
  }
}

void read_axes(NameReader& in, KernelConfig& config, std::span<const NamePart> parts) {
  for (const auto& [literal, at, form, letters] : parts) {
    const Axis& axis = config.space->axes[at];
    if (form == NameForm::covered) continue;
    if (form == NameForm::flag || form == NameForm::optional) {
      const bool is_there = in.optional(literal);
      config[at] = is_there && form == NameForm::optional ? in.number(axis.name) : is_there;
      if (is_there && config[at] == 0) in.bad(fmt::format("a {} above 0", axis.name));
      continue;
    }
    in.literal(literal);
    if (form == NameForm::packed) {
      read_packed(in, config, at, letters);
    } else {
      config[at] = axis.words.empty() ? in.number(axis.name) : in.word(axis.name, axis.words);
    }
  }
  if (!in.rest.empty()) in.bad("the end");
}

std::string conv_signature_text(const Signature& s) {
  return fmt::format("{}_{}_{}{}", word(s.op), word(s.dtype_a), word(s.layout),
                     s.epilogue == Epilogue::bias ? "_bias" : "");
}

Signature read_conv_signature(NameReader& in) {
  const auto op = static_cast<Op>(static_cast<int>(Op::conv_fwd) + in.word("op", kDirectionWords));
  in.literal("_");
  const auto dtype = static_cast<DType>(in.word("dtype", EnumWords<DType>::words));
  in.literal("_");
  const auto layout = static_cast<Layout>(in.word("layout", EnumWords<Layout>::words));
  Signature s = signature_of(make_conv(op, dtype, layout));
  if (op == Op::conv_fwd && in.optional("_bias")) s.epilogue = Epilogue::bias;
  return s;
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
