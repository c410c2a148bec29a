/* Finds the functions that libkscout_preload.so stands in front of. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "preload/own_stack.h"
#include "preload/say.h"
#include "preload/taken.h"

struct search {
  const char* library;
  char path[PATH_MAX];
};

/* Matches libcublas.so, libcublas.so.12, libcudart-1a2b3c4d.so.12 and so on. */
static int take_path(struct dl_phdr_info* info, size_t size, void* of) {
  struct search* const search = of;
  const char* const slash = strrchr(info->dlpi_name, '/');
  const char* const name = slash ? slash + 1 : info->dlpi_name;
  const size_t length = strlen(search->library);
  (void)size;
  if (strncmp(name, search->library, length) != 0 ||
      (name[length] != '-' && strncmp(name + length, ".so", 3) != 0))
    return 0;
  if (strlen(info->dlpi_name) >= sizeof search->path) return 0;
  strcpy(search->path, info->dlpi_name);
  return 1;
}

/* The handle of the library that holds an address, loaded once more so that it stays. */
static void* library_of(const void* address) {
  Dl_info where;
  void* handle;
  if (!dladdr(address, &where)) return NULL;
  handle = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return handle ? handle : dlopen(NULL, RTLD_LAZY); /* a program cannot be opened by its name */
}

static int is_same_library(const void* one, const void* other) {
  Dl_info here, there;
  return dladdr(one, &here) && dladdr(other, &there) && here.dli_fbase == there.dli_fbase;
}

/* The symbol in a library or those that it needs; our own does not count. */
static void* symbol_in(void* handle, const char* symbol) {
  void* const function = dlsym(handle, symbol);
  return function && is_same_library(function, (void*)symbol_in) ? NULL : function;
}

/* The path of the loaded library of a number. Nothing may be opened while libraries are listed. */
struct numbered {
  int number;
  char path[PATH_MAX];
};
static int take_numbered(struct dl_phdr_info* info, size_t size, void* of) {
  struct numbered* const one = of;
  (void)size;
  if (one->number-- > 0) return 0;
  one->path[0] = 0;
  if (strlen(info->dlpi_name) < sizeof one->path) strcpy(one->path, info->dlpi_name);
  return 1;
}

/* The function in the first library that has it, itself or through the libraries that it needs. */
static void* find_anywhere(const char* symbol) {
  struct numbered one;
  void* function = NULL;
  for (int number = 0; !function; ++number) {
    void* handle;
    one.number = number;
    if (!dl_iterate_phdr(take_numbered, &one)) return NULL;
    if (!*one.path || !(handle = dlopen(one.path, RTLD_LAZY | RTLD_NOLOAD))) continue;
    function = symbol_in(handle, symbol);
    if (function) library_of(function); /* the function is kept */
    dlclose(handle);
  }
  return function;
}

void* find(const char* library, const char* symbol) {
  struct search search = {library, ""};
  void* handle;
  void* const next = dlsym(RTLD_NEXT, symbol);
  if (next) return next;
  if (!*library) return find_anywhere(symbol);
  if (!dl_iterate_phdr(take_path, &search)) return NULL;
  handle = dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD); /* stays open: the function is kept */
  return handle ? dlsym(handle, symbol) : NULL;
}

/* ---- Functions of the CUDA libraries: all callers get the same one. */

struct original {
  const char *name, *library;
  _Atomic(void*) function;
};
#define ORIGINAL(name, library, missing) {#name, library, NULL},
static struct original originals[] = {KSCOUT_TAKEN(ORIGINAL)};

void* original(enum kscout_entry entry) {
  struct original* const one = &originals[entry];
  static atomic_int reported;
  void* function = atomic_load_explicit(&one->function, memory_order_acquire);
  if (function) return function;
  function = find(one->library, one->name);
  atomic_store_explicit(&one->function, function, memory_order_release);
  if (!function && !atomic_exchange(&reported, 1)) {
    kscout_say("%s is called, and no loaded %s has it; the call fails", one->name, one->library);
  }
  return function;
}

/* ---- Functions of a BLAS. Several libraries of a process may have one of a name, with integers of 32 or 64
 * bits: a caller gets the one that the loader would have given it. */

/* That of the global scope, else that of the caller's library and those that it needs, else any. */
static void* find_for(const char* symbol, const void* caller) {
  Dl_info where;
  void* function = dlsym(RTLD_NEXT, symbol);
  void* handle;
  if (!function && dladdr(caller, &where) && (handle = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD))) {
    function = symbol_in(handle, symbol);
    if (function) library_of(function);
    dlclose(handle);
  }
  return function ? function : find_anywhere(symbol);
}

typedef void (*saxpy_by_address)(const int64_t*, const float*, const float*, const int64_t*, float*,
                                 const int64_t*);
typedef void (*saxpy_by_value)(int64_t, float, const float*, int64_t, float*, int64_t);

/* Whether y = x + y for n = 1 changes y. */
static int adds(enum kscout_entry entry, void* saxpy, int64_t n) {
  const int64_t step = 1;
  const float x = 1, alpha = 1;
  float y = 0;
  if (entry == kscout_sgemm_) {
    ((saxpy_by_address)saxpy)(&n, &alpha, &x, &step, &y, &step);
  } else {
    ((saxpy_by_value)saxpy)(n, alpha, &x, step, &y, step);
  }
  return y == 1;
}

/* 32 or 64; 0 where that is not clear. A BLAS does nothing for a negative n. This one is 1 in its first 32
 * bits. */
