#include "core/toml_reader.h"

#include <string>

#include <gtest/gtest.h>

#include "family/declared.h"
#include "features/schema_text.h"
#include "support/expect_error.h"

namespace kscout {
namespace {

std::string times(std::size_t count, const std::string& text) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

TEST(Toml, AKeyOfManyPartsIsRefused) {
  constexpr std::size_t kDeep = 30'000;
  for (const std::string& text :
       {times(kDeep, "a.") + "a = 1\n", "[" + times(kDeep, "a.") + "a]\n",
        "[[" + times(kDeep, "a . ") + "a]]\n", "x = { " + times(kDeep, "'a.'.") + "a = 1 }\n",
        times(kDeep, "\"\\\"\".") + "a = 1\n"}) {
    test::expect_error(Errc::corrupt_data, {"f.toml:2: a key of more than 16 parts"},
                       [&] { parse_toml("# a comment\n" + text, "f.toml"); });
    test::expect_error(Errc::corrupt_data, "16 parts", [&] { read_declaration(text, "f.toml"); });
    test::expect_error(Errc::corrupt_data, "16 parts", [&] { parse_schema_data(text, "f.toml"); });
  }
}

TEST(Toml, OtherDotsAreNoKeys) {
  const std::string dots = times(100, "a.");
  const toml::table table =
      parse_toml("# " + dots + "\nnumbers = [" + times(100, "1.5, ") + "]\none = \"" + dots + "\\\"" + dots +
                     "\"\ntwo = '" + dots + "'\nthree = \"\"\"" + dots + "\n\"" + dots +
                     "\"\"\"\"\nfour = '''" + dots + "\n" + dots + "'''\na.b.c = 1\n",
                 "f.toml");
  EXPECT_EQ(table["numbers"].as_array()->size(), 100u);
  EXPECT_EQ(table["a"]["b"]["c"].value<int>(), 1);
  EXPECT_EQ(table["three"].value<std::string>(), dots + "\n\"" + dots + "\"");
}

TEST(Toml, InvalidTextsNameTheirLine) {
  for (const std::string text : {"a = 1\nb = \"x\nc = 2\n", "a = 1\nb = 'x", "a = 1\nb = \"\\"}) {
    test::expect_error(Errc::corrupt_data, "f.toml:2: ", [&] { parse_toml(text, "f.toml"); });
  }
  EXPECT_EQ(parse_toml("\xEF\xBB\xBF"
                       "a = 1",
                       "f.toml")["a"]
                .value<int>(),
            1)
      << "a byte-order mark";
}

}  // namespace
}  // namespace kscout
