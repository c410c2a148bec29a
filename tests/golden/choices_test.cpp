// Compares what every model in models/ chooses for fixed problems with a recorded list.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include <kscout/grouped_gemm.h>
#include <kscout/selector.h>

#include "core/files.h"
#include "core/hash.h"
#include "select/model.h"
#include "support/cublaslt_list.h"
#include "support/cudnn_list.h"
#include "support/paths.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecorded = "tests/golden/choices.txt";
constexpr std::size_t kProblems = 128, kNamed = 4, kOnALine = 16;
/// The device of the choices of models for any CPU.
constexpr const char* kAnyCpu = "epyc-7763";

/// Draws with whole numbers only: the engine's numbers are the same in every standard library, those of its
/// distributions are not.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : bits_(seed) {}

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(bound));
  }
  /// Up to 2^octaves; half of the sizes are powers of two, the others mostly odd in every sense.
  std::int64_t size(std::int64_t octaves) {
    const std::int64_t power = std::int64_t{1} << below(octaves + 1);
    return below(2) == 0 ? power : power / 2 + 1 + below(power);
  }
  std::int64_t mostly(std::int64_t usual, std::int64_t other) { return below(4) == 0 ? other : usual; }

 private:
  std::mt19937_64 bits_;
};

Problem draw_gemm(Draw& draw, const Signature& of) {
  // Compilers evaluate arguments in different orders.
  const std::int64_t k = draw.size(13), n = draw.size(13), m = draw.size(13);
  GemmProblem p = make_gemm(m, n, k, of.dtype_a, of.layout);
  p.batch = draw.mostly(1, 1 + draw.below(12));
  p.dtype_b = of.dtype_b, p.dtype_c = of.dtype_c, p.dtype_acc = of.dtype_acc;
  p.epilogue = of.epilogue;
  p.accumulate = draw.below(8) == 0;
  const LeadingDimensions packed = leading_dimensions(p);
  if (draw.below(8) == 0) p.lda = packed.a + draw.below(9);
  if (draw.below(8) == 0) p.ldc = packed.c + draw.below(9);
  p.split_k = draw.mostly(0, draw.mostly(0, 1));
  return p;
}

Problem draw_conv(Draw& draw, const Signature& of) {
  for (;;) {
    ConvProblem p = make_conv(of.op, DType::fp32, of.layout);
    std::tie(p.dtype_in, p.dtype_wei, p.dtype_out) = [&] {
      const auto tensors = by_tensor(of.op, of.dtype_a, of.dtype_b, of.dtype_c);
      return std::tuple(tensors.in, tensors.wei, tensors.out);
    }();
    p.dtype_acc = of.dtype_acc;
    const bool deep = spatial_rank(of.layout) == 3;
    p.n = draw.size(5);
    p.g = draw.mostly(1, draw.size(6));
    p.c = p.g * draw.size(p.g > 1 ? 3 : 10);
    p.k = p.g * draw.size(p.g > 1 ? 3 : 10);
    p.d = deep ? draw.size(4) : 1;
    p.h = draw.size(7), p.w = draw.mostly(p.h, draw.size(7));
    p.z = deep ? 1 + draw.below(3) : 1;
    p.y = 1 + draw.below(5), p.x = draw.mostly(p.y, 1 + draw.below(7));
    p.stride_h = p.stride_w = draw.mostly(1, 2);
    p.dilation_h = p.dilation_w = draw.mostly(1, 1 + draw.below(3));
    p.left_pad_h = p.right_pad_h = draw.below(2) * (p.y / 2);
    p.left_pad_w = draw.below(2) * (p.x / 2), p.right_pad_w = draw.mostly(p.left_pad_w, draw.below(3));
    p.prepacked = of.op != Op::conv_bwd_weight && draw.below(4) == 0;
    if (is_valid(p) && flop_count(p) < 1e14) return p;
  }
}

Problem draw_grouped_gemm(Draw& draw, const Signature& of) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(draw.size(7)));
  const std::int64_t octaves = draw.below(12);
  for (std::int64_t& one : rows) one = draw.below(4) == 0 ? 0 : draw.size(octaves);
  const std::int64_t k = 8 * draw.size(10), n = 8 * draw.size(10);
  return make_grouped_gemm(SizeList(rows), n, k, of.dtype_a, of.layout);
}

/// Stands for the library's list: some of its configs, in an order that the problem decides.
std::vector<KernelConfig> listed(ProblemRef problem, std::size_t count) {
  const Signature of = signature_of(problem);
  auto some = of.op == Op::gemm ? test::cublaslt_list(of.dtype_a) : test::cudnn_list(of.op);
  const std::uint64_t drawn = problem.value().hash();
  std::rotate(some.begin(), some.begin() + static_cast<std::ptrdiff_t>(drawn % some.size()), some.end());
  some.resize(std::min({count, some.size(), 1 + static_cast<std::size_t>(drawn >> 60)}));
  return some;
}

/// The choices of one model: a line for each of the first problems, then hashes of all names.
std::string choices_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const Device fixed = device_preset(kAnyCpu);
  const Model model = Model::load(folder, &fixed);
  const Selector selector =
      Selector::load(folder, {.provider = std::string(model.provider()),
                              .device = model.device(),
                              .rules = model.data().families.front().rules,
                              .devices = DevicePolicy::any,
                              .suggestions = listed,
                              // Not those of the machine that runs the test.
                              .threads = model.device().kind == DeviceKind::cpu ? 1 << 20 : 0});
  Draw draw(text_hash(name));
  std::string named, hashes;
  for (std::size_t i = 0; i < kProblems; ++i) {
    const Signature& of = model.data().families[i % model.data().families.size()].signature;
    const Problem problem = of.op == Op::gemm           ? draw_gemm(draw, of)
                            : of.op == Op::grouped_gemm ? draw_grouped_gemm(draw, of)
                                                        : draw_conv(draw, of);
    std::string chosen = "no config";
    Choice choice;
    if (selector.try_select(problem, choice) == SelectStatus::ok)
      chosen = std::string(word(choice.source)) + " " + Selector::name(problem, choice);
    if (i < kNamed) named += fmt::format("{} {} -> {}\n", name, print(problem), chosen);
    if (i % kOnALine == 0) hashes += fmt::format("{}{} {}:", i == 0 ? "" : "\n", name, i);
    hashes += fmt::format(" {:08x}", text_hash(print(problem) + chosen) & 0xffffffff);
  }
  return named + hashes + "\n";
}

TEST(GoldenChoices, OfEveryModelAreTheRecordedOnes) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(paths::in_repository("models"))) {
    if (fs::exists(entry.path() / "model.ksf")) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  ASSERT_GE(folders.size(), 16u);
  std::string now = fmt::format(
      "# What the models in models/ choose: some names, then hashes of all, of {} problems each.\n"
      "# Written by GoldenChoices.OfEveryModelAreTheRecordedOnes (tests/golden/choices_test.cpp).\n",
      kProblems);
  for (const fs::path& folder : folders) now += choices_of(folder);
  if (now == read_file(paths::in_repository(kRecorded))) return;
  const fs::path observed = fs::temp_directory_path() / "kscout_choices.txt";
  write_file_atomically(observed, now);
  FAIL() << "a choice changed; see the changes with\n  diff " << kRecorded << ' ' << observed.string()
         << "\nand, if they are meant, accept them with\n  cp " << observed.string() << ' ' << kRecorded;
}

}  // namespace
}  // namespace kscout
