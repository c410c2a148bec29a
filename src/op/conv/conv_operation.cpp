// Describes convolutions (Operation).
#include <algorithm>
#include <array>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/problem_text.h"
#include "op/audit.h"
#include "op/conv/conv_forms.h"
#include "op/conv/conv_kind.h"
#include "op/conv/conv_reference.h"
#include "op/conv/conv_sets.h"
#include "op/given_fields.h"
#include "op/struct_operation.h"

namespace kscout {

namespace {

using P = ConvProblem;

constexpr Layout kLayouts[] = {Layout::nhwgc, Layout::ngchw, Layout::ndhwgc, Layout::ngcdhw};
constexpr Layout kTunedLayouts[] = {Layout::nhwgc, Layout::ndhwgc};
constexpr std::string_view kNeededSizes[] = {"n", "c", "k", "h", "w", "y", "x"};
constexpr std::string_view kNeededFlags[] = {"c", "h", "w", "k"};
constexpr std::string_view kNeededCells[] = {"op", "n", "c", "k", "h", "w", "y", "x"};
constexpr std::string_view kValidationSets[] = {"ck_conv_validation_bwd_data",
                                                "ck_conv_validation_bwd_weight"};
constexpr GeneralName kGeneralNames[] = {
    {"stride", "step along all axes: one number, or height x width as 2x1 (3-D: depth x height x width)"},
    {"dilation",
     "distance of the filter's elements along all axes: one number, or one per axis as for stride"},
    {"pad", "zeros on both sides of all axes: one number, or one per axis as for stride"},
    {"pad_d", "zeros before and behind the depth"},
    {"pad_h", "zeros above and below the height"},
    {"pad_w", "zeros left and right of the width"},
};

/// Without a layout, a convolution that uses axis d is 3-D.
Layout usual_layout(std::span<const GivenField> given) noexcept {
  const bool three = std::ranges::any_of(given, [](const GivenField& one) {
    const bool pad = one.name.find("pad_d") != std::string_view::npos;
    const bool of_d = pad || one.name == "d" || one.name == "z" || one.name.ends_with("_d");
    return of_d && one.value != (pad ? "0" : "1");
  });
  return three ? Layout::ndhwgc : Layout::nhwgc;
}

class ConvOperation final : public StructOperation<ConvProblem> {
 public:
  ConvOperation()
      : StructOperation({
            .space = {"conv", problem_fields<ConvProblem>()},
            .ops = kDirections,
            .noun = "convolution",
            .plural = "convolutions",
            .remedy = "write conv_fwd:... or give --op conv_fwd",
            .example = "8x64x56x56:128x3x3:pad=1",
            .meaning = "A convolution, 2-D or 3-D by the layout. h, w, c are of the input, k of the output.",
            .general_names = kGeneralNames,
            .layouts = kLayouts,
            .tuned_layouts = kTunedLayouts,
            .needed_sizes = kNeededSizes,
            .needed_flags = kNeededFlags,
            .needed_cells = kNeededCells,
            .own_column = "y",
            .is_size =
                [](const ProblemField& field) {
                  return field.type == FieldType::whole && field.name != "split_k";
                },
            .packable = kB,
            // Networks use one filter for several images and batches.
            .tune_split = SplitBy::weights,
            .split_noun = "filter",
            // The family has twice as many configs as that of GEMMs, and its slowest kinds are further from
            // the best.
            .tune_share = 0.25,
            .draw_seed = 42,
            .validation_sets = kValidationSets,
            .kind_name = "convolution",
        }) {}

