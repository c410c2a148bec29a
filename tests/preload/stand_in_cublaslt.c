/* A cuBLASLt that is none: descriptors are structs, and only calls are counted. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "stand_in_blas.h"

static atomic_long calls, inner_calls;

long stand_in_calls(void) { return atomic_load(&calls); }
long stand_in_inner_calls(void) { return atomic_load(&inner_calls); }

static int get(const void* field, size_t field_bytes, void* value, size_t bytes, size_t* written) {
  if (bytes == 0) {
    *written = field_bytes;
    return 0;
  }
  if (!field || bytes != field_bytes) return 7;
  memcpy(value, field, field_bytes);
  *written = field_bytes;
  return 0;
}
#define FIELD(name) get(&of->name, sizeof of->name, value, bytes, written)

#define SET(name) (bytes == sizeof of->name ? memcpy(&of->name, value, bytes), 0 : 7)

#define OPERATION(X)     \
  X(0, compute)          \
  X(1, scale_type)       \
  X(2, pointer_mode)     \
  X(3, transa)           \
  X(4, transb)           \
  X(7, epilogue)         \
  X(8, bias)             \
  X(15, multiprocessors) \
  X(17, scale_a)
#define MATRIX(X) X(0, type) X(1, order) X(2, rows) X(3, columns) X(4, leading) X(5, batch) X(6, stride)
#define GET_CASE(number, name) \
  case number:                 \
    return FIELD(name);
#define SET_CASE(number, name) \
  case number:                 \
    return SET(name);

int cublasLtMatmulDescGetAttribute(const struct stand_in_operation* of, int attribute, void* value,
                                   size_t bytes, size_t* written) {
  switch (attribute) { OPERATION(GET_CASE) }
  return 7;
}
int cublasLtMatmulDescSetAttribute(struct stand_in_operation* of, int attribute, const void* value,
                                   size_t bytes) {
  switch (attribute) { OPERATION(SET_CASE) }
  return 7;
}
int cublasLtMatrixLayoutGetAttribute(const struct stand_in_matrix* of, int attribute, void* value,
                                     size_t bytes, size_t* written) {
  switch (attribute) { MATRIX(GET_CASE) }
  return 7;
}
int cublasLtMatrixLayoutSetAttribute(struct stand_in_matrix* of, int attribute, const void* value,
                                     size_t bytes) {
  switch (attribute) { MATRIX(SET_CASE) }
  return 7;
}

int cublasLtMatmulDescCreate(struct stand_in_operation** made, int compute, int scale_type) {
  *made = calloc(1, sizeof **made);
  (*made)->compute = compute;
  (*made)->scale_type = scale_type;
  (*made)->epilogue = 1;
  return 0;
}
int cublasLtMatrixLayoutCreate(struct stand_in_matrix** made, int type, uint64_t rows, uint64_t columns,
                               int64_t leading) {
  *made = calloc(1, sizeof **made);
  **made = (struct stand_in_matrix){(uint32_t)type, 0, rows, columns, leading, 1, 0};
  return 0;
}
int cublasLtMatmulPreferenceCreate(size_t** most_workspace) {
  *most_workspace = calloc(1, sizeof **most_workspace);
  return 0;
}
int cublasLtMatmulPreferenceSetAttribute(size_t* most_workspace, int attribute, const void* value,
                                         size_t bytes) {
  if (attribute == 1 && bytes == sizeof *most_workspace) *most_workspace = *(const size_t*)value;
  return 0;
}
static int drop(void* made) {
  free(made);
  return 0;
}
int cublasLtMatmulDescDestroy(void* made) { return drop(made); }
int cublasLtMatrixLayoutDestroy(void* made) { return drop(made); }
int cublasLtMatmulPreferenceDestroy(void* made) { return drop(made); }

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
  const struct stand_in_operation* const of = operation;
  const struct stand_in_matrix *const in_a = layout_a, *const in_b = layout_b, *const in_d = layout_d;
  const struct stand_in_algorithm* const by = algorithm;
  (void)handle, (void)c, (void)layout_c, (void)workspace, (void)stream;
  atomic_fetch_add(operation ? &calls : &inner_calls, 1);
  if (workspace_bytes == 13) return 13; /* a status of the library that the caller has to get */
  if (operation && getenv("STAND_IN_FAULT")) {
    const struct stand_in_product all = {
        .transa = of->transa,
        .transb = of->transb,
        .m = (int64_t)in_d->rows,
        .n = (int64_t)in_d->columns,
        .k = (int64_t)(of->transa ? in_a->rows : in_a->columns),
        .batch = in_d->batch,
        .type_a = (int)in_a->type,
        .type_b = (int)in_b->type,
        .type_c = (int)in_d->type,
        .a = a,
        .b = b,
        .c = d,
        .lda = in_a->leading,
        .ldb = in_b->leading,
        .ldc = in_d->leading,
        .stride_a = in_a->stride,
        .stride_b = in_b->stride,
        .stride_c = in_d->stride,
        .alpha = *(const float*)alpha * (of->scale_a ? *(const float*)of->scale_a : 1),
        .beta = *(const float*)beta,
        .bias = of->epilogue & 4 ? of->bias : NULL,
        .relu = (of->epilogue & 2) != 0};
    stand_in_compute(&all, by ? (int)by->number : 1, by && by->is_whole);
  }
  return 0;
}

/* Four algorithms, of which the second one needs a workspace of 1 MiB. */
int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c, void* d,
                                   void* preference, int requested, void* results, int* found) {
  enum { kAlgorithms = 4 };
  struct stand_in_suggestion* const all = results;
  (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d;
  *found = requested;
  if (!getenv("STAND_IN_FAULT")) return 0;
  *found = 0;
  for (int i = 1; i <= kAlgorithms && i <= requested; ++i) {
    const size_t workspace = i == 2 ? 1 << 20 : 0;
    if (workspace <= *(const size_t*)preference)
      all[(*found)++] = (struct stand_in_suggestion){{(uint64_t)i, 0, {0}}, workspace, 0, 1, {0}};
  }
  return 0;
}
int cublasLtMatmulAlgoConfigSetAttribute(struct stand_in_algorithm* of, int attribute, const void* value,
                                         size_t bytes) {
  if (attribute == 2 && bytes == sizeof(int32_t)) of->is_whole = *(const int32_t*)value == 1;
  return 0;
}
/* With STAND_IN_ERRATA, algorithm 1 has the numbers of one that is known to be wrong for a K of 4,096: 127
 * split-K slices of one tile of 32 each. The others have numbers of which nothing is known. */
int cublasLtMatmulAlgoConfigGetAttribute(const struct stand_in_algorithm* of, int attribute, void* value,
                                         size_t bytes, size_t* written) {
  enum { kId, kTile, kParts, kStages = 6, kWrong = 66, k32xAuto = 34 };
  const int is_wrong = of->number == 1 && getenv("STAND_IN_ERRATA");
  const uint32_t number = attribute == kId       ? is_wrong ? kWrong : 7
                          : attribute == kParts  ? is_wrong ? 127 : 1
                          : attribute == kStages ? is_wrong ? k32xAuto : 0
                                                 : 0;
  memcpy(value, &number, bytes);
  *written = bytes;
  return 0;
}
int cublasLtMatmulAlgoCheck(void* handle, void* operation, void* a, void* b, void* c, void* d,
                            const struct stand_in_algorithm* algorithm, struct stand_in_suggestion* result) {
  (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d;
  *result = (struct stand_in_suggestion){*algorithm, 0, 0, 1, {0}};
  return 0;
}
