// Logs of streaming benchmarks: `Shape <i>: M=.. N=.. K=.. dtype=.. layout=..`, then JSON blocks.
#include <algorithm>
#include <charconv>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/fail.h"
#include "core/names.h"
#include "import/gather.h"

namespace kscout {
namespace {

using Json = nlohmann::json;

/// The word behind `key=`; empty when it is not there.
std::string_view value_of(std::string_view line, std::string_view key) {
  for (std::size_t at = 0; (at = line.find(key, at)) != std::string_view::npos; ++at) {
    if (at > 0 && line[at - 1] != ' ') continue;
    const std::string_view rest = line.substr(at + key.size());
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

/// What a member holds when it is there; throws invalid_argument when it is of another type.
template <class T>
std::optional<T> member(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return std::nullopt;
  if constexpr (std::is_same_v<T, std::string_view>) {
    if (found->is_string()) return std::string_view(found->get_ref<const std::string&>());
  } else if constexpr (std::is_same_v<T, const Json*>) {
    if (found->is_object()) return &*found;
  } else if constexpr (std::is_same_v<T, double>) {
    if (found->is_number()) return found->get<double>();
  } else {
    if (found->is_number_integer()) return found->get<T>();
  }
  fail(Errc::invalid_argument, "'{}' is of another type than in a log", name);
}

/// 'r' or 'c' by what stands in the text, in any case; '?' when it says neither.
char major_of(std::string_view text) {
  const auto holds = [&](std::string_view word) {
    const auto same = [](char a, char b) { return (a | 0x20) == b; };
    return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
  };
  return holds("row") ? 'r' : holds("col") ? 'c' : '?';
}

/// The layout in three texts; nothing when one of them is missing or they make none.
std::optional<Layout> layout_of(const Json& problem) {
  std::array<char, 3> word{};
  for (std::size_t i = 0; const char* key : {"layout_a", "layout_b", "layout_c"}) {
    const auto text = member<std::string_view>(problem, key);
    if (!text) return std::nullopt;
    word[i++] = major_of(*text);
  }
  const auto at = find_word({word.data(), word.size()}, kGemmLayoutWords);
  return at ? std::optional(static_cast<Layout>(*at)) : std::nullopt;
}

class LogReader {
 public:
  LogReader(const ImportRequest& request, Gatherer& to) : request_(request), to_(to) {
    header_ = make_gemm(0, 0, 0, request.dtype, request.layout.value_or(Layout::rcr));
  }

  void line(std::string_view text, std::size_t number) {
    const std::size_t first = text.find_first_not_of(" \t");
    const std::string_view from = text.substr(std::min(first, text.size()));
    if (depth_ == 0) {
      if (from.starts_with("Shape ")) return shape(from, number);
      if (!from.starts_with("{")) return;
      block_.clear();
      begins_ = number;
      in_text_ = escaped_ = false;
    } else if (from.starts_with("Shape ")) {  // the block never ended: the next shape is no part of it
      to_.skip(begins_, "a JSON block that does not end");
      depth_ = 0;
      return shape(from, number);
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
    const Json root = Json::parse(block_, nullptr, /*allow_exceptions=*/false);
    if (!root.is_object()) return to_.skip(begins_, "a block that is no JSON");
    try {
      const auto name = member<std::string_view>(root, "name");
      const auto perf = member<const Json*>(root, "perf_result");
      if (!name || !perf) return to_.skip(begins_, "a block without name and perf_result");
      const double ms = member<double>(**perf, "latency(ms)").value_or(0);
      const double tflops = member<double>(**perf, "tflops(TFlops)").value_or(0);
      to_.add({.problem = problem_of(root),
               .kernel = *name,
               .time_us = 1000 * ms,
               .valid = ms > 0 && tflops > 0,
               .line = begins_});
    } catch (const Error& error) {
      to_.skip(begins_, error.what());
    }
  }

  /// The shape's problem with what the block says otherwise.
  GemmProblem problem_of(const Json& root) const {
    GemmProblem problem = header_;
    const auto about = member<const Json*>(root, "problem");
    if (!about) return problem;
    if (const auto dtype = member<std::string_view>(**about, "dtype_a"))
      problem = make_gemm(problem.m, problem.n, problem.k, parse<DType>(*dtype), problem.layout);
    problem.m = member<std::int64_t>(**about, "m").value_or(problem.m);
    problem.n = member<std::int64_t>(**about, "n").value_or(problem.n);
    problem.k = member<std::int64_t>(**about, "k").value_or(problem.k);
    if (const auto split = member<std::int64_t>(**about, "split_k"); split && *split > 1)
      problem.split_k = *split;
    problem.layout = layout_of(**about).value_or(problem.layout);
    return problem;
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

}  // namespace kscout
