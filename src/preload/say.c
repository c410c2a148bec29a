#define _GNU_SOURCE
#include "preload/say.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/held_signals.h"

enum { kWaitMs = 3000 };

static int write_all(int file, const char* text, size_t size) {
  struct pollfd ready = {.fd = file, .events = POLLOUT};
  while (size > 0) {
    const ssize_t written = write(file, text, size);
    if (written > 0) {
      text += written;
      size -= (size_t)written;
    } else if (written == 0) {
      return ENOSPC;
    } else if (errno == EAGAIN) {
      if (poll(&ready, 1, kWaitMs) <= 0) return EAGAIN;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

int kscout_write(int file, const char* text, size_t size) {
  struct kscout_held_signals held;
  int error;
  kscout_hold_signals(&held, SIGPIPE, SIGXFSZ);
  error = write_all(file, text, size);
  kscout_release_signals(&held);
  return error;
}

int kscout_open_to_append(const char* name) {
  return open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
}

void kscout_say(const char* format, ...) {
  static const char kPrefix[] = "kscout exec: ";
  char text[1024];
  size_t size = sizeof kPrefix - 1;
  va_list values;
  int added;
  memcpy(text, kPrefix, size);
  va_start(values, format);
  added = vsnprintf(text + size, sizeof text - size - 1, format, values);
  va_end(values);
  if (added > 0) size += (size_t)added < sizeof text - size - 1 ? (size_t)added : sizeof text - size - 2;
  text[size++] = '\n';
  kscout_write(STDERR_FILENO, text, size);
}
