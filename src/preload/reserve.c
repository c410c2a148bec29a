/* Gives the core memory from a reserve where the program has none left.
 *
 * Tables that functions build at their first use, and exceptions, must not fail then: a function that throws
 * nothing would end the program. The linker takes these functions for all of the core and what is linked into
 * it (--wrap). What comes from the reserve never goes back to it. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

void* __real_malloc(size_t size);
void* __real_calloc(size_t count, size_t size);
void* __real_realloc(void* memory, size_t size);
void __real_free(void* memory);

/* More than opening the core and the first decision take. Pages that are not touched take no memory. */
enum { kBytes = 64 << 20, kAlignment = 16 };
static _Alignas(64) unsigned char reserve[kBytes];
static atomic_size_t used;

/* With the size in front. */
static void* from_reserve(size_t size) {
  const size_t whole = (size + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  size_t at;
  if (size > kBytes / 2) return NULL;
  at = atomic_fetch_add(&used, whole);
  if (at > kBytes - whole) {
    atomic_fetch_sub(&used, whole);
    return NULL;
  }
  memcpy(reserve + at, &size, sizeof size);
  return reserve + at + kAlignment;
}

static int is_in_reserve(const void* memory) {
  return (uintptr_t)memory - (uintptr_t)reserve < (uintptr_t)kBytes;
}

void* __wrap_malloc(size_t size) {
  void* const memory = __real_malloc(size);
  return memory ? memory : from_reserve(size);
}

void* __wrap_calloc(size_t count, size_t size) {
  void* memory = __real_calloc(count, size);
  if (memory || (size && count > kBytes / size)) return memory;
  memory = from_reserve(count * size);
  return memory ? memset(memory, 0, count * size) : NULL;
}

void* __wrap_realloc(void* memory, size_t size) {
  size_t before;
  void* moved;
  if (memory && !is_in_reserve(memory)) return __real_realloc(memory, size);
  moved = __wrap_malloc(size);
  if (!moved || !memory) return moved;
  memcpy(&before, (unsigned char*)memory - kAlignment, sizeof before);
  return memcpy(moved, memory, before < size ? before : size);
}

void __wrap_free(void* memory) {
  if (!is_in_reserve(memory)) __real_free(memory);
}
