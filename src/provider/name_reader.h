#pragma once
/// \file
/// Parses a kernel's name from the front; errors quote the name and the expected part.
///
///     NameReader in("native", name);
///     in.literal("native_gemm_");
///     auto dtype = static_cast<DType>(in.word("dtype", EnumWords<DType>::words));
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <kscout/config.h>
#include <kscout/problem.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/names.h"
#include "provider/signature_rules.h"

namespace kscout {

struct NameReader {
  NameReader(std::string_view provider_name, std::string_view whole_name)
      : provider(provider_name), name(whole_name), rest(whole_name) {}

  std::string_view provider, name, rest;

  [[noreturn]] void bad(std::string_view expected) const {
    fail(Errc::invalid_argument, "'{}' is no {} kernel: expected {} at '{}'", name, provider, expected, rest);
  }
  void literal(std::string_view text) {
    if (!rest.starts_with(text)) bad(fmt::format("'{}'", text));
    rest.remove_prefix(text.size());
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
  std::int32_t word(std::string_view what, std::span<const std::string_view> words) {
    std::int32_t best = -1;
    std::size_t length = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (rest.starts_with(words[i]) && words[i].size() > length) {
        best = static_cast<std::int32_t>(i);
        length = words[i].size();
      }
    }
    if (best < 0) {
      const auto nearest = unknown_name_message(what, rest.substr(0, rest.find('_')), words);
      fail(Errc::invalid_argument, "'{}' is no {} kernel: {}", name, provider, nearest);
    }
    rest.remove_prefix(length);
    return best;
  }
  /// Throws invalid_argument when a rule of the space's family refuses the signature: print() writes no such
  /// name.
  void check_signature(const ConfigSpace& space, const Signature& signature) const {
    if (const std::string why = signature_refusal(space, signature); !why.empty())
      fail(Errc::invalid_argument, "'{}' is no {} kernel: {}", name, provider, why);
  }
};

// ---- Prints and parses the axes of a config by one table.
//
//     constexpr NamePart kName[] = {{"__", axis_at(kAxes, "isa")}, {"_", axis_at(kAxes, "kind")},
//                                   {"_", axis_at(kAxes, "mr")},   {"x", axis_at(kAxes, "nr")}};
//     print_axes(text, config, kName);   // "__avx2_tiled_6x16"
//     read_axes(in, config, kName);

struct NamePart {
  std::string_view literal;
  std::size_t axis;              ///< its word or number follows the literal
  bool optional = false;         ///< left out, with its literal, where the value is 0
  std::string_view packed = {};  ///< not empty: this axis and the next are flags of two operands with
                                 ///< these letters: "nopack", "packa", "packb" or "packab"
  bool flag = false;             ///< the literal alone stands for 1, and nothing for 0
};

/// Position of the axis with this name.
consteval std::size_t axis_at(std::span<const Axis> axes, std::string_view name) {
  std::size_t at = 0;
  while (axes[at].name != name) ++at;
  return at;
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
