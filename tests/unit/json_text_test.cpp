#include <gtest/gtest.h>

#include "core/json_fields.h"

namespace kscout {
namespace {

using OrderedJson = nlohmann::ordered_json;

TEST(JsonText, AMemberALineAndAListOfNumbersInOne) {
  OrderedJson json;
  json["name"] = "a \"quoted\" word\n";
  json["nothing"] = nullptr;
  json["empty"] = {{"list", OrderedJson::array()}, {"object", OrderedJson::object()}};
  json["sizes"] = {{1, 2, 3}, {4, 5, 6}};
  json["mixed"] = {1, {{"deep", {true, 0.5}}}};
  EXPECT_EQ(readable_json(json), R"({
 "name": "a \"quoted\" word\n",
 "nothing": null,
 "empty": {
  "list": [],
  "object": {}
 },
 "sizes": [
  [1,2,3],
  [4,5,6]
 ],
 "mixed": [
  1,
  {
   "deep": [true,0.5]
  }
 ]
}
)");
  EXPECT_EQ(OrderedJson::parse(readable_json(json)), json);
}

TEST(JsonText, BytesThatAreNoTextAreReplaced) {
  OrderedJson json;
  json["file \xff"] = "\xfe";
  EXPECT_EQ(readable_json(json), "{\n \"file \xEF\xBF\xBD\": \"\xEF\xBF\xBD\"\n}\n");
}

}  // namespace
}  // namespace kscout
