#include <bit>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <kscout/error.h>

#include "expr_reference.h"

namespace kscout::expr {
namespace {

using namespace expr_reference;

Scope scope_of_names() {
  Scope scope;
  for (const std::string& name : names()) scope.add_value(name);
  return scope;
}

/// Bits, with all NaN alike: which of two NaNs an addition passes on is the machine's choice.
std::uint64_t bits(double x) { return std::isnan(x) ? 1 : std::bit_cast<std::uint64_t>(x); }

RC_GTEST_PROP(ExprProperty, ColumnsEqualSingleRowsAndTheTreeWalk, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const std::size_t formulas = 1 + random() % 6;
  const std::size_t rows =
      *rc::gen::element<std::size_t>(1, 2, 127, 128, 129, 300);  // around the block of 128
  std::vector<Tree> trees;
  std::vector<Formula> texts;
  for (std::size_t f = 0; f < formulas; ++f) {
    trees.push_back(random_tree(random, 1 + static_cast<int>(random() % 5)));
    texts.push_back({fmt::format("f{}", f), text_of(trees.back())});
  }
  const Program program = Program::compile(texts, scope_of_names());
  std::vector<std::vector<double>> columns(names().size());
  std::vector<bool> uniform(names().size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    uniform[i] = random() % 3 == 0;
    for (std::size_t r = 0; r < rows; ++r)
      columns[i].push_back(uniform[i] && r ? columns[i][0] : random_number(random));
  }
  const auto columns_from = [&](std::size_t row, bool single) {
    std::vector<Column> bound;
    for (const Input& input : program.inputs()) {
      const std::size_t i = static_cast<std::size_t>(input.name[0] - 'a');
      bound.push_back({columns[i].data() + row, single || uniform[i] ? 0u : 1u});
    }
    return bound;
  };
  Scratch scratch;
  std::vector<double> out(formulas * rows), one(formulas);
  program.evaluate(columns_from(0, false), rows, out, scratch);
  for (std::size_t r = 0; r < rows; ++r) {
    program.evaluate(columns_from(r, true), 1, one, scratch);
    double values[4];
    for (std::size_t i = 0; i < 4; ++i) values[i] = columns[i][r];
    for (std::size_t f = 0; f < formulas; ++f) {
      RC_ASSERT(bits(out[f * rows + r]) == bits(one[f]));
      const double expected = value_of(trees[f], values);
      if (!same(one[f], expected)) {
        RC_FAIL(fmt::format("{} = {}, the tree walk says {} (a={} b={} c={} d={})", texts[f].text, one[f],
                            expected, values[0], values[1], values[2], values[3]));
      }
    }
  }
}

RC_GTEST_PROP(ExprProperty, AnyTextCompilesOrIsRefused, ()) {
  static const std::vector<std::string> kParts = {"a",   "b ",   "min",  "(",  ")",     "[",   "]",  ",",
                                                  "in ", "not ", "and ", "1",  "2.5e3", "'x'", "==", "<",
                                                  "-",   "+",    "%",    "if", " ",     "\n",  ".",  "\xff"};
  const auto parts = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(kParts));
  std::string text;
  for (const std::string& part : parts) text += part;
  try {
    const Program program = Program::compile({{"f", text}}, scope_of_names());
    RC_ASSERT(program.size() == 1u);
  } catch (const Error& error) {
    RC_ASSERT(error.code() == Errc::invalid_argument);
    RC_ASSERT(std::string(error.what()).find("\n  ") != std::string::npos);
  }
}

/// What a value depends on is what changes it: a value that does not depend on an input keeps its bits when
/// the input changes.
RC_GTEST_PROP(ExprProperty, ValuesFollowTheirDependencies, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const Source sources[] = {Source::problem, Source::device, Source::signature, Source::traits};
  Scope scope;
  for (std::size_t i = 0; i < 4; ++i) scope.add_value(names()[i], sources[i]);
  const Program program = Program::compile({{"f", text_of(random_tree(random, 4))}}, scope);
  const std::size_t changed = random() % 4;
  if (program.depends(0).on(sources[changed])) return;
  double before[4], after[4];
  for (std::size_t i = 0; i < 4; ++i) {
    before[i] = random_number(random);
    after[i] = i == changed ? random_number(random) : before[i];
  }
  const auto evaluate = [&](const double* values) {
    Inputs inputs(program);
    for (std::size_t i = 0; i < 4; ++i) inputs.set_value(names()[i], values[i]);
    return values_of(program, inputs).front();
  };
  RC_ASSERT(bits(evaluate(before)) == bits(evaluate(after)));
}

/// Error in units of the last place of the correctly rounded result; the reference has 64 bits of mantissa.
double ulps(double got, long double exact) {
  const auto rounded = static_cast<double>(exact);
  const double spacing = std::nextafter(std::abs(rounded), INFINITY) - std::abs(rounded);
  return static_cast<double>(std::abs(static_cast<long double>(got) - exact) /
                             static_cast<long double>(spacing));
}

RC_GTEST_PROP(ExprProperty, LogarithmsAreNearlyCorrectlyRounded, ()) {
  if (std::numeric_limits<long double>::digits < 64)
    return;  // the reference must know more bits than a double
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  for (int i = 0; i < 500; ++i) {
    double x = std::bit_cast<double>(random() & 0x7fffffffffffffffULL);  // every exponent
    if (i % 3 == 1)
      x = 1 + (static_cast<double>(random() >> 11) * 0x1p-53 - 0.5) *
                  std::ldexp(1, -static_cast<int>(random() % 50));
    if (i % 3 == 2) x = static_cast<double>(1 + random() % 1000000);
    if (!std::isfinite(x) || x <= 0 || x == 1) continue;
    RC_ASSERT(ulps(formula::log2(x), std::log2(static_cast<long double>(x))) < 0.6);
    RC_ASSERT(ulps(formula::ln(x), std::log(static_cast<long double>(x))) < 0.6);
  }
}

TEST(Logarithms, PowersOfTwoAndEdgesAreExact) {
  for (int e = -1074; e <= 1023; ++e) EXPECT_EQ(formula::log2(std::ldexp(1, e)), e);
  EXPECT_EQ(formula::ln(1), 0);
  EXPECT_EQ(formula::log2(0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(formula::ln(-0.0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(formula::log2(std::numeric_limits<double>::infinity()), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(formula::log2(-1)));
  EXPECT_TRUE(std::isnan(formula::ln(std::nan(""))));
  // Fixed bits: another machine or compiler that gives others breaks every model.
  EXPECT_EQ(std::bit_cast<std::uint64_t>(formula::log2(4095)),
            std::bit_cast<std::uint64_t>(0x1.7ffd1d3ffd1cep+3))
      << fmt::format("{:a}", formula::log2(4095));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(formula::ln(3)), std::bit_cast<std::uint64_t>(0x1.193ea7aad030bp+0))
      << fmt::format("{:a}", formula::ln(3));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(formula::log2(1.0000001)),
            std::bit_cast<std::uint64_t>(0x1.35d0fea5fccb7p-23))
      << fmt::format("{:a}", formula::log2(1.0000001));
}

}  // namespace
}  // namespace kscout::expr
