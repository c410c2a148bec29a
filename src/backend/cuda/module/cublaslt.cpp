#include "backend/cuda/module/cublaslt.h"

#include <algorithm>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "backend/cuda/module/device.h"
#include "family/listed.h"
#include "provider/cublaslt/library_numbers.h"

namespace kscout::cuda {

namespace {

constexpr int kMaxSuggestions = static_cast<int>(kListedAlgorithms);
// The library's number of split-K slices for "divides K in its own way".
constexpr std::int32_t kOwnDivision = -1;

CallStatus check_lt(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return CallStatus::done;
  const bool refused = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
                       status == CUBLAS_STATUS_ARCH_MISMATCH;
  return answer(refused ? CallStatus::unsupported : CallStatus::failed, "%s: %s", what,
                cublaslt()->GetStatusString(status));
}

/// One handle for all threads, which the library allows.
cublasLtHandle_t handle() {
  static const cublasLtHandle_t made = [] {
    cublasLtHandle_t one = nullptr;
    const CublasLt* const lt = cublaslt();
    if (lt && check_lt(lt->Create(&one), "opening cuBLASLt") != CallStatus::done) one = nullptr;
    return one;
  }();
  return made;
}

bool data_type(DType dtype, cudaDataType_t& type) {
  constexpr std::pair<DType, cudaDataType_t> kTypes[] = {
      {DType::fp64, CUDA_R_64F},   {DType::fp32, CUDA_R_32F},  {DType::tf32, CUDA_R_32F},
      {DType::fp16, CUDA_R_16F},   {DType::bf16, CUDA_R_16BF}, {DType::fp8, CUDA_R_8F_E4M3},
      {DType::bf8, CUDA_R_8F_E5M2}};
  const auto* const found = std::ranges::find(kTypes, dtype, &std::pair<DType, cudaDataType_t>::first);
  if (found == std::end(kTypes)) return false;
  type = found->second;
  return true;
}

cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::relu:
      return CUBLASLT_EPILOGUE_RELU;
    case Epilogue::gelu:
      return CUBLASLT_EPILOGUE_GELU;
    case Epilogue::bias_relu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::bias_gelu:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case Epilogue::none:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

/// Types, descriptor and matrices of one shape. `first` is the library's A (our B), `second` its B (our A).
class Description {
 public:
  Description() = default;
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  ~Description() {
    const CublasLt* const lt = cublaslt();
    if (operation) lt->MatmulDescDestroy(operation);
    for (cublasLtMatrixLayout_t one : {first, second, result}) {
      if (one) lt->MatrixLayoutDestroy(one);
    }
  }

  CallStatus make(const MatmulShape& s) {
    if (!handle()) return CallStatus::failed;
    const bool known = data_type(s.dtype_b, type_first) && data_type(s.dtype_a, type_second) &&
                       data_type(s.dtype_c, type_result);
    const bool sums_fp32 = s.dtype_acc == DType::fp32;
    if (!known || !sums_fp32)
      return answer(CallStatus::unsupported, "cuBLASLt: no such combination of element types here");
    if (type_result != CUDA_R_32F) reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    compute = s.dtype_a == DType::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const CublasLt* const lt = cublaslt();
    if (const CallStatus got = check_lt(lt->MatmulDescCreate(&operation, compute, CUDA_R_32F), "describing");
        got != CallStatus::done)
      return got;
    const auto op = [](bool transposed) -> std::int32_t { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const bool row_a = row_major_a(s.layout), row_b = row_major_b(s.layout);
    const auto epilogue = static_cast<std::uint32_t>(epilogue_of(s.epilogue));
    CallStatus got = set(CUBLASLT_MATMUL_DESC_TRANSA, op(!row_b));
    if (got == CallStatus::done) got = set(CUBLASLT_MATMUL_DESC_TRANSB, op(!row_a));
    if (got == CallStatus::done) got = set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (got == CallStatus::done && has_bias(s.epilogue)) {
      got = set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(type_result));
    }
    if (got == CallStatus::done) {
      got = make_layout(first, type_first, row_b ? s.n : s.k, row_b ? s.k : s.n, s.ldb, s, s.stride_b);
    }
    if (got == CallStatus::done) {
      got = make_layout(second, type_second, row_a ? s.k : s.m, row_a ? s.m : s.k, s.lda, s, s.stride_a);
    }
    if (got == CallStatus::done) got = make_layout(result, type_result, s.n, s.m, s.ldc, s, s.stride_c);
    return got;
  }

