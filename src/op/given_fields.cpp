// Reads one-line forms as fields, and makes problems of fields.
#include "op/given_fields.h"

#include "core/problem_text.h"

namespace kscout {

void refuse_unknown_name(const Operation& operation, const GivenField& field) {
  const auto has = [&](const Operation& of) { return find_word(field.name, of.given_names()).has_value(); };
  if (has(operation)) return;
  for (const Operation* const other : operations()) {
    if (!has(*other)) continue;
    fail(Errc::invalid_argument, "{}: {} have no such field, {} have; {}", written(field), operation.plural,
         other->plural, other->remedy);
  }
  throw Error(Errc::invalid_argument, unknown_name_message("field", field.name, operation.given_names()));
}

std::optional<Op> line_op(std::string_view line) noexcept {
  const std::string_view first = line.substr(0, line.find(':'));
  const auto known = find_word(first, EnumWords<Op>::words);
  if (!known || first.size() == line.size()) return std::nullopt;
  return static_cast<Op>(*known);
}

Op op_of_line(std::string_view line) {
  if (const auto op = line_op(line)) return *op;
  const std::string_view first = line.substr(0, line.find(':'));
  const auto known = find_word(first, EnumWords<Op>::words);
  if (const auto near = nearest_word(first, EnumWords<Op>::words)) {
    const auto op = parse<Op>(*near);
    fail(Errc::invalid_argument, "'{}' is not a problem: {} write {}", line,
         known ? std::string("it has no sizes;")
               : fmt::format("unknown op '{}', did you mean '{}'?", first, *near),
         operation(op).syntax(op));
  }
  std::string forms;
  for (const Operation* const one : operations()) {
    const std::string_view form = one->syntax(one->ops.front());
    forms += forms.empty() ? std::string(form) : fmt::format(", or a {} as {}", one->noun, form);
  }
  fail(Errc::invalid_argument, "'{}' is not a problem; write {} (ops: {})", line, forms,
       fmt::join(EnumWords<Op>::words, ", "));
}

std::vector<GivenField> fields_of_line(std::string_view line) {
  const Op op = op_of_line(line);
  const Operation& of = operation(op);
  const auto parts = split(line, ':');
  std::vector<GivenField> given{{"op", parts[0], GivenAs::position}};
  std::size_t next = of.add_sizes(op, line, parts, given);
  const auto is_word = [&] { return next < parts.size() && parts[next].find('=') == std::string_view::npos; };
  if (is_word() && !find_word(parts[next], EnumWords<Layout>::words))
    given.push_back({"dtype", parts[next++], GivenAs::position});
  if (is_word()) {
    const GivenField layout{"layout", parts[next++], GivenAs::position};
    of.check_layout(line, parts, parse<Layout>(layout.value));
    given.push_back(layout);
  }
  for (const std::string_view part : std::span(parts).subspan(next)) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      fail(Errc::invalid_argument, "'{}' in '{}': expected name=value", part, line);
    given.push_back({part.substr(0, equals), part.substr(equals + 1), GivenAs::assignment});
  }
  return given;
}

Problem problem_of(std::span<const GivenField> given, DType usual) {
  refuse_given_twice(given);
  const GivenField* const stated = find_given(given, "op");
  const Op op = stated ? parse_field<Op>("op", stated->value) : Op::gemm;
  const bool typed = std::ranges::any_of(
      given, [](const GivenField& one) { return one.name == "dtype" || one.name.starts_with("dtype_"); });
  const Operation& of = operation(op);
  std::vector<GivenField> fields(given.begin(), given.end());
  if (std::ranges::find(of.space.fields, "op", &ProblemField::name) == of.space.fields.end())
    std::erase_if(fields, [](const GivenField& one) { return one.name == "op"; });
  const Problem problem = of.from_fields(op, fields, typed ? DType::fp32 : usual);
  check(problem);
  return problem;
}

}  // namespace kscout
