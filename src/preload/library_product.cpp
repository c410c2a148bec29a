#include "preload/library_product.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "preload/read_calls.h"

namespace kscout::preload {

namespace {

template <class Function>
Function* found(kscout_find find, const char* library, const char* name) {
  return reinterpret_cast<Function*>(find(library, name));
}

template <class Int>
using GemmEx = int(void*, int, int, Int, Int, Int, const void*, const void*, int, Int, const void*, int, Int,
                   const void*, void*, int, Int, int, int);
template <class Int>
using StridedBatchedEx = int(void*, int, int, Int, Int, Int, const void*, const void*, int, Int, long long,
                             const void*, int, Int, long long, const void*, void*, int, Int, long long, Int,
                             int, int);
template <class Int>
using Sgemm = int(void*, int, int, Int, Int, Int, const void*, const void*, Int, const void*, Int,
                  const void*, void*, Int);
template <class Int>
using SgemmStridedBatched = int(void*, int, int, Int, Int, Int, const void*, const void*, Int, long long,
                                const void*, Int, long long, const void*, void*, Int, long long, Int);

template <class Int>
int call_gemm(kscout_find find, kscout_entry entry, const kscout_gemm_call& c, const CallOperands& on) {
  const auto i = [](std::int64_t size) { return static_cast<Int>(size); };
  const char* const name = entry_name(entry);
  switch (entry) {
    case kscout_cublasGemmEx:
    case kscout_cublasGemmEx_64:
      return found<GemmEx<Int>>(find, "libcublas", name)(
          c.handle, c.transa, c.transb, i(c.m), i(c.n), i(c.k), on.alpha, on.a, c.type_a, i(c.lda), on.b,
          c.type_b, i(c.ldb), on.beta, on.c, c.type_c, i(c.ldc), c.compute, c.algorithm);
    case kscout_cublasGemmStridedBatchedEx:
    case kscout_cublasGemmStridedBatchedEx_64:
      return found<StridedBatchedEx<Int>>(find, "libcublas", name)(
          c.handle, c.transa, c.transb, i(c.m), i(c.n), i(c.k), on.alpha, on.a, c.type_a, i(c.lda),
          c.stride_a, on.b, c.type_b, i(c.ldb), c.stride_b, on.beta, on.c, c.type_c, i(c.ldc), c.stride_c,
          i(c.batch), c.compute, c.algorithm);
    case kscout_cublasSgemm_v2:
    case kscout_cublasSgemm_v2_64:
      return found<Sgemm<Int>>(find, "libcublas", name)(c.handle, c.transa, c.transb, i(c.m), i(c.n), i(c.k),
                                                        on.alpha, on.a, i(c.lda), on.b, i(c.ldb), on.beta,
                                                        on.c, i(c.ldc));
    default:
      return found<SgemmStridedBatched<Int>>(find, "libcublas", name)(
          c.handle, c.transa, c.transb, i(c.m), i(c.n), i(c.k), on.alpha, on.a, i(c.lda), c.stride_a, on.b,
          i(c.ldb), c.stride_b, on.beta, on.c, i(c.ldc), c.stride_c, i(c.batch));
  }
}

bool has_long_integers(kscout_entry entry) noexcept {
  return entry == kscout_cublasGemmEx_64 || entry == kscout_cublasGemmStridedBatchedEx_64 ||
         entry == kscout_cublasSgemm_v2_64 || entry == kscout_cublasSgemmStridedBatched_64;
}

/// Functions of cuBLASLt.
struct Lt {
  explicit Lt(kscout_find find) {
    const auto set = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find("libcublasLt", name));
      is_complete &= function != nullptr;
    };
    set(matmul, "cublasLtMatmul");
    set(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    set(check, "cublasLtMatmulAlgoCheck");
    set(configure, "cublasLtMatmulAlgoConfigSetAttribute");
    set(get_number, "cublasLtMatmulAlgoConfigGetAttribute");
    set(make_operation, "cublasLtMatmulDescCreate");
    set(drop_operation, "cublasLtMatmulDescDestroy");
    set(get_operation, "cublasLtMatmulDescGetAttribute");
    set(set_operation, "cublasLtMatmulDescSetAttribute");
    set(make_layout, "cublasLtMatrixLayoutCreate");
    set(drop_layout, "cublasLtMatrixLayoutDestroy");
    set(set_layout, "cublasLtMatrixLayoutSetAttribute");
    set(make_preference, "cublasLtMatmulPreferenceCreate");
    set(drop_preference, "cublasLtMatmulPreferenceDestroy");
    set(set_preference, "cublasLtMatmulPreferenceSetAttribute");
  }

