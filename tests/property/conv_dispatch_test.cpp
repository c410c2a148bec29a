// Compares convolutions on copies (other layout, padded channels) with sums in float64.
#include <cstring>

#include <gtest/gtest.h>

#include <kscout/dispatcher.h>

#include "dispatch/padding.h"
#include "libraries/toy_index.h"
#include "measure/verified_launch.h"
#include "op/conv/conv_reference.h"
#include "op/operands.h"
#include "support/expect_error.h"
#include "support/random_gemm.h"
#include "support/share.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

using namespace test;

/// Channels of a group: odd, narrow, or a multiple of 8.
std::int64_t random_channels(Rng& rng) {
  return pick(rng, 0, 2) == 0 ? 8 * pick(rng, 1, 2) : pick(rng, 1, 13);
}

/// Of all directions and layouts, with few products.
ConvProblem any_layout_conv(Rng& rng) {
  constexpr double kMaxFlop = 2e6;
  for (;;) {
    ConvProblem p = make_conv(
        one_of(rng, {Op::conv_fwd, Op::conv_bwd_data, Op::conv_bwd_weight}), DType::fp32,
        one_of(rng,
               {Layout::nhwgc, Layout::nhwgc, Layout::ngchw, Layout::ngchw, Layout::ndhwgc, Layout::ngcdhw}));
    p.n = pick(rng, 1, 3);
    p.g = pick(rng, 0, 1) == 0 ? 1 : pick(rng, 2, 5);
    p.c = p.g * random_channels(rng);
    p.k = p.g * random_channels(rng);
    if (pick(rng, 0, 9) == 0) p.c = p.k = p.g;  // depthwise
    const bool points = pick(rng, 0, 4) == 0;
    const auto axis = [&](std::int64_t& size, std::int64_t& filter, std::int64_t& stride,
                          std::int64_t& dilation, std::int64_t& left, std::int64_t& right) {
      size = pick(rng, 1, 9);
      if (points) return;
      filter = pick(rng, 1, 3);
      stride = pick(rng, 1, 3);
      dilation = pick(rng, 1, 2);
      left = pick(rng, 0, 3);
      right = pick(rng, 0, 3);
    };
    if (spatial_rank(p.layout) == 3) axis(p.d, p.z, p.stride_d, p.dilation_d, p.left_pad_d, p.right_pad_d);
    if (pick(rng, 0, 7) > 0) axis(p.h, p.y, p.stride_h, p.dilation_h, p.left_pad_h, p.right_pad_h);
    axis(p.w, p.x, p.stride_w, p.dilation_w, p.left_pad_w, p.right_pad_w);
    if (is_valid(p) && flop_count(p) <= kMaxFlop) return p;
  }
}

/// The operands as tensors.
ConvTensors tensors_of(Op direction, const GemmBuffers& buffers) {
  const auto [in, wei, out] =
      by_tensor(direction, const_cast<void*>(buffers.a), const_cast<void*>(buffers.b), buffers.c);
  return {.in = in, .wei = wei, .out = out};
}

/// Fills with NaN what a launch may use.
void spoil(GuardedBuffer& workspace, std::size_t bytes) {
  workspace.resize(bytes);
  workspace.poison();
}

