// Reads a model, makes one choice, and exits. bench/forest.cpp times the whole program.
#include <cstdio>
#include <exception>

#include <kscout/selector.h>

int main(int argc, char** argv) {
  try {
    if (argc != 2) return 2;
    const auto selector = kscout::Selector::load(argv[1]);
    const auto problem = kscout::make_gemm(64, 1000, 1000, kscout::DType::fp32, kscout::Layout::rrr);
    return selector.select(problem).source == kscout::ChoiceSource::model ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "first_choice: %s\n", error.what());
    return 4;
  }
}
