// Checks that FewRows gives the bits of Program::evaluate for random formulas and rows.
#include "expr/few_rows.h"

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

bool changes(const Input& input) { return input.depends.on(Source::problem); }

struct DrawnInputs {
  std::vector<std::vector<double>> values;  ///< of each input: one, or one per row
  std::vector<Column> columns;

  DrawnInputs(const Program& program, std::size_t rows, std::mt19937_64& random) {
    for (const Input& input : program.inputs()) {
      const auto kind = changes(input) ? 0 : random() % 3;
      std::vector<double> few = {random_number(random), random_number(random), random_number(random)};
      values.emplace_back(kind == 0 ? 1 : rows);
      for (double& value : values.back()) value = kind == 1 ? few[random() % 3] : random_number(random);
    }
    for (const auto& of : values) columns.push_back({of.data(), of.size() == 1 ? 0u : 1u});
  }

  std::vector<double> change(const Program& program, std::mt19937_64& random) {
    std::vector<double> to;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (changes(program.inputs()[i])) to.push_back(values[i][0] = random_number(random));
    }
    return to;
  }
};

bool same(double a, double b) {
  return (a != a && b != b) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

RC_GTEST_PROP(FewRows, EqualsTheProgram, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  Scope scope;
  for (const std::string& name : names())
    scope.add_value(name, random() % 4 == 0 ? Source::problem : Source::other);
  std::vector<Formula> formulas;
  for (std::size_t f = 0; f < 1 + random() % 5; ++f) {
    formulas.push_back({"f" + std::to_string(f), text_of(random_tree(random, 4))});
  }
  const Program program = Program::compile(formulas, scope);
  const std::size_t rows = 1 + random() % 200;
  DrawnInputs inputs(program, rows, random);
  std::vector<std::uint8_t> wanted;
  for (std::size_t f = 0; f < program.size(); ++f) wanted.push_back(random() % 4 != 0);

  const FewRows fast(program, inputs.columns, rows, wanted);
  FewRows::Scratch scratch;
  for (int call = 0; call < 3; ++call) {
    fast.set_call(inputs.change(program, random), scratch);
    std::vector<double> expected(program.size() * rows);
    Scratch plain;
    program.evaluate(inputs.columns, rows, expected, plain);
    for (int block = 0; block < 2; ++block) {
      std::vector<std::uint32_t> picked(1 + random() % FewRows::block);
      for (std::uint32_t& row : picked) row = static_cast<std::uint32_t>(random() % rows);
      fast.set_rows(picked, scratch);
      std::vector<double> written(picked.size());
      for (std::size_t f = 0; f < program.size(); ++f) {
        for (std::size_t i = 0; i < picked.size() && wanted[f] != 0; ++i) {
          const Varies varies = fast.varies(f);
          const double value = varies == Varies::never
                                   ? fast.fixed(f)[picked[i]]
                                   : fast.values(f, scratch)[varies == Varies::by_row ? i : 0];
          RC_ASSERT(same(value, expected[f * rows + picked[i]]));
        }
      }
      for (std::size_t f = 0; f < program.size(); ++f) {
        if (wanted[f] == 0) continue;
        fast.evaluate(f, picked, written, scratch);
        for (std::size_t i = 0; i < picked.size(); ++i)
          RC_ASSERT(same(written[i], expected[f * rows + picked[i]]));
      }
    }
  }
}

TEST(FewRows, ComputesWhatACallDecidesOnceAndWhatRowsDecideBefore) {
  Scope scope;
  scope.add_value("p", Source::problem);
  for (const char* name : {"x", "y", "one"}) scope.add_value(name);
  const Program program = Program::compile({{"call", "p * 2 + one"},
                                            {"rows", "x + y"},
                                            {"both", "(p + x) / (x + y)"},
                                            {"handed_on", "p * one"},
                                            {"constant", "one + 1"}},
                                           scope);
  const std::vector<double> x = {1, 2, 3}, y = {4, 5, 6};
  const double p = 3, one = 1;
  std::vector<Column> columns;
  for (const Input& input : program.inputs()) {
    const auto& name = input.name;
    columns.push_back(name == "p"     ? Column{&p, 0}
                      : name == "one" ? Column{&one, 0}
                                      : Column{name == "x" ? x.data() : y.data(), 1});
  }
  const FewRows fast(program, columns, 3, std::vector<std::uint8_t>(5, 1));
  EXPECT_EQ(fast.varies(0), Varies::by_call);
  EXPECT_EQ(fast.varies(1), Varies::never);
  EXPECT_EQ(fast.varies(2), Varies::by_row);
  EXPECT_EQ(fast.varies(3), Varies::by_call);
  EXPECT_EQ(fast.varies(4), Varies::by_call);
  EXPECT_EQ(fast.call_steps(), 2u);  // p * 2, and that + 1
  EXPECT_EQ(fast.row_steps(), 2u);   // p + x, and that / (x + y)
  FewRows::Scratch scratch;
  fast.set_call(std::array{10.0}, scratch);
  fast.set_rows(std::array{2u, 0u}, scratch);
  EXPECT_EQ(*fast.values(0, scratch), 21);
  EXPECT_EQ(fast.fixed(1)[2], 9);
  EXPECT_EQ(fast.values(2, scratch)[0], 13.0 / 9);
  EXPECT_EQ(fast.values(2, scratch)[1], 11.0 / 5);
  EXPECT_EQ(*fast.values(3, scratch), 10);
  EXPECT_EQ(*fast.values(4, scratch), 2);
}

}  // namespace
}  // namespace kscout::expr
