#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <variant>

#include <kscout/problem.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/problem_text.h"
#include "op/audit.h"
#include "op/gemm/gemm_forms.h"
#include "op/gemm/gemm_reference.h"
#include "op/gemm/gemm_sets.h"
#include "op/gemm/product_types.h"
#include "op/given_fields.h"
#include "op/lines.h"
#include "op/struct_operation.h"

namespace kscout {

namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;

struct Shape {
  std::int64_t lines;   ///< rows when row-major, columns otherwise
  std::int64_t length;  ///< elements of one line
};

Shape shape_a(const GemmProblem& p) { return row_major_a(p.layout) ? Shape{p.m, p.k} : Shape{p.k, p.m}; }
Shape shape_b(const GemmProblem& p) { return row_major_b(p.layout) ? Shape{p.k, p.n} : Shape{p.n, p.k}; }
Shape shape_c(const GemmProblem& p) { return {p.m, p.n}; }

/// The first error of a problem.
struct Fault {
  enum class Kind : std::uint8_t { word, size, leading, weight, layout, elements } kind;
  std::string_view field;             ///< or an operand
  std::int64_t value = 0, least = 0;  ///< or the two factors of the element count that is too large
};

/// a * b if within the limit of one operand; factors are at least 0.
std::optional<std::int64_t> product(std::int64_t a, std::int64_t b) noexcept {
  if (a != 0 && b > kMaxElements / a) return std::nullopt;
  return a * b;
}

/// The number of elements of an operand, or the factors whose product is too large.
std::variant<std::int64_t, Fault> elements(std::string_view operand, Shape shape, std::int64_t leading,
                                           std::int64_t batch) noexcept {
  const auto one = product(shape.lines, leading);
  if (!one) return Fault{Fault::Kind::elements, operand, shape.lines, leading};
  const auto all = product(*one, batch);
  if (!all) return Fault{Fault::Kind::elements, operand, *one, batch};
  return *all;
}

struct Operand {
  std::string_view name;
  Shape shape;
  std::int64_t leading;
};
std::array<Operand, 3> operands_of(const GemmProblem& p) noexcept {
  const auto ld = leading_dimensions(p);
  return {{{"A", shape_a(p), ld.a}, {"B", shape_b(p), ld.b}, {"C", shape_c(p), ld.c}}};
}

std::optional<Fault> find_fault(const GemmProblem& p) noexcept {
  if (const std::string_view field = field_without_word(p); !field.empty())
    return Fault{Fault::Kind::word, field};
  struct Size {
    std::string_view name;
    std::int64_t value, least;
  };
  for (const Size& size : {Size{"m", p.m, 0},
                           {"n", p.n, 0},
                           {"k", p.k, 0},
                           {"batch", p.batch, 1},
                           {"split_k", p.split_k, 0},
                           {"lda", p.lda, 0},
                           {"ldb", p.ldb, 0},
                           {"ldc", p.ldc, 0}}) {
    if (size.value < size.least) return Fault{Fault::Kind::size, size.name, size.value, size.least};
  }
  for (const Size& leading : {Size{"lda", p.lda, shape_a(p).length},
                              {"ldb", p.ldb, shape_b(p).length},
                              {"ldc", p.ldc, shape_c(p).length}}) {
    if (leading.value != 0 && leading.value < leading.least) {
      return Fault{Fault::Kind::leading, leading.name, leading.value, leading.least};
    }
  }
  if (!(p.weight >= 0) || !std::isfinite(p.weight)) return Fault{Fault::Kind::weight, "weight"};
  if (!is_gemm_layout(p.layout)) return Fault{Fault::Kind::layout, "layout"};
  for (const Operand& operand : operands_of(p)) {
    const auto found = elements(operand.name, operand.shape, operand.leading, p.batch);
    if (const auto* fault = std::get_if<Fault>(&found)) return *fault;
  }
  return std::nullopt;
}

[[noreturn]] void fail_for(const GemmProblem& p, const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::word:
      fail(Errc::invalid_argument, "gemm {}: the value is none of its enum", fault.field);
    case Fault::Kind::size:
      fail(Errc::invalid_argument, "gemm {}={}: must be at least {}", fault.field, fault.value, fault.least);
    case Fault::Kind::leading:
      fail(Errc::invalid_argument, "gemm {}={}: a line holds {} elements; use 0 for packed or at least {}",
           fault.field, fault.value, fault.least, fault.least);
    case Fault::Kind::weight:
      fail(Errc::invalid_argument, "gemm weight={}: must be a finite number of calls, at least 0", p.weight);
    case Fault::Kind::layout:
      fail(Errc::invalid_argument, "gemm layout={}: is a layout of convolutions; use one of {}",
           word(p.layout), fmt::join(kGemmLayoutWords, ", "));
    case Fault::Kind::elements:
      break;
  }
  fail(Errc::invalid_argument, "operand {}: {} x {} elements exceed the limit of 2^62", fault.field,
       fault.value, fault.least);
}

}  // namespace

