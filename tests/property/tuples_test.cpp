// A TupleProgram gives the bits of Program::evaluate, whatever its formulas and rows.
#include "expr/tuples.h"

#include <bit>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "expr_reference.h"

namespace kscout::expr {
namespace {

using expr_reference::names;
using expr_reference::random_number;
using expr_reference::random_tree;
using expr_reference::text_of;

struct DrawnInputs {
  std::vector<std::vector<double>> values;  ///< of each input: one, or one per row
  std::vector<Column> columns;
  std::vector<std::uint8_t> changing;

  DrawnInputs(const Program& program, std::size_t rows, std::mt19937_64& random) {
    for (std::size_t i = 0; i < program.inputs().size(); ++i) {
      const auto kind = random() % 4;
      std::vector<double> few = {random_number(random), random_number(random), random_number(random)};
      values.emplace_back(kind < 2 ? 1 : rows);
      for (double& value : values.back()) value = kind == 2 ? few[random() % 3] : random_number(random);
      changing.push_back(kind == 0);
    }
    for (const auto& of : values) columns.push_back({of.data(), of.size() == 1 ? 0u : 1u});
  }

  std::vector<double> change(std::mt19937_64& random) {
    std::vector<double> to;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (changing[i] != 0) to.push_back(values[i][0] = random_number(random));
    }
    return to;
  }
};

bool same(double a, double b) {
  return (a != a && b != b) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

RC_GTEST_PROP(TupleProgram, EqualsTheProgram, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  Scope scope;
  for (const std::string& name : names()) scope.add_value(name);
  std::vector<Formula> formulas;
  for (std::size_t f = 0; f < 1 + random() % 5; ++f) {
    formulas.push_back({"f" + std::to_string(f), text_of(random_tree(random, 4))});
  }
  const Program program = Program::compile(formulas, scope);
  const std::size_t rows = 1 + random() % 200;
  DrawnInputs inputs(program, rows, random);
  std::vector<std::uint8_t> wanted;
  for (std::size_t f = 0; f < program.size(); ++f) wanted.push_back(random() % 4 != 0);

  const TupleProgram fast(program, inputs.columns, rows, inputs.changing, wanted);
  TupleProgram::Scratch scratch(fast);
  const Partition common = fast.common_partition();
  for (int call = 0; call < 3; ++call) {
    const auto changed = inputs.change(random);
    RC_ASSERT(changed.size() == fast.changing());
    fast.evaluate(changed, scratch);
    std::vector<double> expected(program.size() * rows);
    Scratch plain;
    program.evaluate(inputs.columns, rows, expected, plain);
    for (std::size_t f = 0; f < program.size(); ++f) {
      if (wanted[f] == 0) continue;
      const std::uint32_t partition = fast.partition_of(f);
      for (std::size_t row = 0; row < rows; ++row) {
        const std::uint32_t at =
            partition == TupleProgram::one_value ? 0 : fast.partitions()[partition].class_of[row];
        RC_ASSERT(same(fast.values(f, scratch)[at], expected[f * rows + row]));
        const std::size_t like = common.example[common.class_of[row]];
        RC_ASSERT(same(expected[f * rows + like], expected[f * rows + row]));
      }
    }
  }
}

TEST(TupleProgram, ComputesOncePerDistinctTuple) {
  Scope scope;
  for (const char* name : {"p", "x", "y"}) scope.add_value(name);
  const Program program =
      Program::compile({{"call", "p * 2"}, {"fixed", "x + y"}, {"one", "p + x"}, {"both", "one / y"}}, scope);
  std::vector<double> x, y;
  for (int row = 0; row < 100; ++row) {
    x.push_back(row % 2);
    y.push_back(row / 20);
  }
  const double p = 3;
  std::vector<Column> columns;
  std::vector<std::uint8_t> changing;
  for (const Input& input : program.inputs()) {
    columns.push_back(input.name == "p" ? Column{&p, 0} : Column{input.name == "x" ? x.data() : y.data(), 1});
    changing.push_back(input.name == "p");
  }
  const TupleProgram fast(program, columns, 100, changing, std::vector<std::uint8_t>(4, 1));
  EXPECT_EQ(fast.partition_of(0), TupleProgram::one_value);
  EXPECT_TRUE(fast.fixed(1));
  EXPECT_EQ(fast.partitions()[fast.partition_of(2)].classes, 2u);
  EXPECT_EQ(fast.partitions()[fast.partition_of(3)].classes, 10u);
  EXPECT_EQ(fast.common_partition().classes, 10u);
  EXPECT_EQ(fast.cost().values, 1u + 2u + 10u);  // p * 2, p + x, one / y; x + y was computed before
  EXPECT_EQ(fast.cost().copied, 10u);            // p + x to the tuples of (x, y); y before
}

}  // namespace
}  // namespace kscout::expr
