// Multiplies the tokens of four experts with the experts' weights in one call, then those of the next
// routing.
#include <cstdio>
#include <vector>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/grouped_gemm.h>

namespace {

constexpr std::int64_t kOutputs = 96, kInputs = 64, kTokens = 24;

/// Whether every row of c is the product of a row of ones with the weights of the row's expert.
bool is_right(const kscout::SizeList& tokens, const std::vector<float>& c) {
  std::size_t at = 0;
  for (int expert = 0; const std::int64_t rows : tokens.sizes()) {
    ++expert;
    for (std::int64_t i = 0; i < rows * kOutputs; ++i) {
      if (c[at++] != static_cast<float>(expert * kInputs)) return false;
    }
  }
  return at == c.size();
}

}  // namespace

int main() {
  // Tokens are sorted by expert. Every weight of expert 0 is 1, of expert 1 is 2, and so on.
  const std::vector<float> a(kTokens * kInputs, 1);
  std::vector<float> b;
  for (const float weight : {1.0F, 2.0F, 3.0F, 4.0F}) b.insert(b.end(), kOutputs * kInputs, weight);
  std::vector<float> c(kTokens * kOutputs);
  try {
    kscout::Dispatcher dispatcher(kscout::Registry::here());
    for (const kscout::SizeList& tokens : {kscout::SizeList{15, 2, 0, 7}, kscout::SizeList{4, 8, 8, 4}}) {
      const kscout::Problem problem = kscout::make_grouped_gemm(tokens, kOutputs, kInputs);
      const auto solution =
          dispatcher.run(problem, kscout::GemmBuffers{.a = a.data(), .b = b.data(), .c = c.data()});
      std::printf("%s: %s\n", print(problem).c_str(),
                  kscout::Selector::name(problem, solution.choice).c_str());
      if (!is_right(tokens, c)) return 1;
    }
    // A list with a negative size is an error that names the group.
    dispatcher.run(kscout::make_grouped_gemm({24, -1, 0, 1}, kOutputs, kInputs),
                   kscout::GemmBuffers{.a = a.data(), .b = b.data(), .c = c.data()});
  } catch (const kscout::Error& error) {
    std::printf("%s\n", error.what());
    return error.code() == kscout::Errc::invalid_argument ? 0 : 1;
  }
  return 1;
}
