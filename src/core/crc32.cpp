#include "core/crc32.h"

#include <array>
#include <cstddef>

#include <zlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kscout {
namespace {

std::uint32_t by_zlib(std::string_view bytes, std::uint32_t before) noexcept {
  const auto* const data = reinterpret_cast<const Bytef*>(bytes.data());
  return static_cast<std::uint32_t>(crc32_z(before, data, bytes.size()));
}

#if defined(__x86_64__)

/// x^n modulo the CRC's polynomial, bits reversed, as a carry-less product of reversed numbers wants it.
constexpr long long power_of_x(int n) noexcept {
  std::uint32_t power = 0x80000000U;  // 1
  for (int i = 0; i < n; ++i) power = (power & 1) != 0 ? power >> 1 ^ 0xedb88320U : power >> 1;
  return static_cast<long long>(std::uint64_t{power} << 1);
}

/// 64 bytes at a time are folded into the 64 that follow, as polynomials (Gopal et al., Fast CRC Computation
/// for Generic Polynomials Using PCLMULQDQ Instruction, 2009); what is left has the same remainder.
[[gnu::target("pclmul,sse4.1")]] std::uint32_t by_folding(std::string_view bytes,
                                                          std::uint32_t before) noexcept {
  constexpr std::size_t kLanes = 4, kLane = sizeof(__m128i), kBlock = kLanes * kLane;
  const __m128i far = _mm_set_epi64x(power_of_x(8 * kBlock - 32), power_of_x(8 * kBlock + 32));
  const __m128i near = _mm_set_epi64x(power_of_x(8 * kLane - 32), power_of_x(8 * kLane + 32));
  const auto fold = [](__m128i sum, __m128i by, __m128i next) __attribute__((target("pclmul,sse4.1"))) {
    const __m128i low = _mm_clmulepi64_si128(sum, by, 0x00), high = _mm_clmulepi64_si128(sum, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
  };
  const auto* next = reinterpret_cast<const __m128i*>(bytes.data());
  __m128i lane[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) lane[i] = _mm_loadu_si128(next++);
  lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128(static_cast<int>(~before)));
  for (std::size_t rest = bytes.size() / kBlock - 1; rest > 0; --rest) {
    for (std::size_t i = 0; i < kLanes; ++i) lane[i] = fold(lane[i], far, _mm_loadu_si128(next++));
  }
  for (std::size_t i = 1; i < kLanes; ++i) lane[i] = fold(lane[i - 1], near, lane[i]);
  std::array<char, kLane> left;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(left.data()), lane[kLanes - 1]);
  // zlib begins with the complement of what it is given: with nothing here.
  const std::uint32_t sum = by_zlib({left.data(), left.size()}, ~std::uint32_t{0});
  return by_zlib(bytes.substr(bytes.size() / kBlock * kBlock), sum);
}

#endif

}  // namespace

std::uint32_t crc32_of(std::string_view bytes, std::uint32_t before) noexcept {
  if (bytes.empty()) return before;
#if defined(__x86_64__)
  static const bool folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (folds && bytes.size() >= 64) return by_folding(bytes, before);
#endif
  return by_zlib(bytes, before);
}

}  // namespace kscout
