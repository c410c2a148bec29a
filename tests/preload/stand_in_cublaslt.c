/* A cuBLASLt that is none: descriptors are structs, and only calls are counted. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "stand_in_blas.h"

static atomic_long calls, inner_calls;

long stand_in_calls(void) { return atomic_load(&calls); }
long stand_in_inner_calls(void) { return atomic_load(&inner_calls); }

static int get(const void* field, size_t field_bytes, void* value, size_t bytes, size_t* written) {
  if (!field || bytes < field_bytes) return 7;
  memcpy(value, field, field_bytes);
  *written = field_bytes;
  return 0;
}
#define FIELD(name) get(&of->name, sizeof of->name, value, bytes, written)

int cublasLtMatmulDescGetAttribute(const struct stand_in_operation* of, int attribute, void* value,
                                   size_t bytes, size_t* written) {
  switch (attribute) {
    case 0:
      return FIELD(compute);
    case 1:
      return FIELD(scale_type);
    case 2:
      return FIELD(pointer_mode);
    case 3:
      return FIELD(transa);
    case 4:
      return FIELD(transb);
    case 7:
      return FIELD(epilogue);
    case 8:
      return FIELD(bias);
    case 15:
      return FIELD(multiprocessors);
    case 17:
      return FIELD(scale_a);
    default:
      return 7;
  }
}

int cublasLtMatrixLayoutGetAttribute(const struct stand_in_matrix* of, int attribute, void* value,
                                     size_t bytes, size_t* written) {
  switch (attribute) {
    case 0:
      return FIELD(type);
    case 1:
      return FIELD(order);
    case 2:
      return FIELD(rows);
    case 3:
      return FIELD(columns);
    case 4:
      return FIELD(leading);
    case 5:
      return FIELD(batch);
    case 6:
      return FIELD(stride);
    default:
      return 7;
  }
}

/* STAND_IN_CUBLASLT: the release. */
size_t cublasLtGetVersion(void) {
  const char* const release = getenv("STAND_IN_CUBLASLT");
  return release ? strtoul(release, NULL, 10) : 130100;
}

/* Without descriptors the call comes from the stand-in for cuBLAS. */
int cublasLtMatmul(void* handle, void* operation, const void* alpha, const void* a, void* layout_a,
                   const void* b, void* layout_b, const void* beta, const void* c, void* layout_c, void* d,
                   void* layout_d, const void* algorithm, void* workspace, size_t workspace_bytes,
                   void* stream) {
  (void)handle, (void)alpha, (void)a, (void)layout_a, (void)b, (void)layout_b, (void)beta, (void)c,
      (void)layout_c, (void)d, (void)layout_d, (void)algorithm, (void)workspace, (void)stream;
  atomic_fetch_add(operation ? &calls : &inner_calls, 1);
  return workspace_bytes == 13 ? 13 : 0; /* a status of the library that the caller has to get */
}

int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c, void* d,
                                   void* preference, int requested, void* results, int* found) {
  (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference, (void)results;
  atomic_fetch_add(&calls, 1);
  *found = requested;
  return 0;
}