  template <class V>
  CallStatus set(cublasLtMatmulDescAttributes_t attribute, const V& value) {
    return check_lt(cublaslt()->MatmulDescSetAttribute(operation, attribute, &value, sizeof value),
                    "an attribute of the product");
  }

  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  /// Reduction schemes for split-K slices: a C narrower than the accumulator must not hold partial sums.
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  cudaDataType_t type_first{}, type_second{}, type_result{};
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;

 private:
  static CallStatus make_layout(cublasLtMatrixLayout_t& layout, cudaDataType_t type, std::int64_t rows,
                                std::int64_t columns, std::int64_t leading, const MatmulShape& s,
                                std::int64_t stride) {
    const CublasLt* const lt = cublaslt();
    CallStatus got = check_lt(lt->MatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                                     static_cast<std::uint64_t>(columns), leading),
                              "describing a matrix");
    if (got != CallStatus::done || s.batch == 1) return got;
    const auto count = static_cast<std::int32_t>(s.batch);
    got = check_lt(
        lt->MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "the batch");
    if (got != CallStatus::done) return got;
    return check_lt(lt->MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                 sizeof stride),
                    "the batch");
  }
};

template <class V>
V config_value(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  V value{};
  std::size_t written = 0;
  cublaslt()->MatmulAlgoConfigGetAttribute(&algo, attribute, &value, sizeof value, &written);
  return value;
}

/// False when the algorithm uses a tile, stages or a cluster without a name in the header, or an unexplained
/// number of split-K slices.
bool read_algorithm(const cublasLtMatmulAlgo_t& algo, CublasLtConfig& out) {
  const auto number = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
    return static_cast<std::int32_t>(config_value<std::uint32_t>(algo, attribute));
  };
  const auto short_number = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
    return static_cast<std::int32_t>(config_value<std::uint16_t>(algo, attribute));
  };
  const auto* const tile =
      find_number(library_tiles(), static_cast<std::uint32_t>(number(CUBLASLT_ALGO_CONFIG_TILE_ID)));
  const auto* const stages =
      find_number(library_stages(), static_cast<std::uint32_t>(number(CUBLASLT_ALGO_CONFIG_STAGES_ID)));
  const auto* const cluster = find_number(
      library_clusters(), static_cast<std::uint32_t>(short_number(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID)));
  const std::int32_t split_k = number(CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  if (!tile || !stages || !cluster || split_k < kOwnDivision) return false;
  out = {.version = static_cast<std::int32_t>(cublaslt()->GetVersion()),
         .algorithm = number(CUBLASLT_ALGO_CONFIG_ID),
         .tile_m = tile->second,
         .tile_n = tile->first,
         .tile_k = stages->first,
         .stages = stages->second,
         .split_k = split_k == kOwnDivision ? 0 : split_k,
         .reduction = number(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
         .swizzle = number(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
         .custom = number(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
         .inner = short_number(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
         .cluster_m = cluster->second,
         .cluster_n = cluster->first};
  return true;
}

CallStatus init(const Description& d, std::int32_t id, cublasLtMatmulAlgo_t& algo) {
  return check_lt(cublaslt()->MatmulAlgoInit(handle(), d.compute, CUDA_R_32F, d.type_first, d.type_second,
                                             d.type_result, d.type_result, id, &algo),
                  "cuBLASLt has no such algorithm");
}

CallStatus configure(const Description& d, const CublasLtConfig& a, cublasLtMatmulAlgo_t& algo) {
  const auto* const tile = find_sizes(library_tiles(), a.tile_n, a.tile_m);
  const auto* const stages = find_sizes(library_stages(), a.tile_k, a.stages);
  const auto* const cluster = find_sizes(library_clusters(), a.cluster_n, a.cluster_m);
  if (!tile || !stages || !cluster)
    return answer(CallStatus::unsupported,
                  "this cuBLASLt has no name for the tile, the stages or the cluster");
  CallStatus got = init(d, a.algorithm, algo);
  const auto set = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, auto value) {
    if (got == CallStatus::done)
      got = check_lt(cublaslt()->MatmulAlgoConfigSetAttribute(&algo, attribute, &value, sizeof value),
                     "cuBLASLt refuses a value of the algorithm");
  };
  set(CUBLASLT_ALGO_CONFIG_TILE_ID, tile->number);
  set(CUBLASLT_ALGO_CONFIG_STAGES_ID, stages->number);
  set(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, a.split_k == 0 ? kOwnDivision : a.split_k);
  set(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, static_cast<std::uint32_t>(a.reduction));
  set(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, static_cast<std::uint32_t>(a.swizzle));
  set(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, static_cast<std::uint32_t>(a.custom));
  set(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, static_cast<std::uint16_t>(a.inner));
  set(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, static_cast<std::uint16_t>(cluster->number));
  return got;
}

CallStatus ask_heuristic(const Description& d, std::uint64_t workspace_limit, int wanted,
                         std::vector<cublasLtMatmulHeuristicResult_t>& found) {
  const CublasLt* const lt = cublaslt();
  cublasLtMatmulPreference_t preference = nullptr;
  CallStatus got = check_lt(lt->MatmulPreferenceCreate(&preference), "asking the heuristic");
  if (got != CallStatus::done) return got;
  got = check_lt(lt->MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                  &workspace_limit, sizeof workspace_limit),
                 "asking the heuristic");
  if (got == CallStatus::done) {
    got = check_lt(lt->MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                    &d.reductions, sizeof d.reductions),
                   "asking the heuristic");
  }
  int count = 0;
  found.resize(static_cast<std::size_t>(wanted));
  if (got == CallStatus::done) {
    got = check_lt(lt->MatmulAlgoGetHeuristic(handle(), d.operation, d.first, d.second, d.result, d.result,
                                              preference, wanted, found.data(), &count),
                   "cuBLASLt suggests nothing");
  }
  lt->MatmulPreferenceDestroy(preference);
  found.resize(static_cast<std::size_t>(count));
  std::erase_if(found, [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
  return got;
}

class LtMatmul final : public Matmul {
 public:
  CallStatus make(const MatmulShape& shape, const CublasLtConfig& algorithm, std::uint64_t workspace_limit) {
    CallStatus got = description_.make(shape);
    if (got != CallStatus::done) return got;
    bias_ = has_bias(shape.epilogue);
    if (bias_) {
      // The check requires an address with the alignment that calls will have.
      const void* const somewhere = reinterpret_cast<const void*>(std::uintptr_t{256});
      got = description_.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere);
      if (got != CallStatus::done) return got;
    }
    cublasLtMatmulHeuristicResult_t checked{};
    std::vector<cublasLtMatmulHeuristicResult_t> found;
    if (!algorithm.is_named()) {
      got = ask_heuristic(description_, workspace_limit, algorithm.suggestion, found);
      if (got != CallStatus::done) return got;
      if (found.size() < static_cast<std::size_t>(algorithm.suggestion)) {
        return answer(CallStatus::unsupported, "cuBLASLt suggests only %d algorithms",
                      static_cast<int>(found.size()));
      }
      checked = found[static_cast<std::size_t>(algorithm.suggestion) - 1];
      algo_ = checked.algo;
      if (!read_algorithm(algo_, algorithm_)) algorithm_ = algorithm;
    } else if (const auto* const listed = find_listed(algorithm, workspace_limit, found)) {
      checked = *listed;
      algo_ = checked.algo;
      algorithm_ = algorithm;
    } else {
      got = configure(description_, algorithm, algo_);
      if (got != CallStatus::done) return got;
      got = check_lt(cublaslt()->MatmulAlgoCheck(handle(), description_.operation, description_.first,
                                                 description_.second, description_.result,
                                                 description_.result, &algo_, &checked),
                     "cuBLASLt refuses the algorithm for this problem");
      if (got != CallStatus::done) return got;
      algorithm_ = algorithm;
    }
    workspace_bytes_ = checked.workspaceSize;
    return CallStatus::done;
  }

  std::uint64_t workspace_bytes() const noexcept override { return workspace_bytes_; }
  CublasLtConfig algorithm() const noexcept override { return algorithm_; }

  CallStatus run(const MatmulCall& call, void* stream) noexcept override {
    if (const CallStatus got = point_to(call); got != CallStatus::done) return got;
    const float alpha = static_cast<float>(call.alpha), beta = static_cast<float>(call.beta);
    return check_lt(cublaslt()->Matmul(handle(), description_.operation, &alpha, call.b, description_.first,
                                       call.a, description_.second, &beta, call.c, description_.result,
                                       call.c, description_.result, &algo_, call.workspace, workspace_bytes_,
                                       static_cast<cudaStream_t>(stream)),
                    "cublasLtMatmul");
  }

  void destroy() noexcept override { delete this; }

 private:
  /// What the library lists under an algorithm's name, for an algorithm with a place in the list; it is asked
  /// for as many as suggested() asks for. The library refuses some of its own suggestions when all attributes
  /// that can be read are set anew.
  const cublasLtMatmulHeuristicResult_t* find_listed(const CublasLtConfig& algorithm,
                                                     std::uint64_t workspace_limit,
                                                     std::vector<cublasLtMatmulHeuristicResult_t>& found) {
    if (algorithm.suggestion == 0) return nullptr;
    if (ask_heuristic(description_, workspace_limit, kMaxSuggestions, found) != CallStatus::done)
      return nullptr;
    for (const cublasLtMatmulHeuristicResult_t& one : found) {
      CublasLtConfig named;
      if (!read_algorithm(one.algo, named)) continue;
      named.suggestion = algorithm.suggestion;
      if (named == algorithm) return &one;
    }
    return nullptr;
  }

  /// The descriptor holds the arguments of a call other than A, B and C; it is written only when they
  /// changed.
  CallStatus point_to(const MatmulCall& call) {
    CallStatus got = CallStatus::done;
    const auto point = [&](cublasLtMatmulDescAttributes_t attribute, const void* to, const void*& last) {
      if (got != CallStatus::done || to == last) return;
      got = description_.set(attribute, to);
      last = to;
    };
    if (bias_) point(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias, last_bias_);
    point(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, call.scale_b, last_scale_b_);
    point(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, call.scale_a, last_scale_a_);
    return got;
  }

  Description description_;
  cublasLtMatmulAlgo_t algo_{};
  CublasLtConfig algorithm_;
  std::uint64_t workspace_bytes_ = 0;
  bool bias_ = false;
  const void *last_bias_ = nullptr, *last_scale_a_ = nullptr, *last_scale_b_ = nullptr;
};

}  // namespace

CallStatus prepare_cublaslt(const AnyShape& shape, std::span<const std::int32_t> axes,
                            std::uint64_t workspace_limit, Matmul** matmul) {
  if (!shape.product || !shape.rows.empty())
    return answer(CallStatus::unsupported, "cuBLASLt computes products of one shape");
  auto made = std::make_unique<LtMatmul>();
  const CallStatus got = made->make(*shape.product, config_from<CublasLtConfig>(axes), workspace_limit);
  if (got == CallStatus::done) *matmul = made.release();
  return got;
}

CallStatus suggested(const MatmulShape& shape, std::uint64_t workspace_limit, CublasLtConfig* out,
                     std::int32_t capacity, std::int32_t* count) {
  *count = 0;
  Description description;
  CallStatus got = description.make(shape);
  if (got != CallStatus::done) return got;
  std::vector<cublasLtMatmulHeuristicResult_t> found;
  got = ask_heuristic(description, workspace_limit, std::min(capacity, kMaxSuggestions), found);
  if (got != CallStatus::done) return got;
  for (const auto& one : found) {
    if (read_algorithm(one.algo, out[*count])) ++*count;
  }
  return CallStatus::done;
}

}  // namespace kscout::cuda
