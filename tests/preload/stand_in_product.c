/* Computes the products of the stand-ins for cuBLAS and cuBLASLt, in the host's memory, where the variable
 * STAND_IN_FAULT is set: right (""), without the last 8 of K ("tail"), with 64 of K twice ("double"), or with
 * one wrong element ("element"). Algorithms up to number STAND_IN_WRONG (1) do that, also where K is in one
 * piece from number 1,000 on; the others are right. Algorithm 1 is the library's own choice. */
#include <stdlib.h>
#include <string.h>

#include "stand_in_blas.h"

enum { R32F = 0, R16F = 2, R16BF = 14, E4M3 = 28 };

static float load(int type, const void* from, int64_t at) {
  float value = 0;
  if (type == R32F) return ((const float*)from)[at];
  if (type == R16F) return (float)((const _Float16*)from)[at];
  if (type == R16BF) {
    const uint32_t bits = (uint32_t)((const uint16_t*)from)[at] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  if (type == E4M3) { /* 0 and normal numbers */
    const int bits = ((const uint8_t*)from)[at];
    if ((bits & 0x7f) == 0) return 0;
    value = 1 + (float)(bits & 7) / 8;
    for (int exponent = (bits >> 3 & 15) - 7; exponent != 0; exponent += exponent < 0 ? 1 : -1)
      value *= exponent < 0 ? 0.5f : 2;
    return bits & 0x80 ? -value : value;
  }
  abort();
}
static void store(int type, void* to, int64_t at, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (type == R32F)
    ((float*)to)[at] = value;
  else if (type == R16F)
    ((_Float16*)to)[at] = (_Float16)value;
  else if (type == R16BF)
    ((uint16_t*)to)[at] = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  else
    abort();
}

void stand_in_compute(const struct stand_in_product* p, int algorithm, int is_whole) {
  const char *const fault = getenv("STAND_IN_FAULT"), *const most = getenv("STAND_IN_WRONG");
  const long wrong = most ? strtol(most, NULL, 10) : 1;
  const int is_wrong = algorithm <= wrong && (!is_whole || wrong >= 1000);
  const char* const how = is_wrong && fault ? fault : "";
  const int64_t k = p->k - (strcmp(how, "tail") == 0 ? 8 : 0), twice = strcmp(how, "double") == 0 ? 64 : 0;
  if (!fault) return;
  for (int64_t item = 0; item < p->batch; ++item) {
    const int64_t at_a = item * p->stride_a, at_b = item * p->stride_b, at_c = item * p->stride_c;
    for (int64_t j = 0; j < p->n; ++j) {
      for (int64_t i = 0; i < p->m; ++i) {
        const int64_t to = at_c + i + j * p->ldc;
        float sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          const float product = load(p->type_a, p->a, at_a + (p->transa ? l + i * p->lda : i + l * p->lda)) *
                                load(p->type_b, p->b, at_b + (p->transb ? j + l * p->ldb : l + j * p->ldb));
          sum += l < twice ? 2 * product : product;
        }
        sum *= p->alpha;
        if (p->beta != 0) sum += p->beta * load(p->type_c, p->c, to);
        if (p->bias) sum += load(p->type_c, p->bias, i);
        if (p->relu && sum < 0) sum = 0;
        store(p->type_c, p->c, to, sum);
      }
    }
    if (strcmp(how, "element") == 0) {
      const int64_t last = at_c + p->m - 1 + (p->n - 1) * p->ldc;
      store(p->type_c, p->c, last, load(p->type_c, p->c, last) + 1);
    }
  }
}