  bool is_complete = true;
  int (*matmul)(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*,
                void*, void*, void*, const void*, void*, std::size_t, void*) = nullptr;
  int (*heuristic)(void*, void*, void*, void*, void*, void*, void*, int, void*, int*) = nullptr;
  int (*check)(void*, void*, void*, void*, void*, void*, const void*, void*) = nullptr;
  int (*configure)(void*, int, const void*, std::size_t) = nullptr;
  int (*get_number)(const void*, int, void*, std::size_t, std::size_t*) = nullptr;
  int (*make_operation)(void**, int, int) = nullptr;
  int (*drop_operation)(void*) = nullptr;
  int (*get_operation)(void*, int, void*, std::size_t, std::size_t*) = nullptr;
  int (*set_operation)(void*, int, const void*, std::size_t) = nullptr;
  int (*make_layout)(void**, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  int (*drop_layout)(void*) = nullptr;
  int (*set_layout)(void*, int, const void*, std::size_t) = nullptr;
  int (*make_preference)(void**) = nullptr;
  int (*drop_preference)(void*) = nullptr;
  int (*set_preference)(void*, int, const void*, std::size_t) = nullptr;
};

template <class V>
void set(int (*function)(void*, int, const void*, std::size_t), void* of, int attribute, const V& value) {
  function(of, attribute, &value, sizeof value);
}

class Product : public LibraryProduct {
 public:
  explicit Product(const Lt& lt) : lt_(lt) {}

  std::vector<LtAlgorithm> suggestions(const CallOperands& on) const override {
    // cublasLtMatmulPreferenceAttributes_t
    constexpr int kMaxWorkspace = 1, kAlignmentOfA = 5;
    std::vector<LtAlgorithm> all(kSuggestions);
    void* preference = nullptr;
    if (lt_.make_preference(&preference) != 0) return {};
    set(lt_.set_preference, preference, kMaxWorkspace, on.workspace_bytes);
    int attribute = kAlignmentOfA;
    for (const void* const address :
         {on.a, on.b, static_cast<const void*>(on.c), static_cast<const void*>(on.c)})
      set(lt_.set_preference, preference, attribute++, alignment_of(address));
    int count = 0;
    const int status = lt_.heuristic(on.handle, operation_, layouts_[0], layouts_[1], layouts_[2],
                                     layouts_[3], preference, kSuggestions, all.data(), &count);
    lt_.drop_preference(preference);
    all.resize(status == 0 ? static_cast<std::size_t>(count) : 0);
    if (!all.empty()) all.push_back(without_split(all.front(), on));
    std::erase_if(all, [&](const LtAlgorithm& one) {
      return one.state != 0 || one.workspace_bytes > on.workspace_bytes;
    });
    return all;
  }
  int run_by(const LtAlgorithm& algorithm, const CallOperands& on) const override {
    return lt_.matmul(on.handle, operation_, on.alpha, on.a, layouts_[0], on.b, layouts_[1], on.beta, on.c,
                      layouts_[2], on.c, layouts_[3], algorithm.opaque.data(), on.workspace,
                      on.workspace_bytes, on.stream);
  }
  int run_by(const LtAlgorithm& algorithm, const kscout_matmul_call& c) const override {
    return lt_.matmul(c.handle, c.operation, c.alpha, c.a, c.layout_a, c.b, c.layout_b, c.beta, c.c,
                      c.layout_c, c.d, c.layout_d, algorithm.opaque.data(), c.workspace, c.workspace_bytes,
                      c.stream);
  }
  std::optional<CublasLtConfig> config_of(const LtAlgorithm& algorithm, std::int32_t release) const override {
    CublasLtNumbers n;
    bool is_known = true;
    int attribute = 0;  // cublasLtMatmulAlgoConfigAttributes_t: in this order
    const auto read = [&](auto& number) {
      std::size_t written = 0;
      is_known &= lt_.get_number(algorithm.opaque.data(), attribute++, &number, sizeof number, &written) == 0;
    };
    const auto read_all = [&](auto&... numbers) { (read(numbers), ...); };
    read_all(n.id, n.tile, n.split_k, n.reduction, n.swizzle, n.custom, n.stages, n.inner, n.cluster);
    return is_known ? kscout::config_of(n, release) : std::nullopt;
  }

