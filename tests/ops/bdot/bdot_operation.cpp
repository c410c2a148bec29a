// What the problems are: operands, reference, text form, sets.
#include <cmath>
#include <random>

#include "core/fail.h"
#include "core/problem_text.h"
#include "op/given_fields.h"
#include "op/problem_sets.h"
#include "op/reference.h"
#include "op/struct_operation.h"
#include "ops/bdot/bdot.h"

namespace kscout {
namespace {

using P = BdotProblem;

constexpr Op kOps[] = {kBdot};
constexpr std::string_view kWords[] = {"bdot"};
constexpr Layout kLayouts[] = {Layout::rcr};
constexpr std::string_view kSizes[] = {"batch", "n"};
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;
constexpr ProblemSetInfo kSets[] = {{"bdot_random", "40 random sizes"}};

bool fits(const P& p) {
  return p.batch >= 0 && p.n >= 0 && p.weight >= 0 && std::isfinite(p.weight) &&
         (p.n == 0 || p.batch <= kMaxElements / p.n);
}

std::vector<P> random_problems(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<P> problems;
  for (std::size_t i = 0; i < count; ++i) {
    const auto size = [&] { return std::int64_t{1} << (random() % 10); };
    const std::int64_t batch = size(), n = size();
    problems.push_back({.batch = batch, .n = n + static_cast<std::int64_t>(random() % 4)});
  }
  return problems;
}

/// Every product in float64.
class BdotReference final : public Reference {
 public:
  BdotReference(const P& problem, const GemmOperands& operands) : device_(operands.device()) {
    const auto values = [&](std::size_t at, std::int64_t count) { return read(operands.operand(at), count); };
    const auto a = values(0, problem.batch * problem.n), b = values(1, problem.batch * problem.n);
    for (std::int64_t i = 0; i < problem.batch; ++i) {
      double sum = 0, size = 0;
      for (std::int64_t j = i * problem.n; j < (i + 1) * problem.n; ++j) {
        sum += a[static_cast<std::size_t>(j)] * b[static_cast<std::size_t>(j)];
        size += std::fabs(a[static_cast<std::size_t>(j)] * b[static_cast<std::size_t>(j)]);
      }
      expected_.push_back(sum);
      // Errors of a sum of fp32 in any order (N. Higham, "Accuracy and Stability of Numerical
      // Algorithms", 4.2).
      tolerance_.push_back(static_cast<double>(problem.n + 1) * 0x1p-24 * size + 0x1p-120);
    }
  }

  Verification check(const void* c) const override {
    Verification worst;
    const auto found = read(c, static_cast<std::int64_t>(expected_.size()));
    for (std::size_t i = 0; i < found.size(); ++i) {
      double error = std::fabs(found[i] - expected_[i]) / tolerance_[i];
      if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
      if (error > worst.error)
        worst = {error, fmt::format("C({}) = {}, expected {}", i, found[i], expected_[i])};
    }
    return worst;
  }

 private:
  std::vector<double> read(const void* data, std::int64_t count) const {
    std::vector<std::int64_t> places(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int64_t>(i);
    std::vector<double> values(places.size());
    device_.gather(DType::fp32, data, places, values);
    return values;
  }

  Instruments& device_;
  std::vector<double> expected_, tolerance_;
};

class BdotOperation final : public Operation {
 public:
  BdotOperation()
      : Operation({.space = {"bdot", problem_fields<P>()},
                   .ops = kOps,
                   .noun = "batch of dot products",
                   .plural = "batches of dot products",
                   .remedy = "write bdot:BATCHxN",
                   .example = "64x1000",
                   .meaning = "c[i] = sum over j of a[i][j] * b[i][j], `batch` times.",
                   .layouts = kLayouts,
                   .tuned_layouts = kLayouts,
                   .needed_sizes = kSizes,
                   .needed_flags = kSizes,
                   .needed_cells = kSizes,
                   .is_size = [](const ProblemField& field) { return field.role == FieldRole::identity; },
                   .tune_split = SplitBy::sizes,
                   .split_noun = "size",
                   .tune_share = 1}) {}

