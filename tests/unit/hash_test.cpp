#include "core/hash.h"

#include <string>

#include <gtest/gtest.h>

namespace kscout {
namespace {

TEST(Hash, IsFnv1aOf64Bits) {
  // The published test vectors.
  EXPECT_EQ(text_hash(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(text_hash("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(text_hash("foobar"), 0x85944171f73967e8ULL);
}

TEST(Hash, GoesOnBehindAText) { EXPECT_EQ(text_hash("bar", text_hash("foo")), text_hash("foobar")); }

/// Bit by bit, as the polynomial is defined.
std::uint32_t crc32_by_bits(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320U : crc >> 1;
  }
  return ~crc;
}

TEST(Crc32, IsThePolynomialsOfEveryLengthAndParts) {
  EXPECT_EQ(crc32_of("123456789"), 0xcbf43926U);  // the published check value
  std::string text;
  for (std::size_t length = 0; length < 400; ++length) {
    const std::uint32_t expected = crc32_by_bits(text);
    ASSERT_EQ(crc32_of(text), expected) << length;
    const std::string_view whole = text;
    for (const std::size_t part : {length / 3, length - length / 5}) {
      ASSERT_EQ(crc32_of(whole.substr(part), crc32_of(whole.substr(0, part))), expected) << length;
    }
    text += static_cast<char>(length * 167 + length / 7);
  }
}

TEST(Hash, PrintsAllDigits) { EXPECT_EQ(hash_digits(0xabc), "0000000000000abc"); }

}  // namespace
}  // namespace kscout
