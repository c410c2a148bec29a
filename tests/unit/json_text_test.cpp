#include <gtest/gtest.h>

#include <kscout/measurement.h>

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

TEST(JsonFields, NumbersThatAreNotFiniteReadBack) {
  const Measurement wrong{.status = Status::wrong, .spread = -HUGE_VAL, .repeats = 3, .error = HUGE_VAL};
  const std::string text = record_json(wrong).dump();
  EXPECT_NE(text.find(R"("time_us":null,"spread":"-inf")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("error":"inf")"), std::string::npos) << text;
  EXPECT_EQ(record_from_json<Measurement>(Json::parse(text), "row"), wrong);
}

TEST(JsonFields, OtherTextsAreNoNumbers) {
  Json json = record_json(Measurement{});
  json["error"] = "infinite";
  EXPECT_THROW(record_from_json<Measurement>(json, "row"), Error);
}

}  // namespace
}  // namespace kscout
