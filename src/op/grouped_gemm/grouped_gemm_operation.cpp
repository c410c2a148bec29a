// Describes grouped GEMMs (Operation).

#include <kscout/grouped_gemm.h>

#include "core/fail.h"
#include "core/problem_text.h"
#include "op/given_fields.h"
#include "op/grouped_gemm/grouped_gemm_reference.h"
#include "op/grouped_gemm/grouped_gemm_sets.h"
#include "op/problem_sets.h"
#include "op/struct_operation.h"

namespace kscout {

namespace {

using P = GroupedGemmProblem;

constexpr Op kGroupedOps[] = {Op::grouped_gemm};
constexpr Layout kGroupedLayouts[] = {Layout::rcr, Layout::rrr};
constexpr std::string_view kGroupedSizes[] = {"m", "n", "k"};

class GroupedGemmOperation final : public StructOperation<P> {
 public:
  GroupedGemmOperation()
      : StructOperation({
            .space = {"grouped_gemm", problem_fields<P>()},
            .ops = kGroupedOps,
            .noun = "grouped GEMM",
            .plural = "grouped GEMMs",
            .remedy = "write grouped_gemm:M+M+...xNxK...",
            .example = "128+64+0+7x1408x2048",
            .meaning = "C_g(m_g,n) = alpha * A_g(m_g,k) * B_g(k,n) for every group g.",
            .layouts = kGroupedLayouts,
            .tuned_layouts = kGroupedLayouts,
            .needed_sizes = kGroupedSizes,
            .needed_flags = kGroupedSizes,
            .needed_cells = kGroupedSizes,
            .is_size =
                [](const ProblemField& field) {
                  return std::ranges::find(kGroupedSizes, field.name) != std::end(kGroupedSizes);
                },
            .has_alpha = true,
            .tune_split = SplitBy::weights,
            .split_noun = "weight matrix",
            .tune_share = 0.5,
        }) {}

  using Operation::make;
  Problem make(Op /*op*/, DType dtype, Layout layout) const override {
    return make_grouped_gemm({}, 0, 0, dtype, layout);
  }
  void derive(Problem& problem) const override {
    P p = problem.as<P>();
    kscout::derive(p);
    problem = p;
  }
  /// That of a group of mean size, as often as there are groups with rows.
  ImplicitGemm product(ProblemRef problem) const noexcept override {
    return with(problem, [](const P& p) {
      const std::int64_t filled = std::max<std::int64_t>(1, p.m_filled);
      return ImplicitGemm{.m = (p.m_sum + filled - 1) / filled, .n = p.n, .k = p.k, .groups = filled};
    });
  }
  OperandList operands(ProblemRef problem) const noexcept override {
    return with(problem, [](const P& p) {
      OperandList all;
      all.add(Tensor::packed("a", p.dtype_a, TensorRole::input, {p.m_sum, p.k}));
      if (row_major_b(p.layout)) {
        all.add(Tensor::packed("b", p.dtype_b, TensorRole::input, {p.groups, p.k, p.n}));
      } else {
        all.add(Tensor::packed("b", p.dtype_b, TensorRole::input, {p.groups, p.n, p.k}));
      }
      all.add(Tensor::packed("c", p.dtype_c, TensorRole::output, {p.m_sum, p.n}));
      return all;
    });
  }
  bool is_empty(ProblemRef problem) const noexcept override {
    return with(problem, [](const P& p) { return p.m_sum == 0 || p.n == 0; });
  }
  std::unique_ptr<Reference> reference(ProblemRef problem, const GemmOperands& of) const override {
    return std::make_unique<GroupedGemmReference>(problem.as<P>(), of);
  }
  ProblemSizes weights(ProblemRef problem) const override {
    const P p = problem.as<P>();
    return {0, p.n, p.k};
  }

  std::string_view syntax(Op /*op*/) const noexcept override {
    return "grouped_gemm:M+M+...xNxK[:dtype][:layout][:name=value...]";
  }
  std::size_t add_sizes(Op op, std::string_view line, std::span<const std::string_view> parts,
                        std::vector<GivenField>& given) const override {
    const auto sizes = split(parts[1], 'x');
    if (sizes.size() != 3) fail(Errc::invalid_argument, "'{}' in '{}': write {}", parts[1], line, syntax(op));
    for (std::size_t i = 0; i < sizes.size(); ++i)
      given.push_back({kGroupedSizes[i], sizes[i], GivenAs::position});
    return 2;
  }
  Problem from_sizes(std::string_view line, DType /*dtype*/) const override {
    fail(Errc::corrupt_data, "'{}': {}", line, remedy);
  }
  Problem from_fields(Op /*op*/, std::span<const GivenField> given, DType dtype) const override {
    P problem = make_grouped_gemm({}, -1, -1, dtype);
    set_fields(problem, given);
    return problem;
  }

  std::string_view schema(std::string_view provider, DeviceKind /*device*/) const noexcept override {
    if (provider == "native") return "grouped_gemm";
    return provider == "hopper" ? "grouped_gemm_gpu" : "grouped_gemm_tiles";
  }
  std::vector<std::vector<Problem>> tuning_problems(const TuningRequest& request) const override {
    return {records_of(random_grouped_gemms(request))};
  }
  std::span<const ProblemSetInfo> sets() const noexcept override { return grouped_gemm_sets(); }
  std::vector<Problem> named_set(std::string_view name, DType dtype,
                                 const std::vector<Layout>& wanted) const override {
    return records_of(make_grouped_gemm_set(name, dtype, wanted));
  }
};

}  // namespace

const Operation& grouped_gemm_operation() {
  static const GroupedGemmOperation instance;
  return instance;
}

}  // namespace kscout