TEST(ConvCopies, LayoutsAndChannelsMatchFloat64) {
  const TemporaryFolder folder;
  const auto file = folder / "copies.kscout-library.json";
  write_file_atomically(file, toy::picky_conv_index(toy::library_file("toy_conv")).dump());
  Registry registry;
  registry.add_library(file);
  Dispatcher dispatcher(registry);
  std::uint64_t direct = 0, turned = 0, padded = 0, both = 0;
  for (std::uint64_t seed = 0; seed < share_of(600); ++seed) {
    Rng rng(seed);
    const ConvProblem p = any_layout_conv(rng);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + print(p));
    GemmOperands operands;
    operands.make(p, seed + 1);
    const ConvReference reference(p, operands);
    GuardedBuffer workspace;
    spoil(workspace, dispatcher.workspace_bytes(p));
    const Solution solution =
        dispatcher.run(p, tensors_of(p.op, GemmBuffers::of(operands.buffers())),
                       {.workspace = workspace.data(), .workspace_bytes = workspace.size()});
    const Verification found = reference.check(operands.c());
    ASSERT_LE(found.error, 1) << found.where;
    ASSERT_EQ(operands.damage() + workspace.damage(), "");
    const ConvProblem& q = solution.form.problem.conv();
    ASSERT_TRUE(q.c / q.g % 8 == 0 && q.k / q.g % 8 == 0) << print(q);
    ASSERT_EQ(q.layout, spatial_rank(p.layout) == 3 ? Layout::ndhwgc : Layout::nhwgc);
    ASSERT_EQ(solution.form.padded(), solution.form.copy_bytes > 0);
    const bool pads = q.c != p.c || q.k != p.k, turns = q.layout != p.layout;
    ASSERT_TRUE(pads || turns || !solution.form.padded());
    direct += !pads && !turns;
    turned += turns && !pads;
    padded += pads && !turns;
    both += pads && turns;
  }
  EXPECT_GE(direct, share_of(15));
  EXPECT_GE(turned, share_of(15));
  EXPECT_GT(padded, share_of(150));
  EXPECT_GT(both, share_of(150));
}

/// Computes every element as the definition has it, in any layout.
class DefinitionLaunch final : public Launch {
 public:
  explicit DefinitionLaunch(const ConvProblem& problem) : p_(problem) {}
  std::size_t workspace_bytes() const noexcept override { return 0; }
  void run(const Buffers& given, void*, Stream) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
    const auto* const a = static_cast<const float*>(buffers.a);
    const auto* const b = static_cast<const float*>(buffers.b);
    const ConvElements all = operand_elements(p_);
    for (std::int64_t i = 0; i < by_operand(p_.op, all.in, all.wei, all.out).c; ++i) {
      const ConvProducts products = conv_products(p_, i);
      double sum = 0;
      for (std::size_t j = 0; j < products.a.size(); ++j)
        sum += double{a[products.a[j]]} * double{b[products.b[j]]};
      static_cast<float*>(buffers.c)[i] = static_cast<float>(sum);
    }
  }

 private:
  ConvProblem p_;
};

TEST(ConvCopies, EveryFormMatchesFloat64) {
  constexpr double kMaxFlop = 1e6;
  int to_channels_first = 0, to_channels_last = 0, tried = 0;
  for (std::uint64_t seed = 0; seed < share_of(150); ++seed) {
    Rng rng(seed);
    const ConvProblem p = any_layout_conv(rng);
    GemmOperands operands;
    operands.make(p, seed + 1);
    const ConvReference reference(p, operands);
    std::vector<ExecutionForm> forms = padded_forms(p);
    std::shuffle(forms.begin(), forms.end(), rng);
    int of_problem = 0;
    for (const ExecutionForm& form : forms) {
      if (flop_count(form.problem) > kMaxFlop || ++of_problem > 6) continue;
      const ConvProblem& q = form.problem.conv();
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + print(p) + " as " + print(q));
      auto launch = padded_launch(p, form, std::make_unique<DefinitionLaunch>(q), host_memory());
      const Verification found = VerifiedLaunch(std::move(launch), operands).verify(reference);
      ASSERT_LE(found.error, 1) << found.where;
      const bool first = q.layout == Layout::ngchw || q.layout == Layout::ngcdhw;
      if (q.layout != p.layout) ++(first ? to_channels_first : to_channels_last);
      ++tried;
    }
  }
  EXPECT_GT(to_channels_first, static_cast<int>(share_of(60)));
  EXPECT_GT(to_channels_last, static_cast<int>(share_of(60)));
  EXPECT_GT(tried, static_cast<int>(share_of(400)));
}