  using Operation::make;
  Problem make(Op op, DType dtype, Layout layout) const override { return make_conv(op, dtype, layout); }
  ImplicitGemm product(ProblemRef problem) const noexcept override {
    return with(problem, [](const P& p) { return implicit_gemm(p); });
  }
  OperandList operands(ProblemRef problem) const noexcept override {
    return with(problem, [](const P& p) {
      const bool last = p.layout == Layout::nhwgc || p.layout == Layout::ndhwgc;
      const auto role = [&](Op computed_by) {
        return p.op == computed_by ? TensorRole::output : TensorRole::input;
      };
      const auto image = [&](std::string_view name, DType dtype, TensorRole of, std::int64_t channels,
                             const ConvOutput& sizes) {
        return last ? Tensor::packed(name, dtype, of, {p.n, sizes.d, sizes.h, sizes.w, channels})
                    : Tensor::packed(name, dtype, of, {p.n, channels, sizes.d, sizes.h, sizes.w});
      };
      const Tensor in = image("in", p.dtype_in, role(Op::conv_bwd_data), p.c, {p.d, p.h, p.w}),
                   wei = Tensor::packed("wei", p.dtype_wei, role(Op::conv_bwd_weight),
                                        {p.k, p.z, p.y, p.x, p.c / p.g}),
                   out = image("out", p.dtype_out, role(Op::conv_fwd), p.k, output_sizes(p));
      const auto [a, b, c] = by_operand(p.op, in, wei, out);
      OperandList all;
      all.add(a);
      all.add(b);
      all.add(c);
      if (has_bias(p.epilogue)) all.add(Tensor::packed("bias", p.dtype_out, TensorRole::input, {p.k}), kBias);
      return all;
    });
  }
  void check_buffers(ProblemRef problem, const Buffers& buffers) const override {
    refuse_bias_without_epilogue(problem, problem.as<P>().epilogue, buffers);
  }
  Problem part_of(const Problem& problem) const override {
    auto p = problem.as<P>();
    if (p.n >= 8) p.n /= 8;
    return p;
  }
  bool is_prepacked(ProblemRef problem) const noexcept override {
    return with(problem, [](const P& p) { return p.prepacked; });
  }
  void for_each_form(ProblemRef problem, MemoryKind memory,
                     const std::function<void(const ExecutionForm&)>& add) const override {
    kscout::for_each_form(problem.as<P>(), memory, add);
  }
  CopiedOperands copied_operands(ProblemRef problem, const ExecutionForm& form) const override {
    return kscout::copied_operands(problem.as<P>(), form);
  }

  std::unique_ptr<Reference> reference(ProblemRef problem, const GemmOperands& of) const override {
    return std::make_unique<ConvReference>(problem.as<P>(), of);
  }

  ProblemSizes weights(ProblemRef problem) const override {
    const P p = problem.as<P>();
    return {p.c, p.k, p.g, p.z, p.y, p.x};
  }
  ProblemSizes geometry(ProblemRef problem) const override {
    P one_image = problem.as<P>();
    one_image.n = 1;
    return sizes_of(one_image);
  }
  std::string_view kind_of(ProblemRef problem) const override {
    return with(problem, [](const P& p) { return word(conv_kind(p)); });
  }

  std::string_view syntax(Op op) const noexcept override {
    switch (op) {
      case Op::conv_bwd_data:
        return "conv_bwd_data:NxCxHxW:KxYxX[:dtype][:layout][:name=value...], in 3-D NxCxDxHxW:KxZxYxX";
      case Op::conv_bwd_weight:
        return "conv_bwd_weight:NxCxHxW:KxYxX[:dtype][:layout][:name=value...], in 3-D NxCxDxHxW:KxZxYxX";
      default:
        return "conv_fwd:NxCxHxW:KxYxX[:dtype][:layout][:name=value...], in 3-D NxCxDxHxW:KxZxYxX";
    }
  }
  std::size_t add_sizes(Op op, std::string_view line, std::span<const std::string_view> parts,
                        std::vector<GivenField>& given) const override {
    const std::size_t sizes = parts.size() < 3 ? 0 : read_sizes(parts[1], line).size();
    if ((sizes != 4 && sizes != 5) || read_sizes(parts[2], line).size() + 1 != sizes)
      fail(Errc::invalid_argument, "'{}' is not a convolution; write {}", line, syntax(op));
    constexpr std::string_view kImage[] = {"n", "c", "d", "h", "w"}, kFilter[] = {"k", "z", "y", "x"};
    const auto add = [&](std::string_view part, std::span<const std::string_view> names) {
      for (std::size_t i = 0; const std::string_view size : split(part, 'x')) {
        if (sizes == 4 && (names[i] == "d" || names[i] == "z")) ++i;
        given.push_back({names[i++], size, GivenAs::position});
      }
    };
    add(parts[1], kImage);
    add(parts[2], kFilter);
    given.push_back({"layout", word(sizes == 4 ? Layout::nhwgc : Layout::ndhwgc), GivenAs::implied});
    return 3;
  }
  void check_layout(std::string_view line, std::span<const std::string_view> parts,
                    Layout layout) const override {
    const auto axes = std::ranges::count(parts[2], 'x');
    if (spatial_rank(layout) == static_cast<int>(axes)) return;
    fail(Errc::invalid_argument, "'{}': layout '{}' does not fit {} spatial sizes", line, word(layout), axes);
  }
  Problem from_sizes(std::string_view line, DType /*dtype*/) const override {
    fail(Errc::corrupt_data, "'{}': write conv_fwd:NxCxHxW:KxYxX..., or a CSV table with a header", line);
  }
  Problem from_fields(Op op, std::span<const GivenField> given, DType dtype) const override {
    P problem = make_conv(op, dtype, usual_layout(given));
    set_fields(problem, given);
    return problem;
  }

