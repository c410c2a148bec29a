#include "preload/read_calls.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "op/gemm/gemm_views.h"

namespace kscout::preload {

namespace {

// cuBLAS and cuBLASLt API reference: cudaDataType_t, cublasComputeType_t, cublasMath_t, ...
constexpr int kR32F = 0, kR64F = 1, kR16F = 2, kR32I = 10;
constexpr int kCompute16F = 64, kCompute32F = 68, kCompute64F = 70, kCompute32I = 72, kCompute32FTf32 = 77;
constexpr int kPedantic = 1;  // added to the four above
constexpr int kMathModeBits = 15, kPedanticMath = 2, kTf32Math = 3;
constexpr int kHostPointers = 0, kGpuPointers = 1;  // then vectors
constexpr int kNotTransposed = 0;
// cublasLtMatmulDescAttributes_t
constexpr int kMultiprocessors = 15;
constexpr int kScalePointers[] = {17, 18, 19, 20, 21, 23, 24, 36};
constexpr int kScaleModes[] = {33, 34, 35, 37};
constexpr int kScaleModeOfA = 31, kScaleModeOfB = 32;

std::optional<DType> dtype_of(int type) noexcept {
  switch (type) {
    case kR32F:
      return DType::fp32;
    case kR64F:
      return DType::fp64;
    case kR16F:
      return DType::fp16;
    case 3:
      return DType::int8;
    case kR32I:
      return DType::int32;
    case 14:
      return DType::bf16;
    case 16:
      return DType::int4;
    case 28:
      return DType::fp8;
    case 29:
      return DType::bf8;
    default:
      return std::nullopt;
  }
}

/// A matrix of a call.
struct Side {
  int type = 0;
  std::int64_t leading = 0, stride = 0;
};

/// One product, whichever function computes it; sizes and matrices are the library's.
struct Product {
  bool transa = false, transb = false;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Side a = {}, b = {}, c = {};
  int compute = 0, math_mode = 0;
  Epilogue epilogue = Epilogue::none;
  bool accumulate = false;
};

// Inlined, like set_problem(): a product that is stored and loaded again costs each call more than reading
// it.
[[gnu::always_inline]] inline Unread set_types(const Product& product, GemmProblem& p) noexcept {
  const auto a = dtype_of(product.b.type), b = dtype_of(product.a.type), c = dtype_of(product.c.type);
  if (!a || !b || !c) return Unread::types;
  p.dtype_a = *a;
  p.dtype_b = *b;
  p.dtype_c = *c;
  const bool fp32 = *a == DType::fp32 && *b == DType::fp32 && *c == DType::fp32;
  switch (product.compute) {
    case kCompute16F:
    case kCompute16F + kPedantic:
      p.dtype_acc = DType::fp16;
      return Unread::none;
    case kCompute64F:
    case kCompute64F + kPedantic:
      p.dtype_acc = DType::fp64;
      return Unread::none;
    case kCompute32I:
    case kCompute32I + kPedantic:
      p.dtype_acc = DType::int32;
      return Unread::none;
    case kCompute32F:
    case kCompute32F + kPedantic:
    case kCompute32FTf32:
      break;
    default:
      return Unread::compute;
  }
  p.dtype_acc = DType::fp32;
  if (!fp32 || product.compute == kCompute32F + kPedantic) return Unread::none;
  const int mode = product.math_mode & kMathModeBits;
  if (product.compute == kCompute32FTf32 || mode == kTf32Math) {
    p.dtype_a = p.dtype_b = p.dtype_c = DType::tf32;
    return Unread::none;
  }
  return mode == 0 || mode == kPedanticMath ? Unread::none : Unread::compute;
}

/// A leading dimension as problems have it: 0 when packed; -1 when it is too small.
std::int64_t leading(std::int64_t given, std::int64_t packed) noexcept {
  return given == packed ? 0 : given > packed ? given : -1;
}

[[gnu::always_inline]] inline Unread set_problem(const Product& product, GemmProblem& p) noexcept {
  if (product.m < 1 || product.n < 1 || product.k < 1 || product.batch < 1) return Unread::sizes;
  p.m = product.n;
  p.n = product.m;
  p.k = product.k;
  p.batch = product.batch;
  const bool row_a = !product.transb, row_b = !product.transa;
  p.layout = row_a ? (row_b ? Layout::rrr : Layout::rcr) : (row_b ? Layout::crr : Layout::ccr);
  p.lda = leading(product.b.leading, row_a ? p.k : p.m);
  p.ldb = leading(product.a.leading, row_b ? p.n : p.k);
  p.ldc = leading(product.c.leading, p.n);
  if (p.lda < 0 || p.ldb < 0 || p.ldc < 0) return Unread::sizes;
  if (p.batch > 1 && (product.a.stride == 0 || product.b.stride == 0)) return Unread::batch;
  p.epilogue = product.epilogue;
  p.accumulate = product.accumulate;
  return set_types(product, p);
}

/// Whether a factor of this type (a cudaDataType_t) in the host's memory is 0.
bool is_zero(const void* factor, int type) noexcept {
  const std::size_t bytes = type == kR64F ? 8 : type == kR16F ? 2 : 4;
  std::uint64_t bits = 0;
  std::memcpy(&bits, factor, bytes);
  if (type != kR32I) bits &= ~(std::uint64_t{1} << (8 * bytes - 1));  // -0 is 0, too
  return bits == 0;
}

/// Attributes of one descriptor of cuBLASLt.
class Attributes {
 public:
  using Get = int (*)(void*, int, void*, std::size_t, std::size_t*);
  Attributes(Get get, void* descriptor) noexcept : get_(get), descriptor_(descriptor) {}

