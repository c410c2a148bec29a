#include <kscout/any_problem.h>

#include "core/fail.h"

namespace kscout {

const GemmProblem& Problem::gemm() const {
  if (const auto* gemm = std::get_if<GemmProblem>(&of_)) return *gemm;
  fail(Errc::unsupported, "{}: this is done for GEMMs only", print(*this));
}

const ConvProblem& Problem::conv() const {
  if (const auto* conv = std::get_if<ConvProblem>(&of_)) return *conv;
  fail(Errc::unsupported, "{}: this is done for convolutions only", print(*this));
}

const GemmProblem& ProblemRef::as_gemm() const {
  if (gemm_) return *gemm_;
  fail(Errc::unsupported, "{}: this is done for GEMMs only", print(*this));
}

Signature signature_of(ProblemRef problem) noexcept {
  return problem.visit([](const auto& of) { return signature_of(of); });
}
double flop_count(ProblemRef problem) noexcept {
  return problem.visit([](const auto& of) { return flop_count(of); });
}
double least_bytes(ProblemRef problem) noexcept {
  return problem.visit([](const auto& of) { return least_bytes(of); });
}
void check(ProblemRef problem) {
  problem.visit([](const auto& of) { check(of); });
}
std::string print(ProblemRef problem) {
  return problem.visit([](const auto& of) { return print(of); });
}

Problem parse_any_problem(std::string_view text) {
  if (is_conv_line(text)) return parse_conv_problem(text);
  return parse_problem(text);
}

ImplicitGemm product_of(ProblemRef problem) noexcept {
  if (const ConvProblem* conv = problem.conv()) return implicit_gemm(*conv);
  const GemmProblem& gemm = *problem.gemm();
  return {.m = gemm.m, .n = gemm.n, .k = gemm.k, .groups = gemm.batch};
}

ProblemSizes sizes_of(ProblemRef problem) {
  if (const GemmProblem* gemm = problem.gemm()) return {gemm->m, gemm->n, gemm->k, gemm->batch};
  ProblemSizes sizes;
  for_each_field<ConvProblem>([&](const auto& field) {
    using V = typename std::remove_cvref_t<decltype(field)>::value;
    if constexpr (std::is_same_v<V, std::int64_t>) {
      if (field.name != "split_k") sizes.push_back(problem.conv()->*field.member);
    }
  });
  return sizes;
}

}  // namespace kscout