  std::vector<Signature> answers_for(const Signature& signature, const Device& device) const override {
    std::vector<Signature> others;
    if (device.vendor != "NVIDIA") return others;  // measured there only
    if (const auto half = in_other_half(signature)) others.push_back(*half);
    if (signature.op != Op::conv_fwd || signature.epilogue != Epilogue::none) return others;
    // A bias changes the order of cuDNN's configs little; rules refuse those of kernels that add none.
    Signature biased = signature;
    biased.epilogue = Epilogue::bias;
    others.push_back(biased);
    if (const auto half = in_other_half(biased)) others.push_back(*half);
    return others;
  }
  std::vector<QualityTarget> quality_targets(Op op) const override {
    if (op != Op::conv_fwd) return {{Quality::mean, 85}};
    return {{Quality::mean, 90}, {Quality::p10, 75}, {Quality::oracle_picks, 70}};
  }
  std::vector<RunProperty> run_properties() const override { return conv_run_properties(); }
  std::string pytorch(ProblemRef problem) const override { return pytorch_of(problem.as<P>()); }

  std::string_view schema(std::string_view provider, DeviceKind /*kind*/) const noexcept override {
    if (provider == "native") return "conv_cpu";
    if (provider == "miopen") return "conv_miopen";
    if (provider == "ck_tile") return "conv_ck_tile";
    if (provider == "nvidia_conv") return "conv_nvidia";
    return provider == "cudnn" ? "conv_gpu" : "conv";
  }
  /// Layers of networks, each filter first at one batch, then at others; and random convolutions.
  std::vector<std::vector<Problem>> tuning_problems(const TuningRequest& request) const override {
    ProblemSetRequest wanted{.dtype = request.dtype,
                             .max_gflop = request.max_gflop,
                             .max_bytes = request.max_bytes,
                             .count = request.count,
                             .seed = request.seed};
    const auto drawn = [&](const char* set, std::size_t count) {
      wanted.set = set;
      return stratified(make_conv_set(wanted), count, request.seed);
    };
    std::vector<P> layers = drawn("conv_layers", request.count);
    if (layers.size() < request.count) {
      const auto others = drawn("conv_networks", request.count - layers.size());
      layers.insert(layers.end(), others.begin(), others.end());
    }
    wanted.set = "conv_random";
    std::vector<std::vector<Problem>> sources;
    for (const std::vector<P>& set : {layers, make_conv_set(wanted)}) {
      sources.emplace_back();
      for (const P& problem : set) {
        if (request.layouts.contains(problem.layout))
          sources.back().emplace_back(in_direction(problem, request.op));
      }
    }
    return sources;
  }
  std::span<const ProblemSetInfo> sets() const noexcept override { return conv_sets(); }
  std::vector<Problem> named_set(std::string_view name, DType dtype,
                                 const std::vector<Layout>& wanted) const override {
    return requested({.set = std::string(name), .dtype = dtype, .layouts = wanted});
  }
  std::vector<Problem> laid_out(const std::vector<Problem>& problems,
                                const std::vector<Layout>& wanted) const override {
    return records_of(in_layouts(structs_of<P>(problems), wanted));
  }
  std::vector<Problem> requested(const ProblemSetRequest& request) const override {
    return records_of(make_conv_set(request));
  }
  std::vector<Problem> drawn(std::vector<Problem> problems, std::size_t count,
                             std::uint64_t seed) const override {
    return records_of(stratified(structs_of<P>(problems), count, seed));
  }
  ProblemDescription describe(ProblemRef problem) const override {
    const P p = problem.as<P>();
    const ImplicitGemm gemm = implicit_gemm(p);
    ProblemDescription about = Operation::describe(problem);
    for (const auto& [name, size] : {std::pair{"gemm m", gemm.m}, {"gemm n", gemm.n}, {"gemm k", gemm.k}})
      about.quantities.emplace_back(name, static_cast<double>(size));
    about.slices = {slice_of("op", p.op),
                    slice_of("convolution", conv_kind(p)),
                    {"filter", fmt::format("{}x{}x{}", p.z, p.y, p.x)},
                    slice_of("layout", p.layout),
                    slice_of("dtype", p.dtype_in)};
    return about;
  }
};

}  // namespace

const Operation& conv_operation() {
  static const ConvOperation instance;
  return instance;
}

}  // namespace kscout