static int integer_bits(enum kscout_entry entry, void* function) {
  const int64_t negative = -((int64_t)UINT32_MAX);
  void *handle, *saxpy = NULL;
  if (entry == kscout_scipy_cblas_sgemm64_) return 64;
  if ((handle = library_of(function))) {
    saxpy = dlsym(handle, entry == kscout_sgemm_ ? "saxpy_" : "cblas_saxpy");
    dlclose(handle);
  }
  if (!saxpy || !is_same_library(saxpy, function) || !adds(entry, saxpy, 1)) return 0;
  return adds(entry, saxpy, negative) ? 32 : 64;
}

/* By the address to which the call returns. Never changed or freed once they are in the table. */
struct call_site {
  enum kscout_entry entry;
  const void* caller;
  struct blas_original original;
};
enum { kCallSites = 1024, kPlaces = 8, kLibraries = 64 };
static _Atomic(struct call_site*) call_sites[kCallSites];

/* The runtime among the libraries that the caller's library needs. */
static struct kscout_openmp openmp_of(const void* caller) {
  struct kscout_openmp found = {NULL, NULL, NULL};
  Dl_info where;
  void* const handle = dladdr(caller, &where) ? dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  if (!handle) return found;
  *(void**)&found.max_threads = dlsym(handle, "omp_get_max_threads");
  *(void**)&found.in_parallel = dlsym(handle, "omp_in_parallel");
  if (found.max_threads && found.in_parallel) *(void**)&found.parallel = dlsym(handle, "GOMP_parallel");
  if (found.parallel) library_of((void*)found.parallel); /* it stays */
  dlclose(handle);
  return found;
}

/* OpenBLAS with the prefixes and suffixes of its builds, and MKL. */
static const char* const threads_names[] = {"openblas_get_num_threads", "openblas_get_num_threads64_",
                                            "scipy_openblas_get_num_threads",
                                            "scipy_openblas_get_num_threads64_", "MKL_Get_Max_Threads"};

static void* threads_of(void* function) {
  void* const handle = library_of(function);
  void* found = NULL;
  for (size_t i = 0; handle && !found && i < sizeof threads_names / sizeof *threads_names; ++i)
    found = symbol_in(handle, threads_names[i]);
  if (handle) dlclose(handle);
  return found;
}

/* The name of the file that holds a function, kept once; "" where it is unknown. Wheels put a hash of the
 * library into it. */
static const char* library_name(const void* function) {
  static _Atomic(char*) kept[kLibraries];
  Dl_info where;
  const char *slash, *name;
  if (!dladdr(function, &where) || !where.dli_fname) return "";
  slash = strrchr(where.dli_fname, '/');
  name = slash ? slash + 1 : where.dli_fname;
  for (size_t i = 0; i < kLibraries; ++i) {
    char *known = atomic_load_explicit(&kept[i], memory_order_acquire), *copy;
    if (!known && (copy = strdup(name))) {
      if (atomic_compare_exchange_strong(&kept[i], &known, copy)) return copy;
      free(copy); /* another thread took the place: `known` is its name */
    }
    if (known && strcmp(known, name) == 0) return known;
  }
  return "";
}

/* Another library may follow at the address of one that is unloaded. */
TAKEN int dlclose(void* handle) {
  static int (*_Atomic next)(void*);
  int (*unload)(void*) = atomic_load_explicit(&next, memory_order_relaxed);
  Dl_info where;
  if (!unload) atomic_store(&next, unload = (int (*)(void*))dlsym(RTLD_NEXT, "dlclose"));
  const int status = unload(handle);
  for (size_t i = 0; i < kCallSites; ++i) {
    const struct call_site* const site = atomic_load_explicit(&call_sites[i], memory_order_acquire);
    if (site && !dladdr(site->caller, &where)) atomic_store(&call_sites[i], NULL);
  }
  return status;
}

static void find_original(void* of) {
  struct call_site* const site = of;
  struct blas_original* const original = &site->original;
  original->function = find_for(originals[site->entry].name, site->caller);
  original->openmp = openmp_of(site->caller);
  original->library = library_name(original->function);
  if (!original->function) return;
  original->integer_bits = integer_bits(site->entry, original->function);
  *(void**)&original->threads = threads_of(original->function);
}

static const struct blas_original* keep(const struct call_site* site, size_t first) {
  static __thread struct blas_original of_thread __attribute__((tls_model("initial-exec")));
  struct call_site* const kept = malloc(sizeof *kept);
  of_thread = site->original;
  if (!kept) return &of_thread;
  *kept = *site;
  for (size_t i = 0; i < kPlaces; ++i) {
    struct call_site* none = NULL;
    if (atomic_compare_exchange_strong(&call_sites[(first + i) % kCallSites], &none, kept))
      return &kept->original;
  }
  free(kept);
  return &of_thread;
}

const struct blas_original* blas_original(enum kscout_entry entry, const void* caller) {
  const size_t first = (size_t)((uintptr_t)caller * UINT64_C(0x9e3779b97f4a7c15) >> 54);
  struct call_site site = {entry, caller, {NULL, 0, "", NULL, {NULL, NULL, NULL}}};
  const struct blas_original* found;
  int cancel_state;
  for (size_t i = 0; i < kPlaces; ++i) {
    const struct call_site* const known =
        atomic_load_explicit(&call_sites[(first + i) % kCallSites], memory_order_acquire);
    if (!known) break;
    if (known->caller == caller && known->entry == entry) return &known->original;
  }
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  if (!kscout_on_own_stack(find_original, &site)) find_original(&site);
  found = keep(&site, first);
  if (!site.original.function)
    kscout_say("%s is called, and no loaded library has it; the call fails", originals[entry].name);
  pthread_setcancelstate(cancel_state, NULL);
  return found;
}
