// Convolves images and computes the gradient of the filter; prints the kernels and what was copied for them.
#include <cstdio>
#include <vector>

#include <kscout/dispatcher.h>
#include <kscout/error.h>

namespace {

void show(const kscout::ConvProblem& problem, const kscout::Solution& solution) {
  const kscout::Problem& runs = solution.form.problem;
  std::printf("%s: %s", print(problem).c_str(), kscout::Selector::name(runs, solution.choice).c_str());
  if (solution.form.padded())
    std::printf(", as %s, copies of %.0f bytes", print(runs).c_str(), solution.form.copy_bytes);
  std::printf("\n");
}

}  // namespace

int main() {
  // Channels last, then channels first: the same sizes, other strides.
  const auto forward = kscout::parse_conv_problem("conv_fwd:2x16x14x14:32x3x3:fp32:nhwgc:pad=1");
  const auto weight = kscout::parse_conv_problem("conv_bwd_weight:2x16x14x14:32x3x3:fp32:ngchw:pad=1");
  std::vector<float> image(2 * 16 * 14 * 14, 1), filter(32 * 3 * 3 * 16, 0.5F), result(2 * 32 * 14 * 14);
  std::vector<float> result_gradient(result.size(), 1), filter_gradient(filter.size());
  try {
    kscout::Dispatcher dispatcher(kscout::Registry::here());
    show(forward, dispatcher.run(forward, {.in = image.data(), .wei = filter.data(), .out = result.data()}));
    show(weight,
         dispatcher.run(weight,
                        {.in = image.data(), .wei = filter_gradient.data(), .out = result_gradient.data()}));
  } catch (const kscout::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  // The first pixel meets 4 of the filter's 9 positions; the filter's first position meets 13 x 13 pixels.
  return result.front() == 4 * 16 * 0.5F && filter_gradient.front() == 2 * 13 * 13 ? 0 : 1;
}
