// Lines of profiler runs (`Perf:`), and the JSON of benchmarks.
#include <charconv>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/fail.h"
#include "import/gather.h"

namespace kscout {
namespace {

using Json = nlohmann::json;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

/// Problem lines in our one-line form, each followed by `Perf: <ms> ms, ... , <kernel>`.
void read_ck_profiler(const std::filesystem::path& file, const ImportRequest& request, Gatherer& to) {
  std::optional<Problem> problem = request.problem;
  each_line(file, [&](std::string_view line, std::size_t number) {
    const std::string_view text = trimmed(line);
    if (is_conv_line(text) || text.starts_with("gemm:")) {
      try {
        problem = parse_any_problem(text);
      } catch (const Error& error) {
        problem.reset();
        to.skip(number, error.what());
      }
      return;
    }
    const std::size_t at = text.find("Perf: ");
    if (at == std::string_view::npos) return;
    const std::string_view rest = text.substr(at + 6);
    double ms = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), ms);
    const std::size_t comma = rest.rfind(',');
    if (error != std::errc() || !std::string_view(end, rest.data() + rest.size()).starts_with(" ms") ||
        comma == std::string_view::npos) {
      return to.skip(number, "a line that is not 'Perf: <ms> ms, <kernel>'");
    }
    if (!problem) return to.skip(number, "no problem line before it: give --problem");
    to.add({.problem = *problem,
            .kernel = trimmed(rest.substr(comma + 1)),
            .time_us = 1000 * ms,
            .valid = ms > 0,
            .line = number});
  });
}

/// `results` of the benchmark's JSON, one kernel after another; nothing of a kernel is kept.
void read_ck_json(const std::filesystem::path& file, const ImportRequest& request, Gatherer& to) {
  if (request.op != Op::gemm) fail(Errc::invalid_argument, "ck-json holds GEMMs: give --op gemm");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail(Errc::not_found, "{}: no such file", file.string());
  DType dtype = request.dtype;
  Layout layout = request.layout.value_or(Layout::rcr);
  std::int32_t repeats = 0;
  std::size_t result = 0;
  const auto add = [&](const Json& one) {
    ++result;
    const Json about = one.value("kernel_config", Json::object());
    for (const Json& bench : one.value("benchmarks", Json::array())) {
      try {
        const std::string name =
            bench.contains("kernel_name") ? bench["kernel_name"].get<std::string>() : about.value("name", "");
        const double ms = bench.value("avg_time_ms", 0.0);
        to.add({.problem = make_gemm(bench.at("m").get<std::int64_t>(), bench.at("n").get<std::int64_t>(),
                                     bench.at("k").get<std::int64_t>(), dtype, layout),
                .kernel = name,
                .time_us = 1000 * ms,
                .repeats = repeats,
                .valid = bench.value("is_valid", true) && ms > 0,
                .line = result});
      } catch (const Json::exception& error) {
        to.skip(result, fmt::format("a benchmark without kernel_name, m, n, k: {}", error.what()));
      }
    }
  };
  bool results_first = true;
  const auto parsed = Json::parse(
      stream,
      [&](int depth, Json::parse_event_t event, Json& value) {
        if (event != Json::parse_event_t::object_end) return true;
        if (depth == 1 && value.contains("dtype")) {  // metadata
          dtype = parse<DType>(value.value("dtype", std::string(word(dtype))));
          layout = parse<Layout>(value.value("layout", std::string(word(layout))));
          repeats = value.value("repeat", 0);
          results_first = false;
        }
        if (depth != 2 || !value.contains("benchmarks")) return true;
        if (results_first) return true;  // kept until metadata tells the types
        add(value);
        return false;
      },
      /*allow_exceptions=*/false);
  if (parsed.is_discarded()) fail(Errc::corrupt_data, "{}: no JSON; is it cut off?", file.string());
  for (const Json& one : parsed.value("results", Json::array())) {
    if (one.is_object()) add(one);
  }
}

}  // namespace kscout
