#include "sweep/messages.h"

#include <cmath>

#include "core/fail.h"
#include "core/json_fields.h"

namespace kscout {

namespace {
/// JSON has no NaN and no infinity; texts stand for them.
Json number_json(double value) {
  if (std::isnan(value)) return nullptr;
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double json_number(const Json& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (value.is_string()) return value == "inf" ? HUGE_VAL : -HUGE_VAL;
  return value.get<double>();
}

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
  return Json{
      {"problem", a.problem}, {"pass", a.pass}, {"configs", a.configs}, {"best_us", number_json(a.best_us)}}
      .dump();
}

Assignment decode_assignment(std::string_view line) {
  return decoded(line, [](const Json& from) {
    return Assignment{from.at("problem"), from.at("pass"), from.at("configs"),
                      json_number(from.at("best_us"))};
  });
}

std::string encode(const Answer& a) {
  const Measurement& m = a.outcome.measured;
  switch (a.kind) {
    case Answer::Kind::ready:
      return Json{{"ready", true}}.dump();
    case Answer::Kind::row:
      return Json{{"row", a.index},
                  {"status", word(m.status)},
                  {"cache", word(m.cache)},
                  {"pass", m.pass},
                  {"time_us", number_json(m.time_us)},
                  {"spread", number_json(m.spread)},
                  {"repeats", m.repeats},
                  {"noisy", m.noisy},
                  {"error", number_json(m.error)},
                  {"reason", a.outcome.reason}}
          .dump(-1, ' ', false, Json::error_handler_t::replace);
    case Answer::Kind::done:
      return Json{{"done", a.index},
                  {"kernels_ns", a.spent.kernels},
                  {"flushes_ns", a.spent.flushes},
                  {"verify_ns", a.spent.verify},
                  {"operands_ns", a.spent.operands},
                  {"clock_mhz", number_json(a.clock_mhz)}}
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
      Measurement& m = answer.outcome.measured;
      m.status = parse<Status>(from.at("status").get<std::string>());
      m.cache = parse<CacheState>(from.at("cache").get<std::string>());
      m.pass = from.at("pass");
      m.time_us = json_number(from.at("time_us"));
      m.spread = json_number(from.at("spread"));
      m.repeats = from.at("repeats");
      m.noisy = from.at("noisy");
      m.error = json_number(from.at("error"));
      answer.outcome.reason = from.at("reason");
    } else if (from.contains("done")) {
      answer.kind = Answer::Kind::done;
      answer.index = from.at("done");
      answer.spent = {from.at("kernels_ns"), from.at("flushes_ns"), from.at("verify_ns"),
                      from.at("operands_ns")};
      answer.clock_mhz = json_number(from.at("clock_mhz"));
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