GemmProblem make_gemm(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, Layout layout) {
  GemmProblem p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.layout = layout;
  p.dtype_a = p.dtype_b = p.dtype_c = dtype;
  p.dtype_acc = DType::fp32;
  switch (dtype) {
    case DType::fp64:
      p.dtype_acc = DType::fp64;
      break;
    case DType::fp8:
    case DType::bf8:
      p.dtype_c = DType::fp16;
      break;
    case DType::int32:
    case DType::int8:
    case DType::int4:
      p.dtype_c = p.dtype_acc = DType::int32;
      break;
    default:
      break;
  }
  return p;
}

Signature signature_of(const GemmProblem& p) noexcept {
  return {Op::gemm, p.dtype_a, p.dtype_b, p.dtype_c, p.dtype_acc, p.layout, p.epilogue, p.accumulate};
}

LeadingDimensions leading_dimensions(const GemmProblem& p) noexcept {
  return {p.lda ? p.lda : shape_a(p).length, p.ldb ? p.ldb : shape_b(p).length,
          p.ldc ? p.ldc : shape_c(p).length};
}

OperandElements operand_elements(const GemmProblem& p) {
  std::array<std::int64_t, 3> counts = {};
  const auto operands = operands_of(p);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto found = elements(operands[i].name, operands[i].shape, operands[i].leading, p.batch);
    if (const auto* fault = std::get_if<Fault>(&found)) fail_for(p, *fault);
    counts[i] = std::get<std::int64_t>(found);
  }
  return {counts[0], counts[1], counts[2]};
}

double flop_count(const GemmProblem& p) noexcept {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.batch);
}

double min_bytes(const GemmProblem& p) noexcept {
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double c_bytes = m * n * bytes_per_element(p.dtype_c) * (p.accumulate ? 2 : 1);
  return static_cast<double>(p.batch) *
         (m * k * bytes_per_element(p.dtype_a) + k * n * bytes_per_element(p.dtype_b) + c_bytes);
}

void check(const GemmProblem& p) {
  if (const auto fault = find_fault(p)) fail_for(p, *fault);
}

bool is_valid(const GemmProblem& p) noexcept { return !find_fault(p); }

std::string print(const GemmProblem& p) {
  const GemmProblem plain = make_gemm(p.m, p.n, p.k, p.dtype_a, p.layout);
  return fmt::format("gemm:{}x{}x{}:{}:{}", p.m, p.n, p.k, word(p.dtype_a), word(p.layout)) +
         assignments(p, plain);
}

void set_fields(GemmProblem& p, std::span<const GivenField> given) {
  set_given_fields<GemmProblem>(p, given, {product_types<GemmProblem>()});
}

GemmProblem parse_problem(std::string_view text) {
  const auto op = line_op(text);
  if (op && *op != Op::gemm) {
    fail(Errc::invalid_argument, "'{}' is a {}, and a GEMM is needed here; write {}", text,
         operation(*op).noun, operation(Op::gemm).syntax(Op::gemm));
  }
  return problem_of(fields_of_line(text)).gemm();
}

namespace {

constexpr Op kOps[] = {Op::gemm};
constexpr Layout kLayouts[] = {Layout::rcr, Layout::rrr, Layout::crr, Layout::ccr};
constexpr std::string_view kSizeNames[] = {"m", "n", "k"};
/// Positions of the scales, as in GemmBuffers.
constexpr std::size_t kScaleA = 4, kScaleB = 5;

bool is_scaled(DType dtype) { return dtype == DType::fp8 || dtype == DType::bf8; }

/// Splits "16x64x32" into sizes; accepts x and X.
std::vector<std::string_view> crossed(std::string_view line) {
  std::vector<std::string_view> sizes = split(line, "xX");
  for (std::string_view& size : sizes) size = trimmed(size);
  return sizes;
}

class GemmOperation final : public StructOperation<GemmProblem> {
 public:
  GemmOperation()
      : StructOperation({
            .space = {"gemm", problem_fields<GemmProblem>()},
            .ops = kOps,
            .noun = "GEMM",
            .plural = "GEMMs",
            .remedy = "write gemm:MxNxK...",
            .example = "16x4096x4096",
            .meaning = "C(m,n) = alpha * A(m,k) * B(k,n) + beta * C, `batch` times.",
            .layouts = kLayouts,
            .tuned_layouts = kLayouts,
            .usual_layouts = 2,
            .needed_sizes = kSizeNames,
            .needed_flags = kSizeNames,
            .needed_cells = kSizeNames,
            .is_size =
                [](const ProblemField& field) {
                  return field.name == "batch" ||
                         std::ranges::find(kSizeNames, field.name) != std::end(kSizeNames);
                },
            .has_alpha = true,
            .packable = kB,
            .tune_split = SplitBy::sizes,
            .split_noun = "size",
            .tune_share = 1,
        }) {}