  /// The default where a release does not know the attribute. Not inlined: dozens of copies are slower.
  template <class V>
  [[gnu::noinline]] V value(int attribute, V otherwise) const noexcept {
    V read = otherwise;
    std::size_t written = 0;
    if (get_(descriptor_, attribute, &read, sizeof read, &written) == 0 && written == sizeof read)
      return read;
    return otherwise;
  }
  const void* pointer(int attribute) const noexcept { return value<const void*>(attribute, nullptr); }

 private:
  Get get_;
  void* descriptor_;
};

/// A matrix of cuBLASLt. Each attribute costs a call of the library, so nothing is read that is not needed.
class Matrix {
 public:
  Matrix(const Library& library, void* layout) noexcept : from_(library.get_matrix, layout) {}
  std::int32_t type() const noexcept { return from_.value<std::int32_t>(0, -1); }
  bool is_column_major() const noexcept { return from_.value<std::int32_t>(1, 0) == 0; }
  std::int64_t rows() const noexcept { return from_.value<std::int64_t>(2, 0); }
  std::int64_t columns() const noexcept { return from_.value<std::int64_t>(3, 0); }
  std::int64_t leading() const noexcept { return from_.value<std::int64_t>(4, 0); }
  std::int32_t batch() const noexcept { return from_.value<std::int32_t>(5, 1); }
  std::int64_t stride() const noexcept { return from_.value<std::int64_t>(6, 0); }
  Side side(std::int64_t items) const noexcept { return {type(), leading(), items > 1 ? stride() : 0}; }