TEST(ConvCopies, CheapestFirst) {
  const ConvProblem p = parse_conv_problem("conv_fwd:2x24x7x5:40x3x3:fp32:ngchw:pad=1:g=2");
  const double image = 4.0 * 2 * 24 * 35, result = 4.0 * 2 * 40 * 35;
  const std::vector<ExecutionForm> forms = padded_forms(p);
  const ExecutionForm& first = forms.front();
  EXPECT_EQ(print(first.problem), "conv_fwd:2x24x7x5:40x3x3:fp32:nhwgc:pad=1:g=2");
  EXPECT_TRUE(first.copied[kA] && first.copied[kC]);
  EXPECT_FALSE(first.copied[kB]) << "filters are stored in one order";
  EXPECT_DOUBLE_EQ(first.copy_bytes, 2 * (image + result));
  // c/g: 12 becomes 16; k/g = 20 is as it was, so the result is not copied in its own layout.
  const auto wider = std::ranges::find_if(forms, [](const ExecutionForm& form) {
    return form.problem.conv().c == 32 && form.problem.conv().k == 40;
  });
  ASSERT_NE(wider, forms.end());
  EXPECT_EQ(wider->problem.conv().layout, Layout::ngchw) << "as many products, fewer copies";
  EXPECT_TRUE(wider->copied[kA] && wider->copied[kB]);
  EXPECT_FALSE(wider->copied[kC]);
  const double filters = 4.0 * 40 * 9 * (12 + 16);
  EXPECT_DOUBLE_EQ(wider->copy_bytes, image * (1 + 16.0 / 12) + filters);

  for (const ExecutionForm& form : padded_forms(p, MemoryKind::hip))
    EXPECT_EQ(form.problem.conv().layout, Layout::ngchw) << "a GPU's memory transposes nothing";
  const ExecutionForm pixel = padded_forms(parse_conv_problem("conv_fwd:2x24x1x1:40x1x1:fp32:ngchw")).front();
  EXPECT_EQ(pixel.problem.conv().layout, Layout::nhwgc);
  EXPECT_FALSE(pixel.padded()) << "the same bytes in both layouts";
}

template <class E>
void expect_transposed(Rng& rng) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(E));
  const std::int64_t lines = pick(rng, 0, 45), length = pick(rng, 0, 45), items = pick(rng, 1, 3);
  const std::int64_t to_lines = length + pick(rng, 0, 1) * pick(rng, 0, 5);
  const std::int64_t to_length = lines + pick(rng, 0, 1) * pick(rng, 0, 5);
  const std::int64_t from_pitch = length + pick(rng, 0, 3), to_pitch = to_length + pick(rng, 0, 3);
  const std::int64_t from_item = lines * from_pitch + pick(rng, 0, 3);
  const std::int64_t to_item = to_lines * to_pitch + pick(rng, 0, 3);
  const auto count = [&](std::int64_t item) { return static_cast<std::size_t>(items * item); };
  std::vector<E> from(count(from_item)), to(count(to_item), E(99)), expected = to;
  for (E& one : from) one = static_cast<E>(rng());
  for (std::int64_t item = 0; item < items; ++item) {
    for (std::int64_t i = 0; i < to_lines; ++i) {
      for (std::int64_t j = 0; j < to_length; ++j) {
        const bool inside = i < length && j < lines;
        const auto at = static_cast<std::size_t>(inside ? item * from_item + j * from_pitch + i : 0);
        expected[static_cast<std::size_t>(item * to_item + i * to_pitch + j)] = inside ? from[at] : E(0);
      }
    }
  }
  host_memory().transpose({.from = from.data(),
                           .to = to.data(),
                           .lines = lines,
                           .line_bytes = length * kBytes,
                           .to_lines = to_lines,
                           .to_line_bytes = to_length * kBytes,
                           .from_pitch = from_pitch * kBytes,
                           .to_pitch = to_pitch * kBytes,
                           .items = items,
                           .from_item = from_item * kBytes,
                           .to_item = to_item * kBytes},
                          kBytes, {});
  ASSERT_EQ(to, expected) << lines << " x " << length << " of " << kBytes << " bytes, " << items << " items";
}

TEST(HostMemory, TransposesEveryShapeAndFillsTheRest) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    expect_transposed<std::uint8_t>(rng);
    expect_transposed<std::uint16_t>(rng);
    expect_transposed<std::uint32_t>(rng);
    expect_transposed<std::uint64_t>(rng);
    if (testing::Test::HasFatalFailure()) return;
  }
  expect_error(Errc::invalid_argument, "elements of 3 bytes", [] { host_memory().transpose({}, 3, {}); });
}

}  // namespace
}  // namespace kscout
