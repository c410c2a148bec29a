// Logs: streaming benchmarks (headers and JSON blocks), profiler runs (lines `Perf:`).
#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/fail.h"
#include "core/names.h"
#include "import/gather.h"

namespace kscout {
namespace {

using Json = nlohmann::json;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// The word behind `key=` or `key: `; empty when it is not there.
std::string_view value_of(std::string_view line, std::string_view key) {
  for (std::size_t at = 0; (at = line.find(key, at)) != std::string_view::npos; ++at) {
    if (at > 0 && line[at - 1] != ' ') continue;
    std::string_view rest = line.substr(at + key.size());
    return rest.substr(0, rest.find_first_of(" ,"));
  }
  return {};
}

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "Row-Col-Row" in three texts as one word; nothing when a text says neither.
std::optional<Layout> layout_of(const Json& block) {
  std::string word;
  for (const char* key : {"layout_a", "layout_b", "layout_c"}) {
    if (!block.contains(key) || !block[key].is_string()) return std::nullopt;
    std::string text = block[key].get<std::string>();
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    word += text.find("row") != std::string::npos ? 'r' : text.find("col") != std::string::npos ? 'c' : '?';
  }
  const auto at = find_word(word, kGemmLayoutWords);
  return at ? std::optional(static_cast<Layout>(*at)) : std::nullopt;
}

/// The streaming log: `Shape <i>: M=.. N=.. K=.. dtype=.. layout=..`, then JSON blocks.
class LogReader {
 public:
  LogReader(const ImportRequest& request, Gatherer& to) : request_(request), to_(to) {
    header_ = make_gemm(0, 0, 0, request.dtype, request.layout.value_or(Layout::rcr));
  }

  void line(std::string_view text, std::size_t number) {
    if (depth_ == 0) {
      const std::string_view from = trimmed(text);
      if (from.starts_with("Shape ")) return shape(from, number);
      if (!from.starts_with("{")) return;
      block_.clear();
      begins_ = number;
      in_text_ = escaped_ = false;
    } else if (trimmed(text).starts_with(
                   "Shape ")) {  // the block never ended: the next shape is no part of it
      to_.skip(begins_, "a JSON block that does not end");
      depth_ = 0;
      return shape(trimmed(text), number);
    }
    count(text);
    block_.append(text);
    block_ += '\n';
    if (depth_ == 0) block();
  }
  void end() {
    if (depth_ != 0) to_.skip(begins_, "a JSON block that does not end");
  }

 private:
  /// Braces outside of strings.
  void count(std::string_view text) {
    for (const char c : text) {
      if (escaped_) {
        escaped_ = false;
      } else if (in_text_) {
        escaped_ = c == '\\';
        in_text_ = c != '"';
      } else if (c == '"') {
        in_text_ = true;
      } else if (c == '{') {
        ++depth_;
      } else if (c == '}') {
        --depth_;
        if (depth_ == 0) return;
      }
    }
  }

  void shape(std::string_view text, std::size_t number) {
    const auto m = whole(value_of(text, "M=")), n = whole(value_of(text, "N=")),
               k = whole(value_of(text, "K="));
    if (!m || !n || !k) return to_.skip(number, "a shape line without M, N and K");
    try {
      const std::string_view dtype = value_of(text, "dtype="), layout = value_of(text, "layout=");
      header_ = make_gemm(*m, *n, *k, dtype.empty() ? request_.dtype : parse<DType>(dtype),
                          layout.empty() ? request_.layout.value_or(Layout::rcr) : parse<Layout>(layout));
    } catch (const Error& error) {
      to_.skip(number, error.what());
    }
  }

  void block() {
    const Json json = Json::parse(block_, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded() || !json.is_object()) return to_.skip(begins_, "a block that is no JSON");
    try {
      const std::string name = json.at("name").get<std::string>();
      const Json& perf = json.at("perf_result");
      const Json about = json.value("problem", Json::object());
      GemmProblem problem = header_;
      if (about.contains("dtype_a")) {
        const auto dtype = parse<DType>(about["dtype_a"].get<std::string>());
        problem = make_gemm(problem.m, problem.n, problem.k, dtype, problem.layout);
      }
      problem.m = about.value("m", problem.m);
      problem.n = about.value("n", problem.n);
      problem.k = about.value("k", problem.k);
      if (const auto split = about.value("split_k", std::int64_t{1}); split > 1) problem.split_k = split;
      if (const auto layout = layout_of(about)) problem.layout = *layout;
      const double ms = perf.value("latency(ms)", 0.0), tflops = perf.value("tflops(TFlops)", 0.0);
      to_.add({.problem = problem,
               .kernel = name,
               .time_us = 1000 * ms,
               .valid = ms > 0 && tflops > 0,
               .line = begins_});
    } catch (const Json::exception& error) {
      to_.skip(begins_, fmt::format("a block without name and perf_result: {}", error.what()));
    } catch (const Error& error) {
      to_.skip(begins_, error.what());
    }
  }

  const ImportRequest& request_;
  Gatherer& to_;
  GemmProblem header_;
  std::string block_;
  std::size_t begins_ = 0;
  int depth_ = 0;
  bool in_text_ = false, escaped_ = false;
};

}  // namespace

void read_ck_log(const std::filesystem::path& file, const ImportRequest& request, Gatherer& to) {
  if (request.op != Op::gemm) fail(Errc::invalid_argument, "ck-log holds GEMMs: give --op gemm");
  LogReader reader(request, to);
  each_line(file, [&](std::string_view line, std::size_t number) { reader.line(line, number); });
  reader.end();
}

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