  using Operation::make;
  Problem make(Op /*op*/, DType dtype, Layout layout) const override {
    return make_gemm(0, 0, 0, dtype, layout);
  }
  ImplicitGemm product(ProblemRef problem) const noexcept override {
    return with(problem, [](const GemmProblem& p) {
      return ImplicitGemm{.m = p.m, .n = p.n, .k = p.k, .groups = p.batch};
    });
  }
  OperandList operands(ProblemRef problem) const noexcept override {
    return with(problem, [](const GemmProblem& p) {
      const auto matrix = [&](std::string_view name, DType dtype, TensorRole role, const Shape& shape,
                              std::int64_t leading) {
        return Tensor{.name = name,
                      .dtype = dtype,
                      .role = role,
                      .rank = 3,
                      .sizes = {p.batch, shape.lines, shape.length},
                      .strides = {shape.lines * leading, leading, 1}};
      };
      const LeadingDimensions ld = leading_dimensions(p);
      OperandList all;
      all.add(matrix("a", p.dtype_a, TensorRole::input, shape_a(p), ld.a));
      all.add(matrix("b", p.dtype_b, TensorRole::input, shape_b(p), ld.b));
      all.add(matrix("c", p.dtype_c, TensorRole::output, shape_c(p), ld.c));
      if (has_bias(p.epilogue)) all.add(Tensor::packed("bias", p.dtype_c, TensorRole::input, {p.n}), kBias);
      const auto add_scale = [&](std::string_view name, std::size_t at) {
        Tensor scale = Tensor::packed(name, DType::fp32, TensorRole::input, {1});
        scale.optional = true;
        all.add(scale, at);
      };
      if (is_scaled(p.dtype_a)) add_scale("scale_a", kScaleA);
      if (is_scaled(p.dtype_b)) add_scale("scale_b", kScaleB);
      return all;
    });
  }
  bool is_empty(ProblemRef problem) const noexcept override {
    return with(problem, [](const GemmProblem& p) { return p.m == 0 || p.n == 0; });
  }
  void for_each_form(ProblemRef problem, MemoryKind /*memory*/,
                     const std::function<void(const ExecutionForm&)>& add) const override {
    kscout::for_each_form(problem.as<GemmProblem>(), add);
  }
  void for_each_aligned_form(ProblemRef problem,
                             const std::function<void(const AlignedForm&)>& add) const override {
    kscout::for_each_aligned_form(problem.as<GemmProblem>(), add);
  }
  CopiedOperands copied_operands(ProblemRef problem, const ExecutionForm& form) const override {
    return kscout::copied_operands(problem.as<GemmProblem>(), form);
  }

  void check_buffers(ProblemRef problem, const Buffers& buffers) const override {
    const auto p = problem.as<GemmProblem>();
    refuse_bias_without_epilogue(problem, p.epilogue, buffers);
    if ((buffers.operand[kScaleA] && !is_scaled(p.dtype_a)) ||
        (buffers.operand[kScaleB] && !is_scaled(p.dtype_b))) {
      fail(Errc::invalid_argument, "{}: scales are for operands of 8-bit floats; fold them into alpha",
           print(problem));
    }
  }

  std::unique_ptr<Reference> reference(ProblemRef problem, const GemmOperands& of) const override {
    return std::make_unique<GemmReference>(problem.as<GemmProblem>(), of);
  }
  double reference_bytes(ProblemRef problem) const noexcept override {
    const auto p = problem.as<GemmProblem>();  // products of A, B and C with a vector, and their squares
    return 16 * static_cast<double>(p.batch) * (static_cast<double>(p.k) + 3 * static_cast<double>(p.m));
  }
  Problem with_gaps(const Problem& problem, std::int64_t gap) const override {
    auto p = problem.as<GemmProblem>();
    const LeadingDimensions packed = leading_dimensions(p);
    p.lda = packed.a + gap;
    p.ldb = packed.b + gap;
    p.ldc = packed.c + gap;
    return p;
  }