 protected:
  static std::uint32_t alignment_of(const void* address) noexcept {
    constexpr std::uintptr_t kMost = 256;
    const auto bits = reinterpret_cast<std::uintptr_t>(address) | kMost;
    return static_cast<std::uint32_t>(bits & -bits);
  }
  /// The same algorithm, K in one piece; `state` is not 0 where the library refuses it.
  LtAlgorithm without_split(LtAlgorithm algorithm, const CallOperands& on) const {
    constexpr int kSplitK = 2, kReductionScheme = 3;  // cublasLtMatmulAlgoConfigAttributes_t
    set(lt_.configure, algorithm.opaque.data(), kSplitK, std::int32_t{1});
    set(lt_.configure, algorithm.opaque.data(), kReductionScheme, std::uint32_t{0});
    LtAlgorithm checked;
    const int status = lt_.check(on.handle, operation_, layouts_[0], layouts_[1], layouts_[2], layouts_[3],
                                 algorithm.opaque.data(), &checked);
    algorithm.state = static_cast<std::uint32_t>(status);
    algorithm.workspace_bytes = checked.workspace_bytes;
    return algorithm;
  }

  const Lt lt_;
  void* operation_ = nullptr;
  std::array<void*, 4> layouts_{};  ///< of A, B, C and D
};

class GemmProduct final : public Product {
 public:
  GemmProduct(kscout_find find, const Lt& lt, kscout_entry entry, const kscout_gemm_call& call)
      : Product(lt), find_(find), entry_(entry), call_(call) {
    constexpr int kPointerMode = 2, kTransa = 3, kTransb = 4;
    int math_mode = 0, pointer_mode = 0;
    if (const auto get = found<int(void*, int*)>(find, "libcublas", "cublasGetMathMode"))
      get(call.handle, &math_mode);
    if (const auto get = found<int(void*, int*)>(find, "libcublas", "cublasGetPointerMode_v2"))
      get(call.handle, &pointer_mode);
    if (lt_.make_operation(&operation_, lt_compute_of(call, math_mode), scale_type_of(call.compute)) != 0)
      return;
    set(lt_.set_operation, operation_, kPointerMode, std::int32_t{pointer_mode});
    set(lt_.set_operation, operation_, kTransa, std::int32_t{call.transa});
    set(lt_.set_operation, operation_, kTransb, std::int32_t{call.transb});
    const bool ta = call.transa != 0, tb = call.transb != 0;
    add_layout(0, call.type_a, ta ? call.k : call.m, ta ? call.m : call.k, call.lda, call.stride_a);
    add_layout(1, call.type_b, tb ? call.n : call.k, tb ? call.k : call.n, call.ldb, call.stride_b);
    add_layout(2, call.type_c, call.m, call.n, call.ldc, call.stride_c);
    layouts_[3] = layouts_[2];
  }
  ~GemmProduct() override {
    for (std::size_t i = 0; i < 3; ++i)
      if (layouts_[i]) lt_.drop_layout(layouts_[i]);
    if (operation_) lt_.drop_operation(operation_);
  }
  GemmProduct(const GemmProduct&) = delete;
  GemmProduct& operator=(const GemmProduct&) = delete;

  bool is_complete() const noexcept { return operation_ && layouts_[0] && layouts_[1] && layouts_[2]; }
  int run(const CallOperands& on) const override {
    return has_long_integers(entry_) ? call_gemm<std::int64_t>(find_, entry_, call_, on)
                                     : call_gemm<int>(find_, entry_, call_, on);
  }

