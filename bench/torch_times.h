#pragma once
/// \file
/// PyTorch's times of GEMMs and grouped GEMMs, as bench/torch_times.py wrote them.
///
///     const TorchTimes torch = read_torch_times("torch.csv");
///     const double us = torch.of(problem);
#include <charconv>
#include <string>
#include <system_error>
#include <unordered_map>

#include "bench_program.h"
#include "core/csv.h"
#include "op/problem_sets.h"

namespace kscout::bench {

class TorchTimes {
 public:
  void add(const Problem& problem, double us) { times_[problem] = us; }
  /// Microseconds; NaN for a problem that was not timed.
  double of(const Problem& problem) const {
    const auto found = times_.find(problem);
    return found == times_.end() ? kUnknown : found->second;
  }

 private:
  std::unordered_map<Problem, double> times_;  // weights are not part of a problem's identity
};

/// An empty name gives no times. Throws the errors of read_problem_text() and read_csv(), and corrupt_data.
inline TorchTimes read_torch_times(const std::string& file) {
  TorchTimes times;
  if (file.empty()) return times;
  const CsvSheet sheet = read_csv(read_problem_text(file), file);
  const auto problem = sheet.column("problem"), us = sheet.column("torch_us");
  if (!problem || !us) fail(Errc::corrupt_data, "{}: no columns problem and torch_us", file);
  for (const auto& row : sheet.rows) {
    const std::string& text = row[*us];
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value > 0))
      fail(Errc::corrupt_data, "{}: torch_us is '{}', not a time above 0", file, text);
    times.add(parse_any_problem(row[*problem]), value);
  }
  return times;
}

}  // namespace kscout::bench
