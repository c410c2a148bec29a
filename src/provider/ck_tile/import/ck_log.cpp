// Reads the JSON of benchmarks, and logs of streaming benchmarks: `Shape <i>: M=.. N=.. K=.. dtype=..
// layout=..`, then JSON blocks.

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>

#include <rapidjson/reader.h>

#include "core/fail.h"
#include "core/json_fields.h"
#include "core/names.h"
#include "core/numbers.h"
#include "import/import.h"

namespace kscout {

char major_of(std::string_view text) {
  const auto holds = [&](std::string_view word) {
    const auto same = [](char a, char b) { return (a | 0x20) == b; };
    return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
  };
  return holds("row") ? 'r' : holds("col") ? 'c' : '?';
}

namespace {

/// A member of a benchmark, of a type for which `is` holds; `kind` is the type's name. Throws corrupt_data.
const Json& member_of(const Json& benchmark, const char* name, std::string_view kind,
                      bool (Json::*is)() const noexcept) {
  const auto found = benchmark.find(name);
  if (found == benchmark.end()) fail(Errc::corrupt_data, "a benchmark without '{}', {}", name, kind);
  if (!((*found).*is)())
    fail(Errc::corrupt_data, "a benchmark whose '{}' is {}, not {}", name, found->dump().substr(0, 40), kind);
  return *found;
}

/// Whether a benchmark states that no element of its result differs from 0: a number of them, or a flag.
bool is_all_zeros(const Json& benchmark) {
  const auto stated = benchmark.find("non_zero");
  return stated != benchmark.end() && (*stated == 0 || *stated == false);
}

/// `about`: the benchmark's kernel_config, whose name counts where the benchmark itself has no kernel_name.
/// The row's kernel points into them.
ForeignRow row_of(const Json& benchmark, const Json& about, DType dtype, Layout layout, std::int32_t repeats,
                  std::size_t result) {
  if (!benchmark.is_object()) fail(Errc::corrupt_data, "a benchmark that is no object");
  const auto size = [&](const char* name) {
    return member_of(benchmark, name, "a whole number", &Json::is_number_integer).get<std::int64_t>();
  };
  const bool named = benchmark.contains("kernel_name") || !about.is_object() || !about.contains("name");
  const Json& name = named ? member_of(benchmark, "kernel_name", "a text", &Json::is_string)
                           : member_of(about, "name", "a text", &Json::is_string);
  const bool valid =
      !benchmark.contains("is_valid") || member_of(benchmark, "is_valid", "true or false", &Json::is_boolean);
  // A failed benchmark may have no time.
  const double ms = valid || benchmark.contains("avg_time_ms")
                        ? member_of(benchmark, "avg_time_ms", "a number", &Json::is_number).get<double>()
                        : 0;
  return {.problem = make_gemm(size("m"), size("n"), size("k"), dtype, layout),
          .kernel = name.get_ref<const std::string&>(),
          .time_us = 1000 * ms,
          .repeats = repeats,
          .valid = valid && !is_all_zeros(benchmark) && ms > 0,
          .line = result};
}

}  // namespace

/// Reads `results` of the benchmark's JSON one kernel at a time, so memory does not grow with their number.
void read_ck_json(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to) {
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
        to.add(row_of(bench, about, dtype, layout, repeats, result));
      } catch (const Error& error) {
        to.skip(result, error.what());
      }
    }
  };
  bool results_first = true;
  const auto parsed = Json::parse(
      stream,
      [&](int depth, Json::parse_event_t event, Json& value) {
        if (event != Json::parse_event_t::object_end) return true;
        if (depth == 1 && value.contains("dtype")) {  // metadata
          try {
            dtype = parse<DType>(value.value("dtype", std::string(word(dtype))));
            layout = parse<Layout>(value.value("layout", std::string(word(layout))));
            repeats = value.value("repeat", 0);
          } catch (const Json::exception& error) {
            fail(Errc::corrupt_data, "{}: 'metadata': {}", file.string(), reason_of(error));
          }
          results_first = false;
        }
        if (depth != 2 || !value.contains("benchmarks")) return true;
        if (results_first) return true;  // postponed until the metadata give the types
        add(value);
        return false;
      },
      /*allow_exceptions=*/false);
  if (parsed.is_discarded()) fail(Errc::corrupt_data, "{}: no JSON; is it cut off?", file.string());
  for (const Json& one : parsed.value("results", Json::array())) {
    if (one.is_object()) add(one);
  }
}

