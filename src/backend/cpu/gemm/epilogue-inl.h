// Implements the epilogues of one target: a pass over elements of C that a kernel has just stored.
#include "backend/cpu/common/lanes-inl.h"
#include "backend/cpu/gemm/gemm_kernels.h"

// After lanes-inl.h, which sets Highway's target.
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace kscout::cpu::HWY_NAMESPACE {

enum class Activation { none, relu, gelu };

/// The tanh form of GELU, written with exp: 0.5 (1 + tanh(z)) = 1 / (1 + exp(-2 z)). Without the difference
/// of nearly equal numbers, results near 0 keep their precision.
HWY_INLINE V gelu(V x) {
  const V inner = hn::MulAdd(hn::Mul(hn::Set(d, 0.044715F), hn::Mul(x, x)), x, x);
  // Highway's exp takes arguments up to 104; exp(100) is infinite already, and x / infinity = 0.
  const V power = hn::Min(hn::Mul(hn::Set(d, -1.5957691216F), inner), hn::Set(d, 100.0F));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0F), hn::Exp(d, power)));
}

template <Activation What>
HWY_INLINE V activated(V x) {
  if constexpr (What == Activation::gelu) return gelu(x);
  // Unlike a maximum, this keeps NaN.
  if constexpr (What == Activation::relu) return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
  return x;
}

template <bool HasBias, Activation What>
void epilogue(const EpilogueArgs& args) {
  const std::int64_t whole = args.n / kLanes * kLanes;
  const Lanes rest(args.n - whole);
  for (std::int64_t i = 0; i < args.m; ++i) {
    float* const row = args.c + i * args.ldc;
    for (std::int64_t j = 0; j < whole; j += kLanes) {
      V v = hn::LoadU(d, row + j);
      if constexpr (HasBias) v = hn::Add(v, hn::LoadU(d, args.bias + j));
      hn::StoreU(activated<What>(v), d, row + j);
    }
    if (whole == args.n) continue;
    V v = rest.load(row + whole);
    if constexpr (HasBias) v = hn::Add(v, rest.load(args.bias + whole));
    rest.store(activated<What>(v), row + whole);
  }
}

inline void fill_epilogues(GemmKernels& set) {
  const auto at = [&](Epilogue word) -> EpilogueKernel& {
    return set.epilogue[static_cast<std::size_t>(word)];
  };
  at(Epilogue::bias) = epilogue<true, Activation::none>;
  at(Epilogue::relu) = epilogue<false, Activation::relu>;
  at(Epilogue::gelu) = epilogue<false, Activation::gelu>;
  at(Epilogue::bias_relu) = epilogue<true, Activation::relu>;
  at(Epilogue::bias_gelu) = epilogue<true, Activation::gelu>;
}

}  // namespace kscout::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
