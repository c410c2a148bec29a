// Which kernel is best for a product, and who says so.
#include <cstdio>

#include <kscout/error.h>
#include <kscout/selector.h>

int main() {
  try {
    const auto selector =
        kscout::Selector::find(kscout::Op::gemm, kscout::DType::fp32, {.device = kscout::detect_cpu()});
    const kscout::GemmProblem problem = kscout::make_gemm(16, 1024, 512);
    const kscout::Choice choice = selector.select(problem);
    std::printf("%s, about %.1f us\n", kscout::Selector::name(problem, choice).c_str(), choice.time_us);
  } catch (const kscout::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