  Problem make(Op, DType, Layout) const override { return P{}; }
  Signature signature(ProblemRef) const noexcept override { return {.op = kBdot}; }
  double flops(ProblemRef problem) const noexcept override {
    const P p = problem.as<P>();
    return 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.n);
  }
  double bytes(ProblemRef problem) const noexcept override {
    const P p = problem.as<P>();
    return 4.0 * static_cast<double>(p.batch) * (2.0 * static_cast<double>(p.n) + 1);
  }
  void check(ProblemRef problem) const override {
    const P p = problem.as<P>();
    if (!fits(p)) {
      fail(Errc::invalid_argument,
           "bdot batch={}, n={}, weight={}: none may be negative, and batch * n is at most {}", p.batch, p.n,
           p.weight, kMaxElements);
    }
  }
  bool is_valid(ProblemRef problem) const noexcept override { return fits(problem.as<P>()); }
  std::string print(ProblemRef problem) const override {
    const P p = problem.as<P>();
    return fmt::format("bdot:{}x{}", p.batch, p.n) + assignments(p, P{.batch = p.batch, .n = p.n});
  }
  ImplicitGemm product(ProblemRef problem) const noexcept override {
    const P p = problem.as<P>();
    return {.m = 1, .n = 1, .k = p.n, .groups = p.batch};
  }
  OperandList operands(ProblemRef problem) const noexcept override {
    const P p = problem.as<P>();
    OperandList all;
    all.add(Tensor::packed("a", DType::fp32, TensorRole::input, {p.batch, p.n}));
    all.add(Tensor::packed("b", DType::fp32, TensorRole::input, {p.batch, p.n}));
    all.add(Tensor::packed("c", DType::fp32, TensorRole::output, {p.batch}));
    return all;
  }
  bool is_empty(ProblemRef problem) const noexcept override { return problem.as<P>().batch == 0; }
  std::unique_ptr<Reference> reference(ProblemRef problem, const GemmOperands& operands) const override {
    return std::make_unique<BdotReference>(problem.as<P>(), operands);
  }
  ProblemSizes weights(ProblemRef problem) const override { return {problem.as<P>().n}; }

  std::string_view syntax(Op) const noexcept override { return "bdot:BATCHxN[:name=value...]"; }
  std::size_t add_sizes(Op op, std::string_view line, std::span<const std::string_view> parts,
                        std::vector<GivenField>& given) const override {
    if (read_sizes(parts[1], line).size() != 2)
      fail(Errc::invalid_argument, "'{}' in '{}': write {}", parts[1], line, syntax(op));
    for (std::size_t i = 0; const std::string_view size : split(parts[1], 'x'))
      given.push_back({kSizes[i++], size, GivenAs::position});
    return 2;
  }
  Problem from_sizes(std::string_view line, DType) const override {
    fail(Errc::corrupt_data, "'{}': {}", line, remedy);
  }
  Problem from_fields(Op, std::span<const GivenField> given, DType) const override {
    return with_fields(P{}, given);
  }
  Problem with_fields(const Problem& problem, std::span<const GivenField> given) const override {
    P p = problem.as<P>();
    set_given_fields<P>(p, given, {{"dtype", {}, [](P&, std::string_view) {}}});
    return p;
  }

  std::string_view schema(std::string_view, DeviceKind) const noexcept override { return "bdot"; }
  std::vector<std::vector<Problem>> tuning_problems(const TuningRequest& request) const override {
    const auto some = random_problems(request.count, request.seed);
    return {{some.begin(), some.end()}};
  }
  std::span<const ProblemSetInfo> sets() const noexcept override { return kSets; }
  std::vector<Problem> named_set(std::string_view, DType, const std::vector<Layout>&) const override {
    const auto some = random_problems(40, 1);
    return {some.begin(), some.end()};
  }
  std::vector<Problem> listed(std::string_view text, std::string_view source, DType dtype,
                              const std::vector<Layout>&) const override {
    return parse_problems_of(*this, text, source, dtype);
  }
};

const BdotOperation& instance() {
  static const BdotOperation operation;
  return operation;
}

}  // namespace

std::span<const Operation* const> further_operations() noexcept {
  static const Operation* const all[] = {&instance()};
  return all;
}
std::span<const std::string_view> further_op_words() noexcept { return kWords; }

}  // namespace kscout
