/* A kernel library: one function computes every config of @NAME@.kscout-family.toml. */
#include <kscout/kernel_library.h>

enum { block_k, taps }; /* the axes, in the order of the family */

static int32_t workspace_bytes(const kscout_kernel* self, const kscout_kernel_shape* s, uint64_t* bytes,
                               kscout_kernel_message message) {
  (void)self, (void)s, (void)message;
  *bytes = 0;
  return KSCOUT_KERNEL_OK;
}

/* The product of one filter's tap with one pixel of the input; 0 outside the image. */
static double product(const kscout_conv_shape* s, const float* in, const float* filter, int64_t at, int64_t k,
                      int64_t tap) {
  const int64_t y = tap / s->filter[2], x = tap % s->filter[2], channels = s->c / s->g,
                group = k / (s->k / s->g);
  const int64_t h = at / s->out[2] % s->out[1] * s->stride[1] + y * s->dilation[1] - s->left_pad[1];
  const int64_t w = at % s->out[2] * s->stride[2] + x * s->dilation[2] - s->left_pad[2];
  if (h < 0 || w < 0 || h >= s->in[1] || w >= s->in[2]) return 0;
  const float* pixel =
      in + ((at / (s->out[1] * s->out[2]) * s->in[1] + h) * s->in[2] + w) * s->c + group * channels;
  const float* weights = filter + (k * s->filter[1] * s->filter[2] + tap) * channels;
  double sum = 0;
  for (int64_t c = 0; c < channels; ++c) sum += (double)pixel[c] * weights[c];
  return sum;
}

static int32_t run(const kscout_kernel* self, const kscout_kernel_shape* shape,
                   const kscout_kernel_call* call, kscout_kernel_message message) {
  (void)self, (void)message;
  const kscout_conv_shape* s = shape->conv;
  const int64_t block = shape->axes[block_k], count = s->filter[1] * s->filter[2];
  for (int64_t at = 0; at < s->n * s->out[1] * s->out[2]; ++at)
    for (int64_t first = 0; first < s->k; first += block) {
      double sums[64] = {0};
      const int64_t here = first + block < s->k ? block : s->k - first;
      for (int64_t i = 0; i < here * count; ++i) {
        const int64_t j = shape->axes[taps] ? i / count : i % here,
                      tap = shape->axes[taps] ? i % count : i / here;
        sums[j] += product(s, call->a, call->b, at, first + j, tap);
      }
      for (int64_t j = 0; j < here; ++j)
        ((float*)call->c)[at * s->k + first + j] = (float)(call->alpha * sums[j]);
    }
  return KSCOUT_KERNEL_OK;
}

/* A kernel's name is how the names of its configs begin: "@NAME@_conv_fwd_fp32_nhwgc__block_k4_tapsinside".
 */
static const kscout_kernel kernels[] = {{"@NAME@_conv_fwd_fp32_nhwgc", workspace_bytes, run, 0}};
static const kscout_kernel_library library = {KSCOUT_KERNEL_ABI, sizeof library, "cpu", 0, 1,
                                              sizeof *kernels,   kernels};
const kscout_kernel_library* kscout_kernel_library_get(void) { return &library; }
