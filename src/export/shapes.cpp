// Writes a lookup table for a fixed set of problems.
#include <algorithm>
#include <tuple>

#include <kscout/version.h>

#include "core/fail.h"
#include "export/cpp_source.h"
#include "export/header.h"

namespace kscout {

namespace {

/// The fields that identify a problem, as integers: the key of the table.
std::vector<std::int64_t> key_of(const Problem& problem) {
  std::vector<std::int64_t> key;
  const auto fields = problem.space().fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].role == FieldRole::identity) key.push_back(problem[i]);
  }
  return key;
}

std::string key_text(const Problem& like) {
  std::string values;
  for (const ProblemField& field : like.space().fields) {
    if (field.role != FieldRole::identity) continue;
    if (!values.empty()) values += ", ";
    values += fmt::format("static_cast<std::int64_t>(p.{})", field.name);
  }
  return values;
}

constexpr std::string_view kFind = R"(
// Returns the choice for a problem; config is -1 when the table lacks it. Cost: a binary search.
inline Choice find(const Problem& p) {
  const std::int64_t key[key_size] = {KEY};
  int first = 0, last = shape_count;
  while (first < last) {
    const int middle = first + (last - first) / 2;
    int order = 0;
    for (int i = 0; i < key_size && order == 0; ++i) {
      const std::int64_t there = keys[middle * key_size + i];
      order = there < key[i] ? -1 : there > key[i] ? 1 : 0;
    }
    if (order == 0) return {chosen[middle], names[chosen[middle]], configs + chosen[middle] * axis_count, time_us[middle]};
    (order < 0 ? first : last) = order < 0 ? middle + 1 : middle;
  }
  return {-1, nullptr, nullptr, unknown};
}
)";

constexpr std::string_view kChoice = R"(
struct Choice {
  int config;                // position in names
  const char* name;          // of the kernel
  const std::int32_t* axes;  // axis_count values, in the order of axis_names
  double time_us;            // predicted or measured when the table was written
};
)";

/// Distinct configs by name, and the config of each shape.
struct Chosen {
  std::vector<std::string> names;
  std::vector<std::int32_t> axes, of_shape;

  void add(const ShapeChoice& shape) {
    const ConfigSpace& space = *shape.choice.config.space;
    const std::string name = cpp_text(Selector::name(shape.problem, shape.choice));
    const auto found = std::ranges::find(names, name);
    of_shape.push_back(static_cast<std::int32_t>(found - names.begin()));
    if (found != names.end()) return;
    names.push_back(name);
    const auto& value = shape.choice.config.value;
    axes.insert(axes.end(), value.begin(), value.begin() + static_cast<std::ptrdiff_t>(space.axes.size()));
  }
};

}  // namespace

std::string shapes_header(std::vector<ShapeChoice> choices, std::string name_space) {
  if (choices.empty()) fail(Errc::invalid_argument, "a lookup table needs at least one problem");
  const ConfigSpace& space = *choices.front().choice.config.space;
  const Op op = choices.front().problem.op();
  for (const ShapeChoice& shape : choices) {
    if (shape.problem.op() != op) {
      fail(Errc::invalid_argument, "a lookup table is of one operation: {} and {} were given", word(op),
           word(shape.problem.op()));
    }
    if (shape.choice.config.space != &space) {
      fail(Errc::invalid_argument, "a lookup table is of one provider: {} and {} were chosen", space.provider,
           shape.choice.config.space->provider);
    }
  }
  if (name_space.empty()) name_space = cpp_name(fmt::format("{}_shapes", word(op)));
  check_namespace(name_space);
  const auto key = [](const ShapeChoice& shape) { return key_of(shape.problem); };
  std::ranges::stable_sort(choices, {}, key);
  const auto equal = [&](const ShapeChoice& a, const ShapeChoice& b) { return key(a) == key(b); };
  choices.erase(std::unique(choices.begin(), choices.end(), equal), choices.end());  // clang 14: no subrange

  std::vector<std::int64_t> keys;
  std::vector<double> time_us;
  Chosen chosen;
  for (const ShapeChoice& shape : choices) {
    const auto values = key_of(shape.problem);
    keys.insert(keys.end(), values.begin(), values.end());
    time_us.push_back(shape.choice.time_us);
    chosen.add(shape);
  }
  std::vector<std::string> axes;
  for (const Axis& axis : space.axes) axes.push_back(cpp_text(axis.name));

  std::string out = fmt::format(
      "// Kernels of provider {0} for {1} problems, chosen in advance. Written by `kscout export --shapes` "
      "({2}); do "
      "not edit.\n"
      "//\n"
      "//     {3}::Problem problem;\n"
      "//     {4};\n"
      "//     const {3}::Choice choice = {3}::find(problem);\n"
      "//     if (choice.config >= 0) std::puts(choice.name);\n"
      "//\n"
      "// C++17, no dependency.\n"
      "#pragma once\n\n#include <cstdint>\n#include <limits>\n\nnamespace {3} {{\n\n"
      "inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();\n\n",
      space.provider, choices.size(), KSCOUT_VERSION, name_space,
      cpp_example_sizes("problem", choices.front().problem));
  out += cpp_problem_types(signature_of(choices.front().problem));
  out += "\n" + cpp_array("const char*", "axis_names", axes);
  out += fmt::format("inline constexpr int axis_count = {}, shape_count = {}, key_size = {};\n", axes.size(),
                     choices.size(), keys.size() / choices.size());
  out += cpp_array("const char*", "names", chosen.names) + cpp_array("std::int32_t", "configs", chosen.axes);
  out += "\n// One row per problem, ascending: every field of Problem but weight.\n";
  out += cpp_array("std::int64_t", "keys", keys) + cpp_array("std::int32_t", "chosen", chosen.of_shape) +
         cpp_array("double", "time_us", time_us);
  out += kChoice;
  std::string find(kFind);
  constexpr std::string_view kKey = "KEY";
  find.replace(find.find(kKey), kKey.size(), key_text(choices.front().problem));
  return out + find + fmt::format("\n}}  // namespace {}\n", name_space);
}

}  // namespace kscout
