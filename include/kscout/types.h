#pragma once
/// \file
/// Defines the words of a signature: operations, element types, layouts, epilogues.
///
/// Each enum has one table of words, which both parsing and printing read. An unknown word is an error, never
/// a default.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace kscout {

/// The ops that the library has. Operations that a program links in addition have further numbers.
enum class Op : std::uint8_t { gemm, conv_fwd, conv_bwd_data, conv_bwd_weight, grouped_gemm };
enum class DType : std::uint8_t { fp64, fp32, tf32, fp16, bf16, fp8, bf8, int32, int8, int4 };
/// For a GEMM: storage of A (m x k), B (k x n), C (m x n), r = row-major, c = column-major. For a
/// convolution: storage of the image tensors, outermost axis first; it also says whether there are 2 or 3
/// spatial axes.
enum class Layout : std::uint8_t { rcr, rrr, crr, ccr, nhwgc, ngchw, ndhwgc, ngcdhw };
/// Operation on the result before it is stored in C.
enum class Epilogue : std::uint8_t { none, bias, relu, gelu, bias_relu, bias_gelu };
constexpr bool has_bias(Epilogue epilogue) noexcept {
  return epilogue == Epilogue::bias || epilogue == Epilogue::bias_relu || epilogue == Epilogue::bias_gelu;
}

/// The words of an enum in the order of its values, and the enum's name in messages.
template <class E>
struct EnumWords;

/// The words of all ops that this program has, in the order of their numbers.
std::span<const std::string_view> op_words() noexcept;

/// An operation brings its ops (src/op/ops.cpp): their words are no constant.
template <>
struct EnumWords<Op> {
  static constexpr std::string_view what = "op";
  struct Words {
    operator std::span<const std::string_view>() const noexcept { return op_words(); }  // NOLINT: is a list
    std::string_view operator[](std::size_t i) const noexcept { return op_words()[i]; }
    std::size_t size() const noexcept { return op_words().size(); }
    auto begin() const noexcept { return op_words().begin(); }
    auto end() const noexcept { return op_words().end(); }
  };
  static constexpr Words words{};
};
template <>
struct EnumWords<DType> {
  static constexpr std::string_view what = "dtype";
  static constexpr std::array<std::string_view, 10> words = {"fp64", "fp32", "tf32",  "fp16", "bf16",
                                                             "fp8",  "bf8",  "int32", "int8", "int4"};
};
template <>
struct EnumWords<Layout> {
  static constexpr std::string_view what = "layout";
  static constexpr std::array<std::string_view, 8> words = {"rcr",   "rrr",   "crr",    "ccr",
                                                            "nhwgc", "ngchw", "ndhwgc", "ngcdhw"};
};
template <>
struct EnumWords<Epilogue> {
  static constexpr std::string_view what = "epilogue";
  static constexpr std::array<std::string_view, 6> words = {"none", "bias",      "relu",
                                                            "gelu", "bias_relu", "bias_gelu"};
};

template <class E>
concept WordEnum = requires {
  EnumWords<E>::words;
};

template <WordEnum E>
constexpr std::string_view word(E value) noexcept {
  return EnumWords<E>::words[static_cast<std::size_t>(value)];
}

/// Position of `text` among `words`; throws Error(invalid_argument) that names the nearest word.
std::size_t parse_word(std::string_view what, std::string_view text, std::span<const std::string_view> words);

template <WordEnum E>
E parse(std::string_view text) {
  return static_cast<E>(parse_word(EnumWords<E>::what, text, EnumWords<E>::words));
}

/// Bytes of one element; 0.5 for int4 (two elements share a byte).
double bytes_per_element(DType dtype) noexcept;

/// The first layouts are those of GEMMs.
inline constexpr std::size_t kGemmLayouts = 4;
inline constexpr std::span<const std::string_view> kGemmLayoutWords{EnumWords<Layout>::words.data(),
                                                                    kGemmLayouts};
constexpr bool is_gemm_layout(Layout layout) noexcept {
  return static_cast<std::size_t>(layout) < kGemmLayouts;
}
/// Number of spatial axes of a convolution's layout, 2 or 3; 0 for a GEMM layout.
constexpr int spatial_rank(Layout layout) noexcept {
  if (is_gemm_layout(layout)) return 0;
  return layout == Layout::ndhwgc || layout == Layout::ngcdhw ? 3 : 2;
}

/// Whether the operand is stored row-major.
constexpr bool row_major_a(Layout layout) noexcept { return layout == Layout::rcr || layout == Layout::rrr; }
constexpr bool row_major_b(Layout layout) noexcept { return layout == Layout::rrr || layout == Layout::crr; }

}  // namespace kscout
