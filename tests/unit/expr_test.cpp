#include "expr/expr.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "expr/column_kernels.h"
#include "expr/operations.h"

namespace kscout::expr {
namespace {

constexpr std::string_view kPipelines[] = {"mem", "compv3", "compv4", "compv5"};
constexpr Axis kAxes[] = {{"tile_m", "elements", "rows"},
                          {"tile_n", "elements", "columns"},
                          {"pipeline", "1", "which", kPipelines}};
constexpr ConfigSpace kSpace{"toy", Op::gemm, kAxes};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Scope full_scope() {
  Scope scope;
  scope.add_problem(problem_space(Op::gemm));
  scope.add_record<Signature>("s");
  scope.add_record<Device>("d");
  scope.add_record<Traits>("t");
  scope.add_axes(kSpace, "c");
  scope.add_value("x");
  return scope;
}

/// The value of one formula for a problem of 100 x 64 x 32 on an unknown gfx942 under tile 16 x 32, compv4.
double value_of(const std::string& text, double x = 0) {
  const Program program = Program::compile({{"f", text}}, full_scope());
  Inputs inputs(program);
  inputs.set("p", make_gemm(100, 64, 32, DType::bf16, Layout::rrr));
  inputs.set("s", signature_of(make_gemm(100, 64, 32, DType::bf16, Layout::rrr)));
  Device device;
  device.arch = "gfx942";
  device.cores = 8;
  inputs.set("d", device);
  KernelConfig config(kSpace);
  config.set("tile_m", 16);
  config.set("tile_n", 32);
  config.set("pipeline", 2);
  inputs.set("c", config);
  inputs.set_value("x", x);
  return values_of(program, inputs).front();
}

std::string error_of(const std::string& text) {
  try {
    Program::compile({{"f", text}}, full_scope());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Expr, OperatorsBindAsInArithmetic) {
  EXPECT_EQ(value_of("1 + 2 * 3 - 4 / 2"), 5);
  EXPECT_EQ(value_of("(1 + 2) * 3"), 9);
  EXPECT_EQ(value_of("2 - 3 - 4"), -5);
  EXPECT_EQ(value_of("-2 * -3"), 6);
  EXPECT_EQ(value_of("1 + 1 == 2 and not 3 < 2 or 0"), 1);
  EXPECT_EQ(value_of("1 or 1 and 0"), 1);
  EXPECT_EQ(value_of("not 1 == 2"), 1);
  EXPECT_EQ(value_of("1e3 + .5"), 1000.5);
  EXPECT_EQ(value_of("3 > 2") + value_of("3 >= 3") + value_of("2 > 3"), 2);
}

TEST(Expr, RemainderIsNeverNegative) {
  EXPECT_EQ(value_of("7 % 4"), 3);
  EXPECT_EQ(value_of("-7 % 4"), 1);
  EXPECT_EQ(value_of("-7 % -4"), 1);
  EXPECT_EQ(value_of("7.5 % 2"), 1.5);
  EXPECT_EQ(value_of("-7.5 % 2"), 0.5);
  EXPECT_FALSE(
      std::signbit(value_of("-7.5 % 2.5")));  // a remainder of 0 is never -0, also when fmod finds it
  EXPECT_FALSE(std::signbit(value_of("-8 % 4")));
  EXPECT_TRUE(std::isnan(value_of("7 % 0")));
  EXPECT_EQ(value_of("9007199254740994 % 4"), 2);  // beyond 2^53: fmod
}

TEST(Expr, FunctionsComputeWhatTheySay) {
  EXPECT_EQ(value_of("min(3, 1, 2) + 10 * max(3, 1, 2)"), 31);
  EXPECT_EQ(value_of("ceil_div(p.m, c.tile_m)"), 7);
  EXPECT_EQ(value_of("ceil(1.2) + floor(-1.2) + abs(-4)"), 4);
  EXPECT_EQ(value_of("log2(1024)"), 10);
  EXPECT_NEAR(value_of("ln(10)"), 2.302585092994046, 1e-15);
  EXPECT_EQ(value_of("if(p.m > 50, 1, 2) + if(p.m > 500, 10, 20)"), 21);
}

TEST(Expr, NamesMayBeBareWhileUnambiguous) {
  EXPECT_EQ(value_of("m + c.tile_m"), 116);
  EXPECT_NE(error_of("tile_m").find("ambiguous: write one of t.tile_m, c.tile_m"), std::string::npos)
      << error_of("tile_m");
}

TEST(Expr, WordsCompareWithTheirOwnList) {
  EXPECT_EQ(value_of("c.pipeline == 'compv4'"), 1);
  EXPECT_EQ(value_of("'mem' != c.pipeline"), 1);
  EXPECT_EQ(value_of("c.pipeline in ['mem', \"compv4\"]"), 1);
  EXPECT_EQ(value_of("c.pipeline not in ['mem', 'compv5']"), 1);
  EXPECT_EQ(value_of("p.dtype_a == 'bf16' and p.layout == 'rrr' and s.dtype_a == p.dtype_a"), 1);
  EXPECT_EQ(value_of("d.arch == 'gfx942'"), 1);
  EXPECT_EQ(value_of("d.arch in ['gfx90a', 'gfx950']"), 0);
  EXPECT_EQ(value_of("d.isa == 'avx2'"), 0) << "an unknown text equals nothing";
  EXPECT_EQ(value_of("d.isa != 'avx2'"), 0) << "nor is it known to differ";
}

TEST(Expr, UnknownValuesFollowTheRules) {
  EXPECT_TRUE(std::isnan(value_of("x + 1", kNan)));
  EXPECT_TRUE(std::isnan(value_of("max(x, 1)", kNan)));
  EXPECT_TRUE(std::isnan(value_of("min(1, x)", kNan)));
  for (const auto* text :
       {"x < 1", "x >= 1", "x == x", "x != 1", "x in [1]", "x not in [1]", "1 and x", "x or 0"}) {
    EXPECT_EQ(value_of(text, kNan), 0) << text;
  }
  EXPECT_EQ(value_of("not x", kNan), 1);
  EXPECT_EQ(value_of("if(x, 1, 2)", kNan), 2);
  EXPECT_EQ(value_of("known(x)", kNan), 0);
  EXPECT_EQ(value_of("known(x)", 0), 1);
  EXPECT_EQ(value_of("known(d.l2_bytes)"), 0);
}

TEST(Expr, ErrorsPointAtThePlace) {
  EXPECT_EQ(error_of("1 + c.tile_k"),
            "formula 'f': unknown name 'c.tile_k'; did you mean 'c.tile_m'? (one of: c.tile_m, c.tile_n, "
            "c.pipeline)\n"
            "  1 + c.tile_k\n"
            "      ^");
  EXPECT_EQ(
      error_of("1 +\n  (2 * )"),
      "formula 'f' line 2: expected a number, a name, a word or '(', found ')'\n    (2 * )\n         ^");
  const std::pair<const char*, const char*> cases[] = {
      {"", "is empty"},
      {"1 = 2", "compare with '=='"},
      {"1 && 2", "write 'and'"},
      {"1 2", "unexpected '2'"},
      {"1 < 2 < 3", "do not chain"},
      {"flor(1)", "did you mean 'floor'"},
      {"if(1, 2)", "if() takes 3 values"},
      {"abs(1, 2)", "abs() takes 1 value\n"},
      {"min()", "min() takes 2 or more values"},
      {"min(1)", "min() takes 2 or more values"},
      {"c.pipeline == 'compv9'", "unknown word of c.pipeline 'compv9'; did you mean 'compv3'"},
      {"'mem'", "stands alone"},
      {"'mem' == 'mem'", "stands alone"},
      {"c.tile_m == 'mem'", "stands alone"},
      {"1 + 'mem'", "stands alone"},
      {"d.arch + 1", "is a text"},
      {"c.pipeline == p.layout", "hold different words"},
      {"'mem", "never closed"},
      {"3tiles", "runs into"},
      {"1e999", "does not fit"},
      {"x in []", "expected a number"},
      {"x not 1", "begins 'not in'"},
      {"a\x01", "no formula contains"},
      {"and", "found 'and'"},
      {"1 == not 2", "in brackets"},
  };
  for (const auto& [text, part] : cases)
    EXPECT_NE(error_of(text).find(part), std::string::npos) << error_of(text);
}

TEST(Expr, LimitsHold) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '(') + "1" + std::string(depth, ')');
  };
  EXPECT_EQ(error_of(nested(kMaxDepth)), "");
  EXPECT_NE(error_of(nested(kMaxDepth + 1)).find("deeper than 64"), std::string::npos);
  EXPECT_NE(error_of(std::string(100000, '-') + "1").find("bytes; the limit is"), std::string::npos);
  EXPECT_NE(error_of(std::string(1000, '-') + "1").find("deeper than 64"), std::string::npos);
  EXPECT_EQ(error_of("1" + std::string(40000, ' ') + "+ 1"), "");
  std::string chain = "x";
  for (int i = 0; i < 5000; ++i) chain += "+" + std::to_string(i) + "*x";
  EXPECT_NE(error_of(chain).find("at most 4096 operations"), std::string::npos);
}

