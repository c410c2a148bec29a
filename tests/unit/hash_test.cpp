#include "core/hash.h"

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

TEST(Hash, PrintsAllDigits) { EXPECT_EQ(hash_digits(0xabc), "0000000000000abc"); }

}  // namespace
}  // namespace kscout