  ProblemSizes weights(ProblemRef problem) const override {
    const auto p = problem.as<GemmProblem>();
    return {0, p.n, p.k, 0};
  }

  std::string_view syntax(Op /*op*/) const noexcept override {
    return "gemm:MxNxK[:dtype][:layout][:name=value...]";
  }
  std::size_t add_sizes(Op /*op*/, std::string_view line, std::span<const std::string_view> parts,
                        std::vector<GivenField>& given) const override {
    if (read_sizes(parts[1], line).size() != 3)
      fail(Errc::invalid_argument, "'{}' in '{}': sizes are MxNxK", parts[1], line);
    for (std::size_t i = 0; const std::string_view size : split(parts[1], 'x'))
      given.push_back({kSizeNames[i++], size, GivenAs::position});
    return 2;
  }
  Problem from_sizes(std::string_view line, DType dtype) const override {
    const auto cells = line.find_first_of("xX") == std::string_view::npos ? cells_of(line) : crossed(line);
    if (cells.size() != 3) {
      fail(Errc::corrupt_data, "'{}': write gemm:MxNxK..., MxNxK, m,n,k, or a CSV table with a header", line);
    }
    return make_gemm(parse_field<std::int64_t>("m", cells[0]), parse_field<std::int64_t>("n", cells[1]),
                     parse_field<std::int64_t>("k", cells[2]), dtype);
  }
  Problem from_fields(Op /*op*/, std::span<const GivenField> given, DType dtype) const override {
    GemmProblem problem = make_gemm(-1, -1, -1, dtype);
    set_fields(problem, given);
    return problem;
  }

  std::vector<Signature> answers_for(const Signature& signature, const Device& device) const override {
    const auto half = in_other_half(signature);  // measured on NVIDIA's GPUs only
    return half && device.vendor == "NVIDIA" ? std::vector{*half} : std::vector<Signature>();
  }
  std::vector<QualityTarget> quality_targets(Op /*op*/) const override {
    return {{Quality::mean, 90, true}, {Quality::p10, 75, true}};
  }
  std::vector<RunProperty> run_properties() const override { return gemm_run_properties(); }
  std::string pytorch(ProblemRef problem) const override { return pytorch_of(problem.as<GemmProblem>()); }

  std::string_view schema(std::string_view provider, DeviceKind device) const noexcept override {
    if (provider == "hopper") return "gemm_hopper";
    return device == DeviceKind::gpu ? "gemm_gpu" : "gemm";
  }
  /// Random sizes, and shapes of language models, a third as many; several may be equal.
  std::vector<Problem> tuning_problems(const TuningRequest& request) const override {
    std::vector<Problem> problems;
    for (const bool random : {true, false}) {
      const auto some = make_problem_set({.set = random ? "random" : "llm",
                                          .dtype = request.dtype,
                                          .layouts = {request.layouts.begin(), request.layouts.end()},
                                          .max_gflop = request.max_gflop,
                                          .max_bytes = request.max_bytes,
                                          .count = random ? request.count : request.count / 3,
                                          .seed = request.seed});
      problems.insert(problems.end(), some.begin(), some.end());
    }
    // Libraries take lines of 8-bit types only where they have a multiple of 16 bytes.
    if (bytes_per_element(request.dtype) > 1) return problems;
    for (Problem& problem : problems) {
      auto gemm = problem.as<GemmProblem>();
      gemm.n = (gemm.n + 15) / 16 * 16;
      gemm.k = (gemm.k + 15) / 16 * 16;
      problem = gemm;
    }
    return problems;
  }
  std::span<const ProblemSetInfo> sets() const noexcept override { return problem_sets(); }
  std::vector<Problem> named_set(std::string_view name, DType dtype,
                                 const std::vector<Layout>& wanted) const override {
    const auto set = make_problem_set({.set = std::string(name), .dtype = dtype, .layouts = wanted});
    return {set.begin(), set.end()};
  }
  std::vector<Problem> listed(std::string_view text, std::string_view source, DType dtype,
                              const std::vector<Layout>& wanted) const override {
    const auto set = make_problem_set(
        {.set = "file", .file = source, .text = std::string(text), .dtype = dtype, .layouts = wanted});
    return {set.begin(), set.end()};
  }
};

}  // namespace

const Operation& gemm_operation() {
  static const GemmOperation instance;
  return instance;
}

}  // namespace kscout
