#include "preload/read_calls.h"

#include <bit>
#include <cstring>
#include <optional>

#include "op/gemm/gemm_views.h"

namespace kscout::preload {

namespace {

// cuBLAS and cuBLASLt API reference: cudaDataType_t, cublasComputeType_t, cublasMath_t, ...
constexpr int kR32F = 0, kR64F = 1, kR16F = 2, kR32I = 10;
constexpr int kCompute16F = 64, kCompute32F = 68, kCompute64F = 70, kCompute32I = 72, kCompute32FTf32 = 77;
constexpr int kPedantic = 1;  // added to the four above
constexpr int kMathModeBits = 15, kPedanticMath = 2, kTf32Math = 3;
constexpr int kHostPointers = 0;
constexpr int kNotTransposed = 0;
// cublasLtMatmulDescAttributes_t
constexpr int kMultiprocessors = 15;
constexpr int kScalePointers[] = {17, 18, 19, 20, 21, 23, 24, 36};
constexpr int kScaleModes[] = {33, 34, 35, 37};

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

Unread set_types(const Product& product, GemmProblem& p) noexcept {
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

Unread set_problem(const Product& product, GemmProblem& problem) noexcept {
  if (product.m < 1 || product.n < 1 || product.k < 1 || product.batch < 1) return Unread::sizes;
  GemmProblem p;
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
  if (const Unread why = set_types(product, p); why != Unread::none) return why;
  problem = p;
  return Unread::none;
}

/// Whether a factor of this type (a cudaDataType_t) in the host's memory is 0.
bool is_zero(const void* factor, int type) noexcept {
  const std::size_t bytes = type == kR64F ? 8 : type == kR16F ? 2 : 4;
  std::uint64_t bits = 0;
  std::memcpy(&bits, factor, bytes);
  if (type != kR32I) bits &= ~(std::uint64_t{1} << (8 * bytes - 1));  // -0 is 0, too
  return bits == 0;
}

/// Attributes of one descriptor of cuBLASLt. Attributes that a release does not know keep their default.
class Attributes {
 public:
  using Get = int (*)(void*, int, void*, std::size_t, std::size_t*);
  Attributes(Get get, void* descriptor) noexcept : get_(get), descriptor_(descriptor) {}

  template <class V>
  V value(int attribute, V otherwise, bool* missing = nullptr) const noexcept {
    V read = otherwise;
    std::size_t written = 0;
    if (get_(descriptor_, attribute, &read, sizeof read, &written) == 0 && written == sizeof read)
      return read;
    if (missing) *missing = true;
    return otherwise;
  }

 private:
  Get get_;
  void* descriptor_;
};

struct Matrix {
  Matrix(Attributes::Get get, void* descriptor, bool& missing) noexcept {
    const Attributes from(get, descriptor);
    type = from.value<std::int32_t>(0, -1, &missing);
    order = from.value<std::int32_t>(1, 0, &missing);
    rows = static_cast<std::int64_t>(from.value<std::uint64_t>(2, 0, &missing));
    columns = static_cast<std::int64_t>(from.value<std::uint64_t>(3, 0, &missing));
    leading = from.value<std::int64_t>(4, 0, &missing);
    batch = from.value<std::int32_t>(5, 1);
    stride = from.value<std::int64_t>(6, 0);
  }
  operator Side() const noexcept { return {type, leading, stride}; }  // NOLINT: the same matrix

  std::int32_t type, order, batch;
  std::int64_t rows, columns, leading, stride;
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

/// Sets alpha and beta where both are fp32.
Outcome set_factors(int compute, const void* alpha, const void* beta, Operands& operands) noexcept {
  if (compute == kCompute32F + kPedantic) return Outcome::precision;
  if ((compute != kCompute32F && compute != kCompute32FTf32) || !alpha) return Outcome::factors;
  float factors[2];
  std::memcpy(&factors[0], alpha, sizeof(float));
  std::memcpy(&factors[1], beta, sizeof(float));
  operands.alpha = static_cast<double>(factors[0]);
  operands.beta = static_cast<double>(factors[1]);
  return Outcome::served;
}

/// The call's A is the problem's B.
void set_matrices(Operands& operands, const void* a, const void* b, void* c) noexcept {
  operands.a = b;
  operands.b = a;
  operands.c = c;
}

/// Whether the items of a batch lie as those of a problem do; distances are the call's.
bool follow_each_other(const GemmProblem& problem, std::int64_t stride_a, std::int64_t stride_b,
                       std::int64_t stride_c) noexcept {
  return problem.batch == 1 ||
         (stride_b == view_a(problem).batch_stride && stride_a == view_b(problem).batch_stride &&
          stride_c == view_c(problem).batch_stride);
}

#define KSCOUT_NAME(name, library, missing) #name,
constexpr std::array<const char*, kscout_entries> kEntryNames = {KSCOUT_TAKEN(KSCOUT_NAME)};
#undef KSCOUT_NAME

}  // namespace

const char* entry_name(kscout_entry entry) noexcept { return kEntryNames[entry]; }

Unread read(const kscout_gemm_call& call, const Library& library, GemmProblem& problem) noexcept {
  int pointers = kHostPointers, math_mode = 0;
  if (library.get_pointer_mode) library.get_pointer_mode(call.handle, &pointers);
  if (library.get_math_mode) library.get_math_mode(call.handle, &math_mode);
  if (pointers != kHostPointers || !call.beta) return Unread::factors;
  return set_problem({.transa = call.transa != kNotTransposed,
                      .transb = call.transb != kNotTransposed,
                      .m = call.m,
                      .n = call.n,
                      .k = call.k,
                      .batch = call.batch,
                      .a = {call.type_a, call.lda, call.stride_a},
                      .b = {call.type_b, call.ldb, call.stride_b},
                      .c = {call.type_c, call.ldc, call.stride_c},
                      .compute = call.compute,
                      .math_mode = math_mode,
                      .accumulate = !is_zero(call.beta, scale_type_of(call.compute))},
                     problem);
}

Unread read(const kscout_matmul_call& call, const Library& library, GemmProblem& problem) noexcept {
  if (!library.get_operation || !library.get_matrix || !call.operation || !call.layout_a || !call.layout_b ||
      !call.layout_c || !call.layout_d)
    return Unread::descriptors;
  bool missing = false;
  const Attributes operation(library.get_operation, call.operation);
  const auto compute = operation.value<std::int32_t>(0, -1, &missing);
  const auto factor_type = operation.value<std::int32_t>(1, kR32F);
  const auto pointers = operation.value<std::int32_t>(2, kHostPointers);
  const auto transa = operation.value<std::int32_t>(3, kNotTransposed);
  const auto transb = operation.value<std::int32_t>(4, kNotTransposed);
  const auto epilogue = epilogue_of(operation.value<std::uint32_t>(7, 1));
  const auto matrix = [&](void* layout) { return Matrix(library.get_matrix, layout, missing); };
  const Matrix a = matrix(call.layout_a), b = matrix(call.layout_b), c = matrix(call.layout_c),
               d = matrix(call.layout_d);
  if (missing) return Unread::descriptors;
  if (pointers != kHostPointers || !call.beta) return Unread::factors;
  if (!epilogue) return Unread::epilogue;
  if (a.order != 0 || b.order != 0 || c.order != 0 || d.order != 0) return Unread::order;
  constexpr int kScaleModeOfA = 31, kScaleModeOfB = 32;
  if (operation.value<std::int32_t>(kScaleModeOfA, 0) != 0 ||
      operation.value<std::int32_t>(kScaleModeOfB, 0) != 0)
    return Unread::scales;
  const bool accumulate = !is_zero(call.beta, factor_type);
  if (accumulate && c.type != d.type) return Unread::types;
  return set_problem({.transa = transa != kNotTransposed,
                      .transb = transb != kNotTransposed,
                      .m = d.rows,
                      .n = d.columns,
                      .k = transa != kNotTransposed ? a.rows : a.columns,
                      .batch = d.batch,
                      .a = a,
                      .b = b,
                      .c = d,
                      .compute = compute,
                      .epilogue = *epilogue,
                      .accumulate = accumulate},
                     problem);
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

CallDetails details_of(const kscout_gemm_call& call, const Library& library) noexcept {
  CallDetails found{.compute = call.compute, .scale_type = scale_type_of(call.compute)};
  if (call.batch > 1)
    found.stride_a = call.stride_b, found.stride_b = call.stride_a, found.stride_c = call.stride_c;
  if (library.get_math_mode) library.get_math_mode(call.handle, &found.math_mode);
  if (library.get_sm_count) library.get_sm_count(call.handle, &found.multiprocessors);
  return found;
}

CallDetails details_of(const kscout_matmul_call& call, const Library& library) noexcept {
  const Attributes operation(library.get_operation, call.operation);
  CallDetails found{.compute = operation.value<std::int32_t>(0, 0),
                    .scale_type = operation.value<std::int32_t>(1, kR32F),
                    .multiprocessors = operation.value<std::int32_t>(kMultiprocessors, 0)};
  for (const int attribute : kScalePointers)
    found.scales = static_cast<std::uint8_t>(2 * found.scales +
                                             (operation.value<const void*>(attribute, nullptr) != nullptr));
  for (const int attribute : kScaleModes)
    found.has_other_scales |= operation.value<std::int32_t>(attribute, 0) != 0;
  bool missing = false;
  const auto matrix = [&](void* layout) { return Matrix(library.get_matrix, layout, missing); };
  const Matrix a = matrix(call.layout_a), b = matrix(call.layout_b), c = matrix(call.layout_c),
               d = matrix(call.layout_d);
  if (d.batch > 1) found.stride_a = b.stride, found.stride_b = a.stride, found.stride_c = d.stride;
  found.is_in_place = c.leading == d.leading && c.stride == d.stride && c.rows == d.rows &&
                      c.columns == d.columns && c.batch == d.batch;
  return found;
}

Outcome read_operands(const kscout_gemm_call& call, const Library& library, const GemmProblem& problem,
                      Operands& operands) noexcept {
  int math_mode = 0, multiprocessors = 0;
  if (library.get_math_mode) library.get_math_mode(call.handle, &math_mode);
  if (library.get_sm_count) library.get_sm_count(call.handle, &multiprocessors);
  if ((math_mode & kMathModeBits) == kPedanticMath) return Outcome::precision;
  if (multiprocessors != 0) return Outcome::share;
  if (!library.get_stream || library.get_stream(call.handle, &operands.stream) != 0) return Outcome::off;
  const Outcome why = set_factors(call.compute, call.alpha, call.beta, operands);
  if (why != Outcome::served) return why;
  if (!follow_each_other(problem, call.stride_a, call.stride_b, call.stride_c)) return Outcome::strides;
  set_matrices(operands, call.a, call.b, call.c);
  return Outcome::served;
}

Outcome read_operands(const kscout_matmul_call& call, const Library& library, const GemmProblem& problem,
                      Operands& operands) noexcept {
  constexpr int kBiasPointer = 8, kBiasStride = 10, kBiasType = 26;
  constexpr std::int32_t kTypeOfD = -1;
  const Attributes operation(library.get_operation, call.operation);
  const auto pointer = [&](int attribute) { return operation.value<const void*>(attribute, nullptr); };
  for (const int attribute : kScalePointers) {
    if (pointer(attribute)) return Outcome::scales;
  }
  for (const int attribute : kScaleModes) {
    if (operation.value<std::int32_t>(attribute, 0) != 0) return Outcome::scales;
  }
  if (operation.value<std::int32_t>(kMultiprocessors, 0) != 0) return Outcome::share;
  if (operation.value<std::int32_t>(1, kR32F) != kR32F) return Outcome::factors;
  const Outcome why = set_factors(operation.value<std::int32_t>(0, -1), call.alpha, call.beta, operands);
  if (why != Outcome::served) return why;
  bool missing = false;
  const auto matrix = [&](void* layout) { return Matrix(library.get_matrix, layout, missing); };
  const Matrix d = matrix(call.layout_d);
  if (operands.beta != 0) {
    const Matrix c = matrix(call.layout_c);
    const bool same = c.leading == d.leading && c.stride == d.stride && c.batch == d.batch &&
                      c.rows == d.rows && c.columns == d.columns;
    if (call.c != call.d || !same) return Outcome::addend;
  }
  if (problem.batch > 1) {
    const Matrix a = matrix(call.layout_a), b = matrix(call.layout_b);
    if (a.batch != d.batch || b.batch != d.batch || !follow_each_other(problem, a.stride, b.stride, d.stride))
      return Outcome::strides;
  }
  if (has_bias(problem.epilogue)) {
    operands.bias = pointer(kBiasPointer);
    const auto type = operation.value<std::int32_t>(kBiasType, kTypeOfD);
    const bool batched = problem.batch > 1 && operation.value<std::int64_t>(kBiasStride, 0) != 0;
    if (!operands.bias || (type != kTypeOfD && type != d.type) || batched) return Outcome::bias;
  }
  set_matrices(operands, call.a, call.b, call.d);
  operands.workspace = call.workspace;
  operands.workspace_bytes = call.workspace_bytes;
  operands.stream = call.stream;
  return Outcome::served;
}

Unread read(const kscout_blas_call& call, GemmProblem& problem) noexcept {
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
                     problem);
}

Operands operands_of(const kscout_blas_call& call) noexcept {
  return {.a = call.b, .b = call.a, .c = call.c, .alpha = call.alpha, .beta = call.beta};
}

}  // namespace kscout::preload
