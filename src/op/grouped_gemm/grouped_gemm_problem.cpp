// Describes grouped GEMMs: sizes, text form, operands.
#include <algorithm>
#include <cmath>
#include <limits>

#include <kscout/grouped_gemm.h>

#include "core/fail.h"
#include "core/problem_text.h"
#include "op/gemm/product_types.h"
#include "op/given_fields.h"
#include "op/grouped_gemm/grouped_gemm_reference.h"
#include "op/grouped_gemm/grouped_gemm_sets.h"
#include "op/problem_sets.h"
#include "op/struct_operation.h"

namespace kscout {

namespace {

using P = GroupedGemmProblem;

constexpr std::int64_t kMaxOperandElements = std::int64_t{1} << 62;

/// The first error of a problem in words; empty without one.
std::string fault_of(const P& p) {
  if (const std::string_view field = field_without_word(p); !field.empty())
    return fmt::format("{}: the value is none of its enum", field);
  const auto sizes = p.m.sizes();
  if (sizes.empty()) return "m has no group; write the rows of each one, as 128+64+0+7";
  if (std::ssize(sizes) > P::max_groups) {
    return fmt::format("m has {} groups, at most {} are supported; split the call", sizes.size(),
                       P::max_groups);
  }
  for (std::size_t group = 0; group < sizes.size(); ++group) {
    if (sizes[group] >= 0 && sizes[group] <= P::max_rows) continue;
    return fmt::format("m of group {} is {}: must be from 0 to {}", group, sizes[group], P::max_rows);
  }
  if (p.n < 0) return fmt::format("n={}: must be at least 0", p.n);
  if (p.k < 0) return fmt::format("k={}: must be at least 0", p.k);
  if (!(p.weight >= 0) || !std::isfinite(p.weight))
    return fmt::format("weight={}: must be a finite number of calls, at least 0", p.weight);
  if (p.layout != Layout::rcr && p.layout != Layout::rrr) {
    return fmt::format("layout={}: rows of A and C belong to groups, so they are row-major; use rcr or rrr",
                       word(p.layout));
  }
  P derived = p;
  derive(derived);
  std::string stale;
  for_each_field<P>([&](const auto& field) {
    if (field.role != FieldRole::derived || p.*field.member == derived.*field.member) return;
    if (stale.empty()) {
      stale = fmt::format("{}={}: m gives {}; make the problem with make_grouped_gemm or call derive",
                          field.name, field_text(p.*field.member), field_text(derived.*field.member));
    }
  });
  if (!stale.empty()) return stale;
  const auto too_large = [](std::int64_t a, std::int64_t b) { return a != 0 && b > kMaxOperandElements / a; };
  if (too_large(p.m_sum, p.k))
    return fmt::format("operand a: {} x {} elements exceed the limit of 2^62", p.m_sum, p.k);
  if (too_large(p.n, p.k) || too_large(p.n * p.k, p.groups))
    return fmt::format("operand b: {} x {} x {} elements exceed the limit of 2^62", p.groups, p.n, p.k);
  if (too_large(p.m_sum, p.n))
    return fmt::format("operand c: {} x {} elements exceed the limit of 2^62", p.m_sum, p.n);
  return {};
}

}  // namespace

void derive(P& p) noexcept {
  p.groups = std::ssize(p.m.sizes());
  p.m_sum = p.m_max = p.m_filled = p.m_tiles_16 = p.m_tiles_64 = p.m_tiles_128 = 0;
  for (const std::int64_t size : p.m.sizes()) {
    const std::int64_t m = std::clamp<std::int64_t>(size, 0, P::max_rows);  // check() reports others
    p.m_sum += m;
    p.m_max = std::max(p.m_max, m);
    p.m_filled += m > 0;
    p.m_tiles_16 += (m + 15) / 16;
    p.m_tiles_64 += (m + 63) / 64;
    p.m_tiles_128 += (m + 127) / 128;
  }
}

P make_grouped_gemm(SizeList m, std::int64_t n, std::int64_t k, DType dtype, Layout layout) {
  const GemmProblem typed = make_gemm(0, n, k, dtype, layout);
  P p{.m = std::move(m),
      .n = n,
      .k = k,
      .dtype_a = typed.dtype_a,
      .dtype_b = typed.dtype_b,
      .dtype_c = typed.dtype_c,
      .dtype_acc = typed.dtype_acc,
      .layout = layout};
  derive(p);
  return p;
}

void set_fields(P& p, std::span<const GivenField> given) {
  set_given_fields<P>(p, given, {product_types<P>()});
  derive(p);
}

Signature signature_of(const P& p) noexcept {
  return {.op = Op::grouped_gemm,
          .dtype_a = p.dtype_a,
          .dtype_b = p.dtype_b,
          .dtype_c = p.dtype_c,
          .dtype_acc = p.dtype_acc,
          .layout = p.layout};
}

double flop_count(const P& p) noexcept {
  return 2.0 * static_cast<double>(p.m_sum) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

double min_bytes(const P& p) noexcept {
  const auto m = static_cast<double>(p.m_sum), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  return m * k * bytes_per_element(p.dtype_a) +
         static_cast<double>(p.m_filled) * n * k * bytes_per_element(p.dtype_b) +
         m * n * bytes_per_element(p.dtype_c);
}

void check(const P& p) {
  if (const std::string fault = fault_of(p); !fault.empty())
    fail(Errc::invalid_argument, "grouped_gemm {}", fault);
}

bool is_valid(const P& p) noexcept { return fault_of(p).empty(); }

std::string print(const P& p) {
  const P plain = make_grouped_gemm(p.m, p.n, p.k, p.dtype_a, p.layout);
  return fmt::format("grouped_gemm:{}x{}x{}:{}:{}", size_list_text(p.m), p.n, p.k, word(p.dtype_a),
                     word(p.layout)) +
         assignments(p, plain);
}

namespace {

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
            .usual_layouts = 1,
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
  std::vector<Problem> tuning_problems(const TuningRequest& request) const override {
    const auto some = random_grouped_gemms(request);
    return {some.begin(), some.end()};
  }
  std::span<const ProblemSetInfo> sets() const noexcept override { return grouped_gemm_sets(); }
  std::vector<Problem> named_set(std::string_view name, DType dtype,
                                 const std::vector<Layout>& wanted) const override {
    const auto set = make_grouped_gemm_set(name, dtype, wanted);
    return {set.begin(), set.end()};
  }
  std::vector<Problem> listed(std::string_view text, std::string_view source, DType dtype,
                              const std::vector<Layout>& wanted) const override {
    const auto stated = parse_problems_of<P>(text, source, dtype);
    std::vector<Problem> all;
    for (P p : stated) {
      if (wanted.empty()) all.push_back(p);
      for (const Layout layout : wanted) {
        p.layout = layout;
        kscout::check(p);
        all.push_back(p);
      }
    }
    return all;
  }
};

}  // namespace

const Operation& grouped_gemm_operation() {
  static const GroupedGemmOperation instance;
  return instance;
}

}  // namespace kscout
