#pragma once
/* What the functions of libkscout_preload.so that replace others share.
 *
 *     TAKEN int name(int x) {
 *       const struct kscout_core* const core = begin();
 *       if (core && is_served(core, core->gemm(kscout_name, &call))) return end(0);
 *       return end(((int (*)(int))original(kscout_name))(x));
 *     } */
#include "preload/calls.h"

#define TAKEN __attribute__((visibility("default")))

/* Finds a function of a library that the program has loaded: see kscout_find. */
void* find(const char* library, const char* symbol);
/* The original of an entry of a CUDA library, or null, which is reported once. */
void* original(enum kscout_entry entry);

/* The original of a function of a BLAS, for one caller. */
struct blas_original {
  void* function;              /* null, which is reported, where no loaded library has it */
  int integer_bits;            /* 32 or 64; 0: unknown */
  const char* library;         /* the file of its code, kept once for each name; "": unknown */
  int (*threads)(void);        /* how many threads the library may use now; null: it does not say */
  struct kscout_openmp openmp; /* that the caller's library uses; `parallel` is null where there is none */
};
/* `caller`: the address to which the call returns. The result stays until the thread's next call. */
const struct blas_original* blas_original(enum kscout_entry entry, const void* caller);

/* Whether a parent of this process had more threads than the one that forked. */
int lost_threads(void);

/* Begins a call. Null where nothing is to be served or counted: inside of another call, or without a core. */
const struct kscout_core* begin(void);
/* Whether the core computed the product; else the original follows. */
int is_served(const struct kscout_core* core, enum kscout_answer answer);
/* Ends a call with the original's status, which it returns. */
int end(int status);
