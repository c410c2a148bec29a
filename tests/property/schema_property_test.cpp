// Checks that feature rows of many configs equal rows of single configs, bit for bit.
#include <bit>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <kscout/provider.h>

#include "features/schema.h"

namespace kscout {
namespace {

GemmProblem any_problem() {
  const auto size = [] {
    return *rc::gen::element<std::int64_t>(0, 1, 3, 16, 63, 64, 129, 1021, 4096, 20480);
  };
  const auto dtype = *rc::gen::element(DType::fp32, DType::fp16, DType::bf16, DType::fp8, DType::int8);
  GemmProblem problem =
      make_gemm(size(), size(), size(), dtype, *rc::gen::arbitrary<bool>() ? Layout::rcr : Layout::crr);
  problem.batch = *rc::gen::inRange<std::int64_t>(1, 4);
  problem.split_k = *rc::gen::inRange<std::int64_t>(0, 4);
  return problem;
}

/// Each trait unknown, zero or a size.
Traits any_traits() {
  Traits traits;
  for_each_field<Traits>([&](const auto& field) {
    const int choice = *rc::gen::inRange(0, 8);
    if (choice > 0)
      traits.*field.member = choice == 1 ? 0 : *rc::gen::element(1.0, 2.0, 6.0, 16.0, 100.0, 256.0, 4096.0);
  });
  return traits;
}

/// Known words only: the encoding's first two of each.
KernelConfig any_ck_config(const ConfigSpace& space) {
  KernelConfig config(space);
  for (std::size_t i = 0; i < space.axes.size(); ++i) {
    config[i] =
        space.axes[i].words.empty() ? *rc::gen::element(0, 1, 2, 16, 32, 100, 256) : *rc::gen::inRange(0, 2);
  }
  return config;
}

void expect_same_bits(std::span<const double> a, std::span<const double> b) {
  RC_ASSERT(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool both_unknown = a[i] != a[i] && b[i] != b[i];
    RC_ASSERT(both_unknown || std::bit_cast<std::uint64_t>(a[i]) == std::bit_cast<std::uint64_t>(b[i]));
  }
}

RC_GTEST_PROP(Schema, ManyConfigsGiveTheRowsOfEach, ()) {
  const Schema& schema = Schema::find(*rc::gen::element<std::string>("gemm", "ck_gemm_55", "ck_gemm_72"));
  const ConfigSpace& space = provider("ck_tile").space(Op::gemm);
  const auto rows = *rc::gen::element<std::size_t>(1, 2, 63, 64, 65, 300);  // around the evaluator's block
  const Device device = device_preset(*rc::gen::element<std::string>("gfx950", "h200", "epyc-7763"));
  ConfigTable configs(space);
  std::vector<Traits> traits;
  const std::vector<Traits> few = {any_traits(), any_traits(), any_traits()};
  const std::vector<KernelConfig> some = {any_ck_config(space), any_ck_config(space), any_ck_config(space)};
  for (std::size_t i = 0; i < rows; ++i) {
    configs.push_back(some[i * 7 % 3]);
    traits.push_back(few[i * 5 / 2 % 3]);
  }
  std::vector<double> many(rows * schema.size()), one(schema.size()), of_problem(schema.size());
  for (int i = 0; i < 2; ++i) {
    const GemmProblem problem = any_problem();
    schema.evaluate(problem, device, configs, traits, many);
    schema.evaluate_problem(problem, device, of_problem);
    for (std::size_t row = 0; row<rows; row += rows> 4 ? 41 : 1) {
      schema.evaluate(problem, device, configs[row], traits[row], one);
      expect_same_bits(std::span(many).subspan(row * schema.size(), schema.size()), one);
      for (std::size_t f = 0; f < schema.size(); ++f) {
        if (schema.depends(f).problem_only())
          expect_same_bits(std::span(&one[f], 1), std::span(&of_problem[f], 1));
      }
    }
  }
}

}  // namespace
}  // namespace kscout
