// Reads one-line forms as fields, and makes problems of fields.
#include "core/given_fields.h"

#include "core/problem_text.h"

namespace kscout {

namespace {

constexpr std::string_view kGemmSyntax = "gemm:MxNxK[:dtype][:layout][:name=value...]";

/// Adds the sizes of the shape parts; returns the position of the next part.
std::size_t add_gemm_sizes(std::string_view line, std::span<const std::string_view> parts,
                           std::vector<GivenField>& given) {
  if (read_sizes(parts[1], line).size() != 3)
    fail(Errc::invalid_argument, "'{}' in '{}': sizes are MxNxK", parts[1], line);
  constexpr std::string_view kNames[] = {"m", "n", "k"};
  for (std::size_t i = 0; const std::string_view size : split(parts[1], 'x'))
    given.push_back({kNames[i++], size, GivenAs::position});
  return 2;
}

std::size_t add_conv_sizes(Op op, std::string_view line, std::span<const std::string_view> parts,
                           std::vector<GivenField>& given) {
  const std::size_t sizes = parts.size() < 3 ? 0 : read_sizes(parts[1], line).size();
  if ((sizes != 4 && sizes != 5) || read_sizes(parts[2], line).size() + 1 != sizes)
    fail(Errc::invalid_argument, "'{}' is not a convolution; write {}", line, syntax_of(op));
  constexpr std::string_view kImage[] = {"n", "c", "d", "h", "w"}, kFilter[] = {"k", "z", "y", "x"};
  const auto add = [&](std::string_view part, std::span<const std::string_view> names) {
    for (std::size_t i = 0; const std::string_view size : split(part, 'x')) {
      if (sizes == 4 && (names[i] == "d" || names[i] == "z")) ++i;
      given.push_back({names[i++], size, GivenAs::position});
    }
  };
  add(parts[1], kImage);
  add(parts[2], kFilter);
  given.push_back({"layout", word(sizes == 4 ? Layout::nhwgc : Layout::ndhwgc), GivenAs::implied});
  return 3;
}

/// Without a layout, a convolution that uses axis d is 3-D.
Layout usual_layout(std::span<const GivenField> given) noexcept {
  const bool three = std::ranges::any_of(given, [](const GivenField& one) {
    const bool pad = one.name.find("pad_d") != std::string_view::npos;
    const bool of_d = pad || one.name == "d" || one.name == "z" || one.name.ends_with("_d");
    return of_d && one.value != (pad ? "0" : "1");
  });
  return three ? Layout::ndhwgc : Layout::nhwgc;
}

}  // namespace

std::string_view syntax_of(Op op) noexcept {
  switch (op) {
    case Op::gemm:
      return kGemmSyntax;
    case Op::conv_fwd:
      return "conv_fwd:NxCxHxW:KxYxX[:dtype][:layout][:name=value...], in 3-D NxCxDxHxW:KxZxYxX";
    case Op::conv_bwd_data:
      return "conv_bwd_data:NxCxHxW:KxYxX[:dtype][:layout][:name=value...], in 3-D NxCxDxHxW:KxZxYxX";
    case Op::conv_bwd_weight:
      return "conv_bwd_weight:NxCxHxW:KxYxX[:dtype][:layout][:name=value...], in 3-D NxCxDxHxW:KxZxYxX";
  }
  return kGemmSyntax;
}

Op op_of_line(std::string_view line) {
  const std::string_view first = line.substr(0, line.find(':'));
  const auto known = find_word(first, EnumWords<Op>::words);
  if (known && first.size() < line.size()) return static_cast<Op>(*known);
  if (const auto near = nearest_word(first, EnumWords<Op>::words)) {
    fail(Errc::invalid_argument, "'{}' is not a problem: {} write {}", line,
         known ? std::string("it has no sizes;")
               : fmt::format("unknown op '{}', did you mean '{}'?", first, *near),
         syntax_of(parse<Op>(*near)));
  }
  fail(Errc::invalid_argument, "'{}' is not a problem; write {}, or a convolution as {} (ops: {})", line,
       syntax_of(Op::gemm), syntax_of(Op::conv_fwd), fmt::join(EnumWords<Op>::words, ", "));
}

std::vector<GivenField> fields_of_line(std::string_view line) {
  const Op op = op_of_line(line);
  const auto parts = split(line, ':');
  std::vector<GivenField> given{{"op", parts[0], GivenAs::position}};
  std::size_t next =
      is_conv(op) ? add_conv_sizes(op, line, parts, given) : add_gemm_sizes(line, parts, given);
  const auto is_word = [&] { return next < parts.size() && parts[next].find('=') == std::string_view::npos; };
  if (is_word() && !find_word(parts[next], EnumWords<Layout>::words))
    given.push_back({"dtype", parts[next++], GivenAs::position});
  if (is_word()) {
    const GivenField layout{"layout", parts[next++], GivenAs::position};
    if (is_conv(op) &&
        spatial_rank(parse<Layout>(layout.value)) != static_cast<int>(std::ranges::count(parts[2], 'x'))) {
      fail(Errc::invalid_argument, "'{}': layout '{}' does not fit {} spatial sizes", line, layout.value,
           std::ranges::count(parts[2], 'x'));
    }
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
  const GivenField* const op = find_given(given, "op");
  const Op kind = op ? parse_field<Op>("op", op->value) : Op::gemm;
  const bool typed = std::ranges::any_of(
      given, [](const GivenField& one) { return one.name == "dtype" || one.name.starts_with("dtype_"); });
  const DType dtype = typed ? DType::fp32 : usual;
  if (is_conv(kind)) {
    ConvProblem problem = make_conv(kind, dtype, usual_layout(given));
    set_fields(problem, given);
    check(problem);
    return problem;
  }
  std::vector<GivenField> fields(given.begin(), given.end());
  std::erase_if(fields, [](const GivenField& one) { return one.name == "op"; });  // GEMMs have no such field
  GemmProblem problem = make_gemm(-1, -1, -1, dtype);
  set_fields(problem, fields);
  check(problem);
  return problem;
}

}  // namespace kscout
