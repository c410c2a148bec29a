#define _GNU_SOURCE
#include "preload/own_stack.h"

#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* Larger than what opening the core and a decision with the largest models take. Pages that are not touched
 * take no memory. */
enum { kStackBytes = 1 << 20 };

struct job {
  void (*function)(void* data);
  void* data;
  ucontext_t caller, own;
};

/* makecontext() passes integers only. */
static void start(unsigned low, unsigned high) {
  const struct job* const job = (const struct job*)((uintptr_t)high << 32 | low);
  job->function(job->data);
}

int kscout_on_own_stack(void (*function)(void* data), void* data) {
  const size_t guard = (size_t)sysconf(_SC_PAGESIZE);
  char* const memory = mmap(NULL, guard + kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  struct job* job;
  if (memory == MAP_FAILED) return 0;
  mprotect(memory, guard, PROT_NONE);
  job = (struct job*)(void*)(memory + guard + kStackBytes - (sizeof *job + 63) / 64 * 64);
  job->function = function;
  job->data = data;
  getcontext(&job->own);
  job->own.uc_stack.ss_sp = memory + guard;
  job->own.uc_stack.ss_size = (size_t)((char*)job - (memory + guard));
  job->own.uc_link = &job->caller;
  makecontext(&job->own, (void (*)(void))start, 2, (unsigned)(uintptr_t)job,
              (unsigned)((uintptr_t)job >> 32));
  swapcontext(&job->caller, &job->own);
  munmap(memory, guard + kStackBytes);
  return 1;
}