namespace {

/// The word after `key=`; empty when the key is absent.
std::string_view value_of(std::string_view line, std::string_view key) {
  for (std::size_t at = 0; (at = line.find(key, at)) != std::string_view::npos; ++at) {
    if (at > 0 && line[at - 1] != ' ') continue;
    const std::string_view rest = line.substr(at + key.size());
    return rest.substr(0, rest.find_first_of(" ,"));
  }
  return {};
}

/// The contents of a block; absent members are empty. Texts point into the block.
struct ShapeBlock {
  std::optional<std::string_view> name, dtype;
  std::array<std::optional<std::string_view>, 3> layout;  ///< of A, B, C
  std::optional<std::int64_t> m, n, k, split_k;
  std::optional<double> ms, tflops;
  bool measured = false;        ///< has a perf_result
  std::string_view wrong_type;  ///< the first member whose type does not occur in a log
};

/// Turns events of the JSON reader into a ShapeBlock: stores only the members that a log's reader needs, and
/// copies nothing.
class ShapeBlockHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, ShapeBlockHandler> {
 public:
  explicit ShapeBlockHandler(ShapeBlock& to) : to_(to) {}

  bool Key(const char* text, rapidjson::SizeType size, bool) {
    const std::string_view key(text, size);
    member_ = Member::other;
    if (depth_ == 1) {
      object_ = key == "problem" ? Object::problem : key == "perf_result" ? Object::perf : Object::other;
      member_ = key == "name" ? Member::name : object_ != Object::other ? Member::object : Member::other;
    } else if (depth_ == 2 && object_ != Object::other) {
      for (const auto& [object, name, member] : kMembers) {
        if (object == object_ && name == key) member_ = member;
      }
    }
    key_ = key;
    return true;
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    const std::string_view value(text, size);
    switch (member_) {
      case Member::other:
        return true;
      case Member::name:
        to_.name = value;
        break;
      case Member::dtype:
        to_.dtype = value;
        break;
      case Member::layout_a:
      case Member::layout_b:
      case Member::layout_c:
        to_.layout[static_cast<std::size_t>(member_) - static_cast<std::size_t>(Member::layout_a)] = value;
        break;
      default:
        return wrong();
    }
    return taken();
  }
  bool Int64(std::int64_t value) {
    switch (member_) {
      case Member::m:
        to_.m = value;
        break;
      case Member::n:
        to_.n = value;
        break;
      case Member::k:
        to_.k = value;
        break;
      case Member::split_k:
        to_.split_k = value;
        break;
      default:
        return Double(static_cast<double>(value));
    }
    return taken();
  }
  bool Int(int value) { return Int64(value); }
  bool Uint(unsigned value) { return Int64(value); }
  bool Double(double value) {
    if (member_ == Member::other) return true;
    if (member_ != Member::ms && member_ != Member::tflops) return wrong();
    (member_ == Member::ms ? to_.ms : to_.tflops) = value;
    return taken();
  }
  bool Uint64(std::uint64_t value) { return Double(static_cast<double>(value)); }
  bool Bool(bool) { return wrong(); }
  bool Null() { return wrong(); }
  bool StartObject() {
    ++depth_;
    if (member_ != Member::object) return wrong();
    to_.measured |= object_ == Object::perf;
    return taken();
  }
  bool EndObject(rapidjson::SizeType) {
    --depth_;
    return true;
  }
  /// No expected member is an array, so an array has the wrong type.
  bool StartArray() {
    ++depth_;
    return wrong();
  }
  bool EndArray(rapidjson::SizeType) {
    --depth_;
    return true;
  }

 private:
  enum class Object : std::uint8_t { other, problem, perf };
  enum class Member : std::uint8_t {
    other,
    name,
    object,
    dtype,
    layout_a,
    layout_b,
    layout_c,
    m,
    n,
    k,
    split_k,
    ms,
    tflops,
  };
  struct Known {
    Object object;
    std::string_view name;
    Member member;
  };
  static constexpr Known kMembers[] = {
      {Object::problem, "m", Member::m},
      {Object::problem, "n", Member::n},
      {Object::problem, "k", Member::k},
      {Object::problem, "split_k", Member::split_k},
      {Object::problem, "dtype_a", Member::dtype},
      {Object::problem, "layout_a", Member::layout_a},
      {Object::problem, "layout_b", Member::layout_b},
      {Object::problem, "layout_c", Member::layout_c},
      {Object::perf, "latency(ms)", Member::ms},
      {Object::perf, "tflops(TFlops)", Member::tflops},
  };

  bool taken() {
    member_ = Member::other;
    return true;
  }
  bool wrong() {
    if (member_ != Member::other && to_.wrong_type.empty()) to_.wrong_type = key_;
    return taken();
  }

  ShapeBlock& to_;
  int depth_ = 0;
  Object object_ = Object::other;
  Member member_ = Member::other;  ///< member that the next value belongs to
  std::string_view key_;
};

/// The layout from three texts; nothing when one of them is missing or they form none.
std::optional<Layout> layout_of(const ShapeBlock& block) {
  std::array<char, 3> word{};
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (!block.layout[i]) return std::nullopt;
    word[i] = major_of(*block.layout[i]);
  }
  const auto at = find_word({word.data(), word.size()}, kGemmLayoutWords);
  return at ? std::optional(static_cast<Layout>(*at)) : std::nullopt;
}

