#include "preload/result_checker.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include <kscout/error.h>

#include "backend/cuda/cuda_backend.h"
#include "core/fail.h"
#include "instruments/freivalds.h"
#include "op/gemm/gemm_views.h"
#include "preload/apart.h"
#include "preload/say.h"

namespace kscout::preload {

ResultChecker::ResultChecker(kscout_find find, std::uint64_t one_of)
    : driver_(Driver::found_by(find)), one_of_(one_of), off_(!driver_.is_complete() || !driver_.wait) {}

bool ResultChecker::is_due(const ProductCall& product) noexcept {
  // Of another outcome, not all is known that the result depends on.
  const Epilogue epilogue = product.problem.epilogue;
  const bool is_linear = epilogue == Epilogue::none || epilogue == Epilogue::bias;
  if (off_ || product.outcome != Outcome::served || product.problem.accumulate || !is_linear) return false;
  return calls_.fetch_add(1, std::memory_order_relaxed) % one_of_ == one_of_ - 1;
}

void ResultChecker::open() {
  int device = 0;
  void* primary = nullptr;
  if (driver_.device(&device) != 0 || driver_.current(&context_) != 0 ||
      driver_.retain(&primary, device) != 0 || primary != context_)
    fail(Errc::unsupported, "the program's context is not the primary one of its GPU");
  use_cuda_device(device);
  cuda::open_module();
  tools_ = &cuda::gpu_instruments();
}

void ResultChecker::check(const ProductCall& product) noexcept {
  void* context = nullptr;
  if (driver_.captures(product.operands.stream) || driver_.current(&context) != 0) return;
  try {
    const std::scoped_lock lock(checking_);
    const CaptureAside aside(driver_);
    if (off_) return;
    if (!tools_) run_apart([&] { open(); });
    if (context != context_ || driver_.wait(product.operands.stream) != 0) return;
    run_apart([&] { compare(product); });
  } catch (const std::bad_alloc&) {
  } catch (const std::exception& error) {
    off_ = true;
    kscout_say("results are checked no more: %s", error.what());
  }
}

void ResultChecker::compare(const ProductCall& product) {
  constexpr double kOperandsOfTf32 = 0x1p-10;  // round-offs of both, which the library rounds itself
  const Signature s = signature_of(product.problem);
  const auto [m, n, k, items, parts] = product_of(product.problem);
  const Operands& on = product.operands;
  const double root = std::sqrt(static_cast<double>(k));
  const double unit = std::max({round_off(s.dtype_c), root * sum_round_off(s.dtype_a, s.dtype_acc, k),
                                s.dtype_a == DType::tf32 ? kOperandsOfTf32 : 0});
  const std::vector<double> x = row_weights(n);
  double bias = 0;
  if (has_bias(s.epilogue)) {
    std::vector<std::int64_t> all(x.size());
    std::iota(all.begin(), all.end(), std::int64_t{0});
    std::vector<double> values(x.size());
    tools_->gather(s.dtype_c, on.bias, all, values);
    bias = std::inner_product(values.begin(), values.end(), x.begin(), 0.0);
  }
  const Product b = tools_->multiply(view_b(product.problem), on.b, items, x, Squares::scaled);
  const Product a = tools_->multiply(view_a(product.problem), on.a, items, b.value, Squares::plain);
  const Product c = tools_->multiply(view_c(product.problem), on.c, items, x, Squares::scaled);
  double worst = 0;
  std::string where;
  for (std::size_t row = 0; row < c.value.size(); ++row) {
    const auto item = static_cast<std::ptrdiff_t>(row / static_cast<std::size_t>(m));
    const auto of_item = b.squares.begin() + item * k;
    const double squares = a.squares[row] * std::accumulate(of_item, of_item + k, 0.0);
    const double size = std::max(std::sqrt(c.squares[row]), std::abs(on.alpha) * std::sqrt(squares) / root);
    const double expected = on.alpha * a.value[row] + bias, tolerance = kPartsSlack * unit * size;
    const double error = difference_over(c.value[row], expected, tolerance);
    if (error <= worst) continue;
    worst = error;
    where = fmt::format("the checksum of row {} of batch item {} is {:.9g}, not {:.9g} (tolerance {:.2g})",
                        row % static_cast<std::size_t>(m), item, c.value[row], expected, tolerance);
  }
  counts_.checked.fetch_add(1, std::memory_order_relaxed);
  counts_.largest = std::max(counts_.largest.load(), worst);
  if (worst <= 1) return;
  counts_.wrong.fetch_add(1, std::memory_order_relaxed);
  if (const std::string problem = print(product.problem); told_.insert(problem).second)
    kscout_say("%s: a result is wrong: %s", problem.c_str(), where.c_str());
}

}  // namespace kscout::preload
