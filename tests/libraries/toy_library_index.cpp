// toy_library_index FILE: writes the index of the good test library.
#include "libraries/toy_index.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  kscout::write_file_atomically(argv[1], kscout::toy::index(kscout::toy::library_file("toy_good")).dump(1));
}
