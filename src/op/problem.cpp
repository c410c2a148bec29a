// Implements the functions that exist for every operation.
#include <cmath>
#include <iterator>
#include <set>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/names.h"
#include "op/forms.h"
#include "op/given_fields.h"
#include "op/problem_sets.h"
#include "op/problem_words.h"
#include "op/reference.h"

namespace kscout {

std::size_t ProblemSpace::index(std::string_view name) const {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
  }
  std::vector<std::string_view> names;
  for (const ProblemField& field : fields) names.push_back(field.name);
  throw Error(Errc::invalid_argument, unknown_name_message("field", name, names));
}

const ProblemSpace& problem_space(Op op) noexcept { return operation(op).space; }

void Problem::require(Op kind) const {
  if (kind != kind_)
    fail(Errc::unsupported, "{}: supported for {} only", print(*this), operation(kind).plural);
}

std::optional<Signature> in_other_half(Signature signature) noexcept {
  const DType type = signature.dtype_a;
  if (type != DType::fp16 && type != DType::bf16) return std::nullopt;
  for (DType* const one : {&signature.dtype_b, &signature.dtype_c, &signature.dtype_a}) {
    if (*one == type) *one = type == DType::fp16 ? DType::bf16 : DType::fp16;
  }
  return signature;
}

Signature signature_of(ProblemRef problem) noexcept { return operation(problem.kind()).signature(problem); }
double flop_count(ProblemRef problem) noexcept { return operation(problem.kind()).flops(problem); }
double min_bytes(ProblemRef problem) noexcept { return operation(problem.kind()).bytes(problem); }
void check(ProblemRef problem) { operation(problem.kind()).check(problem); }
bool is_valid(ProblemRef problem) noexcept { return operation(problem.kind()).is_valid(problem); }
std::string print(ProblemRef problem) { return operation(problem.kind()).print(problem); }
std::unique_ptr<Reference> make_reference(ProblemRef problem, const GemmOperands& operands) {
  return operation(problem.kind()).reference(problem, operands);
}
ImplicitGemm product_of(ProblemRef problem) noexcept { return operation(problem.kind()).product(problem); }

ProblemSizes sizes_of(ProblemRef problem) {
  const Operation& of = operation(problem.kind());
  const Problem whole = problem.value();
  ProblemSizes sizes;
  for (std::size_t i = 0; i < of.space.fields.size(); ++i) {
    if (of.is_size(of.space.fields[i])) sizes.push_back(whole[i]);
  }
  return sizes;
}

ProblemSizes group_of(ProblemRef problem, SplitBy by) {
  switch (by) {
    case SplitBy::weights:
      return operation(problem.kind()).weights(problem);
    case SplitBy::geometry:
      return operation(problem.kind()).geometry(problem);
    case SplitBy::sizes:
      break;
  }
  return sizes_of(problem);
}

Tensor Tensor::packed(std::string_view name, DType dtype, TensorRole role,
                      std::initializer_list<std::int64_t> sizes) noexcept {
  Tensor tensor{.name = name, .dtype = dtype, .role = role, .rank = sizes.size()};
  std::ranges::copy(sizes, tensor.sizes.begin());
  std::int64_t stride = 1;
  for (std::size_t i = tensor.rank; i-- > 0; stride *= tensor.sizes[i]) tensor.strides[i] = stride;
  return tensor;
}

std::int64_t Tensor::bytes() const noexcept {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(elements()) * bytes_per_element(dtype)));
}

const Tensor& OperandList::result() const noexcept {
  return *std::ranges::find(*this, TensorRole::output, &Tensor::role);
}

Problem parse_any_problem(std::string_view text) { return problem_of(fields_of_line(text)); }

ProblemWords words_of_record(std::uint64_t& rest, const Problem& problem, int extra) noexcept {
  if (problem.is<GemmProblem>()) return problem_words(rest, problem.gemm(), extra);
  if (problem.is<ConvProblem>()) return problem_words(rest, problem.conv(), extra);
  ProblemWords words{};
  const std::size_t room = 2 * (words.size() - 1);
  std::size_t used = 0;
  const auto add = [&](std::uint64_t half) {
    if (used == room) {
      rest = 1;
      return;
    }
    words[used / 2] = words[used / 2] << 32 | (half & 0xFFFFFFFF);
    rest |= half >> 32;
    ++used;
  };
  const auto fields = problem.space().fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].role != FieldRole::identity) continue;
    const auto number = static_cast<std::uint64_t>(problem[i]);
    if (fields[i].type == FieldType::list) {
      add(number >> 32);
      add(number & 0xFFFFFFFF);
    } else {
      add(number);
    }
  }
  words.back() = packed<8>(rest, problem.kind(), extra);
  words.back() <<= 32;  // where those of the structs have other bits of their own
  return words;
}

