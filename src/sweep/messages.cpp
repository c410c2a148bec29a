#include "sweep/messages.h"

#include "core/fail.h"
#include "core/json_fields.h"

namespace kscout {

namespace {
template <class F>
auto decoded(std::string_view line, F&& fn) {
  try {
    return fn(Json::parse(line));
  } catch (const std::exception& error) {
    fail(Errc::corrupt_data, "a worker's message '{}' is not understood: {}", line.substr(0, 200),
         error.what());
  }
}

}  // namespace

std::string encode(const Assignment& a) {
  return Json{{"problem", a.problem},
              {"pass", a.pass},
              {"configs", a.configs},
              {"best_us", json_from_number(a.best_us)}}
      .dump();
}

Assignment decode_assignment(std::string_view line) {
  return decoded(line, [](const Json& from) {
    return Assignment{from.at("problem"), from.at("pass"), from.at("configs"),
                      number_from_json(from.at("best_us"), "message", "best_us")};
  });
}

std::string encode(const Answer& a) {
  switch (a.kind) {
    case Answer::Kind::ready:
      return Json{{"ready", true}}.dump();
    case Answer::Kind::row:
      return Json{
          {"row", a.index}, {"measured", record_json(a.outcome.measured)}, {"reason", a.outcome.reason}}
          .dump(-1, ' ', false, Json::error_handler_t::replace);
    case Answer::Kind::done:
      return Json{{"done", a.index},
                  {"kernels_ns", a.spent.kernels},
                  {"flushes_ns", a.spent.flushes},
                  {"verify_ns", a.spent.verify},
                  {"operands_ns", a.spent.operands},
                  {"clock_mhz", json_from_number(a.clock_mhz)}}
          .dump();
    case Answer::Kind::failed:
      return Json{{"failed", a.outcome.reason}, {"code", static_cast<int>(a.code)}}.dump(
          -1, ' ', false, Json::error_handler_t::replace);
  }
  return {};
}

Answer decode_answer(std::string_view line) {
  return decoded(line, [](const Json& from) {
    Answer answer;
    if (from.contains("row")) {
      answer.kind = Answer::Kind::row;
      answer.index = from.at("row");
      answer.outcome.measured = record_from_json<Measurement>(from.at("measured"), "measured");
      answer.outcome.reason = from.at("reason");
    } else if (from.contains("done")) {
      answer.kind = Answer::Kind::done;
      answer.index = from.at("done");
      answer.spent = {from.at("kernels_ns"), from.at("flushes_ns"), from.at("verify_ns"),
                      from.at("operands_ns")};
      answer.clock_mhz = number_from_json(from.at("clock_mhz"), "message", "clock_mhz");
    } else if (from.contains("failed")) {
      answer.kind = Answer::Kind::failed;
      answer.outcome.reason = from.at("failed");
      answer.code = static_cast<Errc>(from.at("code").get<int>());
    } else {
      from.at("ready");
    }
    return answer;
  });
}

}  // namespace kscout
