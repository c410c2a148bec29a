// toy_library_index FILE [conv|conv_fwd]: writes the index of the good test library, or of convolutions: one
// kernel for each direction, or six configs of the forward one.
#include "libraries/toy_index.h"

int main(int argc, char** argv) {
  using namespace kscout;
  const std::string which = argc == 3 ? argv[2] : "gemm";
  if (argc < 2 || argc > 3 || (which != "gemm" && which != "conv" && which != "conv_fwd")) return 2;
  const auto index = [&] {
    if (which == "gemm") return toy::index(toy::library_file("toy_good"));
    const auto file = toy::library_file("toy_conv");
    if (which == "conv") return toy::conv_index(file, "cpu", "gfx950");
    return toy::conv_index(file, "cpu", "gfx950", Op::conv_fwd, std::vector<std::string>(6, "toy_conv_fwd"));
  };
  write_file_atomically(argv[1], index().dump(1));
}
