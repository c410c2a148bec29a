// Selects a kernel for a product, prints the choice and who made it, and runs it.
#include <cstdio>
#include <vector>

#include <kscout/dispatcher.h>
#include <kscout/error.h>

int main() {
  const kscout::GemmProblem problem = kscout::make_gemm(16, 1024, 512);
  const std::vector<float> a(16 * 512, 1), b(512 * 1024, 2);
  std::vector<float> c(16 * 1024);
  try {
    kscout::Dispatcher dispatcher(kscout::Registry::here());
    const kscout::Choice choice =
        dispatcher.run(problem, {.a = a.data(), .b = b.data(), .c = c.data()}).choice;
    std::printf("%s, about %.1f us, chosen by %s\n", kscout::Selector::name(problem, choice).c_str(),
                choice.time_us, word(choice.decided_by).data());
  } catch (const kscout::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return c.front() == 2 * 512 && c.back() == 2 * 512 ? 0 : 1;
}