TEST(Expr, FormulasUseEachOtherInAnyOrder) {
  Scope scope = full_scope();
  const Formula shared[] = {{"gemm.double_m", "2 * p.m"}, {"gemm.quad_m", "2 * double_m"}, {"broken", "1 +"}};
  scope.add_formulas(shared);
  const Program program = Program::compile(
      {{"late", "early + gemm.quad_m"}, {"early", "p.n"}, {"tile_m", "c.tile_m"}, {"uses", "tile_m * 2"}},
      scope);
  Inputs inputs(program);
  inputs.set("p", make_gemm(10, 3, 1));
  KernelConfig config(kSpace);
  config.set("tile_m", 5);
  inputs.set("c", config);
  EXPECT_EQ(values_of(program, inputs)[0], 43);
  EXPECT_EQ(values_of(program, inputs)[1], 3);
  EXPECT_EQ(values_of(program, inputs)[3], 10);

  EXPECT_THROW(Program::compile({{"a", "b"}, {"b", "c + 1"}, {"c", "a"}}, scope), Error);
  try {
    Program::compile({{"a", "b"}, {"b", "q + 1"}, {"q", "2 * b"}}, scope);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("in a cycle: b -> q -> b"), std::string::npos) << error.what();
  }
  EXPECT_THROW(Program::compile({{"a", "1"}, {"a", "2"}}, scope), Error);
  EXPECT_THROW(scope.add_formulas(shared), Error);
}

