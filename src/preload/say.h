#pragma once
/// \file
/// Writes reports and messages of `kscout exec` without a trace in the program.
///
///     const int error = kscout_write(file, text, size);      // 0, or an error number
///     kscout_say("%s: cannot be written: %s", name, strerror(error));
///
/// A closed pipe and RLIMIT_FSIZE give an error number and no signal.
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Writes all bytes. Waits at most three seconds for the reader of a pipe. Returns 0 or an error number.
int kscout_write(int file, const char* text, size_t size);

/// Opens a file to append to. Never waits: a FIFO without a reader is an error. Returns -1 with errno.
int kscout_open_to_append(const char* name);

/// Writes "kscout exec: " and a line to standard error; at most 1,000 characters.
void kscout_say(const char* format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif
