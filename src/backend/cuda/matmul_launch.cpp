#include "backend/cuda/matmul_launch.h"

#include "backend/cuda/cuda_backend.h"
#include "op/gemm/gemm_views.h"

namespace kscout::cuda {

namespace {

class MatmulLaunch final : public Launch {
 public:
  explicit MatmulLaunch(PreparedMatmul matmul) : matmul_(std::move(matmul)) {}

  std::size_t workspace_bytes() const noexcept override { return matmul_ ? matmul_->workspace_bytes() : 0; }

  void run(const Buffers& given, void* workspace, Stream stream) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
    check_reach("cuda", space_, buffers.space);
    if (!matmul_) return;
    const MatmulCall call{.a = buffers.a,
                          .b = buffers.b,
                          .c = buffers.c,
                          .bias = buffers.bias,
                          .scale_a = buffers.scale_a,
                          .scale_b = buffers.scale_b,
                          .alpha = buffers.alpha,
                          .beta = buffers.beta,
                          .workspace = workspace};
    check(module_, matmul_->run(call, stream.handle));
  }

 private:
  Module& module_ = open_module();
  MemorySpace space_ = gpu_memory().space();
  PreparedMatmul matmul_;
};

MatmulShape shape_of(const GroupedGemmProblem& p) {
  return {.dtype_a = p.dtype_a,
          .dtype_b = p.dtype_b,
          .dtype_c = p.dtype_c,
          .dtype_acc = p.dtype_acc,
          .layout = p.layout,
          .epilogue = Epilogue::none,
          .accumulate = false,
          .m = p.m_sum,
          .n = p.n,
          .k = p.k,
          .batch = p.groups,
          .lda = p.k,
          .ldb = row_major_b(p.layout) ? p.n : p.k,
          .ldc = p.n,
          .stride_a = 0,
          .stride_b = p.n * p.k,
          .stride_c = 0};
}

}  // namespace

MatmulShape shape_of(const GemmProblem& p) {
  const LeadingDimensions ld = leading_dimensions(p);
  return {.dtype_a = p.dtype_a,
          .dtype_b = p.dtype_b,
          .dtype_c = p.dtype_c,
          .dtype_acc = p.dtype_acc,
          .layout = p.layout,
          .epilogue = p.epilogue,
          .accumulate = p.accumulate,
          .m = p.m,
          .n = p.n,
          .k = p.k,
          .batch = p.batch,
          .lda = ld.a,
          .ldb = ld.b,
          .ldc = ld.c,
          .stride_a = view_a(p).batch_stride,
          .stride_b = view_b(p).batch_stride,
          .stride_c = view_c(p).batch_stride};
}

ConvShape shape_of(const ConvProblem& p) {
  const auto number = [](std::int64_t size) { return static_cast<std::int32_t>(size); };
  const auto axis = [&](std::int64_t in, std::int64_t out, std::int64_t filter, std::int64_t stride,
                        std::int64_t dilation, std::int64_t pad) -> ConvAxis {
    return {number(in), number(out), number(filter), number(stride), number(dilation), number(pad)};
  };
  const ConvOutput out = output_sizes(p);
  return {.direction = p.op == Op::conv_fwd        ? Direction::forward
                       : p.op == Op::conv_bwd_data ? Direction::backward_data
                                                   : Direction::backward_weight,
          .dtype = p.dtype_in,
          .n = number(p.n),
          .c = number(p.c),
          .k = number(p.k),
          .g = number(p.g),
          .axes = {axis(p.d, out.d, p.z, p.stride_d, p.dilation_d, p.left_pad_d),
                   axis(p.h, out.h, p.y, p.stride_h, p.dilation_h, p.left_pad_h),
                   axis(p.w, out.w, p.x, p.stride_w, p.dilation_w, p.left_pad_w)}};
}

PreparedMatmul prepare_in_module(ProblemRef of, const KernelConfig& config, std::uint64_t workspace_limit) {
  MatmulShape product;
  ConvShape conv;
  GroupedGemmProblem grouped;
  AnyShape shape;
  if (of.is<ConvProblem>()) {
    conv = shape_of(of.as<ConvProblem>());
    shape.conv = &conv;
  } else {
    shape.product = &product;
    if (of.is<GroupedGemmProblem>()) {
      grouped = of.as<GroupedGemmProblem>();
      product = shape_of(grouped);
      shape.rows = grouped.m.sizes();
    } else {
      product = shape_of(of.as<GemmProblem>());
    }
    if (product.m == 0 || product.n == 0) return nullptr;
  }
  Module& module = open_module();
  Matmul* made = nullptr;
  check(module, module.prepare(shape, config.space->provider, axes_of(config), workspace_limit, &made));
  return PreparedMatmul(made);
}

std::unique_ptr<Launch> launch_of(PreparedMatmul matmul) {
  return std::make_unique<MatmulLaunch>(std::move(matmul));
}

}  // namespace kscout::cuda
