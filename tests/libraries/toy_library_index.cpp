// toy_library_index FILE [crash|hang|hip|conv|conv_fwd|beside]: writes the index of the good test library.
// Variants: a kernel with tiles of 16 that crashes or hangs, beside a good one with tiles of 32; backend hip;
// convolutions, with one kernel for each direction, or six configs of the forward one; a copy of the library
// beside the index, which names no folder.
#include <algorithm>
#include <filesystem>

#include "libraries/toy_index.h"

int main(int argc, char** argv) {
  using namespace kscout;
  const std::string which = argc == 3 ? argv[2] : "gemm";
  const std::vector<std::string> known = {"gemm", "crash", "hang", "hip", "conv", "conv_fwd", "beside"};
  if (argc < 2 || argc > 3 || std::ranges::find(known, which) == known.end()) return 2;
  const auto with_kernels = [](nlohmann::ordered_json index, const std::vector<std::string>& kernels) {
    index["kernels"].clear();
    int tile = 0;
    for (const std::string& kernel : kernels)
      index["kernels"].push_back(
          {{"config", toy::config_name(Layout::rcr, false, tile += 16)}, {"kernel", kernel}});
    return index;
  };
  const auto index = [&] {
    if (which == "crash" || which == "hang")
      return with_kernels(toy::index(toy::library_file("toy_good")), {"toy_" + which, "toy_rcr"});
    if (which == "hip") {
      auto gpu = with_kernels(toy::index(toy::library_file("toy_hip")), {"toy_rcr"});
      gpu["backend"] = "hip";
      gpu["device"] = "gfx942";
      return gpu;
    }
    if (which == "beside") {
      const std::string name = "toy_beside.so";
      const auto copy = std::filesystem::path(argv[1]).parent_path() / name;
      std::filesystem::copy_file(toy::library_file("toy_good"), copy,
                                 std::filesystem::copy_options::overwrite_existing);
      auto beside = toy::index(copy);
      beside["library"] = name;
      return beside;
    }
    if (which == "gemm") return toy::index(toy::library_file("toy_good"));
    const auto file = toy::library_file("toy_conv");
    if (which == "conv") return toy::conv_index(file, "cpu", "gfx950");
    return toy::conv_index(file, "cpu", "gfx950", Op::conv_fwd, std::vector<std::string>(6, "toy_conv_fwd"));
  };
  write_file_atomically(argv[1], index().dump(1));
}
