#include "generate/template.h"

#include <algorithm>

#include "core/fail.h"
#include "core/files.h"
#include "core/name_rules.h"
#include "family/declared.h"
#include "generate/project.h"

namespace kscout {

namespace {

std::string with_name(std::string_view text, const std::string& name) {
  constexpr std::string_view kMark = "@NAME@";
  std::string result(text);
  for (std::size_t at = 0; (at = result.find(kMark, at)) != std::string::npos; at += name.size())
    result.replace(at, kMark.size(), name);
  return result;
}

}  // namespace

std::vector<std::filesystem::path> write_template(const std::filesystem::path& folder,
                                                  const std::string& name, Op op) {
  const std::string source = fmt::format("src/generate/template/{}.c", word(op));
  if (std::ranges::find(kGeneratedFiles, source, &EmbeddedFile::name) == kGeneratedFiles.end())
    fail(Errc::unsupported, "--template: none for {}; take gemm or conv_fwd", word(op));
  check_name("--name", name);
  const std::string family =
      with_name(embedded_file(kGeneratedFiles, fmt::format("src/generate/template/{}.toml", word(op))), name);
  declare_provider(family, fmt::format("--name {}", name));  // throws for a bad name
  const std::vector<std::pair<std::filesystem::path, std::string>> files = {
      {folder / (name + ".c"), with_name(embedded_file(kGeneratedFiles, source), name)},
      {folder / (name + std::string(kFamilySuffix)), family},
      {folder / "kscout" / "kernel_library.h",
       std::string(embedded_file(kGeneratedFiles, "include/kscout/kernel_library.h"))},
  };
  std::vector<std::filesystem::path> written;
  for (const auto& [file, text] : files) {
    if (!is_absent(file))
      fail(Errc::invalid_argument, "--template: {} exists; name another --out", file.string());
  }
  for (const auto& [file, text] : files) {
    std::filesystem::create_directories(file.parent_path());
    write_file_atomically(file, text);
    written.push_back(file);
  }
  return written;
}

}  // namespace kscout
