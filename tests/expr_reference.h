#pragma once
/// \file
/// Evaluates formulas in a slow, obvious way: random formulas as trees, printed as text and evaluated node by
/// node. Tests compare the compiled programs of src/expr with it.
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "expr/operations.h"

namespace kscout::expr_reference {

struct Tree {
  enum class Kind { number, name, call } kind = Kind::number;
  double number = 0;
  std::size_t name = 0;
  std::string word;  ///< operator or function of a call
  std::vector<Tree> arguments;
};

inline const std::vector<std::string>& names() {
  static const std::vector<std::string> all = {"a", "b", "c", "d"};
  return all;
}

/// Numbers that formulas meet and numbers that break them.
inline double random_number(std::mt19937_64& random) {
  static constexpr double kOdd[] = {
      0, -0.0, 1, -1, 0.5, 3, 16, 127, 128, 4096, 1e-300, 1e300, 9007199254740993.0};
  switch (random() % 4) {
    case 0:
      return kOdd[random() % std::size(kOdd)];
    case 1:
      return static_cast<double>(random() % 8192) - 100;
    case 2:
      return std::ldexp(static_cast<double>(random() % 1000003), static_cast<int>(random() % 40) - 30);
    default:
      return random() % 8 == 0    ? std::numeric_limits<double>::quiet_NaN()
             : random() % 16 == 0 ? std::numeric_limits<double>::infinity()
                                  : static_cast<double>(random() % 256);
  }
}

inline Tree random_tree(std::mt19937_64& random, int depth) {
  static const std::vector<std::pair<std::string, int>> kCalls = {
      {"+", 2},   {"-", 2},        {"*", 2},   {"/", 2},    {"%", 2},      {"==", 2},    {"!=", 2},
      {"<", 2},   {"<=", 2},       {">", 2},   {">=", 2},   {"and", 2},    {"or", 2},    {"not", 1},
      {"neg", 1}, {"min", 2},      {"max", 3}, {"ceil", 1}, {"abs", 1},    {"floor", 1}, {"log2", 1},
      {"ln", 1},  {"ceil_div", 2}, {"if", 3},  {"in", 3},   {"not in", 3}, {"known", 1}};
  Tree tree;
  if (depth == 0 || random() % 5 == 0) {
    if (random() % 3 == 0) {
      tree.number = std::abs(random_number(random));
      if (!std::isfinite(tree.number)) tree.number = 7;  // text has no such number
    } else {
      tree.kind = Tree::Kind::name;
      tree.name = random() % names().size();
    }
    return tree;
  }
  const auto& [word, arity] = kCalls[random() % kCalls.size()];
  tree.kind = Tree::Kind::call;
  tree.word = word;
  for (int i = 0; i < arity; ++i) tree.arguments.push_back(random_tree(random, depth - 1));
  return tree;
}

inline std::string text_of(const Tree& tree) {
  if (tree.kind == Tree::Kind::number) return fmt::format("{}", tree.number);
  if (tree.kind == Tree::Kind::name) return names()[tree.name];
  const auto at = [&](std::size_t i) { return text_of(tree.arguments[i]); };
  const std::string& w = tree.word;
  if (w == "not") return "(not " + at(0) + ")";
  if (w == "neg") return "(-" + at(0) + ")";
  if (w == "in" || w == "not in") return "(" + at(0) + " " + w + " [" + at(1) + ", " + at(2) + "])";
  if (w[0] >= 'a' && w[0] <= 'z' && w != "and" && w != "or") {
    std::string list;
    for (std::size_t i = 0; i < tree.arguments.size(); ++i) list += (i ? ", " : "") + at(i);
    return w + "(" + list + ")";
  }
  return "(" + at(0) + " " + w + " " + at(1) + ")";
}

/// The rules of docs/formats/expr.md, one case each.
inline double value_of(const Tree& tree, const double* values) {
  if (tree.kind == Tree::Kind::number) return tree.number;
  if (tree.kind == Tree::Kind::name) return values[tree.name];
  std::vector<double> v;
  for (const Tree& argument : tree.arguments) v.push_back(value_of(argument, values));
  const std::string& w = tree.word;
  const auto holds = [](double x) { return !std::isnan(x) && x != 0; };
  const bool any_unknown = std::isnan(v[0]) || (v.size() > 1 && std::isnan(v[1]));
  if (w == "+") return v[0] + v[1];
  if (w == "-") return v[0] - v[1];
  if (w == "*") return v[0] * v[1];
  if (w == "/") return v[0] / v[1];
  if (w == "neg") return -v[0];
  if (w == "%") {
    double rest = std::fmod(v[0], v[1]);
    if (rest < 0) rest += std::abs(v[1]);
    return rest == 0 ? 0 : rest;  // no -0: 1 / (a % b) is never -inf
  }
  if (w == "==") return !any_unknown && v[0] == v[1];
  if (w == "!=") return !any_unknown && v[0] != v[1];
  if (w == "<") return !any_unknown && v[0] < v[1];
  if (w == "<=") return !any_unknown && v[0] <= v[1];
  if (w == ">") return !any_unknown && v[0] > v[1];
  if (w == ">=") return !any_unknown && v[0] >= v[1];
  if (w == "and") return holds(v[0]) && holds(v[1]);
  if (w == "or") return holds(v[0]) || holds(v[1]);
  if (w == "not") return !holds(v[0]);
  if (w == "known") return !std::isnan(v[0]);
  if (w == "if") return holds(v[0]) ? v[1] : v[2];
  if (w == "in") return v[0] == v[1] || v[0] == v[2];
  if (w == "not in") {
    return !std::isnan(v[0]) && !std::isnan(v[1]) && !std::isnan(v[2]) && v[0] != v[1] && v[0] != v[2];
  }
  if (w == "min" || w == "max") {
    double best = v[0];
    for (const double x : v) {
      if (std::isnan(x)) return x;
      if (w == "min" ? x < best : x > best) best = x;
    }
    return best;
  }
  if (w == "ceil") return std::ceil(v[0]);
  if (w == "floor") return std::floor(v[0]);
  if (w == "abs") return std::abs(v[0]);
  if (w == "log2") return expr::formula::log2(v[0]);
  if (w == "ln") return expr::formula::ln(v[0]);
  return std::ceil(v[0] / v[1]);  // ceil_div
}

/// Equal bits, where all unknowns are alike and 0 is 0 whatever its sign.
inline bool same(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

}  // namespace kscout::expr_reference
