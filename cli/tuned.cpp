#include "tuned.h"

#include <fmt/format.h>

#include "core/fail.h"
#include "core/files.h"
#include "export/miopen_find_db.h"
#include "export/tuned_gemms.h"

namespace kscout::cli {

namespace {

/// The rows of all files; git version and validators are those of the first file that has some.
TunedGemms read_all(const std::vector<std::string>& files) {
  TunedGemms all;
  for (const std::string& file : files) {
    TunedGemms one = read_tuned_gemms(read_plain_text(file), file);
    all.rows.insert(all.rows.end(), one.rows.begin(), one.rows.end());
    all.left_out.insert(all.left_out.end(), one.left_out.begin(), one.left_out.end());
    if (all.validators.empty()) all.validators = one.validators;
    if (!all.git_version.empty() && !one.git_version.empty() && all.git_version != one.git_version)
      fail(Errc::invalid_argument,
           "--tuned {}: of hipBLASLt {}, an earlier file of {}; give files of one build", file,
           one.git_version, all.git_version);
    if (all.git_version.empty()) all.git_version = one.git_version;
  }
  return all;
}

std::string report(TunedGemms read, TunedTable table) {
  read.left_out.insert(read.left_out.end(), table.left_out.begin(), table.left_out.end());
  if (table.written == 0)
    fail(Errc::unsupported, "no tuned GEMM can be written; left out: {}", skipped_lines_text(read.left_out));
  fmt::print(stderr, "{} tuned GEMMs; left out: {}\n", table.written, skipped_lines_text(read.left_out));
  return std::move(table.text);
}

}  // namespace

std::string tuned_tunableop(const std::vector<std::string>& files, std::vector<std::string> validators) {
  TunedGemms read = read_all(files);
  if (validators.empty()) validators = read.validators;
  if (validators.empty())
    fail(Errc::invalid_argument,
         "--tuned: no file has Validator lines, which PyTorch compares; give a file that has them with "
         "--validators");
  TunedTable table = tuned_for_tunableop(read.rows, validators);
  return report(std::move(read), std::move(table));
}

std::string tuned_hipblaslt(const std::vector<std::string>& files) {
  TunedGemms read = read_all(files);
  if (read.git_version.empty())
    fail(Errc::invalid_argument,
         "--tuned: no file tells the git version of hipBLASLt, which the library compares; it is in a line "
         "'Git Version: ...' of its files, or behind '-' in PyTorch's Validator,HIPBLASLT_VERSION");
  TunedTable table = tuned_for_hipblaslt(read.rows, read.git_version);
  return report(std::move(read), std::move(table));
}

std::string tuned_find_db(const std::vector<std::string>& files) {
  FindDb db = read_find_db(read_plain_text(files.front()), files.front());
  std::size_t changed = 0;
  for (std::size_t i = 1; i < files.size(); ++i)
    changed += db.merge(read_find_db(read_plain_text(files[i]), files[i]));
  fmt::print(stderr, "{} problems, {} solvers; {} added or replaced by later files\n", db.problems(),
             db.entries(), changed);
  return db.text();
}

}  // namespace kscout::cli
