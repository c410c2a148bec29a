// Tests texts from elsewhere: what is printed of them, how messages shorten them, and which names are read.
#include "core/printable.h"

#include <gtest/gtest.h>

#include "core/name_rules.h"
#include "support/expect_error.h"

namespace kscout {
namespace {

using namespace std::string_literals;
using test::expect_error;

TEST(Printable, ControlCharactersAreWritten) {
  EXPECT_EQ(printable("plain text, \xc3\xa4\xe2\x82\xac\n\tnext"),
            "plain text, \xc3\xa4\xe2\x82\xac\n\tnext");
  EXPECT_EQ(printable("a\x1b[2Jb\x07\r\x7f"), "a\\u001b[2Jb\\u0007\\u000d\\u007f");
  EXPECT_EQ(printable("a\0b"s), "a\\u0000b");
  EXPECT_EQ(printable("\xc2\x9b"), "\\u009b");                      // the one-character form of ESC [
  EXPECT_EQ(printable("\xe2\x80\xae txt.exe"), "\\u202e txt.exe");  // text from right to left
  EXPECT_EQ(printable("\xe2\x81\xa6\xef\xbb\xbf"), "\\u2066\\ufeff");
  EXPECT_EQ(printable_line("a\r\n\tb"), "a\\r\\n\\tb");
}

TEST(Printable, BytesThatAreNoTextAreWritten) {
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            "\\x9b2J");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80");           // too long a form of NUL
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half a surrogate pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(Printable, ACharacterMayComeInTwoParts) {
  const std::string text = "\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80z";
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const std::string first = text.substr(0, at);
    const std::size_t begun = cut_character_bytes(first);
    EXPECT_EQ(printable(first.substr(0, at - begun)) + printable(first.substr(at - begun) + text.substr(at)),
              text);
  }
}

TEST(Shortened, CutsInputsAndLongMessages) {
  const std::string name(100'000, 'x'), spaced = "'" + std::string(5'000, ' ') + "'";
  EXPECT_EQ(shortened("unknown verb 'x y'; it's one"), "unknown verb 'x y'; it's one");
  EXPECT_EQ(shortened("unknown verb '" + name + "': no"),
            "unknown verb '" + std::string(199, 'x') + "...': no");
  EXPECT_EQ(shortened(name + ": is absent"), std::string(200, 'x') + "... is absent");
  EXPECT_LT(shortened("a " + spaced + " b").size(), 220u);
  std::string words;
  for (int i = 0; i < 10'000; ++i) words += "word ";
  EXPECT_LE(shortened(words).size(), 4'003u);
  std::string umlauts;
  for (int i = 0; i < 500; ++i) umlauts += "\xc3\xa4";
  EXPECT_EQ(printable(shortened("x" + umlauts)), shortened("x" + umlauts)) << "a character was cut";
}

TEST(NameRules, NamesAreFitForFilesSourcesAndScripts) {
  for (const std::string name : {"zen3-2c", "gfx942-304cu", "any_cpu", "sm_90", "2nd.gpu+x"})
    check_name("device", name);
  for (const std::string name : {"", "../x", "a b", "a\nint main;", "-x", "a/b", "a;b", "a$b", "\xc3\xa4"})
    expect_error(Errc::invalid_argument, "a name has letters, digits and",
                 [&] { check_name("device", name); });
  expect_error(Errc::invalid_argument, "at most 100", [] { check_name("device", std::string(101, 'a')); });
}

TEST(NameRules, DevicesOfFilesHaveSuchNames) {
  Device device = device_preset("gfx950");
  EXPECT_EQ(device_from_json(record_json(device), "a file"), device);
  device.name = "x\nint injected;";
  expect_error(Errc::corrupt_data, "a file: device 'x\\nint injected;': a name has letters",
               [&] { device_from_json(record_json(device), "a file"); });
  device = device_preset("gfx950");
  device.arch = "gfx950\" x";
  expect_error(Errc::corrupt_data, "architecture", [&] { device_from_json(record_json(device), "a file"); });
  device = device_preset("gfx950");
  device.model = "AMD\x1b[2J";
  expect_error(Errc::corrupt_data, "without control characters",
               [&] { device_from_json(record_json(device), "a file"); });
}

}  // namespace
}  // namespace kscout
