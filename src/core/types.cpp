#include <kscout/types.h>

#include "core/names.h"

namespace kscout {

std::size_t parse_word(std::string_view what, std::string_view text,
                       std::span<const std::string_view> words) {
  return index_of_word(what, text, words);
}

double bytes_per_element(DType dtype) noexcept {
  switch (dtype) {
    case DType::fp64:
      return 8;
    case DType::fp32:
    case DType::tf32:
    case DType::int32:
      return 4;
    case DType::fp16:
    case DType::bf16:
      return 2;
    case DType::fp8:
    case DType::bf8:
    case DType::int8:
      return 1;
    case DType::int4:
      return 0.5;
  }
  return 1;
}

}  // namespace kscout
