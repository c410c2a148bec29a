#include "select/reference_times.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "core/csv.h"
#include "core/fail.h"
#include "core/files.h"
#include "core/names.h"
#include "core/numbers.h"
#include "op/problem_sets.h"

namespace kscout {

namespace {

constexpr const char* kColumns[] = {"problem", "config", "cache", "time_us", "chosen"};

/// Reads a row's cells; `where` names the row in errors.
class Row {
 public:
  Row(const CsvSheet& sheet, const std::vector<std::string>& cells, std::string where)
      : sheet_(sheet), cells_(cells), where_(std::move(where)) {}

  const std::string& cell(const char* column) const {
    const auto at = sheet_.column(column);
    if (!at) fail(Errc::corrupt_data, "{}: column '{}' is missing", where_, column);
    return cells_[*at];
  }
  Problem problem() const {
    const auto problems = parse_any_problems(cell("problem"), where_);
    if (problems.size() != 1) fail(Errc::corrupt_data, "{}: '{}' is no problem", where_, cell("problem"));
    return problems.front();
  }
  KernelConfig config(const Problem& problem, const Provider& provider) const {
    const NamedConfig named = provider.parse(cell("config"));
    if (named.signature != signature_of(problem))
      fail(Errc::corrupt_data, "{}: config {} is not for {}", where_, cell("config"), cell("problem"));
    return named.config;
  }
  double time_us() const {
    const double us = std::strtod(cell("time_us").c_str(), nullptr);
    if (!(us > 0) || !std::isfinite(us))
      fail(Errc::corrupt_data, "{}: time_us '{}': a number above 0", where_, cell("time_us"));
    return us;
  }

 private:
  const CsvSheet& sheet_;
  const std::vector<std::string>& cells_;
  std::string where_;
};

}  // namespace

const ReferenceTime& ReferenceProblem::fastest() const noexcept {
  return *std::ranges::min_element(times, {}, &ReferenceTime::time_us);
}

double ReferenceProblem::efficiency() const noexcept { return fastest().time_us / times[chosen].time_us; }

std::vector<ReferenceProblem> read_reference_times(const std::filesystem::path& model,
                                                   const Provider& provider) {
  const std::filesystem::path file = model / kReferenceTimesFile;
  if (!std::filesystem::exists(file)) {
    fail(Errc::not_found,
         "{} has no {}: write it with kscout evaluate --model {} --data DATA.parquet --store, from "
         "measurements of the model's device",
         model.string(), kReferenceTimesFile, model.string());
  }
  const CsvSheet sheet = read_csv(read_file(file), file.string());
  std::vector<ReferenceProblem> references;
  std::vector<bool> has_choice;
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    const std::string where = fmt::format("{}: row {}", file.string(), i + 1);
    try {
      const Row row(sheet, sheet.rows[i], where);
      const Problem problem = row.problem();
      if (references.empty() || references.back().problem != problem) {
        references.push_back({problem, parse<CacheState>(row.cell("cache")), {}, 0});
        has_choice.push_back(false);
      }
      ReferenceProblem& last = references.back();
      if (row.cell("chosen") == "1") {
        last.chosen = last.times.size();
        has_choice.back() = true;
      }
      last.times.push_back({row.config(problem, provider), row.time_us()});
    } catch (const Error& error) {
      if (error.code() == Errc::corrupt_data) throw;
      fail(Errc::corrupt_data, "{}: {}", where, error.what());
    }
  }
  if (references.empty() || std::ranges::find(has_choice, false) != has_choice.end())
    fail(Errc::corrupt_data, "{}: a problem without a chosen config, or no problem at all", file.string());
  return references;
}

void write_reference_times(const std::filesystem::path& model, std::span<const ReferenceProblem> references) {
  std::string text;
  for (const char* const column : kColumns) text += (text.empty() ? "" : ",") + std::string(column);
  text += '\n';
  for (const ReferenceProblem& one : references) {
    const std::string problem = print(one.problem);
    for (std::size_t i = 0; i < one.times.size(); ++i) {
      append_csv(text, problem);
      text += fmt::format(",{},{},{:.4g},{}\n", config_name(signature_of(one.problem), one.times[i].config),
                          word(one.cache), one.times[i].time_us, i == one.chosen ? 1 : 0);
    }
  }
  write_file_atomically(model / kReferenceTimesFile, text);
}

}  // namespace kscout