CopiedOperands Operation::copied_operands(ProblemRef, const ExecutionForm&) const { return {}; }

double Operation::reference_bytes(ProblemRef problem) const noexcept {
  // Positions and values of the products of an element, and sums of rows.
  const ImplicitGemm of = product(problem);
  return 48 * (static_cast<double>(of.k) + static_cast<double>(of.m) * static_cast<double>(of.groups));
}

std::vector<Problem> Operation::laid_out(const std::vector<Problem>& problems,
                                         const std::vector<Layout>& wanted) const {
  const auto field = std::ranges::find(space.fields, "layout", &ProblemField::name);
  if (wanted.empty() || field == space.fields.end()) return problems;
  std::vector<Problem> all;
  for (Problem problem : problems) {
    for (const Layout layout : wanted) {
      problem.set(static_cast<std::size_t>(field - space.fields.begin()), static_cast<std::int64_t>(layout));
      kscout::check(problem);  // leading dimensions depend on the layout
      all.push_back(problem);
    }
  }
  return all;
}

std::vector<Problem> Operation::listed(std::string_view text, std::string_view source, DType dtype,
                                       const std::vector<Layout>& wanted) const {
  return laid_out(parse_problems_of(*this, text, source, dtype), wanted);
}

std::vector<Problem> Operation::requested(const ProblemSetRequest& request) const {
  auto problems = merge_equal(request.listed ? laid_out(*request.listed, request.layouts)
                                             : named_set(request.set, request.dtype, request.layouts));
  keep_within_limits(problems, request);
  return problems;
}

std::vector<Problem> Operation::drawn(std::vector<Problem> problems, std::size_t count,
                                      std::uint64_t seed) const {
  // A split by the same seed would hold out exactly the smallest fractions.
  constexpr std::uint64_t kSampleSalt = 0x73616d706c65;
  std::vector<double> fractions;
  for (const Problem& problem : problems)
    fractions.push_back(group_fraction(problem, mix_hash(seed, kSampleSalt)));
  const std::set<double> sorted(fractions.begin(), fractions.end());
  if (sorted.size() <= count) return problems;
  const double end = *std::next(sorted.begin(), static_cast<std::ptrdiff_t>(count));
  std::size_t at = 0;
  std::erase_if(problems, [&](const Problem&) { return fractions[at++] >= end; });
  return problems;
}

ProblemDescription Operation::describe(ProblemRef problem) const {
  const Signature types = kscout::signature_of(problem);
  ProblemDescription about{.quantities = {},
                           .slices = {slice_of("layout", types.layout), slice_of("dtype", types.dtype_a)}};
  const Problem whole = problem.value();
  for (std::size_t i = 0; i < space.fields.size(); ++i) {
    if (space.fields[i].type == FieldType::whole)
      about.quantities.emplace_back(space.fields[i].name, static_cast<double>(whole[i]));
  }
  return about;
}

std::vector<std::string_view> Operation::given_names() const {
  std::vector<std::string_view> names;
  for (const ProblemField& field : space.fields) {
    if (field.role != FieldRole::derived) names.push_back(field.name);
  }
  names.push_back("dtype");
  for (const GeneralName& one : general_names) names.push_back(one.name);
  return names;
}

std::string value_text(const ProblemField& field, std::int64_t value) {
  switch (field.type) {
    case FieldType::word:
      return std::string(field.words[static_cast<std::size_t>(value)]);
    case FieldType::real:
      return field_text(std::bit_cast<double>(value));
    case FieldType::flag:
    case FieldType::whole:
    case FieldType::list:
      break;
  }
  return field_text(value);
}

std::string value_text(const Problem& problem, std::size_t field) {
  const ProblemField& of = problem.space().fields[field];
  return of.type == FieldType::list ? field_text(problem.list()) : value_text(of, problem[field]);
}

std::int64_t parse_value(const ProblemField& field, std::string_view text) {
  switch (field.type) {
    case FieldType::word:
      return static_cast<std::int64_t>(parse_word(field.what, text, field.words));
    case FieldType::real:
      return std::bit_cast<std::int64_t>(parse_field<double>(field.name, text));
    case FieldType::flag:
      return parse_field<bool>(field.name, text) ? 1 : 0;
    case FieldType::whole:
    case FieldType::list:
      break;
  }
  return parse_field<std::int64_t>(field.name, text);
}

}  // namespace kscout
