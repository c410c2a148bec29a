#include "safe_streams.h"

#include <cerrno>
#include <cstdio>
#include <string>

#include <unistd.h>

#include "core/printable.h"

namespace kscout::cli {

namespace {

/// What a stream prints to.
struct Target {
  int descriptor;
  std::string begun;  ///< the first bytes of a character whose rest comes with the next write
};

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// As fopencookie() wants it: 0 is a failure.
ssize_t write_printable(void* cookie, const char* bytes, std::size_t size) {
  auto& [descriptor, begun] = *static_cast<Target*>(cookie);
  try {
    std::string text = begun + std::string(bytes, size);
    begun = text.substr(text.size() - cut_character_bytes(text));
    text.resize(text.size() - begun.size());
    return write_all(descriptor, printable(text)) ? static_cast<ssize_t>(size) : 0;
  } catch (...) {  // no memory
    errno = ENOMEM;
    return 0;
  }
}

/// Prints the begun character of a text that ended with it.
int end_target(void* cookie) {
  const auto& [descriptor, begun] = *static_cast<Target*>(cookie);
  return write_all(descriptor, printable(begun)) ? 0 : EOF;
}

FILE* safe_stream(Target& target, int mode) {
  FILE* const stream = fopencookie(
      &target, "w", {.read = nullptr, .write = write_printable, .seek = nullptr, .close = end_target});
  if (stream) std::setvbuf(stream, nullptr, mode, BUFSIZ);
  return stream;
}

}  // namespace

void print_safely() {
  static Target out{STDOUT_FILENO, {}}, error{STDERR_FILENO, {}};
  std::fflush(stdout);
  if (FILE* const safe = safe_stream(out, isatty(STDOUT_FILENO) != 0 ? _IOLBF : _IOFBF)) stdout = safe;
  if (FILE* const safe = safe_stream(error, _IONBF)) stderr = safe;
}

void write_control(std::string_view sequence) { write_all(STDERR_FILENO, sequence); }

}  // namespace kscout::cli
