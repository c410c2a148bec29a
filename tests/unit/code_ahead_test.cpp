#include <functional>

#include <gtest/gtest.h>

#include "core/read_ahead.h"

namespace kscout {

// By a macro, as sections are named that differ between instruction sets.
#define TEST_SECTION kscout_code_ahead_test
KSCOUT_CODE_BOUNDS(TEST_SECTION);

namespace {

struct Numbers {
  [[gnu::noinline]] KSCOUT_CODE(TEST_SECTION) static int twice(int x) { return 2 * x; }
};
[[gnu::noinline]] KSCOUT_CODE(TEST_SECTION) inline int half(int x) { return x / 2; }
[[gnu::noinline]] int elsewhere(int x) { return x + 1; }

bool holds(std::span<const std::byte> code, int (*function)(int)) {
  const auto* const at = reinterpret_cast<const std::byte*>(function);
  return !std::less<>()(at, code.data()) && std::less<>()(at, code.data() + code.size());
}

TEST(CodeAhead, FunctionsOfASectionStandBetweenItsBounds) {
  const std::span<const std::byte> code = KSCOUT_CODE_OF(TEST_SECTION);
#if defined(__ELF__)
  EXPECT_TRUE(holds(code, &Numbers::twice));
  EXPECT_TRUE(holds(code, &half));
  EXPECT_LT(code.size(), 1024U);  // nothing else
#endif
  EXPECT_FALSE(holds(code, &elsewhere));
  read_ahead(code);  // code can be read
  EXPECT_EQ(half(Numbers::twice(elsewhere(20))), 21);
}

}  // namespace
}  // namespace kscout
