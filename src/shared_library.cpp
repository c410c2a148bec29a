// libkscout.so is the whole static library with only KSCOUT_API visible; CMake wants one source of its own.
