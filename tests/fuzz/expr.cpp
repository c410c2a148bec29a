/// \file
/// Fuzzes formulas with any text: each compiles or is rejected with an Error. A compiled one gives equal bits
/// for a row of a column and for the row alone.
#include "expr/expr.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include <kscout/error.h>

namespace {

using namespace kscout;

constexpr std::string_view kWords[] = {"mem", "compv3", "compv4"};
constexpr Axis kAxes[] = {{"tile_m", "1", ""}, {"tile_n", "1", ""}, {"pipeline", "1", "", kWords}};
constexpr ConfigSpace kSpace{"toy", Op::gemm, kAxes};

const expr::Scope& scope() {
  static const expr::Scope instance = [] {
    static const expr::Formula shared[] = {{"area", "c.tile_m * c.tile_n"}, {"loop", "loop + 1"}};
    expr::Scope made;
    made.add_problem(kscout::problem_space(kscout::Op::gemm));
    made.add_record<Device>("d");
    made.add_axes(kSpace, "c");
    made.add_formulas(shared);
    return made;
  }();
  return instance;
}

std::uint64_t bits(double x) { return std::isnan(x) ? 1 : std::bit_cast<std::uint64_t>(x); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  expr::Program program;
  try {
    program =
        expr::Program::compile({{"f", std::string(reinterpret_cast<const char*>(data), size)}}, scope());
  } catch (const Error& error) {
    if (error.code() == Errc::invalid_argument) return 0;
    throw;
  }
  constexpr double kValues[] = {0, 128, -1.5, 1e300, std::numeric_limits<double>::quiet_NaN()};
  constexpr std::size_t kRows = std::size(kValues);
  const std::size_t inputs = program.inputs().size();
  std::vector<double> values(inputs * kRows);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = kValues[(i * 3 + i / kRows) % kRows];
  std::vector<expr::Column> columns, row(inputs);
  for (std::size_t i = 0; i < inputs; ++i) columns.push_back({values.data() + i * kRows, 1});
  double all[kRows];
  expr::Scratch scratch;
  program.evaluate(columns, kRows, all, scratch);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t i = 0; i < inputs; ++i) row[i] = {values.data() + i * kRows + r, 0};
    double one = 0;
    program.evaluate(row, 1, std::span(&one, 1), scratch);
    if (bits(one) != bits(all[r])) {
      std::fprintf(stderr, "row %zu: %a in the column, %a alone\n", r, all[r], one);
      std::abort();
    }
  }
  return 0;
}
