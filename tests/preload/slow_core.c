/* A core that takes a while to open, and passes all calls on. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <unistd.h>

#include "preload/calls.h"

static atomic_int state;

/* 0: nobody opens the core; 1: a thread does; 2: it is open. */
int slow_core_state(void) { return atomic_load(&state); }

static enum kscout_answer gemm(enum kscout_entry entry, const struct kscout_gemm_call* call) {
  (void)entry, (void)call;
  return kscout_pass;
}
static enum kscout_answer matmul(const struct kscout_matmul_call* call) {
  (void)call;
  return kscout_pass;
}
static enum kscout_answer blas(enum kscout_entry entry, const struct kscout_blas_call* call) {
  (void)entry, (void)call;
  return kscout_pass;
}
static enum kscout_answer plan(void* handle, void* executed, void* pack) {
  (void)handle, (void)executed, (void)pack;
  return kscout_pass;
}
static void attribute(void* descriptor, int which, int64_t count, const void* values) {
  (void)descriptor, (void)which, (void)count, (void)values;
}
static void forget_descriptor(void* destroyed) { (void)destroyed; }
static void after_original(int status) { (void)status; }
static void other(enum kscout_entry entry) { (void)entry; }
static int give_back(void) { return 0; }
static void workspace(enum kscout_entry entry, void* handle, void* memory, size_t bytes) {
  (void)entry, (void)handle, (void)memory, (void)bytes;
}
static void nothing(void) {}

const struct kscout_core* kscout_preload_core(kscout_find find) {
  static const struct kscout_core functions = {.gemm = gemm,
                                               .matmul = matmul,
                                               .blas = blas,
                                               .plan = plan,
                                               .attribute = attribute,
                                               .forget_descriptor = forget_descriptor,
                                               .after_original = after_original,
                                               .other = other,
                                               .give_back = give_back,
                                               .workspace = workspace,
                                               .finish = nothing,
                                               .before_fork = nothing,
                                               .in_parent = nothing,
                                               .in_child = nothing};
  (void)find;
  atomic_store(&state, 1);
  usleep(300000);
  atomic_store(&state, 2);
  return &functions;
}
