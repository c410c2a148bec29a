// Fills the template of a page.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "report/report.h"

namespace kscout {

extern const std::span<const EmbeddedFile> kReportFiles;

namespace {

/// The bytes of an embedded file; empty when this program was built without it.
std::string_view page_part(std::string_view name) {
  for (const EmbeddedFile& file : kReportFiles) {
    if (file.name.ends_with(name)) return file.bytes;
  }
  return {};
}

/// Text as it may stand between the tags of HTML.
std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

/// JSON without the character that could end its element, or begin a comment of HTML.
std::string json_for_html(std::string_view json) {
  std::string out;
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string report_page(std::string_view json) {
  const std::string_view packed = page_part("plot_library.js.gz");
  if (packed.empty()) {
    fail(Errc::unsupported,
         "this kscout was built without the library that draws plots: install the wheel vl-convert-python "
         "(./dev setup in a clone), then configure and build again");
  }
  const std::string library = gunzip(packed, "the embedded library of plots");
  const std::string title = Json::parse(json).at("title").get<std::string>();
  // Each mark stands in the template once; what is filled in is not searched for marks.
  std::string page;
  std::string_view rest = page_part("page.html");
  while (!rest.empty()) {
    const std::size_t begin = rest.find("{{"), end = rest.find("}}");
    page += rest.substr(0, begin);
    if (begin == rest.npos) break;
    const std::string_view mark = rest.substr(begin + 2, end - begin - 2);
    if (mark == "title") {
      page += html_text(title);
    } else if (mark == "data") {
      page += json_for_html(json);
    } else if (mark == "library") {
      page += library;
    } else {
      page += page_part(mark);
    }
    rest.remove_prefix(end + 2);
  }
  return page;
}

}  // namespace kscout
