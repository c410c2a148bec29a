// Lists of sizes: their text and digest.
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/error.h>
#include <kscout/size_list.h>

#include "support/expect_error.h"

namespace kscout {
namespace {

using test::expect_error;

TEST(SizeList, ReadsBackFromItsText) {
  const SizeList list{128, 64, 0, 7};
  EXPECT_EQ(size_list_text(list), "128+64+0+7");
  EXPECT_EQ(parse_size_list("128+64+0+7"), list);
  EXPECT_NE(parse_size_list("64+128+0+7"), list);
  EXPECT_EQ(SizeList().digest(), 0);
  EXPECT_EQ(SizeList(), SizeList(std::vector<std::int64_t>{}));
  expect_error(Errc::invalid_argument, "size 'x' is not a whole number", [] { parse_size_list("1+x"); });
  expect_error(Errc::invalid_argument, "size '99999999999999999999' does not fit 64 bits",
               [] { parse_size_list("99999999999999999999"); });
}

TEST(SizeList, DigestsTellListsApart) {
  std::set<std::int64_t> digests{0};
  std::size_t lists = 1;
  for (std::int64_t a = 0; a < 30; ++a) {
    digests.insert(SizeList{a}.digest());
    ++lists;
    for (std::int64_t b = 0; b < 30; ++b, ++lists) digests.insert(SizeList{a, b}.digest());
  }
  EXPECT_EQ(digests.size(), lists);
  EXPECT_GE(*digests.begin(), 0);
  // Stored in files of training sizes, so it never changes.
  EXPECT_EQ((SizeList{128, 64, 0, 7}.digest()), 1014254918065130825);
}

}  // namespace
}  // namespace kscout