 private:
  void add_layout(std::size_t at, int type, std::int64_t rows, std::int64_t columns, std::int64_t leading,
                  std::int64_t stride) {
    constexpr int kBatch = 5, kStride = 6;
    if (lt_.make_layout(&layouts_[at], type, static_cast<std::uint64_t>(rows),
                        static_cast<std::uint64_t>(columns), leading) != 0)
      return;
    if (call_.batch == 1) return;
    set(lt_.set_layout, layouts_[at], kBatch, static_cast<std::int32_t>(call_.batch));
    set(lt_.set_layout, layouts_[at], kStride, stride);
  }

  kscout_find find_;
  kscout_entry entry_;
  kscout_gemm_call call_;
};

class MatmulProduct final : public Product {
 public:
  MatmulProduct(const Lt& lt, const kscout_matmul_call& call, const SideReferences& side)
      : Product(lt), algorithm_(call.algorithm) {
    layouts_ = {call.layout_a, call.layout_b, call.layout_d, call.layout_d};
    std::int32_t compute = 0, scale = 0;
    if (!get(call.operation, 0, &compute) || !get(call.operation, 1, &scale) ||
        lt_.make_operation(&operation_, compute, scale) != 0)
      return;
    constexpr int kLast = 37;  // cublasLtMatmulDescAttributes_t
    for (int attribute = 2; attribute <= kLast; ++attribute) copy(call.operation, attribute, side);
  }
  ~MatmulProduct() override {
    if (operation_) lt_.drop_operation(operation_);
  }
  MatmulProduct(const MatmulProduct&) = delete;
  MatmulProduct& operator=(const MatmulProduct&) = delete;

  bool is_complete() const noexcept { return operation_ != nullptr; }
  int run(const CallOperands& on) const override {
    return lt_.matmul(on.handle, operation_, on.alpha, on.a, layouts_[0], on.b, layouts_[1], on.beta, on.c,
                      layouts_[2], on.c, layouts_[3], algorithm_, on.workspace, on.workspace_bytes,
                      on.stream);
  }

 private:
  bool get(void* operation, int attribute, std::int32_t* value) const {
    std::size_t written = 0;
    return lt_.get_operation(operation, attribute, value, sizeof *value, &written) == 0;
  }
  void copy(void* from, int attribute, const SideReferences& side) {
    constexpr int kBias = 8, kMaximum = 21;
    constexpr std::array kScales = {17, 18, 19, 20};
    std::array<std::uint64_t, 8> value{};
    std::size_t bytes = 0, written = 0;
    if (lt_.get_operation(from, attribute, nullptr, 0, &bytes) != 0 || bytes > sizeof value ||
        lt_.get_operation(from, attribute, value.data(), bytes, &written) != 0)
      return;
    const auto replace = [&](const void* by) {
      if (value[0] != 0) value[0] = reinterpret_cast<std::uintptr_t>(by);
    };
    if (attribute == kBias) replace(side.bias);
    if (attribute == kMaximum) replace(side.maximum);
    if (std::ranges::find(kScales, attribute) != kScales.end()) replace(side.one);
    lt_.set_operation(operation_, attribute, value.data(), bytes);
  }

  const void* algorithm_;
};

}  // namespace

std::unique_ptr<LibraryProduct> LibraryProduct::of(kscout_find find, kscout_entry entry,
                                                   const kscout_gemm_call& call, const SideReferences&) {
  const Lt lt(find);
  if (!lt.is_complete) return nullptr;
  auto made = std::make_unique<GemmProduct>(find, lt, entry, call);
  return made->is_complete() ? std::move(made) : nullptr;
}

std::unique_ptr<LibraryProduct> LibraryProduct::of(kscout_find find, kscout_entry,
                                                   const kscout_matmul_call& call,
                                                   const SideReferences& side) {
  const Lt lt(find);
  if (!lt.is_complete) return nullptr;
  auto made = std::make_unique<MatmulProduct>(lt, call, side);
  return made->is_complete() ? std::move(made) : nullptr;
}

}  // namespace kscout::preload
