/// \file
/// Runs a fuzz target without libFuzzer: over every seed of a folder, and over truncations and single-byte
/// changes of each seed, in a fixed order.
///
///     fuzz_expr tests/fuzz/corpus/expr
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run(const std::string& bytes) {
  // A copy of exact size, so that the address sanitizer sees a read past the end.
  const std::vector<std::uint8_t> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

std::size_t run_with_changes(const std::string& seed, std::mt19937& random) {
  constexpr std::size_t kChanges = 400;
  std::size_t runs = 1;
  run(seed);
  for (std::size_t i = 0; i < kChanges && !seed.empty(); ++i, ++runs) {
    std::string changed = seed;
    const std::size_t at = random() % seed.size();
    switch (random() % 4) {
      case 0:
        changed.resize(at);
        break;
      case 1:
        changed[at] = static_cast<char>(random() & 0xff);
        break;
      case 2:
        changed.erase(at, 1 + random() % 8);
        break;
      default:
        changed.insert(at, seed.substr(random() % seed.size(), 1 + random() % 16));
        break;
    }
    run(changed);
  }
  return runs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER_OF_SEEDS\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> seeds;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1], error)) seeds.push_back(entry.path());
  if (seeds.empty()) {
    std::fprintf(stderr, "%s holds no seeds\n", argv[1]);
    return 1;
  }
  std::sort(seeds.begin(), seeds.end());
  std::mt19937 random(42);
  std::size_t runs = 0;
  for (const auto& path : seeds) {
    std::ifstream file(path, std::ios::binary);
    runs += run_with_changes({std::istreambuf_iterator<char>(file), {}}, random);
  }
  std::printf("%zu inputs from %zu seeds\n", runs, seeds.size());
  return 0;
}
