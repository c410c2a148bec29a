#pragma once
/// \file
/// Parses a kernel's name from the front; errors quote the name and the expected part.
///
///     NameReader in("native", name);
///     in.literal("native_gemm_");
///     auto dtype = static_cast<DType>(in.word("dtype", EnumWords<DType>::words));
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/config.h>
#include <kscout/problem.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/names.h"
#include "provider/signature_rules.h"

namespace kscout {

class NameReader {
 public:
  NameReader(std::string_view provider_name, std::string_view whole_name)
      : provider(provider_name), name(whole_name), rest(whole_name) {}

  std::string_view provider, name, rest;

  [[noreturn]] void bad(std::string_view expected) const {
    fail(Errc::invalid_argument, "'{}' is no {} kernel: expected {} at '{}'", name, provider, expected, rest);
  }
  void literal(std::string_view text) {
    if (!optional(text)) bad(fmt::format("'{}'", text));
  }
  bool optional(std::string_view text) {
    if (!rest.starts_with(text)) return false;
    rest.remove_prefix(text.size());
    return true;
  }
  std::int32_t number(std::string_view what) {
    const std::size_t length = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const std::string_view digits = rest.substr(0, length);
    if (digits.empty() || (digits.size() > 1 && digits[0] == '0')) bad(what);
    rest.remove_prefix(length);
    return parse_field<std::int32_t>(what, digits);
  }
  /// Reads the longest of `words` that comes next (a word may contain the separator).
  std::int32_t word(std::string_view what, std::span<const std::string_view> words);
  /// Throws invalid_argument when a rule of the space's family refuses the signature: print() writes no such
  /// name.
  void check_signature(const ConfigSpace& space, const Signature& signature) const {
    if (const std::string why = signature_refusal(space, signature); !why.empty())
      fail(Errc::invalid_argument, "'{}' is no {} kernel: {}", name, provider, why);
  }

  // Names of parts between "_", as CK Tile's tools write them.

  [[noreturn]] void refuse(std::string_view part, std::string_view why) const {
    fail(Errc::invalid_argument, "kernel name '{}': '{}' {}", name, part, why);
  }
  bool done() const { return rest.empty() && !open_; }
  /// The text up to the next "_".
  std::string_view part(std::string_view what);
  /// The next part, without taking it; empty at the end.
  std::string_view next() const { return rest.substr(0, rest.find('_')); }
  /// Reads the longest of `words` whose end is the end of a part; returns its position.
  std::size_t part_word(std::string_view what, std::span<const std::string_view> words);
  /// Like part_word(), but returns nothing when none of the words comes next.
  std::optional<std::size_t> try_word(std::span<const std::string_view> words);
  /// Reads "AxBxC": `many` numbers of at least 1.
  std::vector<std::int32_t> dims(std::string_view what, std::size_t many);
  /// Reads the number after `prefix` in the next part.
  std::int32_t number_after(std::string_view prefix, std::string_view what, std::int32_t least);
  /// The text as a number of at least `least`.
  std::int32_t number_of(std::string_view text, std::string_view what, std::int32_t least) const;

 private:
  std::string_view take(std::size_t length);

  bool open_ = true;  ///< another part must follow: at the start, or after "_"
};

// ---- Describes a provider's axes once: their help, and how names state them.
//
//     constexpr NamedAxis kTable[] = {{kNativeIsaAxis, "__"},
//                                     {{"kind", "1", "how the kernel traverses the problem", kKindWords}, "_"},
//                                     {{"mr", "elements", "rows of the register tile"}, "_"},
//                                     {{"nr", "elements", "columns of the register tile"}, "x"}};
//     constexpr auto kAxes = axes_of(kTable);
//     constexpr auto kName = parts_of(kTable);
//     print_axes(text, config, kName);   // "__avx2_tiled_6x16"
//     read_axes(in, config, kName);

enum class NameForm : std::uint8_t {
  value,     ///< the literal, then the axis's word or number
  optional,  ///< the same, left out where the value is 0
  flag,      ///< the literal alone stands for 1, and nothing for 0
  packed,    ///< this axis and the next are flags of two operands: "nopack", "packa", "packb" or "packab"
  covered,   ///< stated by an earlier part, or by code
};
struct NamePart {
  std::string_view literal;
  std::size_t axis;
  NameForm form = NameForm::value;
  std::string_view letters = {};  ///< of the two operands, of form `packed`
};
struct NamedAxis {
  Axis axis;
  std::string_view literal = {};
  NameForm form = NameForm::value;
  std::string_view letters = {};
};

template <std::size_t count>
consteval std::array<Axis, count> axes_of(const NamedAxis (&table)[count]) {
  std::array<Axis, count> axes{};
  for (std::size_t i = 0; i < count; ++i) axes[i] = table[i].axis;
  return axes;
}
/// In the order of the axes.
template <std::size_t count>
consteval std::array<NamePart, count> parts_of(const NamedAxis (&table)[count]) {
  std::array<NamePart, count> parts{};
  for (std::size_t i = 0; i < count; ++i) parts[i] = {table[i].literal, i, table[i].form, table[i].letters};
  return parts;
}

/// Appends to `text`. The config must have a value on each axis.
void print_axes(std::string& text, const KernelConfig& config, std::span<const NamePart> parts);
/// Reads what print_axes writes, and expects the end of the name.
void read_axes(NameReader& in, KernelConfig& config, std::span<const NamePart> parts);

// ---- Prints and parses a convolution's signature inside a kernel's name: direction "_" dtype "_" layout.
//
//     std::string text = conv_signature_text(signature);         // "conv_fwd_bf16_nhwgc"
//     Signature again = read_conv_signature(reader);

inline constexpr std::string_view kDirectionWords[] = {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"};

std::string conv_signature_text(const Signature& signature);
Signature read_conv_signature(NameReader& in);

// ---- Prints and parses a GEMM's signature inside a kernel's name: dtype "_" layout { "_" type } ["_"
// epilogue] ["_acc"]. A type ("B", "C" or "Acc" and a dtype) is written when it differs from the usual type
// for A's (make_gemm).
//
//     std::string text = gemm_signature_text(signature);         // "fp8_rcr_Cbf16_bias_gelu_acc"
//     Signature again = read_gemm_signature(reader, "__");       // up to what follows it in the name

std::string gemm_signature_text(const Signature& signature);
/// dtype "_" layout, where all operands have one type.
Signature read_uniform_signature(NameReader& in, Op op);

/// `next`: the text that follows the signature in the name.
Signature read_gemm_signature(NameReader& in, std::string_view next);

}  // namespace kscout