TEST(Expr, ALongChainOfFormulasCompiles) {
  std::vector<Formula> formulas;
  for (int i = 0; i < 2000; ++i)
    formulas.push_back({"f" + std::to_string(i), "f" + std::to_string(i + 1) + " + 1"});
  formulas.push_back({"f2000", "x"});
  const Program program = Program::compile(formulas, full_scope());
  Inputs inputs(program);
  inputs.set_value("x", 5);
  EXPECT_EQ(values_of(program, inputs)[0], 2005);
}

TEST(Expr, EqualPartsAreSharedAndConstantsFolded) {
  const Program program = Program::compile(
      {{"a", "ceil_div(p.m, c.tile_m) * (2 + 3)"}, {"b", "ceil_div(p.m, c.tile_m) + 5"}, {"one", "log2(2)"}},
      full_scope());
  // p.m, c.tile_m, ceil_div, 5, *, +, 1
  EXPECT_EQ(program.operations().size(), 7u);
  ASSERT_EQ(program.inputs().size(), 2u);
  EXPECT_EQ(program.inputs()[1].name, "c.tile_m");
}

TEST(Expr, DependenciesAreKnown) {
  const Program program = Program::compile({{"problem", "p.m * d.cores"},
                                            {"config", "c.tile_m * c.pipeline + s.layout"},
                                            {"both", "p.m / c.tile_n"},
                                            {"traits", "t.tile_m"},
                                            {"constant", "3 * 4"}},
                                           full_scope());
  EXPECT_TRUE(program.depends(0).problem_only());
  EXPECT_FALSE(program.depends(0).config_only());
  EXPECT_TRUE(program.depends(0).on(Source::device));
  EXPECT_EQ(program.depends(1).axes, 0b101u);
  EXPECT_TRUE(program.depends(1).config_only());
  EXPECT_TRUE(program.depends(1).on(Source::signature));
  EXPECT_EQ(program.depends(2).axes, 0b010u);
  EXPECT_FALSE(program.depends(2).config_only() || program.depends(2).problem_only());
  EXPECT_TRUE(program.depends(3).on(Source::traits) && program.depends(3).config_only());
  EXPECT_EQ(program.depends(4), Depends{});
}

