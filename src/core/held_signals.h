#pragma once
/* Takes away the signals that a write may send to its thread: without a handler they end the process, and
 * the write has an error number anyway.
 *
 *     struct kscout_held_signals held;
 *     kscout_hold_signals(&held, SIGXFSZ, SIGPIPE);
 *     ...                                              // write(): -1 with EFBIG or EPIPE
 *     kscout_release_signals(&held);
 *
 * Plain C, also for the library that kscout exec preloads. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

struct kscout_held_signals {
  sigset_t mask, raised; /* the thread's own mask; those that were not pending before */
};

static inline void kscout_hold_signals(struct kscout_held_signals* held, int one, int other) {
  sigset_t pending, ours;
  sigemptyset(&ours);
  sigaddset(&ours, one);
  sigaddset(&ours, other);
  sigpending(&pending);
  held->raised = ours;
  if (sigismember(&pending, one)) sigdelset(&held->raised, one);
  if (sigismember(&pending, other)) sigdelset(&held->raised, other);
  pthread_sigmask(SIG_BLOCK, &ours, &held->mask);
}

/* Keeps errno. */
static inline void kscout_release_signals(const struct kscout_held_signals* held) {
  const struct timespec at_once = {0, 0};
  const int error = errno;
  while (sigtimedwait(&held->raised, NULL, &at_once) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &held->mask, NULL);
  errno = error;
}
