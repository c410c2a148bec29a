/* Preloaded behind kscout exec's library: lets one allocation or thread start of that library or its core
 * fail; or, with FAULTS_LAST=1, that one and all after it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

static atomic_long left; /* until one fails; 0: none does */

static int last; /* whether those after it fail, too */

/* The n-th of them fails from now on; 0: none. */
void faults_begin(long n) { atomic_store(&left, n); }
/* Whether none has failed since; then none does. */
int faults_end(void) { return atomic_exchange(&left, 0) > 0; }
/* `left` when faults go on. */
enum { kOn = -1 };

__attribute__((constructor)) static void begin(void) {
  const char* const n = getenv("FAULT_AT");
  const char* const lasts = getenv("FAULTS_LAST");
  last = lasts && *lasts == '1';
  if (n) atomic_store(&left, atol(n));
}

static int fails(const void* caller) {
  Dl_info where;
  const long before = atomic_load(&left);
  if (before == 0 || !dladdr(caller, &where) || !strstr(where.dli_fname, "libkscout_preload")) return 0;
  if (before > 0) {
    if (atomic_fetch_sub(&left, 1) != 1) return 0;
    if (last) atomic_store(&left, kOn);
  }
  errno = ENOMEM;
  return 1;
}
#define FAILS fails(__builtin_return_address(0))

void* malloc(size_t size) { return FAILS ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return FAILS ? NULL : __libc_calloc(count, size); }
void* realloc(void* memory, size_t size) { return FAILS ? NULL : __libc_realloc(memory, size); }
void* aligned_alloc(size_t alignment, size_t size) { return FAILS ? NULL : __libc_memalign(alignment, size); }
int posix_memalign(void** memory, size_t alignment, size_t size) {
  return FAILS ? ENOMEM : (*memory = __libc_memalign(alignment, size)) ? 0 : ENOMEM;
}
void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
  static void* (*next)(void*, size_t, int, int, int, off_t);
  if (FAILS) return MAP_FAILED;
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "mmap");
  return next(at, size, protection, flags, file, offset);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* data) {
  static int (*next)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (FAILS) return EAGAIN;
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "pthread_create");
  return next(thread, attributes, run, data);
}