 private:
  Attributes from_;
};

std::optional<Epilogue> epilogue_of(std::uint32_t epilogue) noexcept {
  switch (epilogue) {
    case 1:
      return Epilogue::none;
    case 2:
      return Epilogue::relu;
    case 4:
      return Epilogue::bias;
    case 6:
      return Epilogue::bias_relu;
    case 32:
      return Epilogue::gelu;
    case 36:
      return Epilogue::bias_gelu;
    default:
      return std::nullopt;
  }
}

/// Sets the operands of a call that no more than alpha and beta can keep us from computing.
Outcome set_operands(const void* a, const void* b, void* c, const void* alpha, const void* beta,
                     ProductCall& found) noexcept {
  const CallDetails& details = found.details;
  Operands& operands = found.operands;
  operands.a = b;  // the call's A is the problem's B
  operands.b = a;
  operands.c = c;
  if (details.compute == kCompute32F + kPedantic || (details.math_mode & kMathModeBits) == kPedanticMath)
    return Outcome::precision;
  if (details.multiprocessors != 0) return Outcome::share;
  if (details.has_gpu_factors) return Outcome::gpu_factors;
  if ((details.compute != kCompute32F && details.compute != kCompute32FTf32) || details.scale_type != kR32F ||
      !alpha)
    return Outcome::factors;
  float factors[2];
  std::memcpy(&factors[0], alpha, sizeof(float));
  std::memcpy(&factors[1], beta, sizeof(float));
  operands.alpha = static_cast<double>(factors[0]);
  operands.beta = static_cast<double>(factors[1]);
  const GemmProblem& p = found.problem;
  if (p.batch > 1 &&
      (details.stride_a != view_a(p).batch_stride || details.stride_b != view_b(p).batch_stride ||
       details.stride_c != view_c(p).batch_stride))
    return Outcome::strides;
  return Outcome::served;
}

void set_strides(const Product& product, CallDetails& details) noexcept {
  if (product.batch > 1)
    details.stride_a = product.b.stride, details.stride_b = product.a.stride,
    details.stride_c = product.c.stride;
}

/// Those of at most 8 bits (cuBLASLt API reference, cublasLtMatmul()).
bool may_have_scales(const GemmProblem& p) noexcept {
  return std::min(
             {bytes_per_element(p.dtype_a), bytes_per_element(p.dtype_b), bytes_per_element(p.dtype_c)}) <= 1;
}
void read_scales(const Attributes& operation, CallDetails& details) noexcept {
  for (const int attribute : kScalePointers)
    details.scales =
        static_cast<std::uint8_t>(2 * details.scales + (operation.pointer(attribute) != nullptr));
  for (const int attribute : kScaleModes)
    details.has_other_scales |= operation.value<std::int32_t>(attribute, 0) != 0;
}

#define KSCOUT_NAME(name, library, missing) std::pair(#name, std::string_view(library) == KSCOUT_ANY_LIBRARY),
constexpr std::pair<const char*, bool> kEntries[] = {KSCOUT_TAKEN(KSCOUT_NAME)};
#undef KSCOUT_NAME

}  // namespace

const char* entry_name(kscout_entry entry) noexcept { return kEntries[entry].first; }
bool is_on_cpu(kscout_entry entry) noexcept { return kEntries[entry].second; }

Unread read(const kscout_gemm_call& call, const Library& library, ProductCall& found) noexcept {
  CallDetails& details = found.details;
  int pointers = kHostPointers;
  if (!library.get_stream || library.get_stream(call.handle, &found.operands.stream) != 0)
    return Unread::descriptors;
  if (library.get_pointer_mode) library.get_pointer_mode(call.handle, &pointers);
  if (library.get_math_mode) library.get_math_mode(call.handle, &details.math_mode);
  if (library.get_sm_count) library.get_sm_count(call.handle, &details.multiprocessors);
  if (!call.beta) return Unread::sizes;
  details.compute = call.compute;
  details.scale_type = scale_type_of(call.compute);
  details.has_gpu_factors = pointers != kHostPointers;
  const Product product{.transa = call.transa != kNotTransposed,
                        .transb = call.transb != kNotTransposed,
                        .m = call.m,
                        .n = call.n,
                        .k = call.k,
                        .batch = call.batch,
                        .a = {call.type_a, call.lda, call.stride_a},
                        .b = {call.type_b, call.ldb, call.stride_b},
                        .c = {call.type_c, call.ldc, call.stride_c},
                        .compute = call.compute,
                        .math_mode = details.math_mode,
                        .accumulate = !details.has_gpu_factors && !is_zero(call.beta, details.scale_type)};
  if (const Unread why = set_problem(product, found.problem); why != Unread::none) return why;
  set_strides(product, details);
  found.outcome = set_operands(call.a, call.b, call.c, call.alpha, call.beta, found);
  return Unread::none;
}

Unread read(const kscout_matmul_call& call, const Library& library, ProductCall& found) noexcept {
  constexpr int kBiasPointer = 8, kBiasStride = 10, kBiasType = 26;
  constexpr std::int32_t kTypeOfD = -1, kUnknown = -1;
  if (!library.get_operation || !library.get_matrix || !call.operation || !call.layout_a || !call.layout_b ||
      !call.layout_c || !call.layout_d)
    return Unread::descriptors;
  if (!call.beta) return Unread::sizes;
  CallDetails& details = found.details;
  const Attributes operation(library.get_operation, call.operation);
  const Matrix a(library, call.layout_a), b(library, call.layout_b), d(library, call.layout_d);
  details.compute = operation.value<std::int32_t>(0, kUnknown);
  details.scale_type = operation.value<std::int32_t>(1, kR32F);
  const auto pointers = operation.value<std::int32_t>(2, kHostPointers);
  const bool transa = operation.value<std::int32_t>(3, kNotTransposed) != kNotTransposed;
  const auto epilogue = epilogue_of(operation.value<std::uint32_t>(7, 1));
  details.multiprocessors = operation.value<std::int32_t>(kMultiprocessors, 0);
  details.has_gpu_factors = pointers != kHostPointers;
  const bool accumulate = !details.has_gpu_factors && !is_zero(call.beta, details.scale_type);
  if (!epilogue) return Unread::epilogue;
  if (!a.is_column_major() || !b.is_column_major() || !d.is_column_major()) return Unread::order;
  const std::int32_t items = d.batch();
  const Product product{.transa = transa,
                        .transb = operation.value<std::int32_t>(4, kNotTransposed) != kNotTransposed,
                        .m = d.rows(),
                        .n = d.columns(),
                        .k = transa ? a.rows() : a.columns(),
                        .batch = items,
                        .a = a.side(items),
                        .b = b.side(items),
                        .c = d.side(items),
                        .compute = details.compute,
                        .epilogue = *epilogue,
                        .accumulate = accumulate};
  if (details.compute == kUnknown || product.a.type == kUnknown) return Unread::descriptors;
  if (const Unread why = set_problem(product, found.problem); why != Unread::none) return why;
  set_strides(product, details);
  if (accumulate) {
    const Matrix c(library, call.layout_c);
    if (c.type() != product.c.type) return Unread::types;
    if (!c.is_column_major()) return Unread::order;
    details.is_in_place = c.leading() == product.c.leading && c.rows() == product.m &&
                          c.columns() == product.n && c.batch() == items &&
                          (items == 1 || c.stride() == product.c.stride);
  }
  if (may_have_scales(found.problem)) {
    for (const int attribute : {kScaleModeOfA, kScaleModeOfB})
      if (operation.value<std::int32_t>(attribute, 0) != 0) return Unread::scales;
    read_scales(operation, details);
  }
  const bool has_scales = details.scales != 0 || details.has_other_scales;
  details.has_other_scales |= pointers > kGpuPointers;  // a vector of alphas
  Operands& operands = found.operands;
  operands.workspace = call.workspace;
  operands.workspace_bytes = call.workspace_bytes;
  operands.stream = call.stream;
  found.outcome = set_operands(call.a, call.b, call.d, call.alpha, call.beta, found);
  if (found.outcome != Outcome::served) return Unread::none;
  if (has_scales) found.outcome = Outcome::scales;
  if (accumulate && (call.c != call.d || !details.is_in_place)) found.outcome = Outcome::addend;
  if (items > 1 && (a.batch() != items || b.batch() != items)) found.outcome = Outcome::strides;
  if (has_bias(found.problem.epilogue)) {
    operands.bias = operation.pointer(kBiasPointer);
    const auto type = operation.value<std::int32_t>(kBiasType, kTypeOfD);
    const bool batched = items > 1 && operation.value<std::int64_t>(kBiasStride, 0) != 0;
    if (!operands.bias || (type != kTypeOfD && type != product.c.type) || batched)
      found.outcome = Outcome::bias;
  }
  return Unread::none;
}

bool has_refused_scales(const kscout_matmul_call& call, const Library& library,
                        const ProductCall& product) noexcept {
  CallDetails found;
  if (!may_have_scales(product.problem)) read_scales({library.get_operation, call.operation}, found);
  return found.scales != 0 || found.has_other_scales;
}

int scale_type_of(int compute) noexcept {
  switch (compute) {
    case kCompute16F:
    case kCompute16F + kPedantic:
      return kR16F;
    case kCompute64F:
    case kCompute64F + kPedantic:
      return kR64F;
    case kCompute32I:
    case kCompute32I + kPedantic:
      return kR32I;
    default:
      return kR32F;
  }
}

int lt_compute_of(const kscout_gemm_call& call, int math_mode) noexcept {
  const bool tf32 = call.compute == kCompute32F && call.type_a == kR32F && call.type_b == kR32F &&
                    (math_mode & kMathModeBits) == kTf32Math;
  return tf32 ? kCompute32FTf32 : call.compute;
}

Unread read(const kscout_blas_call& call, ProductKey& found) noexcept {
  if (call.integer_bits == 0) return Unread::integers;
  if (call.transa < 0 || call.transb < 0) return Unread::sizes;
  return set_problem({.transa = call.transa != 0,
                      .transb = call.transb != 0,
                      .m = call.m,
                      .n = call.n,
                      .k = call.k,
                      .a = {.type = kR32F, .leading = call.lda},
                      .b = {.type = kR32F, .leading = call.ldb},
                      .c = {.type = kR32F, .leading = call.ldc},
                      .compute = kCompute32F,
                      .accumulate = call.beta != 0},
                     found.problem);
}

Operands operands_of(const kscout_blas_call& call) noexcept {
  return {.a = call.b, .b = call.a, .c = call.c, .alpha = call.alpha, .beta = call.beta};
}

}  // namespace kscout::preload