class LogReader {
 public:
  LogReader(const ImportRequest& request, ImportTable& to) : request_(request), to_(to) {
    header_ = nameless();
  }

  void line(std::string_view text, std::size_t number) {
    const std::size_t first = text.find_first_not_of(" \t");
    const std::string_view from = text.substr(std::min(first, text.size()));
    if (depth_ == 0) {
      if (from.starts_with("Shape ")) return shape(from, number);
      if (!from.starts_with("{")) return;
      block_.clear();
      begins_ = number;
    } else if (from.starts_with("Shape ")) {  // the block never ended: the next shape does not belong to it
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
  /// Counts braces outside of strings. A string ends with its line; otherwise the block is invalid JSON, but
  /// its end is still found and the text after it is read.
  void count(std::string_view text) {
    constexpr auto none = std::string_view::npos;
    if (text.find('{') == none && text.find('}') == none) return;  // true of most lines
    bool in_text = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (in_text) {
        if (c == '\\') ++i;
        in_text = c != '"';
      } else if (c == '"') {
        in_text = true;
      } else if (c == '{') {
        ++depth_;
      } else if (c == '}' && --depth_ == 0) {
        return;
      }
    }
  }

  void shape(std::string_view text, std::size_t number) {
    header_ = nameless();  // blocks after an unreadable shape line do not belong to the previous shape
    const auto m = number_in<std::int64_t>(value_of(text, "M=")),
               n = number_in<std::int64_t>(value_of(text, "N=")),
               k = number_in<std::int64_t>(value_of(text, "K="));
    if (!m || !n || !k) return to_.skip(number, "a shape line without M, N and K");
    try {
      const std::string_view dtype = value_of(text, "dtype="), layout = value_of(text, "layout=");
      header_ = make_gemm(*m, *n, *k, dtype.empty() ? signature_of(header_).dtype_a : parse<DType>(dtype),
                          layout.empty() ? signature_of(header_).layout : parse<Layout>(layout));
    } catch (const Error& error) {
      to_.skip(number, error.what());
    }
  }

  void block() {
    ShapeBlock members;
    ShapeBlockHandler handler(members);
    rapidjson::InsituStringStream stream(block_.data());
    constexpr unsigned kFlags = rapidjson::kParseInsituFlag | rapidjson::kParseIterativeFlag |
                                rapidjson::kParseFullPrecisionFlag | rapidjson::kParseValidateEncodingFlag;
    if (json_.Parse<kFlags>(stream, handler).IsError()) return to_.skip(begins_, "a block that is no JSON");
    if (!members.wrong_type.empty()) {
      return to_.skip(begins_, fmt::format("'{}' is of another type than in a log", members.wrong_type));
    }
    if (!members.name || !members.measured) return to_.skip(begins_, "a block without name and perf_result");
    const double ms = members.ms.value_or(0);
    try {
      to_.add({.problem = problem_of(members),
               .kernel = *members.name,
               .time_us = 1000 * ms,
               .valid = ms > 0 && members.tflops.value_or(0) > 0,
               .line = begins_});
    } catch (const Error& error) {
      to_.skip(begins_, error.what());
    }
  }

  /// A problem without sizes (all below 0): a block must then give every size.
  Problem nameless() const {
    return make_gemm(-1, -1, -1, request_.dtype, request_.layout.value_or(Layout::rcr));
  }

  /// The shape's problem, with the members of the block replacing its values.
  Problem problem_of(const ShapeBlock& members) const {
    const Signature types = signature_of(header_);
    Problem problem = members.dtype ? Problem(make_gemm(0, 0, 0, parse<DType>(*members.dtype))) : header_;
    problem.set("m", members.m.value_or(header_["m"]));
    problem.set("n", members.n.value_or(header_["n"]));
    problem.set("k", members.k.value_or(header_["k"]));
    if (members.split_k.value_or(1) > 1) problem.set("split_k", *members.split_k);
    problem.set("layout", static_cast<std::int64_t>(layout_of(members).value_or(types.layout)));
    return problem;
  }

  const ImportRequest& request_;
  ImportTable& to_;
  Problem header_;
  std::string block_;
  rapidjson::Reader json_;
  std::size_t begins_ = 0;
  int depth_ = 0;
};

}  // namespace

void read_ck_log(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to) {
  if (request.op != Op::gemm) fail(Errc::invalid_argument, "ck-log holds GEMMs: give --op gemm");
  LogReader reader(request, to);
  each_line(file, [&](const LogLine& line) { reader.line(line.text, line.number); });
  reader.end();
}

}  // namespace kscout