TEST(Expr, ColumnsAndStridesMix) {
  const Program program =
      Program::compile({{"a", "p.m + c.tile_m"}, {"b", "p.m"}, {"m", "c.tile_m"}}, full_scope());
  ConfigTable table(kSpace);
  for (int i = 0; i < 300; ++i) {  // more than two blocks
    KernelConfig config(kSpace);
    if (i != 7) config.set("tile_m", i);
    table.push_back(config);
  }
  Inputs inputs(program);
  inputs.set("p", make_gemm(1000, 1, 1));
  inputs.set_rows("c", table);
  Scratch scratch;
  std::vector<double> out(3 * 300);
  program.evaluate(inputs.columns(), 300, out.data(), 3, 1, scratch);
  for (std::size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(out[3 * i + 1], 1000);
    if (i == 7) {
      EXPECT_TRUE(std::isnan(out[3 * i]));
    } else {
      EXPECT_EQ(out[3 * i], 1000 + static_cast<double>(i));
      EXPECT_EQ(out[3 * i + 2], static_cast<double>(i));
    }
  }
  EXPECT_THROW(program.evaluate(inputs.columns(), 300, std::span(out).first(8), scratch), Error);
  EXPECT_THROW(inputs.set("t", make_gemm(1, 1, 1)), Error);
  EXPECT_THROW(inputs.set("z", make_gemm(1, 1, 1)), Error);
}

TEST(Expr, RemaindersOfColumnsHaveTheBitsOfOne) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  constexpr double kValues[] = {
      0,    -0.0,     1,     -1,     2,          3,    -3,   7,    8,          0.5,        -7.5,
      2.5,  1e-300,   1e300, 0x1p53, 0x1p53 - 1, 1e15, 3e15, 7e14, 1 - 0x1p53, 0x1p52 + 1, 9007199254740881,
      kNan, kInfinite};
  constexpr std::size_t kCount = std::size(kValues);
  static_assert(kCount % kColumnLanes == 0);
  alignas(64) double of[kCount], by[kCount], out[kCount];
  std::ranges::copy(kValues, of);
  const auto& tables = best_column_operations()[static_cast<std::size_t>(Code::remainder)];
  for (const double divisor : kValues) {
    std::ranges::fill(by, divisor);
    tables[6](of, by, by, out, kCount);  // two columns
    for (std::size_t i = 0; i < kCount; ++i) {
      const double one = formula::remainder(of[i], divisor);
      if (one != one) {
        EXPECT_TRUE(out[i] != out[i]) << of[i] << " % " << divisor;
      } else {
        EXPECT_EQ(std::bit_cast<std::uint64_t>(out[i]), std::bit_cast<std::uint64_t>(one))
            << of[i] << " % " << divisor << " is " << one << ", in columns " << out[i];
      }
    }
  }
}

}  // namespace
}  // namespace kscout::expr
