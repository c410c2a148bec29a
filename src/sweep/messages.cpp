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

std::string encode(const Reply& a) {
  switch (a.kind) {
    case Reply::Kind::ready:
      return Json{{"ready", true}}.dump();
    case Reply::Kind::row:
      return Json{
          {"row", a.index}, {"measured", record_json(a.outcome.measured)}, {"reason", a.outcome.reason}}
          .dump(-1, ' ', false, Json::error_handler_t::replace);
    case Reply::Kind::done:
      return Json{{"done", a.index},
                  {"kernels_ns", a.spent.kernels},
                  {"flushes_ns", a.spent.flushes},
                  {"verify_ns", a.spent.verify},
                  {"operands_ns", a.spent.operands},
                  {"clock_mhz", json_from_number(a.clock_mhz)}}
          .dump();
    case Reply::Kind::failed:
      return Json{{"failed", a.outcome.reason}, {"code", static_cast<int>(a.code)}}.dump(
          -1, ' ', false, Json::error_handler_t::replace);
  }
  return {};
}

Reply decode_reply(std::string_view line) {
  return decoded(line, [](const Json& from) {
    Reply reply;
    if (from.contains("row")) {
      reply.kind = Reply::Kind::row;
      reply.index = from.at("row");
      reply.outcome.measured = record_from_json<Measurement>(from.at("measured"), "measured");
      reply.outcome.reason = from.at("reason");
    } else if (from.contains("done")) {
      reply.kind = Reply::Kind::done;
      reply.index = from.at("done");
      reply.spent = {from.at("kernels_ns"), from.at("flushes_ns"), from.at("verify_ns"),
                     from.at("operands_ns")};
      reply.clock_mhz = number_from_json(from.at("clock_mhz"), "message", "clock_mhz");
    } else if (from.contains("failed")) {
      reply.kind = Reply::Kind::failed;
      reply.outcome.reason = from.at("failed");
      reply.code = static_cast<Errc>(from.at("code").get<int>());
    } else {
      from.at("ready");
    }
    return reply;
  });
}

}  // namespace kscout
