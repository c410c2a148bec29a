// Describes GEMMs (Operation).
#include <algorithm>

#include <kscout/problem.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/problem_text.h"
#include "op/audit.h"
#include "op/gemm/gemm_forms.h"
#include "op/gemm/gemm_reference.h"
#include "op/gemm/gemm_sets.h"
#include "op/gemm/gemm_views.h"
#include "op/given_fields.h"
#include "op/lines.h"
#include "op/struct_operation.h"

namespace kscout {

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
            .needed_sizes = kSizeNames,
            .needed_flags = kSizeNames,
            .needed_cells = kSizeNames,
            .is_size =
                [](const ProblemField& field) {
                  return field.name == "batch" ||
                         std::ranges::find(kSizeNames, field.name) != std::end(kSizeNames);
                },
            .has_alpha = true,
            .has_epilogues = true,
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
      OperandList all;
      const auto add = [&](std::string_view name, TensorRole role, const MatrixView& view) {
        all.add({.name = name,
                 .dtype = view.dtype,
                 .role = role,
                 .rank = 3,
                 .sizes = {p.batch, view.lines(), view.length()},
                 .strides = {view.batch_stride, view.leading, 1}});
      };
      add("a", TensorRole::input, view_a(p));
      add("b", TensorRole::input, view_b(p));
      add("c", TensorRole::output, view_c(p));
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
  Problem part_of(const Problem& problem) const override {
    auto p = problem.as<GemmProblem>();
    std::int64_t* longest = &p.m;
    for (std::int64_t* const extent : {&p.n, &p.k}) longest = *extent > *longest ? extent : longest;
    if (p.batch > 1 || *longest < 8) return problem;
    const LeadingDimensions leading = leading_dimensions(p);
    p.lda = leading.a;
    p.ldb = leading.b;
    p.ldc = leading.c;
    *longest /= 8;
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
  /// Random sizes, products of language models and, of fp32, of the passes of training.
  std::vector<std::vector<Problem>> tuning_problems(const TuningRequest& request) const override {
    std::vector<std::vector<Problem>> sources;
    for (const std::string_view set : {"random", "llm", "training"}) {
      if (set == "training" && request.dtype != DType::fp32) continue;
      sources.push_back(
          records_of(make_problem_set({.set = std::string(set),
                                       .dtype = request.dtype,
                                       .layouts = {request.layouts.begin(), request.layouts.end()},
                                       .max_gflop = request.max_gflop,
                                       .max_bytes = request.max_bytes,
                                       .count = set == "llm" ? request.count / 3 : request.count,
                                       .seed = request.seed})));
      // Libraries take lines of 8-bit types only where they have a multiple of 16 bytes.
      if (bytes_per_element(request.dtype) > 1) continue;
      for (Problem& problem : sources.back()) {
        auto gemm = problem.as<GemmProblem>();
        gemm.n = (gemm.n + 15) / 16 * 16;
        gemm.k = (gemm.k + 15) / 16 * 16;
        problem = gemm;
      }
    }
    return sources;
  }
  std::span<const ProblemSetInfo> sets() const noexcept override { return problem_sets(); }
  std::vector<Problem> named_set(std::string_view name, DType dtype,
                                 const std::vector<Layout>& wanted) const override {
    return requested({.set = std::string(name), .dtype = dtype, .layouts = wanted});
  }
  std::vector<Problem> laid_out(const std::vector<Problem>& problems,
                                const std::vector<Layout>& wanted) const override {
    check_gemm_layouts(wanted);
    return merge_equal(Operation::laid_out(problems, wanted));
  }
  std::vector<Problem> requested(const ProblemSetRequest& request) const override {
    return records_of(make_problem_set(request));
  }
  ProblemDescription describe(ProblemRef problem) const override {
    const auto p = problem.as<GemmProblem>();
    ProblemDescription about = Operation::describe(problem);
    std::erase_if(about.quantities, [](const auto& quantity) {
      return std::ranges::find(kSizeNames, quantity.first) == std::end(kSizeNames);
    });
    about.slices.insert(about.slices.begin(),
                        {slice_of("shape family", shape_family(p)), slice_of("depth regime", depth_regime(p)),
                         slice_of("outline", outline(p))});
    return about;
  }
};

}  // namespace

const Operation& gemm_operation() {
  static const GemmOperation instance;
  return instance;
}

}  // namespace kscout
